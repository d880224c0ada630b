//! Parameters of `kernels/pooling.cu`.

use bytemuck::{Pod, Zeroable};

/// Planes that are pooled to a given size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct RawAdaptive {
    pub(crate) planes: usize,
    pub(crate) input: [u32; 3],
    pub(crate) output: [u32; 3],
}

/// Planes that are pooled at drawn places.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct RawFractional {
    pub(crate) planes: usize,
    pub(crate) input: [u32; 3],
    pub(crate) output: [u32; 3],
    pub(crate) kernel: [u32; 3],
    /// Dimensions that are pooled, 2 or 3: the last of the three.
    pub(crate) dims: u32,
}

/// Windows of three dimensions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct RawPool {
    pub(crate) planes: usize,
    pub(crate) input: [u32; 3],
    pub(crate) output: [u32; 3],
    pub(crate) kernel: [u32; 3],
    pub(crate) stride: [u32; 3],
    pub(crate) padding: [u32; 3],
    pub(crate) dilation: [u32; 3],
    /// Whether padding counts in the divisor of an average.
    pub(crate) include_pad: u32,
    /// Not 0: a divisor for every window.
    pub(crate) fixed: i32,
}
