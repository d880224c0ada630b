//! Convolutions of one to three spatial dimensions in a written order.
//!
//! [`Convolution`] and [`TransposedConvolution`] check shapes and parameters once; their methods
//! are the passes. All of them are the same two sums seen from different sides, so that the
//! transposed convolution has the very bits of the data gradient of the other.

mod cut;
mod exact;
mod gather;
mod geometry;
mod params;
mod source;
mod weight;
mod weights;

use crate::gemm::Real;
use geometry::{DIMS, Geometry};
use params::{check_bias, check_channels, check_params, reach, shape, spatial};

pub use params::{Error, Params};
pub use weight::WEIGHT_BLOCK;

/// A checked convolution.
///
/// # Shapes
///
/// Input: batch, channels, size. Weights: output channels, channels of a group, kernel size.
/// Output: batch, output channels, output size. All tensors are contiguous, row-major.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Convolution {
    geometry: Geometry,
    dimensions: usize,
}

/// A checked transposed convolution.
///
/// # Shapes
///
/// Input: batch, channels, size. Weights: channels, output channels of a group, kernel size.
/// Output: batch, output channels, output size. All tensors are contiguous, row-major.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransposedConvolution {
    /// The convolution of which this is the data gradient.
    geometry: Geometry,
    dimensions: usize,
}

const FORWARD: &str = "convolution";
const TRANSPOSED: &str = "transposed convolution";

