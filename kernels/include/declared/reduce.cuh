// Written by `cargo xtask build-kernels` from the Rust declarations. Do not edit.

#pragma once

// `outer x n x inner`, reduced over `n`.
struct SbReduce {
    u64 outer;
    u64 n;
    u64 inner;
    // Blocks of the tree along n.
    u64 blocks;
};

enum SbIntegers : u32 {
    SB_INTEGERS_SUM,
    SB_INTEGERS_PRODUCT,
    SB_INTEGERS_LARGEST,
    SB_INTEGERS_SMALLEST,
};
