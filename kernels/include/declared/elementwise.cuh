// Written by `cargo xtask build-kernels` from the Rust declarations. Do not edit.

#pragma once

// How to walk two operands: rank 0 if both are dense in the result's shape, else the result's
// shape and each operand's strides, 0 along repeated dimensions.
struct SbPair {
    u64 n;
    u64 rank;
    u64 shape[8];
    i64 stride_a[8];
    i64 stride_b[8];
    i64 offset_a;
    i64 offset_b;
};

// Any strided view.
struct SbView {
    u64 n;
    u64 rank;
    u64 shape[8];
    i64 stride[8];
    i64 offset;
};
