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
    /// Columns from whose multiples blocks are counted.
    pub(crate) period: usize,
}
