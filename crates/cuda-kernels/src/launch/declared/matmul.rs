//! Parameters of `kernels/matmul.cu`.

use bytemuck::{Pod, Zeroable};

/// Strides in elements. Batch b of the result uses the matrices at `first + b * step`, or, if `table` is
/// 1, at offsets[2 * b] and offsets[2 * b + 1].
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct RawMatmul {
    pub(crate) m: usize,
    pub(crate) n: usize,
    pub(crate) k: usize,
    pub(crate) a_row: usize,
    pub(crate) a_column: usize,
    pub(crate) b_row: usize,
    pub(crate) b_column: usize,
    pub(crate) batch: usize,
    pub(crate) a_first: usize,
    pub(crate) a_step: usize,
    pub(crate) b_first: usize,
    pub(crate) b_step: usize,
    pub(crate) table: usize,
}