impl Convolution {
    /// Checks the shapes of input and weights against each other and the parameters.
    ///
    /// # Errors
    ///
    /// Any variant of [`enum@Error`] but `EmptyOutput`, `OutputPadding` and `Length`.
    ///
    /// # Examples
    ///
    /// ```
    /// use samebits_cpu_kernels::conv::{Convolution, Error, Params};
    ///
    /// let conv = Convolution::new(&[8, 3, 32, 32], &[16, 3, 5, 5], &Params::new(2))?;
    /// assert_eq!(conv.output_shape(), [8, 16, 28, 28]);
    /// let error = Convolution::new(&[8, 4, 32, 32], &[16, 3, 5, 5], &Params::new(2));
    /// assert!(matches!(error, Err(Error::Channels { want: 3, got: 4, .. })));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn new(input: &[usize], weight: &[usize], params: &Params) -> Result<Self, Error> {
        let op = FORWARD;
        let dimensions = check_params(op, input, weight, params)?;
        let groups = params.groups;
        let want = weight[1] * groups;
        check_channels(op, input, weight, groups, want)?;
        if !weight[0].is_multiple_of(groups) {
            return Err(Error::Groups { op, channels: weight[0], groups });
        }
        let size = spatial(&input[2..], 1);
        let kernel = spatial(&weight[2..], 1);
        let stride = spatial(&params.stride, 1);
        let padding = spatial(&params.padding, 0);
        let dilation = spatial(&params.dilation, 1);
        let mut output = [1; DIMS];
        for d in 0..DIMS {
            let reach = reach(kernel[d], dilation[d]).ok_or(Error::TooLarge { op })?;
            let padded = padding[d]
                .checked_mul(2)
                .and_then(|both| both.checked_add(size[d]))
                .ok_or(Error::TooLarge { op })?;
            if padded < reach {
                return Err(Error::KernelTooLarge {
                    op,
                    input: (0..dimensions).map(|d| input[2 + d] + 2 * params.padding[d]).collect(),
                    kernel: (0..dimensions)
                        .map(|d| (weight[2 + d] - 1) * params.dilation[d] + 1)
                        .collect(),
                });
            }
            output[d] = (padded - reach) / stride[d] + 1;
        }
        let geometry = Geometry {
            batch: input[0],
            groups,
            inputs: weight[1],
            outputs: weight[0] / groups,
            input: size,
            output,
            kernel,
            stride,
            padding,
            dilation,
        };
        geometry.lengths().ok_or(Error::TooLarge { op })?;
        Ok(Convolution { geometry, dimensions })
    }

    /// Shape of the output.
    #[must_use]
    pub fn output_shape(&self) -> Vec<usize> {
        let g = &self.geometry;
        shape(g.batch, g.groups * g.outputs, g.output, self.dimensions)
    }

    /// The convolution (without flipping the kernel), plus `bias` for each output channel.
    ///
    /// # Determinism
    ///
    /// Portable. k runs over input channels of the group and the kernel, row-major. Taps in the
    /// padding are skipped. Within each block of [`K_BLOCK`](crate::matmul::K_BLOCK) consecutive
    /// k, skipped ones counted, `acc = fma(weight, input, acc)` from +0 in ascending k; then the
    /// blocks are added in ascending order and the bias last, one rounding each. A NaN is the
    /// canonical one.
    ///
    /// # Errors
    ///
    /// [`Error::Length`].
    ///
    /// # Examples
    ///
    /// ```
    /// use samebits_cpu_kernels::conv::{Convolution, Params};
    ///
    /// let params = Params { padding: vec![1], ..Params::new(1) };
    /// let conv = Convolution::new(&[1, 1, 4], &[1, 1, 3], &params)?;
    /// let mut output = [0.0f32; 4];
    /// conv.forward(&[1.0, 2.0, 3.0, 4.0], &[1.0, 10.0, 100.0], Some(&[0.5]), &mut output)?;
    /// assert_eq!(output, [210.5, 321.5, 432.5, 43.5]);
    /// # Ok::<(), samebits_cpu_kernels::conv::Error>(())
    /// ```
    pub fn forward<T: Real>(
        &self,
        input: &[T],
        weight: &[T],
        bias: Option<&[T]>,
        output: &mut [T],
    ) -> Result<(), Error> {
        let op = FORWARD;
        self.geometry.check(op, ("input", input), ("weights", weight), ("output", output))?;
        check_bias(op, bias, self.geometry.groups * self.geometry.outputs)?;
        gather::run(&self.geometry.forward(), input, weight, bias, output);
        Ok(())
    }

    /// The gradient of the input, given the gradient of the output.
    ///
    /// # Determinism
    ///
    /// Portable. k runs over output channels of the group and the kernel, row-major; taps that
    /// meet no output are skipped; otherwise as [`forward`](Self::forward).
    ///
    /// # Errors
    ///
    /// [`Error::Length`].
    pub fn input_gradient<T: Real>(
        &self,
        output_gradient: &[T],
        weight: &[T],
        input_gradient: &mut [T],
    ) -> Result<(), Error> {
        self.geometry.check(
            "convolution input gradient",
            ("input gradient", input_gradient),
            ("weights", weight),
            ("output gradient", output_gradient),
        )?;
        let pass = self.geometry.data_gradient();
        gather::run(&pass, output_gradient, weight, None, input_gradient);
        Ok(())
    }

    /// The gradient of the weights, given the gradient of the output.
    ///
    /// # Determinism
    ///
    /// Portable. k runs over images and output positions, row-major. Positions whose tap lies in
    /// the padding are skipped. Within each block of [`WEIGHT_BLOCK`] consecutive k, skipped ones
    /// counted, `acc = fma(input, output_gradient, acc)` from +0 in ascending k; then the blocks
    /// are added in ascending order, one rounding each. A NaN is the canonical one, and an empty
    /// batch gives +0.
    ///
    /// # Errors
    ///
    /// [`Error::Length`].
    pub fn weight_gradient<T: Real>(
        &self,
        input: &[T],
        output_gradient: &[T],
        weight_gradient: &mut [T],
    ) -> Result<(), Error> {
        self.geometry.check(
            "convolution weight gradient",
            ("input", input),
            ("weight gradient", weight_gradient),
            ("output gradient", output_gradient),
        )?;
        weight::run(&self.geometry, input, output_gradient, weight_gradient);
        Ok(())
    }

    /// [`weight_gradient`](Self::weight_gradient) with the sums of the threads merged in the
    /// order in which they finish, as atomic additions would.
    ///
    /// # Determinism
    ///
    /// Not guaranteed: the last bits can differ from run to run. Padding positions multiply with
    /// zero.
    ///
    /// # Errors
    ///
    /// [`Error::Length`].
    pub fn weight_gradient_unordered<T: Real>(
        &self,
        input: &[T],
        output_gradient: &[T],
        weight_gradient: &mut [T],
    ) -> Result<(), Error> {
        self.geometry.check(
            "convolution weight gradient",
            ("input", input),
            ("weight gradient", weight_gradient),
            ("output gradient", output_gradient),
        )?;
        weight::run_unordered(&self.geometry, input, output_gradient, weight_gradient);
        Ok(())
    }
}

