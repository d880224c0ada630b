//! Windows of pooling.

use std::ops::Range;

use super::{Axis, Planes, spatial};
use crate::layout::numel;
use crate::{Error, Result};

/// The options of a pooling window; each list has one entry per spatial dimension.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolParams {
    /// The window's size.
    pub kernel: Vec<usize>,
    /// The distance between neighbouring windows.
    pub stride: Vec<usize>,
    /// The reach of the window past each border: at most half its size.
    pub padding: Vec<usize>,
    /// The distance between neighbouring taps; 1 for average pooling.
    pub dilation: Vec<usize>,
    /// True if the last window may reach past the padded input.
    pub ceil_mode: bool,
}

impl PoolParams {
    /// Returns a window of `kernel` on `rank` dimensions with a stride of its own size.
    pub fn square(rank: usize, kernel: usize) -> PoolParams {
        PoolParams {
            kernel: vec![kernel; rank],
            stride: vec![kernel; rank],
            padding: vec![0; rank],
            dilation: vec![1; rank],
            ceil_mode: false,
        }
    }

    /// Returns the shape of the result.
    ///
    /// # Errors
    ///
    /// As [`Pool::new`].
    pub fn output_shape(&self, op: &'static str, input: &[usize]) -> Result<Vec<usize>> {
        Pool::new(op, input, self).map(|pool| pool.output_shape().to_vec())
    }
}

/// The checked geometry of pooling windows.
///
/// # Examples
///
/// ```
/// use samebits_tensor_core::geometry::{Pool, PoolParams};
///
/// let params = PoolParams { stride: vec![2, 2], padding: vec![1, 1], ..PoolParams::square(2, 3) };
/// let pool = Pool::new("max_pool", &[1, 8, 5, 7], &params)?;
/// assert_eq!(pool.output_shape(), [1, 8, 3, 4]);
/// # Ok::<(), samebits_tensor_core::Error>(())
/// ```
///
/// # References
///
/// `torch.nn.functional.max_pool2d`, `pooling_output_shape` in ATen.
pub type Pool = Planes<PoolAxis>;

/// One dimension of a [`Pool`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolAxis {
    /// The size of the input.
    pub input: usize,
    /// The number of windows.
    pub output: usize,
    /// See [`PoolParams`].
    pub kernel: usize,
    /// See [`PoolParams`].
    pub stride: usize,
    /// See [`PoolParams`].
    pub padding: usize,
    /// See [`PoolParams`].
    pub dilation: usize,
}

impl Axis for PoolAxis {
    const UNIT: PoolAxis =
        PoolAxis { input: 1, output: 1, kernel: 1, stride: 1, padding: 0, dilation: 1 };

    fn input(&self) -> usize {
        self.input
    }

    fn output(&self) -> usize {
        self.output
    }
}

impl Pool {
    /// Checks and returns the windows over an input of shape `[n, channels, ..]`, with one to three
    /// spatial dimensions.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] if the parameters do not fit together, a kernel, stride or
    /// dilation is 0, the padding is more than half a window, no window fits, or a shape has too
    /// many elements.
    pub fn new(op: &'static str, input: &[usize], params: &PoolParams) -> Result<Pool> {
        let (_, size) = spatial(op, input, 1..=3)?;
        let lists = [&params.kernel, &params.stride, &params.padding, &params.dilation];
        if lists.iter().any(|list| list.len() != size.len()) {
            return Err(Error::invalid(
                op,
                format!("parameters {params:?} do not fit spatial dimensions of size {size:?}"),
            ));
        }
        Planes::build(op, input, size.len(), |dim, input| {
            PoolAxis::new(op, input, lists.map(|list| list[dim]), params.ceil_mode)
        })
    }
}

impl PoolAxis {
    fn new(
        op: &'static str,
        input: usize,
        [kernel, stride, padding, dilation]: [usize; 4],
        ceil_mode: bool,
    ) -> Result<PoolAxis> {
        if kernel == 0 || stride == 0 || dilation == 0 {
            return Err(Error::invalid(
                op,
                format!(
                    "kernel {kernel}, stride {stride} and dilation {dilation} must be at least 1"
                ),
            ));
        }
        let window = (kernel - 1).saturating_mul(dilation).saturating_add(1);
        // PyTorch's rule: with more padding, a window could lie wholly in it.
        if padding > window / 2 {
            return Err(Error::invalid(
                op,
                format!("padding {padding} is more than half the window of {window}"),
            ));
        }
        let padded = input.saturating_add(padding.saturating_mul(2));
        if input == 0 || padded < window {
            return Err(Error::invalid(
                op,
                format!("a window of {window} does not fit the padded size {padded}"),
            ));
        }
        // This limit on tensors also ensures that the sum of any two positions in a padded input
        // fits.
        numel(op, &[padded])?;
        let slack = padded - window;
        let mut output = slack / stride + 1;
        // A last window that reaches past the padded input must start inside the input or its
        // left padding.
        if ceil_mode && !slack.is_multiple_of(stride) {
            let start = output.saturating_mul(stride);
            output += usize::from(start < input + padding);
        }
        Ok(PoolAxis { input, output, kernel, stride, padding, dilation })
    }

