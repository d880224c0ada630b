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

use crate::error::{Error, Result, expect_len};
use crate::scatter::{Checked, Stored};
use crate::{Float, parallel};
use rayon::prelude::*;
use samebits_numerics::simd::{self, Kernel};
use taps::{Tap, TapList};

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
    /// [`Error::Argument`] if the input has not two or three nonzero sizes, or for
    /// [`GridMode::Cubic`] in three dimensions.
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
    /// [`Error::Length`] if a slice does not fit.
    pub fn forward<T: Float>(&self, input: &[T], grid: &[T], out: &mut [T]) -> Result<()> {
        self.check(input.len(), grid.len(), out.len())?;
        if out.is_empty() {
            return Ok(());
        }
        let tables = self.tap_lists(grid);
        out.par_chunks_mut(self.points).enumerate().for_each(|(number, out)| {
            let plane = &input[number * self.plane()..][..self.plane()];
            simd::dispatch(SamplePlane { taps: &tables[number / self.channels], plane, out });
        });
        Ok(())
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
    /// [`Error::Length`] if a slice does not fit.
    pub fn input_backward<T: Float>(
        &self,
        grad_out: &[T],
        grid: &[T],
        grad_input: &mut [T],
    ) -> Result<()> {
        self.check(grad_input.len(), grid.len(), grad_out.len())?;
        grad_input.fill(T::ZERO);
        if grad_out.is_empty() {
            return Ok(());
        }
        let tables = self.tap_lists(grid);
        grad_input.par_chunks_mut(self.plane()).enumerate().try_for_each(|(number, sums)| {
            let taps = &tables[number / self.channels];
            let grad = &grad_out[number * self.points..][..self.points];
            let form = |i: usize, g: T| g * taps.weights[i];
            let addends = Stored { data: grad, place: |i| taps.point(i), form };
            T::add_rows(sums, 1, &Checked(&taps.places), &addends)
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
    /// [`Error::Length`] if a slice does not fit.
    pub fn grid_backward<T: Float>(
        &self,
        grad_out: &[T],
        input: &[T],
        grid: &[T],
        grad_grid: &mut [T],
    ) -> Result<()> {
        self.check(input.len(), grid.len(), grad_out.len())?;
        expect_len(self.op, "grad_grid", grad_grid.len(), self.grid_len())?;
        if self.mode == GridMode::Nearest || grad_grid.is_empty() {
            grad_grid.fill(T::ZERO);
            return Ok(());
        }
        let batch = self.channels * self.plane();
        parallel::pieces_of(64 * self.dims, grad_grid, |start, grad_grid| {
            for (offset, grad) in grad_grid.chunks_exact_mut(self.dims).enumerate() {
                let number = start / self.dims + offset;
                let (n, point) = (number / self.points, number % self.points);
                let input = &input[n * batch..(n + 1) * batch];
                let at = &grid[number * self.dims..][..self.dims];
                let grads = &grad_out[n * self.channels * self.points..];
                let sums = self.point_gradient(input, at, |c| grads[c * self.points + point]);
                for (grad, sum) in grad.iter_mut().zip(sums) {
                    *grad = T::from_f64(sum).canonical();
                }
            }
        });
        Ok(())
    }

    /// The gradient of the coordinates (x, y, z) of one point.
    fn point_gradient<T: Float>(
        &self,
        input: &[T],
        at: &[T],
        grad: impl Fn(usize) -> T,
    ) -> [f64; 3] {
        let mut taps = Vec::with_capacity(16);
        let slopes = self.taps_of(at, &mut taps);
        let mut sums = [0.0; 3];
        for (c, plane) in input.chunks_exact(self.plane()).enumerate() {
            let grad: f64 = grad(c).into();
            let mut inner = [0.0; 3];
            for tap in &taps {
                let x: f64 = plane[tap.place].into();
                for (sum, weight) in inner.iter_mut().zip(tap.slopes) {
                    *sum += x * weight;
                }
            }
            for (sum, inner) in sums.iter_mut().zip(inner) {
                *sum += grad * inner;
            }
        }
        [0, 1, 2].map(|d| sums[d] * slopes[d])
    }

    fn check(&self, input: usize, grid: usize, out: usize) -> Result<()> {
        expect_len(self.op, "the input", input, self.input_len())?;
        expect_len(self.op, "grid", grid, self.grid_len())?;
        expect_len(self.op, "the output", out, self.output_len())
    }

    fn plane(&self) -> usize {
        self.input.iter().product()
    }

    /// The taps of every point, one list for each input of the batch.
    fn tap_lists<T: Float>(&self, grid: &[T]) -> Vec<TapList<T>> {
        grid.par_chunks(self.points * self.dims)
            .map(|grid| {
                let mut list = TapList::new(self.points);
                let mut taps: Vec<Tap> = Vec::with_capacity(16);
                for at in grid.chunks_exact(self.dims) {
                    taps.clear();
                    self.taps_of(at, &mut taps);
                    list.push(&taps);
                }
                list
            })
            .collect()
    }
}

struct SamplePlane<'a, T> {
    taps: &'a TapList<T>,
    plane: &'a [T],
    out: &'a mut [T],
}

impl<T: Float> Kernel for SamplePlane<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        for (point, out) in self.out.iter_mut().enumerate() {
            let (places, weights) = self.taps.of(point);
            let mut sum = T::ZERO;
            for (&place, &weight) in places.iter().zip(weights) {
                sum = self.plane[place].mul_add(weight, sum);
            }
            *out = sum.canonical();
        }
    }
}