impl TransposedConvolution {
    /// Checks the shapes of input and weights against each other and the parameters.
    ///
    /// `output_padding` adds to the far side of the output, to choose among the output sizes that
    /// a strided convolution would map to this input size.
    ///
    /// # Errors
    ///
    /// Any variant of [`enum@Error`] but `KernelTooLarge` and `Length`.
    ///
    /// # Examples
    ///
    /// ```
    /// use samebits_cpu_kernels::conv::{Params, TransposedConvolution};
    ///
    /// let params = Params { stride: vec![2, 2], padding: vec![1, 1], ..Params::new(2) };
    /// let up = TransposedConvolution::new(&[1, 8, 7, 7], &[8, 4, 3, 3], &params, &[1, 1])?;
    /// assert_eq!(up.output_shape(), [1, 4, 14, 14]);
    /// # Ok::<(), samebits_cpu_kernels::conv::Error>(())
    /// ```
    pub fn new(
        input: &[usize],
        weight: &[usize],
        params: &Params,
        output_padding: &[usize],
    ) -> Result<Self, Error> {
        let op = TRANSPOSED;
        let dimensions = check_params(op, input, weight, params)?;
        if output_padding.len() != dimensions {
            let (got, want) = (output_padding.len(), dimensions);
            return Err(Error::ParameterCount { op, what: "output padding", got, want });
        }
        let groups = params.groups;
        check_channels(op, input, weight, groups, weight[0])?;
        if !weight[0].is_multiple_of(groups) {
            return Err(Error::Groups { op, channels: weight[0], groups });
        }
        for d in 0..dimensions {
            if output_padding[d] >= params.stride[d].max(params.dilation[d]) {
                return Err(Error::OutputPadding {
                    op,
                    output_padding: output_padding.to_vec(),
                    stride: params.stride.clone(),
                    dilation: params.dilation.clone(),
                });
            }
        }
        let size = spatial(&input[2..], 1);
        let kernel = spatial(&weight[2..], 1);
        let stride = spatial(&params.stride, 1);
        let padding = spatial(&params.padding, 0);
        let dilation = spatial(&params.dilation, 1);
        let more = spatial(output_padding, 0);
        let mut full = [0; DIMS];
        for d in 0..DIMS {
            full[d] = (size[d] - 1)
                .checked_mul(stride[d])
                .and_then(|n| n.checked_add(reach(kernel[d], dilation[d])?)?.checked_add(more[d]))
                .ok_or(Error::TooLarge { op })?;
        }
        if (0..DIMS).any(|d| padding[d] >= full[d].div_ceil(2)) {
            return Err(Error::EmptyOutput {
                op,
                full: full[DIMS - dimensions..].to_vec(),
                padding: params.padding.clone(),
            });
        }
        let geometry = Geometry {
            batch: input[0],
            groups,
            inputs: weight[1],
            outputs: weight[0] / groups,
            input: std::array::from_fn(|d| full[d] - 2 * padding[d]),
            output: size,
            kernel,
            stride,
            padding,
            dilation,
        };
        geometry.lengths().ok_or(Error::TooLarge { op })?;
        Ok(TransposedConvolution { geometry, dimensions })
    }

    /// Shape of the output.
    #[must_use]
    pub fn output_shape(&self) -> Vec<usize> {
        let g = &self.geometry;
        shape(g.batch, g.groups * g.inputs, g.input, self.dimensions)
    }

