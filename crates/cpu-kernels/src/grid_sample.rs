//! Sampling of an image or a volume at given points.
//!
//! # Layouts
//!
//! `input` (batch, channels, height, width) or (batch, channels, depth, height, width), `grid`
//! (batch, points, 2 or 3) with the coordinates (x, y) or (x, y, z) of each point, `out` (batch,
//! channels, points); all contiguous.
//!
//! # What is computed
//!
//! Where the taps of a point lie and what they weigh is computed in f64, as PyTorch describes
//! it; a weight is then rounded to the element type. Taps outside the input are skipped; a
//! point with a coordinate that is not a number has none.
//!
//! - An output starts from `+0` and takes its taps in row-major order, each by one
//!   `mul_add(input, weight, sum)`.
//! - The gradient of the input is an irregular sum, see [`scatter`](crate::scatter): its addends
//!   are `gradient * weight`, rounded.
//! - The gradient of a coordinate is computed in f64: for each channel in ascending order the
//!   sum over the taps of `input * weight'` times the channel's gradient is added to `+0`; the
//!   result is multiplied by the derivative of the tap position and rounded once.

mod taps;

use crate::error::{Error, Result, expect_countable, expect_len};
use crate::scatter::{Checked, Stored};
use crate::{Float, memory, parallel};
use samebits_numerics::simd::{self, Kernel};
use taps::{ListTaps, Taps};

pub use samebits_tensor_core::ops::{GridMode, GridPadding, GridParams};

/// The sizes and the options of one sampling.
///
/// # Examples
///
/// ```
/// use samebits_cpu_kernels::grid_sample::{GridMode, GridPadding, GridSample};
///
/// let sample =
///     GridSample::new("grid_sample", 1, 1, &[2, 2], 1, GridMode::Linear, GridPadding::Zeros, true)?;
/// let mut out = [0.0f32];
/// sample.forward(&[1.0, 2.0, 3.0, 4.0], &[0.0, 0.0], &mut out)?;
/// assert_eq!(out, [2.5]);
/// # Ok::<(), samebits_cpu_kernels::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GridSample {
    op: &'static str,
    batch: usize,
    channels: usize,
    dims: usize,
    /// Depth, height, width; the depth of an image is 1.
    input: [usize; 3],
    points: usize,
    mode: GridMode,
    padding: GridPadding,
    align_corners: bool,
}

impl GridSample {
    /// The sampling of `points` points in each of `batch` inputs of `channels` channels of size
    /// `input`. With `align_corners` the coordinates -1 and 1 are the centres of the corner
    /// elements, otherwise their outer corners.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] if the input has not two or three nonzero sizes, for
    /// [`GridMode::Cubic`] in three dimensions, or if the sizes are more elements than can be
    /// counted.
    ///
    /// # References
    ///
    /// `torch.nn.functional.grid_sample`; `GridSampler.h` in ATen.
    pub fn new(
        op: &'static str,
        batch: usize,
        channels: usize,
        input: &[usize],
        points: usize,
        mode: GridMode,
        padding: GridPadding,
        align_corners: bool,
    ) -> Result<GridSample> {
        let dims = input.len();
        if !(2..=3).contains(&dims) || input.contains(&0) {
            return Err(Error::argument(
                op,
                format!("the input must have 2 or 3 sizes that are not 0, got {input:?}"),
            ));
        }
        if dims == 3 && mode == GridMode::Cubic {
            return Err(Error::argument(op, "cubic sampling is for two dimensions"));
        }
        expect_countable(op, &[&[batch, channels], input].concat())?;
        expect_countable(op, &[batch, points, dims])?;
        expect_countable(op, &[batch, channels, points])?;
        let mut size = [1; 3];
        size[3 - dims..].copy_from_slice(input);
        Ok(GridSample {
            op,
            batch,
            channels,
            dims,
            input: size,
            points,
            mode,
            padding,
            align_corners,
        })
    }

    /// Elements of the input.
    #[must_use]
    pub fn input_len(&self) -> usize {
        self.batch * self.channels * self.plane()
    }

    /// Elements of the grid.
    #[must_use]
    pub fn grid_len(&self) -> usize {
        self.batch * self.points * self.dims
    }

    /// Elements of the output.
    #[must_use]
    pub fn output_len(&self) -> usize {
        self.batch * self.channels * self.points
    }

    /// Samples `input` at the points of `grid`.
    ///
    /// # Shapes
    ///
    /// As the [module](self) says.
    ///
    /// # Determinism
    ///
    /// Portable: see the [module](self).
    ///
    /// # Errors
    ///
    /// [`Error::Length`] if a slice does not fit; [`Error::OutOfMemory`].
    pub fn forward<T: Float>(&self, input: &[T], grid: &[T], out: &mut [T]) -> Result<()> {
        self.check(input.len(), grid.len(), out.len())?;
        if out.is_empty() {
            return Ok(());
        }
        let inputs = self.channels * self.plane();
        let images = parallel::chunks_mut(out, self.channels * self.points).enumerate();
        images.try_for_each(|(n, out)| {
            let grid = &grid[n * self.points * self.dims..][..self.points * self.dims];
            let rows = self.pixels(&input[n * inputs..][..inputs])?;
            let mut values = memory::filled(self.op, out.len(), T::ZERO)?;
            parallel::rows(self.channels, &mut values, |start, values| {
                let first = start / self.channels;
                simd::dispatch(SamplePoints { sample: self, rows: &rows, grid, first, values });
            });
            self.planes(&values, self.points, out);
            Ok(())
        })
    }

