//! Parameters of `kernels/scatter.cu`.

use bytemuck::{Pod, Zeroable};

/// Tensors seen along one dimension: `outer` slabs of `size` (or, in the source, `n`) rows of
/// `inner` elements.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct RawRows {
    pub(crate) outer: usize,
    pub(crate) size: usize,
    pub(crate) n: usize,
    pub(crate) inner: usize,
}
