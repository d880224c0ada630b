//! Parameters of `kernels/padding.cu`.

use bytemuck::{Pod, Zeroable};

/// Planes and what is put before them, negative where it is cut off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct RawPad {
    pub(crate) planes: usize,
    pub(crate) input: [u32; 3],
    pub(crate) output: [u32; 3],
    pub(crate) before: [i32; 3],
    pub(crate) mode: u32,
}
