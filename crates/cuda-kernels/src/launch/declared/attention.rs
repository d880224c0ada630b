//! Parameters of `kernels/attention.cu` and `kernels/attention_grad.cu`.

use bytemuck::{Pod, Zeroable};

/// Strides in elements. The starts of matrix b of query, key, value, grad, added and hidden are
/// starts[b], starts[count + b] and so on. Query i sees the first min(seen + i, keys) keys. With
/// dropout, weight i is dropped if word i from block first on is at most last, and any is not 0.
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
    pub(crate) dropout: usize,
    pub(crate) seed: u64,
    pub(crate) stream: u64,
    pub(crate) first: u64,
    pub(crate) last: usize,
    pub(crate) any: usize,
    pub(crate) scale: f64,
}
