// Written by `cargo xtask build-kernels` from the Rust declarations. Do not edit.

#pragma once

// The address of a draw.
struct SbDraw {
    u64 seed;
    u64 stream;
    u64 first;
};
