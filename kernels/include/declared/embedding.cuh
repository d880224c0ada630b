// Written by `cargo xtask build-kernels` from the Rust declarations. Do not edit.

#pragma once

// `rows` is the table's height, `starts` has one entry more than there are bags, and keys are -1
// for places that belong to no bag.
struct SbBags {
    u64 rows;
    u64 width;
    u64 bags;
    u64 places;
    u32 mean;
    u32 weighted;
};