    /// The gradient of [`forward`](GridSample::forward) for the input.
    ///
    /// # Shapes
    ///
    /// `grad_out` as the output; `grad_input` as the input, overwritten.
    ///
    /// # Determinism
    ///
    /// Portable: see the [module](self).
    ///
    /// # Errors
    ///
    /// [`Error::Length`] if a slice does not fit; [`Error::OutOfMemory`].
    pub fn input_backward<T: Float>(
        &self,
        grad_out: &[T],
        grid: &[T],
        grad_input: &mut [T],
    ) -> Result<()> {
        self.check(grad_input.len(), grid.len(), grad_out.len())?;
        if grad_out.is_empty() {
            grad_input.fill(T::ZERO);
            return Ok(());
        }
        let outputs = self.channels * self.points;
        let each = self.channels * self.plane();
        parallel::chunks_mut(grad_input, each).enumerate().try_for_each(|(n, grad_input)| {
            let grid = &grid[n * self.points * self.dims..][..self.points * self.dims];
            let taps = simd::dispatch(ListTaps { sample: self, grid })?;
            let grads = self.pixels(&grad_out[n * outputs..][..outputs])?;
            let mut sums = memory::filled(self.op, grad_input.len(), T::ZERO)?;
            let addends = Stored {
                data: &grads,
                place: |i: usize| taps.points[i] * self.channels,
                form: |i: usize, g: T| g * taps.weights[i],
            };
            let places = Checked(self.op, &taps.places);
            T::add_rows_to(&mut sums, true, self.channels, &places, &addends)?;
            self.planes(&sums, self.plane(), grad_input);
            Ok(())
        })
    }

    /// The gradient of [`forward`](GridSample::forward) for the grid.
    ///
    /// # Shapes
    ///
    /// `grad_out` as the output, `input` and `grid` as for the forward pass; `grad_grid` as the
    /// grid, overwritten.
    ///
    /// # Determinism
    ///
    /// Portable: see the [module](self).
    ///
    /// # Errors
    ///
    /// [`Error::Length`] if a slice does not fit; [`Error::OutOfMemory`].
    pub fn grid_backward<T: Float>(
        &self,
        grad_out: &[T],
        input: &[T],
        grid: &[T],
        grad_grid: &mut [T],
    ) -> Result<()> {
        self.check(input.len(), grid.len(), grad_out.len())?;
        expect_len(self.op, "grad_grid", grad_grid.len(), self.grid_len())?;
        if self.mode == GridMode::Nearest || grad_grid.is_empty() || grad_out.is_empty() {
            grad_grid.fill(T::ZERO);
            return Ok(());
        }
        let (inputs, outputs) = (self.channels * self.plane(), self.channels * self.points);
        let coordinates = self.points * self.dims;
        parallel::chunks_mut(grad_grid, coordinates).enumerate().try_for_each(|(n, grad_grid)| {
            let rows = self.pixels(&input[n * inputs..][..inputs])?;
            let grads = self.pixels(&grad_out[n * outputs..][..outputs])?;
            let grid = &grid[n * coordinates..][..coordinates];
            parallel::pieces_of(64 * self.dims, grad_grid, |start, grad_grid| {
                let grid = &grid[start..start + grad_grid.len()];
                let grads = &grads[start / self.dims * self.channels..];
                simd::dispatch(PointGradients {
                    sample: self,
                    rows: &rows,
                    grads,
                    grid,
                    grad_grid,
                });
            });
            Ok(())
        })
    }

    fn check(&self, input: usize, grid: usize, out: usize) -> Result<()> {
        expect_len(self.op, "the input", input, self.input_len())?;
        expect_len(self.op, "grid", grid, self.grid_len())?;
        expect_len(self.op, "the output", out, self.output_len())
    }

    fn plane(&self) -> usize {
        self.input.iter().product()
    }

    /// (channels, places) as (places, channels): what a point takes from all channels then lies
    /// side by side.
    fn pixels<T: Float>(&self, planes: &[T]) -> Result<Vec<T>> {
        let places = planes.len() / self.channels.max(1);
        let mut pixels = memory::filled(self.op, planes.len(), T::ZERO)?;
        parallel::rows(self.channels, &mut pixels, |start, pixels| {
            let first = start / self.channels;
            let count = pixels.len() / self.channels;
            T::transpose(&planes[first..], places, (self.channels, count), pixels, self.channels);
        });
        Ok(pixels)
    }

