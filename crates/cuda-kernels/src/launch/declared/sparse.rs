//! Parameters of `kernels/sparse.cu`.

use bytemuck::{Pod, Zeroable};

/// A sparse matrix times a dense one.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct RawSparse {
    pub(crate) elements: usize,
    pub(crate) rows: usize,
    pub(crate) columns: usize,
    pub(crate) width: usize,
    /// The columns of each matrix of the diagonal; blocks are counted from its first column.
    pub(crate) period: usize,
}
