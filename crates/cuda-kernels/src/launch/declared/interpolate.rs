//! Parameters of `kernels/interpolate.cu`.

use bytemuck::{Pod, Zeroable};

/// Three dimensions. Row `i` of dimension `d` has taps `starts[base[d] + i]` to
/// `starts[base[d] + i + 1]`.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct RawTaps {
    pub(crate) planes: usize,
    pub(crate) from: [u32; 3],
    pub(crate) to: [u32; 3],
    pub(crate) base: [u32; 3],
    /// The compiler's padding of the structure, spelt out.
    pub(crate) pad: u32,
}
