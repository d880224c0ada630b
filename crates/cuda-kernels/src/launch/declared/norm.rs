//! Parameters of `kernels/norm.cu`.

use bytemuck::{Pod, Zeroable};

/// `[n, channels, spatial]`.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct RawBatch {
    pub(crate) n: usize,
    pub(crate) channels: usize,
    pub(crate) spatial: usize,
}
