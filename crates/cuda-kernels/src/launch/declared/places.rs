//! Parameters of `kernels/scatter.cu`: places of an index.

use bytemuck::{Pod, Zeroable};

/// Places of an index per element that covers a part of a tensor: the index's shape, and the
/// tensor's strides with 0 along the indexed dimension, whose own stride is `step`.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct RawPart {
    pub(crate) n: usize,
    pub(crate) rank: usize,
    pub(crate) shape: [usize; 8],
    pub(crate) stride: [usize; 8],
    pub(crate) size: usize,
    pub(crate) step: usize,
}
