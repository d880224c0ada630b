// Written by `cargo xtask build-kernels` from the Rust declarations. Do not edit.

#pragma once

// `s * exp(m)`
struct SbLogState {
    double m;
    double s;
};

// The best so far, and its index; -1 is none.
struct SbBest {
    double value;
    i64 at;
};

// Lines to scan, their tiles, and what with.
struct SbScan {
    u64 outer;
    u64 n;
    u64 inner;
    u64 tiles;
    u32 kind;
    u32 reverse;
    // A warp takes a tile through shared memory; otherwise a thread takes one.
    u32 staged;
    // Carries are ready; otherwise totals are.
    u32 carried;
};
