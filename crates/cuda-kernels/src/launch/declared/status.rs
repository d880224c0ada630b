//! Parameters of the kernel that collects the reports of other kernels.

use bytemuck::{Pod, Zeroable};

/// The indices that an operation read, by their address, and the size that they must be below; `name`
/// stands for the operation, from 1.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct RawSource {
    pub(crate) index: u64,
    pub(crate) size: usize,
    pub(crate) name: usize,
}
