//! Parameters of `kernels/linalg.cu`.

use bytemuck::{Pod, Zeroable};

/// A matrix to decompose.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct RawMatrix {
    pub(crate) m: usize,
    pub(crate) n: usize,
    /// Columns of Q, or singular values.
    pub(crate) k: usize,
}
