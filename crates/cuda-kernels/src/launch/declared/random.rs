//! Parameters of `kernels/random.cu`.

use bytemuck::{Pod, Zeroable};

/// The address of a draw.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct RawDraw {
    pub(crate) seed: u64,
    pub(crate) stream: u64,
    pub(crate) first: u64,
}
