// Written by `cargo xtask build-kernels` from the Rust declarations. Do not edit.

#pragma once

// `[n, channels, spatial]`.
struct SbBatch {
    u64 n;
    u64 channels;
    u64 spatial;
};
