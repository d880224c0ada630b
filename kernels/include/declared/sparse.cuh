// Written by `cargo xtask build-kernels` from the Rust declarations. Do not edit.

#pragma once

// A sparse matrix times a dense one.
struct SbSparse {
    u64 elements;
    u64 rows;
    u64 columns;
    u64 width;
    // The columns of each matrix of the diagonal; blocks are counted from its first column.
    u64 period;
};
