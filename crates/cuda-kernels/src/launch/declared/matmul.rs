//! Parameters of `kernels/matmul.cu`.

use bytemuck::{Pod, Zeroable};

/// Strides in elements; batch b of the result uses a_offset[b] and b_offset[b].
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
}
