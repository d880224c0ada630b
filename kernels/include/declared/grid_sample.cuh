// Written by `cargo xtask build-kernels` from the Rust declarations. Do not edit.

#pragma once

// What is sampled, and how.
struct SbGrid {
    u64 batch;
    u64 channels;
    u64 points;
    // Depth, height, width; the depth of an image is 1.
    u32 input[3];
    u32 dims;
    u32 mode;
    u32 padding;
    u32 align_corners;
    // Taps per point: 1, 2 or 4 to the power of the dimensions.
    u32 taps;
};

enum SbGridMode : u32 {
    SB_GRID_MODE_NEAREST = 0,
    SB_GRID_MODE_LINEAR = 1,
    SB_GRID_MODE_CUBIC = 2,
};

enum SbGridPadding : u32 {
    SB_GRID_PADDING_ZEROS = 0,
    SB_GRID_PADDING_BORDER = 1,
    SB_GRID_PADDING_REFLECTION = 2,
};
