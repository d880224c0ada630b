//! Parameters of `kernels/scan.cu`.

use bytemuck::{Pod, Zeroable};

/// `s * exp(m)`
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct RawLogState {
    pub(crate) m: f64,
    pub(crate) s: f64,
}

/// The best so far, and its index; -1 is none.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct RawBest {
    pub(crate) value: f64,
    pub(crate) at: i64,
}

/// Lines to scan, their tiles, and what with.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct RawScan {
    pub(crate) outer: usize,
    pub(crate) n: usize,
    pub(crate) inner: usize,
    pub(crate) tiles: usize,
    pub(crate) kind: u32,
    pub(crate) reverse: u32,
    /// A warp takes a tile through shared memory; otherwise a thread takes one.
    pub(crate) staged: u32,
    /// Carries are ready; otherwise totals are.
    pub(crate) carried: u32,
}
