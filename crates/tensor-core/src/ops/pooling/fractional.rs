//! Maximum pooling over windows at pseudo-random positions.

use super::check_indexed_grad;
use crate::geometry::FractionalPool;
use crate::ops::{expect_dtype, expect_float, expect_shape};
use crate::{Op, Pass, Result, Tensor};

/// The largest element of each window and its index, as in [`MaxPool`](crate::ops::MaxPool); the
/// positions of the windows depend on random samples.
///
/// Window `o` of a dimension starts at `floor((o + u) · a) − floor(u · a)` with
/// `a = (input − kernel) / (output − 1)` and `u` the plane's sample for that dimension, each
/// operation rounded in the element type; the last window ends at the end of the input.
#[derive(Clone, Debug)]
pub struct FractionalMaxPool {
    /// `[n, channels, ..]` with two or three spatial dimensions.
    pub input: Tensor,
    /// `[n, channels, dimensions]`, numbers in `[0, 1)`, for the width and the height in two
    /// dimensions, for the depth, the height and the width in three.
    pub samples: Tensor,
    /// The size of a window.
    pub kernel: Vec<usize>,
    /// The size of each spatial dimension of the result.
    pub output_size: Vec<usize>,
}

impl Op for FractionalMaxPool {
    const NAME: &'static str = "fractional_max_pool";
    type Plan = FractionalPool;
    type Output = (Tensor, Tensor);

    crate::inputs![input, samples];
    crate::parameters![kernel, output_size];

    fn plan(&self) -> Result<FractionalPool> {
        let (op, shape) = (Self::NAME, self.input.shape());
        expect_float(op, "the input", &self.input)?;
        let pool = FractionalPool::new(op, shape, &self.output_size, &self.kernel)?;
        expect_dtype(op, "the samples", &self.samples, self.input.dtype())?;
        expect_shape(op, "the samples", &self.samples, &[&shape[..2], &[pool.dims()]].concat())?;
        Ok(pool)
    }
}

/// The gradient of [`FractionalMaxPool`].
#[derive(Clone, Debug)]
pub struct FractionalMaxPoolGrad {
    /// The gradient of the result.
    pub grad: Tensor,
    /// The indices that the forward pass returned.
    pub indices: Tensor,
    /// The shape of the forward pass's input.
    pub input_shape: Vec<usize>,
}

impl Op for FractionalMaxPoolGrad {
    const NAME: &'static str = "fractional_max_pool";
    const PASS: Pass = Pass::Backward;
    type Plan = ();
    type Output = Tensor;

    crate::inputs![grad, indices];
    crate::parameters![input_shape];

    fn plan(&self) -> Result<()> {
        expect_float(Self::NAME, "the gradient", &self.grad)?;
        check_indexed_grad(Self::NAME, &self.grad, &self.indices, &self.input_shape)
    }
}
