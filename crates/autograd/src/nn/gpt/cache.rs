//! Keys and values of the tokens that a model has seen.

use samebits_tensor_core::{Error, Result};

use crate::Tensor;

/// The keys and values of one sequence, for every layer of a [`Gpt`](super::Gpt).
///
/// A clone shares memory with its origin and grows separately, so several sequences can start from
/// one prompt. Growing by any number of tokens copies the tensors of every layer.
///
/// # Examples
///
/// ```
/// # extern crate samebits_autograd as samebits;
/// use samebits::Tensor;
/// use samebits::nn::{Gpt, KvCache};
///
/// samebits_tensor_core::random::manual_seed(0);
/// let model = Gpt::options(50, 16, 2, 2).context(8).init()?;
/// let mut cache = KvCache::new();
/// model.forward_cached(&Tensor::new([3i64, 1, 4])?, &mut cache)?;
/// assert_eq!(cache.len(), 3);
/// cache.truncate(2)?;
/// let logits = model.forward_cached(&Tensor::new([4i64])?, &mut cache)?;
/// assert_eq!((cache.len(), logits.shape()), (3, &[1, 50][..]));
/// # Ok::<(), samebits::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct KvCache {
    /// Keys and values by layer, `[kv_heads, length, head width]`; empty before the first token.
    layers: Vec<[Tensor; 2]>,
    length: usize,
}

impl KvCache {
    /// Creates a cache without tokens, for any model.
    pub fn new() -> KvCache {
        KvCache::default()
    }

    /// Returns the number of tokens, which is the position of the next one.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Returns whether there are no tokens.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Keeps the first `length` tokens.
    ///
    /// # Errors
    ///
    /// There are fewer tokens.
    pub fn truncate(&mut self, length: usize) -> Result<()> {
        if length > self.length {
            let message = format!("expected at most {} tokens, got {length}", self.length);
            return Err(Error::invalid("KvCache::truncate", message));
        }
        let cut = |[key, value]: &[Tensor; 2]| -> Result<[Tensor; 2]> {
            Ok([key.narrow(1, 0, length)?, value.narrow(1, 0, length)?])
        };
        let layers = match length {
            0 => Vec::new(),
            _ => self.layers.iter().map(cut).collect::<Result<_>>()?,
        };
        *self = KvCache { layers, length };
        Ok(())
    }

    /// Returns the keys and values of a layer, or `None` before the first token.
    pub(super) fn layer(&self, layer: usize) -> Option<&[Tensor; 2]> {
        self.layers.get(layer)
    }

    /// Returns whether the cache can belong to a model of `layers` layers.
    pub(super) fn fits(&self, layers: usize) -> bool {
        self.layers.is_empty() || self.layers.len() == layers
    }

    /// Replaces the keys and values of all layers after `added` more tokens.
    pub(super) fn grow(&mut self, layers: Vec<[Tensor; 2]>, added: usize) {
        if added > 0 {
            *self = KvCache { layers, length: self.length + added };
        }
    }
}
