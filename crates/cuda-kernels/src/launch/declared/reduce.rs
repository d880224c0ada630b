//! Parameters of `kernels/reduce.cu`.

use bytemuck::{Pod, Zeroable};

/// `outer x n x inner`, reduced over `n`.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct RawReduce {
    pub(crate) outer: usize,
    pub(crate) n: usize,
    pub(crate) inner: usize,
    /// Blocks of the tree along n.
    pub(crate) blocks: usize,
}