    /// Returns the elements of the window of output `o` that are inside the input.
    #[inline(always)]
    pub fn taps(&self, o: usize) -> Range<usize> {
        let (start, padding) = (o * self.stride, self.padding);
        let first = padding.saturating_sub(start).div_ceil(self.dilation);
        let end = (padding + self.input).saturating_sub(start).div_ceil(self.dilation);
        let end = end.min(self.kernel);
        first.min(end)..end
    }

    /// Returns the outputs whose window has its element `tap` inside the input.
    #[inline(always)]
    pub fn outputs_of_tap(&self, tap: usize) -> Range<usize> {
        let (stride, shift) = (self.stride, tap * self.dilation);
        let first = self.padding.saturating_sub(shift).div_ceil(stride);
        let end = (self.input + self.padding).saturating_sub(shift).div_ceil(stride);
        let end = end.min(self.output);
        first.min(end)..end
    }

    /// Returns the elements of a window that lie inside the input for at least one output,
    /// ascending, each with these outputs. Skips elements that are always in the padding.
    #[inline(always)]
    pub fn taps_of_all(&self) -> impl Iterator<Item = (usize, Range<usize>)> {
        let mut next = 0;
        std::iter::from_fn(move || {
            while next < self.kernel {
                let outputs = self.outputs_of_tap(next);
                if !outputs.is_empty() {
                    next += 1;
                    return Some((next - 1, outputs));
                }
                // Starts from the last output for which this element lies in front of the input.
                let before = self.padding.saturating_sub(next * self.dilation);
                let output = before.div_ceil(self.stride).min(self.output).checked_sub(1)?;
                let shift = self.padding - output * self.stride;
                next = shift.div_ceil(self.dilation);
            }
            None
        })
    }

    /// Returns the input position of element `tap` of the window of output `o`, which must be
    /// inside.
    #[inline(always)]
    pub fn position(&self, o: usize, tap: usize) -> usize {
        o * self.stride + tap * self.dilation - self.padding
    }
}

/// A [`Pool`] that averages its windows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Average {
    pool: Pool,
    count_include_pad: bool,
    divisor_override: Option<i64>,
}

impl Average {
    /// Checks and returns the averages of the windows of `pool`. Padding counts as elements if
    /// `count_include_pad`; `divisor_override` replaces the number of elements.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] for a dilation other than 1, or a divisor of 0.
    pub fn new(
        pool: Pool,
        count_include_pad: bool,
        divisor_override: Option<i64>,
    ) -> Result<Average> {
        if divisor_override == Some(0) {
            return Err(Error::invalid(pool.op(), "the divisor must not be 0"));
        }
        let dilation = pool.axes().map(|axis| axis.dilation);
        if dilation != [1; 3] {
            return Err(Error::invalid(pool.op(), format!("dilation {dilation:?} must be 1")));
        }
        Ok(Average { pool, count_include_pad, divisor_override })
    }

    /// Returns the windows.
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Returns true if padding counts as elements.
    pub fn count_include_pad(&self) -> bool {
        self.count_include_pad
    }

    /// Returns the divisor of every window, if one was given.
    pub fn divisor_override(&self) -> Option<i64> {
        self.divisor_override
    }

    /// Returns the factor of dimension `dim` (0 to 2) in the divisor of output `o`: the size of the
    /// window inside the padded input or inside the input. It is at least 1, so that an empty
    /// window gives 0 and not NaN.
    ///
    /// # Panics
    ///
    /// If `dim` is 3 or more.
    pub fn count(&self, dim: usize, o: usize) -> usize {
        let PoolAxis { input, kernel, stride, padding, .. } = self.pool.axes()[dim];
        // Positions count from the start of the padding; the padding at the end counts up to its
        // end.
        let start = o * stride;
        let (low, high) = if self.count_include_pad {
            (0, input + 2 * padding)
        } else {
            (padding, padding + input)
        };
        (start + kernel).min(high).saturating_sub(start.max(low)).max(1)
    }
}