    /// The transposed convolution, plus `bias` for each output channel.
    ///
    /// # Determinism
    ///
    /// Portable: the order of [`Convolution::input_gradient`], with k over the input channels of
    /// the group and the kernel, row-major. The bias is added last, one rounding.
    ///
    /// # Errors
    ///
    /// [`Error::Length`].
    ///
    /// # Examples
    ///
    /// ```
    /// use samebits_cpu_kernels::conv::{Params, TransposedConvolution};
    ///
    /// let params = Params { stride: vec![2], ..Params::new(1) };
    /// let up = TransposedConvolution::new(&[1, 1, 2], &[1, 1, 2], &params, &[0])?;
    /// let mut output = [0.0f32; 4];
    /// up.forward(&[1.0, 2.0], &[1.0, 10.0], None, &mut output)?;
    /// assert_eq!(output, [1.0, 10.0, 2.0, 20.0]);
    /// # Ok::<(), samebits_cpu_kernels::conv::Error>(())
    /// ```
    pub fn forward<T: Real>(
        &self,
        input: &[T],
        weight: &[T],
        bias: Option<&[T]>,
        output: &mut [T],
    ) -> Result<(), Error> {
        let op = TRANSPOSED;
        self.geometry.check(op, ("output", output), ("weights", weight), ("input", input))?;
        check_bias(op, bias, self.geometry.groups * self.geometry.inputs)?;
        gather::run(&self.geometry.data_gradient(), input, weight, bias, output);
        Ok(())
    }

    /// The gradient of the input, given the gradient of the output.
    ///
    /// # Determinism
    ///
    /// Portable: the order of [`Convolution::forward`], with k over the output channels of the
    /// group and the kernel, row-major.
    ///
    /// # Errors
    ///
    /// [`Error::Length`].
    pub fn input_gradient<T: Real>(
        &self,
        output_gradient: &[T],
        weight: &[T],
        input_gradient: &mut [T],
    ) -> Result<(), Error> {
        self.geometry.check(
            "transposed convolution input gradient",
            ("output gradient", output_gradient),
            ("weights", weight),
            ("input gradient", input_gradient),
        )?;
        let pass = self.geometry.forward();
        gather::run(&pass, output_gradient, weight, None, input_gradient);
        Ok(())
    }

    /// The gradient of the weights, given the gradient of the output.
    ///
    /// # Determinism
    ///
    /// Portable: the order of [`Convolution::weight_gradient`], with k over images and positions
    /// of the input.
    ///
    /// # Errors
    ///
    /// [`Error::Length`].
    pub fn weight_gradient<T: Real>(
        &self,
        input: &[T],
        output_gradient: &[T],
        weight_gradient: &mut [T],
    ) -> Result<(), Error> {
        self.check_weight_gradient(input, output_gradient, weight_gradient)?;
        weight::run(&self.geometry, output_gradient, input, weight_gradient);
        Ok(())
    }

    /// [`weight_gradient`](Self::weight_gradient) with the sums of the threads merged in the
    /// order in which they finish.
    ///
    /// # Determinism
    ///
    /// Not guaranteed, as [`Convolution::weight_gradient_unordered`].
    ///
    /// # Errors
    ///
    /// [`Error::Length`].
    pub fn weight_gradient_unordered<T: Real>(
        &self,
        input: &[T],
        output_gradient: &[T],
        weight_gradient: &mut [T],
    ) -> Result<(), Error> {
        self.check_weight_gradient(input, output_gradient, weight_gradient)?;
        weight::run_unordered(&self.geometry, output_gradient, input, weight_gradient);
        Ok(())
    }

    fn check_weight_gradient<T>(
        &self,
        input: &[T],
        output_gradient: &[T],
        weight_gradient: &[T],
    ) -> Result<(), Error> {
        self.geometry.check(
            "transposed convolution weight gradient",
            ("output gradient", output_gradient),
            ("weight gradient", weight_gradient),
            ("input", input),
        )
    }
}
