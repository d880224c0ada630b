//! Parameters of `kernels/elementwise.cu`.

use bytemuck::{Pod, Zeroable};

/// The largest number of dimensions of a strided view.
pub const MAX_RANK: usize = 8;

/// How to walk two operands: rank 0 if both are dense in the result's shape, else the result's
/// shape and each operand's strides, 0 along repeated dimensions.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct RawPair {
    pub(crate) n: usize,
    pub(crate) rank: usize,
    pub(crate) shape: [usize; MAX_RANK],
    pub(crate) stride_a: [i64; MAX_RANK],
    pub(crate) stride_b: [i64; MAX_RANK],
    pub(crate) offset_a: i64,
    pub(crate) offset_b: i64,
}

/// Any strided view.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct RawView {
    pub(crate) n: usize,
    pub(crate) rank: usize,
    pub(crate) shape: [usize; MAX_RANK],
    pub(crate) stride: [i64; MAX_RANK],
    pub(crate) offset: i64,
}
