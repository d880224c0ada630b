// Written by `cargo xtask build-kernels` from the Rust declarations. Do not edit.

#pragma once

// A matrix to decompose.
struct SbMatrix {
    u64 m;
    u64 n;
    // Columns of Q, or singular values.
    u64 k;
};
