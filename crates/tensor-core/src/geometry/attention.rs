//! The sizes of an attention.

use crate::layout::numel;
use crate::{Error, Result};

/// The sizes of an attention: `[batch.., queries, width]`, `[batch.., keys, width]` and `[batch..,
/// keys, features]` with equal batch dimensions.
///
/// # Examples
///
/// ```
/// use samebits_tensor_core::geometry::AttentionSizes;
///
/// let sizes = AttentionSizes::new("attention", &[2, 4, 5, 8], &[2, 4, 7, 8], &[2, 4, 7, 9])?;
/// assert_eq!((sizes.count, sizes.queries, sizes.keys), (8, 5, 7));
/// # Ok::<(), samebits_tensor_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttentionSizes {
    /// The product of the batch dimensions.
    pub count: usize,
    /// The number of queries.
    pub queries: usize,
    /// The number of keys.
    pub keys: usize,
    /// The width of queries and keys.
    pub width: usize,
    /// The width of values.
    pub features: usize,
}

impl AttentionSizes {
    /// Checks the shapes of query, key and value.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] if they do not fit together or have too many elements.
    pub fn new(
        op: &'static str,
        query: &[usize],
        key: &[usize],
        value: &[usize],
    ) -> Result<AttentionSizes> {
        let fitting = match (query, key, value) {
            ([q @ .., queries, width], [k @ .., keys, key_width], [v @ .., values, features])
                if q == k && q == v && width == key_width && keys == values =>
            {
                Some((q, [*queries, *keys, *width, *features]))
            }
            _ => None,
        };
        let Some((batch, [queries, keys, width, features])) = fitting else {
            let message = format!(
                "expected [batch.., queries, width], [batch.., keys, width] and [batch.., keys, \
                 features], got {query:?}, {key:?} and {value:?}"
            );
            return Err(Error::invalid(op, message));
        };
        for shape in [query, key, value] {
            numel(op, shape)?;
        }
        let result = [batch, &[queries, features]].concat();
        numel(op, &result)?;
        numel(op, &result[..result.len() - 1])?;
        let count = numel(op, batch)?;
        Ok(AttentionSizes { count, queries, keys, width, features })
    }

    /// Returns the number of keys that query `query` may attend to: all, or those up to
    /// `query + offset` if the attention is causal.
    #[inline(always)]
    pub fn seen(&self, query: usize, causal: Option<usize>) -> usize {
        match causal {
            Some(offset) => query.saturating_add(offset).saturating_add(1).min(self.keys),
            None => self.keys,
        }
    }
}
