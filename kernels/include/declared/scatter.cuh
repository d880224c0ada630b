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

// The outputs of segments: segment r has `columns` of them, number q at r / plane * image_step +
// r % plane * place_step + q / inner * slab_step + q % inner.
struct SbSegments {
    u64 columns;
    u64 inner;
    u64 plane;
    u64 image_step;
    u64 place_step;
    u64 slab_step;
};

enum SbOld : u32 {
    SB_OLD_ADDED,
    SB_OLD_KEPT,
    SB_OLD_NONE,
};

enum SbScatterReduce : u32 {
    SB_SCATTER_REDUCE_SUM,
    SB_SCATTER_REDUCE_MEAN,
    SB_SCATTER_REDUCE_PROD,
    SB_SCATTER_REDUCE_AMAX,
    SB_SCATTER_REDUCE_AMIN,
};
