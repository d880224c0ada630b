// Written by `cargo xtask build-kernels` from the Rust declarations. Do not edit.

#pragma once

// `[n, groups, channels, spatial]`, with the channels of a group, and what there is.
struct SbGroups {
    u64 n;
    u64 groups;
    u64 channels;
    u64 spatial;
    u32 weighted;
    u32 biased;
};
