// Written by `cargo xtask build-kernels` from the Rust declarations. Do not edit.

#pragma once

// `n` candidates of each line, out of `source` elements: all of them, or those that `picks` names.
struct SbSort {
    u64 lines;
    u64 n;
    u64 source;
    u64 inner;
    // Parts of a long line, and the elements of a part.
    u64 parts;
    u64 part;
    // Short lines of a tile.
    u64 per_tile;
    u32 descending;
    u32 picked;
};

// `k` elements of each line from sorted place `first` on, whose lines are `stride` long.
struct SbTake {
    u64 outer;
    u64 source;
    u64 inner;
    u64 k;
    u64 first;
    u64 stride;
};

// Lines of `n` neighbouring elements, of which the first `k` are wanted, or one.
struct SbSelect {
    u64 lines;
    u64 n;
    // Blocks for each line.
    u64 parts;
    u64 k;
    u32 descending;
    // 0: the first `k`; 1: element `k`; 2: the median; 3: the median of the numbers.
    u32 mode;
};

// What is known of the key at a rank: that it begins with `prefix`, above `shift` other bits, and
// its rank among the keys that begin so.
struct SbChosen {
    u64 prefix;
    u64 rank;
    u32 shift;
    // No further digit is needed.
    u32 done;
};
