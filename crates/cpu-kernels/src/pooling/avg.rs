//! Average pooling.

use super::Geometry;
use super::max::TASK;
use crate::error::{Error, Result, expect_len};
use crate::{Float, memory, parallel};
use samebits_numerics::simd::{self, Kernel};

/// What an average is divided by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AvgOptions {
    /// Padding inside a window counts as elements.
    pub count_include_pad: bool,
    /// This number, instead of the number of elements.
    pub divisor_override: Option<i64>,
}

impl Default for AvgOptions {
    /// PyTorch's: padding counts, no override.
    fn default() -> AvgOptions {
        AvgOptions { count_include_pad: true, divisor_override: None }
    }
}

/// The average of each window.
///
/// # Shapes
///
/// `input` has [`Geometry::input_len`] elements, `out` has [`Geometry::output_len`].
///
/// # Determinism
///
/// Portable: row-major order in f64, see the [module](super). A window without any element
/// gives 0.
///
/// # Errors
///
/// [`Error::Length`] if a slice does not fit the geometry; [`Error::Argument`] for a dilation
/// other than 1 or a divisor of 0; [`Error::OutOfMemory`].
///
/// # Examples
///
/// ```
/// use samebits_cpu_kernels::pooling::{AvgOptions, Geometry, avg_pool};
///
/// let geometry = Geometry::new("avg_pool1d", 1, &[4], &[2], &[2], &[1], &[1], false)?;
/// let mut out = [0.0f32; 3];
/// avg_pool(&geometry, AvgOptions::default(), &[1.0, 2.0, 3.0, 4.0], &mut out)?;
/// assert_eq!(out, [0.5, 2.5, 2.0]);
/// # Ok::<(), samebits_cpu_kernels::Error>(())
/// ```
///
/// # References
///
/// `torch.nn.functional.avg_pool2d`.
pub fn avg_pool<T: Float>(
    geometry: &Geometry,
    options: AvgOptions,
    input: &[T],
    out: &mut [T],
) -> Result<()> {
    expect_len(geometry.op, "input", input.len(), geometry.input_len())?;
    expect_len(geometry.op, "out", out.len(), geometry.output_len())?;
    let divisors = Divisors::new(geometry, options)?;
    if out.is_empty() {
        return Ok(());
    }
    let width = geometry.output[2];
    let rows = TASK.div_ceil(width);
    parallel::try_pieces_of(rows * width, out, |start, out| {
        let first = start / width;
        let divisors = &divisors;
        let sums = &mut memory::zeroed(geometry.op, width)?;
        let row = &mut memory::zeroed(geometry.op, width)?;
        simd::dispatch(AvgRows { geometry, divisors, input, first, sums, row, out });
        Ok(())
    })
}

/// The gradient of [`avg_pool`].
///
/// # Shapes
///
/// `grad_out` has [`Geometry::output_len`] elements; `grad_input` has [`Geometry::input_len`]
/// and is overwritten.
///
/// # Determinism
///
/// Portable: ascending output index by fma from `+0`, see the [module](super).
///
/// # Errors
///
/// As [`avg_pool`].
pub fn avg_pool_backward<T: Float>(
    geometry: &Geometry,
    options: AvgOptions,
    grad_out: &[T],
    grad_input: &mut [T],
) -> Result<()> {
    expect_len(geometry.op, "grad_out", grad_out.len(), geometry.output_len())?;
    expect_len(geometry.op, "grad_input", grad_input.len(), geometry.input_len())?;
    let divisors = Divisors::new(geometry, options)?;
    if grad_input.is_empty() {
        return Ok(());
    }
    let width = geometry.input[2];
    let rows = TASK.div_ceil(width);
    let op = geometry.op;
    let (stride, padding) = (geometry.stride[2], geometry.padding[2]);
    let base = padding / stride;
    let length = (padding + width - 1) / stride + 1 - base;
    let size = memory::volume(op, &[length, stride])?;
    parallel::try_pieces_of(rows * width, grad_input, |start, grad_input| {
        let divisors = &divisors;
        let row = &mut memory::zeroed(op, geometry.output[2])?;
        let weights = &mut memory::filled(op, geometry.output[2], T::ZERO)?;
        let sums = &mut memory::filled(op, size, T::ZERO)?;
        let first = start / width;
        simd::dispatch(GradRows {
            geometry,
            divisors,
            grad_out,
            first,
            row,
            weights,
            sums,
            base,
            length,
            grad_input,
        });
        Ok(())
    })
}

