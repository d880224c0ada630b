//! Average pooling.

use super::lanes::{self, Averages, Axis, Spread};
use super::max::TASK;
use super::{Average, PoolAxis};
use crate::error::{Result, expect_len};
use crate::{Float, memory, parallel};
use samebits_numerics::fpenv;
use samebits_numerics::simd::{self, Kernel};

/// Computes the average of each window.
///
/// # Shapes
///
/// `input` has [`input_len`](super::Pool::input_len) elements, `out` has
/// [`output_len`](super::Pool::output_len).
///
/// # Determinism
///
/// Portable: row-major order in f64; see the [module](super). A window without elements gives 0.
///
/// # Errors
///
/// [`Error::Length`](crate::Error::Length) if a slice has the wrong length;
/// [`Error::OutOfMemory`](crate::Error::OutOfMemory).
///
/// # Examples
///
/// ```
/// use samebits_cpu_kernels::pooling::{Average, Pool, PoolParams, avg_pool};
///
/// let params = PoolParams { padding: vec![1], ..PoolParams::square(1, 2) };
/// let average = Average::new(Pool::new("avg_pool1d", &[1, 1, 4], &params)?, true, None)?;
/// let mut out = [0.0f32; 3];
/// avg_pool(&average, &[1.0, 2.0, 3.0, 4.0], &mut out)?;
/// assert_eq!(out, [0.5, 2.5, 2.0]);
/// # Ok::<(), samebits_tensor_core::Error>(())
/// ```
///
/// # References
///
/// `torch.nn.functional.avg_pool2d`.
pub fn avg_pool<T: Float>(average: &Average, input: &[T], out: &mut [T]) -> Result<()> {
    let pool = average.pool();
    expect_len(pool.op(), "input", input.len(), pool.input_len())?;
    expect_len(pool.op(), "out", out.len(), pool.output_len())?;
    let divisors = Divisors::new(average)?;
    if out.is_empty() {
        return Ok(());
    }
    if lanes::pay(pool.planes()) {
        let windows = lanes::windows(pool.axes(), |axis| Axis::of_pool(pool.op(), axis))?;
        let averages = Averages { windows, divisors: divisors.all(pool.op())? };
        if let Some(cut) = crate::lanes::cut::<T>(pool.op(), &averages)? {
            return crate::lanes::run(pool.op(), &averages, &cut, input, out, &mut []);
        }
    }
    let [.., width] = pool.output();
    let rows = TASK.div_ceil(width);
    parallel::try_pieces_of(rows * width, out, |start, out| {
        let first = start / width;
        let divisors = &divisors;
        let sums = &mut memory::zeroed(pool.op(), width)?;
        let row = &mut memory::zeroed(pool.op(), width)?;
        simd::dispatch(AvgRows { axes: pool.axes(), divisors, input, first, sums, row, out });
        Ok(())
    })
}

