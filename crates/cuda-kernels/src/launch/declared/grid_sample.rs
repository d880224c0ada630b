//! Parameters of `kernels/grid_sample.cu`.

use bytemuck::{Pod, Zeroable};

/// What is sampled, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct RawGrid {
    pub(crate) batch: usize,
    pub(crate) channels: usize,
    pub(crate) points: usize,
    /// Depth, height, width; the depth of an image is 1.
    pub(crate) input: [u32; 3],
    pub(crate) dims: u32,
    pub(crate) mode: u32,
    pub(crate) padding: u32,
    pub(crate) align_corners: u32,
    /// Taps per point: 1, 2 or 4 to the power of the dimensions.
    pub(crate) taps: u32,
}
