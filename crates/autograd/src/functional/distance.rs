//! Norms of vectors along a dimension, and angles between them.

use samebits_macros::named;
use samebits_tensor_core::Result;

use super::elementwise::{affine, div, maximum, mul, scalar_like, sqrt, square, sub};
use super::reduce::{norm, sum};
use crate::Tensor;
use crate::dims::Dim;

/// `x` divided by its `p`-norm along a dimension, or by `eps` if that is larger. PyTorch's defaults
/// are 2, 1 and 1e-12.
///
/// # Errors
///
/// The type is not a float, or there is no such dimension.
///
/// # Examples
///
/// ```
/// use samebits_autograd::Tensor;
/// use samebits_autograd::functional::normalize;
///
/// let x = Tensor::new([[3.0f32, 4.0], [0.0, 0.0]])?;
/// assert_eq!(normalize(&x, 2.0, 1, 1e-12)?.to_vec::<f32>()?, [0.6, 0.8, 0.0, 0.0]);
/// # Ok::<(), samebits_autograd::Error>(())
/// ```
///
/// # References
///
/// `torch.nn.functional.normalize`.
#[named]
#[track_caller]
pub fn normalize(x: &Tensor, p: f64, dim: impl Dim, eps: f64) -> Result<Tensor> {
    let dim = dim.dim("normalize", x.rank())?;
    let norm = norm(x, p, dim, true)?;
    div(x, &maximum(&norm, &scalar_like(&norm, eps)?)?)
}

/// The `p`-norm of `a − b + eps` along the last dimension. PyTorch's defaults are 2, 1e-6 and no
/// `keepdim`.
///
/// # Errors
///
/// The shapes cannot be broadcast together, or the types differ or are not floats.
///
/// # References
///
/// `torch.nn.functional.pairwise_distance`.
#[named]
#[track_caller]
pub fn pairwise_distance(
    a: &Tensor,
    b: &Tensor,
    p: f64,
    eps: f64,
    keepdim: bool,
) -> Result<Tensor> {
    norm(&affine(&sub(a, b)?, 1.0, eps)?, p, -1, keepdim)
}

/// The cosine of the angle between vectors along a dimension:
/// `Σ a·b / (max(‖a‖, eps) · max(‖b‖, eps))`. PyTorch's defaults are dimension 1 and 1e-8.
///
/// # Shapes
///
/// `a` and `b` have as many dimensions and broadcast.
///
/// # Determinism
///
/// Both inputs are divided by their norms first, then multiplied and summed.
///
/// # Errors
///
/// The shapes do not go together, or there is no such dimension.
///
/// # References
///
/// `torch.nn.functional.cosine_similarity`.
#[named]
#[track_caller]
pub fn cosine_similarity(a: &Tensor, b: &Tensor, dim: impl Dim, eps: f64) -> Result<Tensor> {
    let op = "cosine_similarity";
    super::loss::expect_rank(op, "the second input", b, a)?;
    let dim = dim.dim(op, a.rank())?;
    let unit = |x: &Tensor| -> Result<Tensor> {
        let norm = sqrt(&sum(&square(x)?, dim, true)?)?;
        div(x, &maximum(&norm, &scalar_like(x, eps)?)?)
    };
    sum(&mul(&unit(a)?, &unit(b)?)?, dim, false)
}