/// The divisor of each window, as a product over the dimensions.
struct Divisors {
    counts: [Vec<f64>; 3],
    fixed: Option<f64>,
}

impl Divisors {
    fn new(g: &Geometry, options: AvgOptions) -> Result<Divisors> {
        if g.dilation != [1; 3] {
            return Err(Error::argument(g.op, "an average has no dilation"));
        }
        if options.divisor_override == Some(0) {
            return Err(Error::argument(g.op, "the divisor must not be 0"));
        }
        let count = |dim: usize, o: usize| {
            // In padded positions; the padding at the end counts as far as it goes.
            let start = o * g.stride[dim];
            let end = start + g.kernel[dim];
            let (low, high) = if options.count_include_pad {
                (0, g.input[dim] + 2 * g.padding[dim])
            } else {
                (g.padding[dim], g.padding[dim] + g.input[dim])
            };
            // At least one, so that an empty window gives 0 and not NaN.
            end.min(high).saturating_sub(start.max(low)).max(1) as f64
        };
        let counts = |dim| memory::collected(g.op, (0..g.output[dim]).map(|o| count(dim, o)));
        let counts = [counts(0)?, counts(1)?, counts(2)?];
        Ok(Divisors { counts, fixed: options.divisor_override.map(|divisor| divisor as f64) })
    }

    /// Writes the divisors of one row of outputs.
    #[inline(always)]
    fn row(&self, d: usize, h: usize, out: &mut [f64]) {
        match self.fixed {
            Some(divisor) => out.fill(divisor),
            None => {
                let count = self.counts[0][d] * self.counts[1][h];
                for (divisor, width) in out.iter_mut().zip(&self.counts[2]) {
                    *divisor = count * width;
                }
            }
        }
    }
}

/// Whole rows of outputs, counted over all planes.
struct AvgRows<'a, T> {
    geometry: &'a Geometry,
    divisors: &'a Divisors,
    input: &'a [T],
    first: usize,
    /// Scratch memory for the sums of a row, and for its divisors.
    sums: &'a mut [f64],
    row: &'a mut [f64],
    out: &'a mut [T],
}

impl<T: Float> Kernel for AvgRows<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let g = self.geometry;
        let width = g.output[2];
        let (sums, divisors) = (self.sums, self.row);
        for (offset, out) in self.out.chunks_exact_mut(width).enumerate() {
            let row = self.first + offset;
            let (plane, d, h) = (
                row / (g.output[0] * g.output[1]),
                row / g.output[1] % g.output[0],
                row % g.output[1],
            );
            let input = &self.input[plane * g.input_plane()..][..g.input_plane()];
            sums.fill(0.0);
            for kd in g.taps(0, d) {
                let id = g.position(0, d, kd);
                for kh in g.taps(1, h) {
                    let ih = g.position(1, h, kh);
                    let line = &input[(id * g.input[1] + ih) * g.input[2]..][..g.input[2]];
                    for (kw, outputs) in g.taps_of_all(2) {
                        let line = &line[g.position(2, outputs.start, kw)..];
                        let sums = &mut sums[outputs];
                        match g.stride[2] {
                            1 => add_tap::<T, 1>(sums, line, 1),
                            2 => add_tap::<T, 2>(sums, line, 2),
                            stride => add_tap::<T, 0>(sums, line, stride),
                        }
                    }
                }
            }
            self.divisors.row(d, h, divisors);
            for ((out, &sum), &divisor) in out.iter_mut().zip(&*sums).zip(&*divisors) {
                *out = T::from_f64(sum / divisor).canonical();
            }
        }
    }
}

