// Written by `cargo xtask build-kernels` from the Rust declarations. Do not edit.

#pragma once

// `n` candidates of each line, out of `source` elements: all of them, or those that `picks` names.
struct SbSort {
    u64 lines;
    u64 n;
    u64 source;
    u64 inner;
    // Tiles of a line, and lines of a tile; one of the two is 1.
    u64 tiles;
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
