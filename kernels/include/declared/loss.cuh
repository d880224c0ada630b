// Written by `cargo xtask build-kernels` from the Rust declarations. Do not edit.

#pragma once

// A tensor `[outer, n, inner]`, the classes along `n`.
struct SbClasses {
    u64 outer;
    u64 n;
    u64 inner;
};

// Targets `[outer, inner]` of log-probabilities `[outer, classes, inner]`.
struct SbTargets {
    u64 outer;
    u64 classes;
    u64 inner;
    i64 ignore;
    // Whether the weights are used; all are 1 otherwise.
    u64 weighted;
};
