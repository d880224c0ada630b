// Written by `cargo xtask build-kernels` from the Rust declarations. Do not edit.

#pragma once

// Log-probabilities of sequences, and what marks no class.
struct SbCtc {
    u64 steps;
    u64 n;
    u64 classes;
    // Of the longest sequence.
    u64 states;
    u64 blank;
};
