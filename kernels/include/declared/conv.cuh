// Written by `cargo xtask build-kernels` from the Rust declarations. Do not edit.

#pragma once

// A convolution of three dimensions.
struct SbConv {
    u64 batch;
    u32 groups;
    // Channels of a group.
    u32 inputs;
    u32 outputs;
    u32 input[3];
    u32 output[3];
    u32 kernel[3];
    u32 stride[3];
    u32 padding[3];
    u32 dilation[3];
    u32 with_bias;
};
