use samebits_macros::{Module, layer};
use samebits_tensor_core::Result;

use crate::{Tensor, functional};

/// The cosine similarity of vectors along a dimension: `Σ a·b / (max(‖a‖, eps) · max(‖b‖, eps))`.
///
/// # Determinism
///
/// Divides both inputs by their norms first, then multiplies and sums.
///
/// # Examples
///
/// ```
/// # extern crate samebits_autograd as samebits;
/// use samebits::Tensor;
/// use samebits::nn::CosineSimilarity;
///
/// let a = Tensor::from_slice(&[3.0f32, 0.0, 0.0, 2.0], &[2, 2])?;
/// let b = Tensor::from_slice(&[5.0f32, 0.0, 7.0, 0.0], &[2, 2])?;
/// assert_eq!(CosineSimilarity::default().forward(&a, &b)?.to_vec::<f32>()?, [1.0, 0.0]);
/// # Ok::<(), samebits::Error>(())
/// ```
///
/// # References
///
/// `torch.nn.CosineSimilarity`.
#[derive(Clone, Copy, Debug, Module)]
pub struct CosineSimilarity {
    /// The dimension of the vectors' elements: 1 by default; negative dimensions count from the
    /// end.
    pub dim: i64,
    /// The smallest divisor, in place of smaller norms: 1e-8 by default.
    pub eps: f64,
}

impl Default for CosineSimilarity {
    fn default() -> CosineSimilarity {
        CosineSimilarity { dim: 1, eps: 1e-8 }
    }
}

impl CosineSimilarity {
    /// Creates the layer for dimension `dim`, with norms of at least `eps`.
    pub fn new(dim: i64, eps: f64) -> CosineSimilarity {
        CosineSimilarity { dim, eps }
    }

    /// Computes the layer.
    ///
    /// # Errors
    ///
    /// The shapes do not match, or there is no such dimension.
    #[layer]
    pub fn forward(&self, a: &Tensor, b: &Tensor) -> Result<Tensor> {
        functional::cosine_similarity(a, b, self.dim, self.eps)
    }
}

/// The norm of the difference of two vectors, along the last dimension; see
/// [`functional::pairwise_distance`].
///
/// # References
///
/// `torch.nn.PairwiseDistance`.
#[derive(Clone, Copy, Debug, Module)]
pub struct PairwiseDistance {
    /// The exponent of the norm: 2 by default.
    pub p: f64,
    /// Added to each difference: 1e-6 by default.
    pub eps: f64,
    /// True to keep the last dimension with size 1.
    pub keepdim: bool,
}

impl Default for PairwiseDistance {
    fn default() -> PairwiseDistance {
        PairwiseDistance { p: 2.0, eps: 1e-6, keepdim: false }
    }
}

impl PairwiseDistance {
    /// Computes the layer.
    ///
    /// # Errors
    ///
    /// The shapes do not match.
    #[layer]
    pub fn forward(&self, a: &Tensor, b: &Tensor) -> Result<Tensor> {
        functional::pairwise_distance(a, b, self.p, self.eps, self.keepdim)
    }
}
