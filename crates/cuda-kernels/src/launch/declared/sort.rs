//! Parameters of `kernels/sort.cu`.

use bytemuck::{Pod, Zeroable};

/// `n` candidates of each line, out of `source` elements: all of them, or those that `picks` names.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct RawSort {
    pub(crate) lines: usize,
    pub(crate) n: usize,
    pub(crate) source: usize,
    pub(crate) inner: usize,
    /// Tiles of a line, and lines of a tile; one of the two is 1.
    pub(crate) tiles: usize,
    pub(crate) per_tile: usize,
    pub(crate) descending: u32,
    pub(crate) picked: u32,
}

/// `k` elements of each line from sorted place `first` on, whose lines are `stride` long.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct RawTake {
    pub(crate) outer: usize,
    pub(crate) source: usize,
    pub(crate) inner: usize,
    pub(crate) k: usize,
    pub(crate) first: usize,
    pub(crate) stride: usize,
}