/// The checked geometry of pooling to a given size: output `o` of a dimension covers the inputs
/// from `floor(o · input / output)` to `ceil((o + 1) · input / output)`.
///
/// # References
///
/// `torch.nn.functional.adaptive_avg_pool2d`.
pub type AdaptivePool = Planes<AdaptiveAxis>;

/// One dimension of an [`AdaptivePool`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdaptiveAxis {
    /// The size of the input.
    pub input: usize,
    /// The number of windows.
    pub output: usize,
}

impl Axis for AdaptiveAxis {
    const UNIT: AdaptiveAxis = AdaptiveAxis { input: 1, output: 1 };

    fn input(&self) -> usize {
        self.input
    }

    fn output(&self) -> usize {
        self.output
    }
}

impl AdaptivePool {
    /// Checks and returns the windows over an input of shape `[n, channels, ..]`, with one to three
    /// spatial dimensions, that give results of size `output`.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] if the sizes do not fit together, a spatial dimension is empty,
    /// or there are too many elements.
    pub fn new(op: &'static str, input: &[usize], output: &[usize]) -> Result<AdaptivePool> {
        let (_, size) = spatial(op, input, 1..=3)?;
        if output.len() != size.len() {
            return Err(Error::invalid(
                op,
                format!("an input of shape {input:?} cannot be pooled to the size {output:?}"),
            ));
        }
        if size.contains(&0) {
            return Err(Error::invalid(
                op,
                format!("the spatial dimensions of the input must not be empty, got {input:?}"),
            ));
        }
        Planes::build(op, input, size.len(), |dim, input| {
            // The start of a window is a quotient of products of these two sizes.
            numel(op, &[input, output[dim]])?;
            Ok(AdaptiveAxis { input, output: output[dim] })
        })
    }
}

impl AdaptiveAxis {
    /// Returns the inputs that output `o` covers.
    #[inline(always)]
    pub fn window(&self, o: usize) -> Range<usize> {
        o * self.input / self.output..((o + 1) * self.input).div_ceil(self.output)
    }
}

/// The checked geometry of fractional pooling. The positions of its windows depend on random
/// samples: see [`FractionalMaxPool`](crate::ops::FractionalMaxPool).
///
/// # References
///
/// B. Graham, *Fractional Max-Pooling*, 2014; `torch.nn.functional.fractional_max_pool2d`.
pub type FractionalPool = Planes<FractionalAxis>;

/// One dimension of a [`FractionalPool`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FractionalAxis {
    /// The size of the input.
    pub input: usize,
    /// The number of windows.
    pub output: usize,
    /// The size of a window.
    pub kernel: usize,
}

impl Axis for FractionalAxis {
    const UNIT: FractionalAxis = FractionalAxis { input: 1, output: 1, kernel: 1 };

    fn input(&self) -> usize {
        self.input
    }

    fn output(&self) -> usize {
        self.output
    }
}

impl FractionalPool {
    /// Checks and returns windows of size `kernel` over an input of shape `[n, channels, ..]`, with
    /// two or three spatial dimensions, that give results of size `output`.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] if the sizes do not fit together, a kernel or output size is 0,
    /// `output + kernel - 1` exceeds the input, or there are too many elements.
    pub fn new(
        op: &'static str,
        input: &[usize],
        output: &[usize],
        kernel: &[usize],
    ) -> Result<FractionalPool> {
        let (_, size) = spatial(op, input, 2..=3)?;
        if kernel.len() != size.len() || output.len() != size.len() {
            return Err(Error::invalid(
                op,
                format!(
                    "a kernel {kernel:?} and an output size {output:?} do not fit an input of \
                     shape {input:?}"
                ),
            ));
        }
        Planes::build(op, input, size.len(), |dim, input| {
            let (kernel, output) = (kernel[dim], output[dim]);
            let needed = output.saturating_add(kernel).saturating_sub(1);
            if kernel == 0 || output == 0 || needed > input {
                return Err(Error::invalid(
                    op,
                    format!("{output} windows of {kernel} do not fit an input of {input}"),
                ));
            }
            Ok(FractionalAxis { input, output, kernel })
        })
    }

    /// Returns the total number of samples, of all planes.
    pub fn samples_len(&self) -> usize {
        self.planes() * self.dims()
    }
}
