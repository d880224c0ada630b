//! The rows of tables: parameters of launches that compute several tensors.

use bytemuck::{Pod, Zeroable};

/// One of several tensors that a launch computes: the addresses of its operands, the written ones
/// first, as many elements as each has, and the first block that takes some of them.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct RawRow {
    pub(crate) operands: [u64; 7],
    pub(crate) n: usize,
    pub(crate) first_block: usize,
}
