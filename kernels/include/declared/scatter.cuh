// Written by `cargo xtask build-kernels` from the Rust declarations. Do not edit.

#pragma once

// Tensors seen along one dimension: `outer` slabs of `size` (or, in the source, `n`) rows of
// `inner` elements.
struct SbRows {
    u64 outer;
    u64 size;
    u64 n;
    u64 inner;
};

enum SbScatterReduce : u32 {
    SB_SCATTER_REDUCE_SUM,
    SB_SCATTER_REDUCE_MEAN,
    SB_SCATTER_REDUCE_PROD,
    SB_SCATTER_REDUCE_AMAX,
    SB_SCATTER_REDUCE_AMIN,
};
