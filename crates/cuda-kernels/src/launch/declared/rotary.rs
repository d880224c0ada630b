//! Parameters of `kernels/rotary.cu`.

use bytemuck::{Pod, Zeroable};

/// Rows of `width` elements, of which `2 * half` turn. Row r is at position r mod length.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct RawRotary {
    pub(crate) rows: usize,
    pub(crate) length: usize,
    pub(crate) width: usize,
    pub(crate) half: usize,
    pub(crate) interleaved: usize,
}