#[inline(always)]
fn add_tap<T: Float, const STRIDE: usize>(sums: &mut [f64], line: &[T], stride: usize) {
    let stride = if STRIDE == 0 { stride } else { STRIDE };
    let n = sums.len();
    let line = &line[..(n - 1) * stride + 1];
    for o in 0..n {
        sums[o] += line[o * stride].into();
    }
}

/// Whole rows of the input gradient, counted over all planes.
struct GradRows<'a, T> {
    geometry: &'a Geometry,
    divisors: &'a Divisors,
    grad_out: &'a [T],
    first: usize,
    /// Scratch memory for the divisors of a row of outputs, for their weights and for the sums of a
    /// row. The sums of position `t * stride + r` of the padded row are at
    /// `r * length + t - base`: positions that are `stride` apart lie side by side, so that the
    /// loop over them is a vector loop.
    row: &'a mut [f64],
    weights: &'a mut [T],
    sums: &'a mut [T],
    base: usize,
    length: usize,
    grad_input: &'a mut [T],
}

impl<T: Float> Kernel for GradRows<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let g = self.geometry;
        let (width, stride) = (g.input[2], g.stride[2]);
        let GradRows { row: divisors, weights, sums, base, length, .. } = self;
        // Elements of a window that reach the positions with sums.
        let first = (base + 1).saturating_sub(g.output[2]).saturating_mul(stride);
        let end = (base + length).saturating_mul(stride).min(g.kernel[2]);
        for (offset, grad_input) in self.grad_input.chunks_exact_mut(width).enumerate() {
            let row = self.first + offset;
            let (plane, d, h) =
                (row / (g.input[0] * g.input[1]), row / g.input[1] % g.input[0], row % g.input[1]);
            let grad_out = &self.grad_out[plane * g.output_plane()..][..g.output_plane()];
            sums.fill(T::ZERO);
            for od in covering(g, 0, d) {
                for oh in covering(g, 1, h) {
                    self.divisors.row(od, oh, divisors);
                    for (weight, &divisor) in weights.iter_mut().zip(&*divisors) {
                        *weight = T::ONE / T::from_f64(divisor);
                    }
                    let line = &grad_out[(od * g.output[1] + oh) * g.output[2]..][..g.output[2]];
                    // A position takes the outputs of its row in ascending order if the window
                    // elements are taken in descending order.
                    for kw in (first..end).rev() {
                        let (r, q) = (kw % stride, kw / stride);
                        // Output `t` sends to place `q + t - base`.
                        let skipped = base.saturating_sub(q);
                        let place = q + skipped - base;
                        let sums = &mut sums[r * length..][..length];
                        let outputs = line[skipped..].iter().zip(&weights[skipped..]);
                        for (sum, (&grad, &weight)) in sums[place..].iter_mut().zip(outputs) {
                            *sum = grad.mul_add(weight, *sum);
                        }
                    }
                }
            }
            for (w, grad) in grad_input.iter_mut().enumerate() {
                let position = w + g.padding[2];
                *grad = sums[position % stride * length + position / stride - base].canonical();
            }
        }
    }
}

/// The outputs of dimension `dim` whose windows cover input position `i`, without dilation.
#[inline(always)]
fn covering(g: &Geometry, dim: usize, i: usize) -> std::ops::Range<usize> {
    let padded = i + g.padding[dim];
    let first = (padded + 1).saturating_sub(g.kernel[dim]).div_ceil(g.stride[dim]);
    let end = (padded / g.stride[dim] + 1).min(g.output[dim]);
    first.min(end)..end
}
