//! Sizes of windows, inputs and outputs.

use crate::error::{Error, Result, expect_countable};
use samebits_tensor_core::ops::PoolParams;
use std::ops::Range;

/// The sizes of one pooling: planes, windows and output. One and two dimensions are kept as
/// three with leading ones.
///
/// # Examples
///
/// ```
/// use samebits_cpu_kernels::pooling::Geometry;
///
/// // 8 planes of 5 x 7, windows of 3 x 3, stride 2, padding 1.
/// let geometry = Geometry::new("max_pool2d", 8, &[5, 7], &[3, 3], &[2, 2], &[1, 1], &[1, 1], false)?;
/// assert_eq!(geometry.output_size(), &[3, 4]);
/// assert_eq!(geometry.output_len(), 8 * 3 * 4);
/// # Ok::<(), samebits_cpu_kernels::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Geometry {
    pub(super) op: &'static str,
    pub(super) planes: usize,
    pub(super) input: [usize; 3],
    pub(super) output: [usize; 3],
    pub(super) kernel: [usize; 3],
    pub(super) stride: [usize; 3],
    pub(super) padding: [usize; 3],
    pub(super) dilation: [usize; 3],
    dims: usize,
}

impl Geometry {
    /// The geometry of windows of size `kernel`, `stride` apart, their elements `dilation`
    /// apart, over planes of size `input` padded by `padding` on both sides. With `ceil_mode` a
    /// last window may hang over the end, if it starts inside the input or its leading padding.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] if the sizes are not one to three numbers each, a kernel, stride or
    /// dilation is zero, the padding is more than half a window, no window fits, or the sizes are
    /// more than can be counted.
    ///
    /// # References
    ///
    /// `torch.nn.functional.max_pool2d`, `pooling_output_shape` in ATen.
    pub fn new(
        op: &'static str,
        planes: usize,
        input: &[usize],
        kernel: &[usize],
        stride: &[usize],
        padding: &[usize],
        dilation: &[usize],
        ceil_mode: bool,
    ) -> Result<Geometry> {
        let dims = input.len();
        if !(1..=3).contains(&dims) {
            return Err(Error::argument(op, format!("1 to 3 dimensions are pooled, got {dims}")));
        }
        let params = PoolParams {
            kernel: kernel.to_vec(),
            stride: stride.to_vec(),
            padding: padding.to_vec(),
            dilation: dilation.to_vec(),
            ceil_mode,
        };
        let output = params.output_size(op, input).map_err(Error::from_core)?;
        expect_countable(op, &[&[planes], input].concat())?;
        expect_countable(op, &[&[planes], &output[..]].concat())?;
        for d in 0..dims {
            // With 4, the sum of any two positions in a padded input can be counted too.
            let window = (kernel[d] - 1).saturating_mul(dilation[d]);
            expect_countable(op, &[4, window])?;
            expect_countable(op, &[4, input[d].saturating_add(padding[d].saturating_mul(2))])?;
        }
        let mut geometry = Geometry {
            op,
            planes,
            input: [1; 3],
            output: [1; 3],
            kernel: [1; 3],
            stride: [1; 3],
            padding: [0; 3],
            dilation: [1; 3],
            dims,
        };
        for d in 0..dims {
            let at = 3 - dims + d;
            geometry.input[at] = input[d];
            geometry.kernel[at] = kernel[d];
            geometry.stride[at] = stride[d];
            geometry.padding[at] = padding[d];
            geometry.dilation[at] = dilation[d];
            geometry.output[at] = output[d];
        }
        Ok(geometry)
    }

    /// The size of an output plane, in as many dimensions as the input was given in.
    #[must_use]
    pub fn output_size(&self) -> &[usize] {
        &self.output[3 - self.dims..]
    }

    /// Elements of the input, all planes together.
    #[must_use]
    pub fn input_len(&self) -> usize {
        self.planes * self.input_plane()
    }

    /// Elements of the output, all planes together.
    #[must_use]
    pub fn output_len(&self) -> usize {
        self.planes * self.output_plane()
    }

    pub(super) fn input_plane(&self) -> usize {
        self.input.iter().product()
    }

    pub(super) fn output_plane(&self) -> usize {
        self.output.iter().product()
    }

    /// The elements of the window of output `o` that are inside the input.
    #[inline(always)]
    pub(super) fn taps(&self, dim: usize, o: usize) -> Range<usize> {
        let (start, padding) = (o * self.stride[dim], self.padding[dim]);
        let first = padding.saturating_sub(start).div_ceil(self.dilation[dim]);
        let end = (padding + self.input[dim]).saturating_sub(start).div_ceil(self.dilation[dim]);
        let end = end.min(self.kernel[dim]);
        first.min(end)..end
    }

    /// The elements of a window that some output of dimension `dim` has inside the input, ascending,
    /// and these outputs. Steps over what is in the padding for all of them.
    #[inline(always)]
    pub(super) fn taps_of_all(&self, dim: usize) -> impl Iterator<Item = (usize, Range<usize>)> {
        let mut next = 0;
        std::iter::from_fn(move || {
            while next < self.kernel[dim] {
                let outputs = self.outputs_of_tap(dim, next);
                if !outputs.is_empty() {
                    next += 1;
                    return Some((next - 1, outputs));
                }
                // The last output that this element is in front of the input for comes first.
                let before = self.padding[dim].saturating_sub(next * self.dilation[dim]);
                let output =
                    before.div_ceil(self.stride[dim]).min(self.output[dim]).checked_sub(1)?;
                let shift = self.padding[dim] - output * self.stride[dim];
                next = shift.div_ceil(self.dilation[dim]);
            }
            None
        })
    }

    /// The outputs of dimension `dim` whose window has its element `tap` inside the input.
    #[inline(always)]
    pub(super) fn outputs_of_tap(&self, dim: usize, tap: usize) -> Range<usize> {
        let (stride, shift) = (self.stride[dim], tap * self.dilation[dim]);
        let first = self.padding[dim].saturating_sub(shift).div_ceil(stride);
        let end = (self.input[dim] + self.padding[dim]).saturating_sub(shift).div_ceil(stride);
        let end = end.min(self.output[dim]);
        first.min(end)..end
    }

    /// The input position of element `tap` of the window of output `o`, which is inside.
    #[inline(always)]
    pub(super) fn position(&self, dim: usize, o: usize, tap: usize) -> usize {
        o * self.stride[dim] + tap * self.dilation[dim] - self.padding[dim]
    }
}
