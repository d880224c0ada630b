// Written by `cargo xtask build-kernels` from the Rust declarations. Do not edit.

#pragma once

// Places of an index per element that covers a part of a tensor: the index's shape, and the
// tensor's strides with 0 along the indexed dimension, whose own stride is `step`.
struct SbPart {
    u64 n;
    u64 rank;
    u64 shape[8];
    u64 stride[8];
    u64 size;
    u64 step;
};
