use samebits_macros::{Module, layer};
use samebits_tensor_core::Result;

use crate::{Tensor, functional};

/// The cosine of the angle between vectors along a dimension:
/// `Σ a·b / (max(‖a‖, eps) · max(‖b‖, eps))`.
///
/// # Determinism
///
/// Both inputs are divided by their norms first, then multiplied and summed.
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
    /// The dimension of the vectors' elements: 1 by default; a negative one counts from the last, −1.
    pub dim: i64,
    /// The smallest norm that is divided by: 1e-8 by default.
    pub eps: f64,
}

impl Default for CosineSimilarity {
    fn default() -> CosineSimilarity {
        CosineSimilarity { dim: 1, eps: 1e-8 }
    }
}

impl CosineSimilarity {
    /// Along dimension `dim`, with norms of at least `eps`.
    pub fn new(dim: i64, eps: f64) -> CosineSimilarity {
        CosineSimilarity { dim, eps }
    }

    /// Computes the layer.
    ///
    /// # Errors
    ///
    /// The shapes do not go together, or there is no such dimension.
    #[layer]
    pub fn forward(&self, a: &Tensor, b: &Tensor) -> Result<Tensor> {
        functional::cosine_similarity(a, b, self.dim, self.eps)
    }
}

/// The norm of the difference of vectors, along the last dimension; see
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
    /// Whether the last dimension stays, with size 1.
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
    /// The shapes do not go together.
    #[layer]
    pub fn forward(&self, a: &Tensor, b: &Tensor) -> Result<Tensor> {
        functional::pairwise_distance(a, b, self.p, self.eps, self.keepdim)
    }
}
