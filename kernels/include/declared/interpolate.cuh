// Written by `cargo xtask build-kernels` from the Rust declarations. Do not edit.

#pragma once

// Three dimensions. Row `i` of dimension `d` has taps `starts[base[d] + i]` to
// `starts[base[d] + i + 1]`.
struct SbTaps {
    u64 planes;
    u32 from[3];
    u32 to[3];
    u32 base[3];
    // The compiler's padding of the structure, spelt out.
    u32 pad;
};
