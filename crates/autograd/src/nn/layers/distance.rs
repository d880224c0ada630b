use samebits_macros::Module;
use samebits_tensor_core::{Error, Result};

use crate::{Dim as _, Tensor, functional};

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
    /// Computes the layer.
    ///
    /// # Errors
    ///
    /// The shapes do not go together, or there is no such dimension.
    pub fn forward(&self, a: &Tensor, b: &Tensor) -> Result<Tensor> {
        let op = "CosineSimilarity";
        if a.rank() != b.rank() {
            return Err(Error::invalid(
                op,
                format!(
                    "expected as many dimensions, got shapes {:?} and {:?}",
                    a.shape(),
                    b.shape()
                ),
            ));
        }
        let dim = self.dim.dim(op, a.rank())?;
        if dim >= a.rank() {
            return Err(Error::invalid(op, format!("dimension {dim} of shape {:?}", a.shape())));
        }
        let unit = |x: &Tensor| -> Result<Tensor> {
            let norm = functional::sqrt(&functional::sum(&functional::square(x)?, [dim], true)?)?;
            let floor = Tensor::full(&[], self.eps, x.dtype())?.to(x.device())?;
            functional::div(x, &functional::maximum(&norm, &floor)?)
        };
        functional::sum(&functional::mul(&unit(a)?, &unit(b)?)?, [dim], false)
    }
}