/// Computes the gradient of [`avg_pool`].
///
/// # Shapes
///
/// `grad_out` has [`output_len`](super::Pool::output_len) elements; `grad_input` has
/// [`input_len`](super::Pool::input_len) and is overwritten.
///
/// # Determinism
///
/// Portable: ascending output index by fma from `+0`; see the [module](super).
///
/// # Errors
///
/// As [`avg_pool`].
pub fn avg_pool_backward<T: Float>(
    average: &Average,
    grad_out: &[T],
    grad_input: &mut [T],
) -> Result<()> {
    let pool = average.pool();
    expect_len(pool.op(), "grad_out", grad_out.len(), pool.output_len())?;
    expect_len(pool.op(), "grad_input", grad_input.len(), pool.input_len())?;
    let divisors = Divisors::new(average)?;
    if grad_input.is_empty() {
        return Ok(());
    }
    if lanes::pay(pool.planes()) {
        let covered = |axis: &PoolAxis| {
            Axis::of_ranges(pool.op(), axis.output, axis.input, |i| covering(axis, i))
        };
        let weight = |divisor| T::ONE / T::from_f64(divisor);
        let weights = divisors.all(pool.op())?.into_iter().map(weight);
        let weights = fpenv::ieee(|| memory::collected(pool.op(), weights))?;
        let spread = Spread { windows: lanes::windows(pool.axes(), covered)?, weights };
        if let Some(cut) = crate::lanes::cut::<T>(pool.op(), &spread)? {
            return crate::lanes::run(pool.op(), &spread, &cut, grad_out, grad_input, &mut []);
        }
    }
    let &[.., PoolAxis { input: width, output, stride, padding, .. }] = pool.axes();
    let rows = TASK.div_ceil(width);
    let op = pool.op();
    let base = padding / stride;
    let length = (padding + width - 1) / stride + 1 - base;
    let size = memory::volume(op, &[length, stride])?;
    parallel::try_pieces_of(rows * width, grad_input, |start, grad_input| {
        let divisors = &divisors;
        let row = &mut memory::zeroed(op, output)?;
        let weights = &mut memory::filled(op, output, T::ZERO)?;
        let sums = &mut memory::filled(op, size, T::ZERO)?;
        let first = start / width;
        simd::dispatch(GradRows {
            axes: pool.axes(),
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
    fn new(average: &Average) -> Result<Divisors> {
        let pool = average.pool();
        let counts = |dim: usize| {
            let outputs = 0..pool.axes()[dim].output;
            memory::collected(pool.op(), outputs.map(|o| average.count(dim, o) as f64))
        };
        let counts = [counts(0)?, counts(1)?, counts(2)?];
        Ok(Divisors { counts, fixed: average.divisor_override().map(|divisor| divisor as f64) })
    }

    /// Returns the divisors of a plane of outputs.
    fn all(&self, op: &'static str) -> Result<Vec<f64>> {
        let [depth, height, width] = self.counts.each_ref().map(Vec::len);
        let mut all = memory::zeroed(op, memory::volume(op, &[depth, height, width])?)?;
        for (number, row) in all.chunks_exact_mut(width.max(1)).enumerate() {
            fpenv::ieee(|| self.row(number / height, number % height, row));
        }
        Ok(all)
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
    axes: &'a [PoolAxis; 3],
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
        let [depth, height, width] = self.axes;
        let in_plane = depth.input * height.input * width.input;
        let (sums, divisors) = (self.sums, self.row);
        for (offset, out) in self.out.chunks_exact_mut(width.output).enumerate() {
            let row = self.first + offset;
            let (d, h) = (row / height.output % depth.output, row % height.output);
            let plane = row / (depth.output * height.output);
            let input = &self.input[plane * in_plane..][..in_plane];
            sums.fill(0.0);
            for kd in depth.taps(d) {
                let id = depth.position(d, kd);
                for kh in height.taps(h) {
                    let ih = height.position(h, kh);
                    let line = &input[(id * height.input + ih) * width.input..][..width.input];
                    for (kw, outputs) in width.taps_of_all() {
                        let line = &line[width.position(outputs.start, kw)..];
                        let sums = &mut sums[outputs];
                        match width.stride {
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
    axes: &'a [PoolAxis; 3],
    divisors: &'a Divisors,
    grad_out: &'a [T],
    first: usize,
    /// Scratch memory for the divisors of a row of outputs, for their weights and for the sums of a
    /// row. The sum of position `t * stride + r` of the padded row is at `r * length + t - base`:
    /// positions that are `stride` apart are neighbours, so that the loop over them vectorises.
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
        let [depth, height, width] = self.axes;
        let out_plane = depth.output * height.output * width.output;
        let stride = width.stride;
        let GradRows { row: divisors, weights, sums, base, length, .. } = self;
        // The window elements that reach positions with sums.
        let first = (base + 1).saturating_sub(width.output).saturating_mul(stride);
        let end = (base + length).saturating_mul(stride).min(width.kernel);
        for (offset, grad_input) in self.grad_input.chunks_exact_mut(width.input).enumerate() {
            let row = self.first + offset;
            let (d, h) = (row / height.input % depth.input, row % height.input);
            let plane = row / (depth.input * height.input);
            let grad_out = &self.grad_out[plane * out_plane..][..out_plane];
            sums.fill(T::ZERO);
            for od in covering(depth, d) {
                for oh in covering(height, h) {
                    self.divisors.row(od, oh, divisors);
                    for (weight, &divisor) in weights.iter_mut().zip(&*divisors) {
                        *weight = T::ONE / T::from_f64(divisor);
                    }
                    let line = &grad_out[(od * height.output + oh) * width.output..];
                    let line = &line[..width.output];
                    // Taking the window elements in descending order gives a position the outputs
                    // of its row in ascending order.
                    for kw in (first..end).rev() {
                        let (r, q) = (kw % stride, kw / stride);
                        // Output `t` contributes to place `q + t - base`.
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
                let position = w + width.padding;
                *grad = sums[position % stride * length + position / stride - base].canonical();
            }
        }
    }
}

/// Returns the outputs whose windows cover input position `i`, without dilation.
#[inline(always)]
fn covering(axis: &PoolAxis, i: usize) -> std::ops::Range<usize> {
    let padded = i + axis.padding;
    let first = (padded + 1).saturating_sub(axis.kernel).div_ceil(axis.stride);
    let end = (padded / axis.stride + 1).min(axis.output);
    first.min(end)..end
}