    /// The inverse of [`pixels`](GridSample::pixels).
    fn planes<T: Float>(&self, pixels: &[T], places: usize, planes: &mut [T]) {
        // Enough planes at a time that what a pixel holds of them is a cache line.
        parallel::pieces_of(GROUP * places, planes, |start, planes| {
            let (first, count) = (start / places, planes.len() / places);
            T::transpose(&pixels[first..], self.channels, (places, count), planes, places);
        });
    }
}

/// Channels that are computed together.
const GROUP: usize = 16;

/// The values of consecutive points, all channels of each.
struct SamplePoints<'a, T> {
    sample: &'a GridSample,
    rows: &'a [T],
    grid: &'a [T],
    first: usize,
    values: &'a mut [T],
}

impl<T: Float> Kernel for SamplePoints<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let GridSample { channels, dims, .. } = *self.sample;
        let points = self.grid.chunks_exact(dims).skip(self.first);
        let mut found = Taps::new();
        for (at, values) in points.zip(self.values.chunks_exact_mut(channels)) {
            self.sample.find_taps(at, &mut found);
            let taps = found.as_slice();
            let mut groups = values.chunks_exact_mut(GROUP);
            let mut c = 0;
            for group in &mut groups {
                let mut sums = [T::ZERO; GROUP];
                for tap in taps {
                    let weight = T::from_f64(tap.weight);
                    let row = &self.rows[tap.place * channels + c..][..GROUP];
                    for (sum, &x) in sums.iter_mut().zip(row) {
                        *sum = x.mul_add(weight, *sum);
                    }
                }
                for (value, sum) in group.iter_mut().zip(sums) {
                    *value = sum.canonical();
                }
                c += GROUP;
            }
            let rest = groups.into_remainder();
            let mut sums = [T::ZERO; GROUP];
            let sums = &mut sums[..rest.len()];
            for tap in taps {
                let weight = T::from_f64(tap.weight);
                let row = &self.rows[tap.place * channels + c..][..rest.len()];
                for (sum, &x) in sums.iter_mut().zip(row) {
                    *sum = x.mul_add(weight, *sum);
                }
            }
            for (value, sum) in rest.iter_mut().zip(sums) {
                *value = sum.canonical();
            }
        }
    }
}

/// The gradients of consecutive points' coordinates.
struct PointGradients<'a, T> {
    sample: &'a GridSample,
    rows: &'a [T],
    /// From the first of the points on.
    grads: &'a [T],
    grid: &'a [T],
    grad_grid: &'a mut [T],
}

impl<T: Float> Kernel for PointGradients<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let dims = self.sample.dims;
        let mut taps = Taps::new();
        let points =
            self.grid.chunks_exact(dims).zip(self.grads.chunks_exact(self.sample.channels));
        for ((at, grads), out) in points.zip(self.grad_grid.chunks_exact_mut(dims)) {
            // The third dimension of an image has no slope.
            let sums = match dims {
                2 => point_gradient::<T, 2>(self.sample, self.rows, grads, at, &mut taps),
                _ => point_gradient::<T, 3>(self.sample, self.rows, grads, at, &mut taps),
            };
            for (out, sum) in out.iter_mut().zip(sums) {
                *out = T::from_f64(sum).canonical();
            }
        }
    }
}

/// The gradient of the coordinates (x, y, z) of one point.
#[inline(always)]
fn point_gradient<T: Float, const DIMS: usize>(
    sample: &GridSample,
    rows: &[T],
    grads: &[T],
    at: &[T],
    taps: &mut Taps,
) -> [f64; 3] {
    sample.find_taps(at, taps);
    let mut sums = [0.0; DIMS];
    let mut c = 0;
    let mut groups = grads.chunks_exact(GROUP);
    for grads in &mut groups {
        let mut inner = [[0.0f64; GROUP]; DIMS];
        for tap in taps.as_slice() {
            let row = &rows[tap.place * sample.channels + c..][..GROUP];
            for (inner, slope) in inner.iter_mut().zip(tap.slopes) {
                for (inner, &x) in inner.iter_mut().zip(row) {
                    *inner += x.into() * slope;
                }
            }
        }
        for (sum, inner) in sums.iter_mut().zip(inner) {
            for (inner, &grad) in inner.iter().zip(grads) {
                *sum += grad.into() * inner;
            }
        }
        c += GROUP;
    }
    for (offset, &grad) in groups.remainder().iter().enumerate() {
        let mut inner = [0.0f64; DIMS];
        for tap in taps.as_slice() {
            let x: f64 = rows[tap.place * sample.channels + c + offset].into();
            for (inner, slope) in inner.iter_mut().zip(tap.slopes) {
                *inner += x * slope;
            }
        }
        for (sum, inner) in sums.iter_mut().zip(inner) {
            *sum += grad.into() * inner;
        }
    }
    let mut result = [0.0; 3];
    for ((result, sum), slope) in result.iter_mut().zip(sums).zip(taps.slopes) {
        *result = sum * slope;
    }
    result
}
