//! Parameters of `kernels/embedding.cu`.

use bytemuck::{Pod, Zeroable};

/// `rows` is the table's height, `starts` has one entry more than there are bags, and keys are -1
/// for places that belong to no bag.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct RawBags {
    pub(crate) rows: usize,
    pub(crate) width: usize,
    pub(crate) bags: usize,
    pub(crate) places: usize,
    pub(crate) mean: u32,
    pub(crate) weighted: u32,
}
