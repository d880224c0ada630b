//! Resizing by interpolation.

use super::{checked_shape, expect_float, expect_shape, spatial};
use crate::{Error, Op, Pass, Result, Tensor};

/// How values between the input's elements are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum InterpolateMode {
    /// The input element at `floor(o * scale)`.
    Nearest,
    /// The input element whose centre is nearest: `floor((o + 0.5) * scale)`.
    NearestExact,
    /// The two neighbours in each dimension.
    Linear {
        /// The centres of the corner elements, not their outer corners, are aligned.
        align_corners: bool,
    },
    /// The four neighbours in each dimension, by cubic convolution with a = -0.75.
    Cubic {
        /// The centres of the corner elements, not their outer corners, are aligned.
        align_corners: bool,
    },
    /// As `Linear`, but a dimension that shrinks takes every input under a triangle that is as
    /// much wider.
    LinearAntialias {
        /// The centres of the corner elements, not their outer corners, are aligned.
        align_corners: bool,
    },
    /// As `LinearAntialias`, under the kernel of cubic convolution with a = -0.5.
    CubicAntialias {
        /// The centres of the corner elements, not their outer corners, are aligned.
        align_corners: bool,
    },
}

/// The input resized: each output is a weighted mean of a few inputs. The weights of a dimension
/// are computed in f64 and rounded; those of several dimensions are multiplied.
#[derive(Clone, Debug)]
pub struct Interpolate {
    /// `[n, channels, ..]` with one to three spatial dimensions.
    pub input: Tensor,
    /// The size of each spatial dimension of the result.
    pub output_size: Vec<usize>,
    /// Outputs per input, for each spatial dimension: takes the place of `output / input` in the
    /// coordinates, unless corners are aligned.
    pub scales: Vec<Option<f64>>,
    /// How values are found.
    pub mode: InterpolateMode,
}

impl Op for Interpolate {
    const NAME: &'static str = "interpolate";
    type Plan = ();
    type Output = Tensor;

    fn inputs(&self) -> Vec<&Tensor> {
        vec![&self.input]
    }

    fn plan(&self) -> Result<()> {
        expect_float(Self::NAME, "the input", &self.input)?;
        resized_shape(Self::NAME, self.input.shape(), &self.output_size, &self.scales).map(|_| ())
    }
}

/// The gradient of [`Interpolate`]: contributions in ascending output index, by fma from +0.
#[derive(Clone, Debug)]
pub struct InterpolateGrad {
    /// The gradient of the result.
    pub grad: Tensor,
    /// The shape of the forward pass's input.
    pub input_shape: Vec<usize>,
    /// As in the forward pass.
    pub scales: Vec<Option<f64>>,
    /// As in the forward pass.
    pub mode: InterpolateMode,
}

impl Op for InterpolateGrad {
    const NAME: &'static str = "interpolate";
    const PASS: Pass = Pass::Backward;
    type Plan = ();
    type Output = Tensor;

    fn inputs(&self) -> Vec<&Tensor> {
        vec![&self.grad]
    }

    fn plan(&self) -> Result<()> {
        expect_float(Self::NAME, "the gradient", &self.grad)?;
        checked_shape(Self::NAME, &self.input_shape)?;
        let output_size = self.grad.shape().get(2..).unwrap_or(&[]);
        let shape = resized_shape(Self::NAME, &self.input_shape, output_size, &self.scales)?;
        expect_shape(Self::NAME, "the gradient", &self.grad, &shape)
    }
}

fn resized_shape(
    op: &'static str,
    input: &[usize],
    output_size: &[usize],
    scales: &[Option<f64>],
) -> Result<Vec<usize>> {
    let (planes, size) = spatial(op, input, 1..=3)?;
    if output_size.len() != size.len() || scales.len() != size.len() {
        return Err(Error::invalid(
            op,
            format!(
                "an input of shape {input:?} cannot be resized to {output_size:?} with scales \
                 {scales:?}"
            ),
        ));
    }
    if scales.iter().flatten().any(|scale| !(*scale > 0.0 && scale.is_finite())) {
        return Err(Error::invalid(op, format!("scales must be positive, got {scales:?}")));
    }
    if size.iter().zip(output_size).any(|(&input, &output)| input == 0 && output != 0) {
        return Err(Error::invalid(
            op,
            format!("the spatial dimensions of the input must not be empty, got {input:?}"),
        ));
    }
    checked_shape(op, &[planes, output_size].concat())
}
