// Written by `cargo xtask build-kernels` from the Rust declarations. Do not edit.

#pragma once

// Planes and what is put before them, negative where it is cut off.
struct SbPad {
    u64 planes;
    u32 input[3];
    u32 output[3];
    i32 before[3];
    u32 mode;
};

enum SbPadMode : u32 {
    SB_PAD_MODE_CONSTANT = 0,
    SB_PAD_MODE_REFLECT = 1,
    SB_PAD_MODE_REPLICATE = 2,
    SB_PAD_MODE_CIRCULAR = 3,
};
