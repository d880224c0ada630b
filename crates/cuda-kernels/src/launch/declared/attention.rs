//! Parameters of `kernels/attention.cu`.

use bytemuck::{Pod, Zeroable};

/// Strides in elements. The starts of matrix b of query, key, value, grad, added and hidden are
/// starts[b], starts[count + b] and so on. Query i sees the first min(seen + i, keys) keys.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct RawAttention {
    pub(crate) count: usize,
    pub(crate) queries: usize,
    pub(crate) keys: usize,
    pub(crate) width: usize,
    pub(crate) features: usize,
    pub(crate) seen: usize,
    pub(crate) has_added: usize,
    pub(crate) has_hidden: usize,
    pub(crate) query_row: usize,
    pub(crate) query_column: usize,
    pub(crate) key_row: usize,
    pub(crate) key_column: usize,
    pub(crate) value_row: usize,
    pub(crate) value_column: usize,
    pub(crate) grad_row: usize,
    pub(crate) grad_column: usize,
    pub(crate) added_row: usize,
    pub(crate) added_column: usize,
    pub(crate) hidden_row: usize,
    pub(crate) hidden_column: usize,
}
