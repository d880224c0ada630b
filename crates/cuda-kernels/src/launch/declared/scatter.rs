//! Parameters of `kernels/scatter.cu`.

use bytemuck::{Pod, Zeroable};

/// What a sum does with the old value of its place: it counts; it stays where there are no addends; or
/// there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Old {
    Added,
    Kept,
    None,
}

/// Tensors seen along one dimension: `outer` slabs of `size` (or, in the source, `n`) rows of
/// `inner` elements.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct RawRows {
    pub(crate) outer: usize,
    pub(crate) size: usize,
    pub(crate) n: usize,
    pub(crate) inner: usize,
}

/// The outputs of segments: segment r has `columns` of them, number q at r / plane * image_step +
/// r % plane * place_step + q / inner * slab_step + q % inner.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct RawSegments {
    pub(crate) columns: usize,
    pub(crate) inner: usize,
    pub(crate) plane: usize,
    pub(crate) image_step: usize,
    pub(crate) place_step: usize,
    pub(crate) slab_step: usize,
}
