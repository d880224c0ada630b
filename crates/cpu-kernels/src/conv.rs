//! Convolutions of one to three spatial dimensions in a written order.
//!
//! [`Convolution`] checks shapes and parameters once; its methods are the passes. A transposed
//! convolution is the input gradient of a convolution.

mod cut;
mod exact;
mod gather;
mod geometry;
mod params;
mod source;
mod weight;
mod weights;

use crate::gemm::Real;
use params::{check_bias, check_channels, check_params, reach, shape, spatial};
use samebits_numerics::memory::OutOfMemory;

use geometry::DIMS;
pub(crate) use geometry::{Geometry, volume};
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

/// The most elements of a padded dimension, so that sums of a few coordinates do not wrap around.
const LARGEST: usize = isize::MAX as usize / 8;

const FORWARD: &str = "convolution";
const INPUT_GRADIENT: &str = "convolution input gradient";
const WEIGHT_GRADIENT: &str = "convolution weight gradient";

impl Convolution {
    /// Checks the shapes of input and weights against each other and the parameters.
    ///
    /// # Errors
    ///
    /// Any variant of [`enum@Error`] but `Length`, `NotApplicable` and `OutOfMemory`.
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
        let want = weight[1].saturating_mul(groups);
        check_channels(op, input, weight, groups, want)?;
        if !weight[0].is_multiple_of(groups) {
            return Err(Error::Groups { op, channels: weight[0], groups });
        }
        let size = spatial(&input[2..], 1);
        let kernel = spatial(&weight[2..], 1);
        let mut stride = spatial(&params.stride, 1);
        let padding = spatial(&params.padding, 0);
        let mut dilation = spatial(&params.dilation, 1);
        let mut output = [1; DIMS];
        for d in 0..DIMS {
            let reach = reach(kernel[d], dilation[d]).ok_or(Error::TooLarge { op })?;
            let padded = padding[d]
                .checked_mul(2)
                .and_then(|both| both.checked_add(size[d]))
                .filter(|&padded| padded <= LARGEST)
                .ok_or(Error::TooLarge { op })?;
            if padded < reach {
                let each = |f: &dyn Fn(usize) -> usize| (0..dimensions).map(f).collect();
                return Err(Error::KernelTooLarge {
                    op,
                    input: each(&|d| {
                        params.padding[d].saturating_mul(2).saturating_add(input[2 + d])
                    }),
                    kernel: each(&|d| {
                        (weight[2 + d] - 1).saturating_mul(params.dilation[d]).saturating_add(1)
                    }),
                });
            }
            output[d] = (padded - reach) / stride[d] + 1;
            // What nothing steps over may be any number: let it be one to compute with.
            stride[d] = stride[d].min(padded);
            if kernel[d] == 1 {
                dilation[d] = 1;
            }
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

    pub(crate) fn geometry(&self) -> &Geometry {
        &self.geometry
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
    /// [`Error::Length`] and [`Error::OutOfMemory`].
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
        gather::run(&self.geometry.forward(), input, weight, bias, output).map_err(short_of(op))
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
    /// [`Error::Length`] and [`Error::OutOfMemory`].
    pub fn input_gradient<T: Real>(
        &self,
        output_gradient: &[T],
        weight: &[T],
        input_gradient: &mut [T],
    ) -> Result<(), Error> {
        let op = INPUT_GRADIENT;
        self.geometry.check(
            op,
            ("input gradient", input_gradient),
            ("weights", weight),
            ("output gradient", output_gradient),
        )?;
        let pass = self.geometry.data_gradient();
        gather::run(&pass, output_gradient, weight, None, input_gradient).map_err(short_of(op))
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
    /// [`Error::Length`] and [`Error::OutOfMemory`].
    pub fn weight_gradient<T: Real>(
        &self,
        input: &[T],
        output_gradient: &[T],
        weight_gradient: &mut [T],
    ) -> Result<(), Error> {
        let op = WEIGHT_GRADIENT;
        self.geometry.check(
            op,
            ("input", input),
            ("weight gradient", weight_gradient),
            ("output gradient", output_gradient),
        )?;
        weight::run(&self.geometry, input, output_gradient, weight_gradient).map_err(short_of(op))
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
    /// [`Error::Length`] and [`Error::OutOfMemory`].
    pub fn weight_gradient_unordered<T: Real>(
        &self,
        input: &[T],
        output_gradient: &[T],
        weight_gradient: &mut [T],
    ) -> Result<(), Error> {
        let op = WEIGHT_GRADIENT;
        self.geometry.check(
            op,
            ("input", input),
            ("weight gradient", weight_gradient),
            ("output gradient", output_gradient),
        )?;
        weight::run_unordered(&self.geometry, input, output_gradient, weight_gradient)
            .map_err(short_of(op))
    }
}

pub(crate) fn short_of(op: &'static str) -> impl FnOnce(OutOfMemory) -> Error {
    move |OutOfMemory { bytes }| Error::OutOfMemory { op, bytes }
}
