// Written by `cargo xtask build-kernels` from the Rust declarations. Do not edit.

#pragma once

// Planes that are pooled to a given size.
struct SbAdaptive {
    u64 planes;
    u32 input[3];
    u32 output[3];
};

// Planes that are pooled at drawn places.
struct SbFractional {
    u64 planes;
    u32 input[3];
    u32 output[3];
    u32 kernel[3];
    // Dimensions that are pooled, 2 or 3: the last of the three.
    u32 dims;
};

// Windows of three dimensions.
struct SbPool {
    u64 planes;
    u32 input[3];
    u32 output[3];
    u32 kernel[3];
    u32 stride[3];
    u32 padding[3];
    u32 dilation[3];
    // Whether padding counts in the divisor of an average.
    u32 include_pad;
    // Not 0: a divisor for every window.
    i32 fixed;
};
