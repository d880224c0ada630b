// Written by `cargo xtask build-kernels` from the Rust declarations. Do not edit.

#pragma once

// One of several tensors that a launch computes: the addresses of its operands, the written ones
// first, as many elements as each has, and the first block that takes some of them.
struct SbRow {
    u64 operands[7];
    u64 n;
    u64 first_block;
};
