// Written by `cargo xtask build-kernels` from the Rust declarations. Do not edit.

#pragma once

// The indices that an operation read, by their address, and the size that they must be below; `name`
// stands for the operation, from 1.
struct SbSource {
    u64 index;
    u64 size;
    u64 name;
};
