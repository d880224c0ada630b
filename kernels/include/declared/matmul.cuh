// Written by `cargo xtask build-kernels` from the Rust declarations. Do not edit.

#pragma once

// Strides in elements; batch b of the result uses a_offset[b] and b_offset[b].
struct SbMatmul {
    u64 m;
    u64 n;
    u64 k;
    u64 a_row;
    u64 a_column;
    u64 b_row;
    u64 b_column;
    u64 batch;
};
