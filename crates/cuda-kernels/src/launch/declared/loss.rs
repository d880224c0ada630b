//! Parameters of `kernels/loss.cu`.

use bytemuck::{Pod, Zeroable};

/// A tensor `[outer, n, inner]`, the classes along `n`.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct RawClasses {
    pub(crate) outer: usize,
    pub(crate) n: usize,
    pub(crate) inner: usize,
}

/// Targets `[outer, inner]` of log-probabilities `[outer, classes, inner]`.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct RawTargets {
    pub(crate) outer: usize,
    pub(crate) classes: usize,
    pub(crate) inner: usize,
    pub(crate) ignore: i64,
    /// Whether the weights are used; all are 1 otherwise.
    pub(crate) weighted: usize,
}
