// Written by `cargo xtask build-kernels` from the Rust declarations. Do not edit.

#pragma once

// Strides in elements. Batch b of the result uses the matrices at `first + b * step`, or, if `table` is
// 1, at offsets[2 * b] and offsets[2 * b + 1].
struct SbMatmul {
    u64 m;
    u64 n;
    u64 k;
    u64 a_row;
    u64 a_column;
    u64 b_row;
    u64 b_column;
    u64 batch;
    u64 a_first;
    u64 a_step;
    u64 b_first;
    u64 b_step;
    u64 table;
};
