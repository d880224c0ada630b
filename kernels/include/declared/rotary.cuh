// Written by `cargo xtask build-kernels` from the Rust declarations. Do not edit.

#pragma once

// Rows of `width` elements, of which `2 * half` turn. Row r is at position r mod length.
struct SbRotary {
    u64 rows;
    u64 length;
    u64 width;
    u64 half;
    u64 interleaved;
};
