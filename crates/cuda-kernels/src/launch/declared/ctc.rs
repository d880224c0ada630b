//! Parameters of `kernels/ctc.cu`.

use bytemuck::{Pod, Zeroable};

/// Log-probabilities of sequences, and what marks no class.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct RawCtc {
    pub(crate) steps: usize,
    pub(crate) n: usize,
    pub(crate) classes: usize,
    /// Of the longest sequence.
    pub(crate) states: usize,
    pub(crate) blank: usize,
}
