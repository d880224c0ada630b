//! Parameters of `kernels/conv.cu`.

use bytemuck::{Pod, Zeroable};

/// A convolution of three dimensions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct RawConv {
    pub(crate) batch: usize,
    pub(crate) groups: u32,
    /// Channels of a group.
    pub(crate) inputs: u32,
    pub(crate) outputs: u32,
    pub(crate) input: [u32; 3],
    pub(crate) output: [u32; 3],
    pub(crate) kernel: [u32; 3],
    pub(crate) stride: [u32; 3],
    pub(crate) padding: [u32; 3],
    pub(crate) dilation: [u32; 3],
    pub(crate) with_bias: u32,
}
