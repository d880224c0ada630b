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
    /// Parts of a long line, and the elements of a part.
    pub(crate) parts: usize,
    pub(crate) part: usize,
    /// Short lines of a tile.
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

/// Lines of `n` neighbouring elements, of which the first `k` are wanted, or one.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct RawSelect {
    pub(crate) lines: usize,
    pub(crate) n: usize,
    /// Blocks for each line.
    pub(crate) parts: usize,
    pub(crate) k: usize,
    pub(crate) descending: u32,
    /// 0: the first `k`; 1: element `k`; 2: the median; 3: the median of the numbers.
    pub(crate) mode: u32,
}

/// What is known of the key at a rank: that it begins with `prefix`, above `shift` other bits, and
/// its rank among the keys that begin so.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct RawChosen {
    pub(crate) prefix: u64,
    pub(crate) rank: u64,
    pub(crate) shift: u32,
    /// No further digit is needed.
    pub(crate) done: u32,
}
