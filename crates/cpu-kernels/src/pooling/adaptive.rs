//! Pooling to a given output size.

use super::lanes::{self, Averages, Axis, Largest, Spread};
use super::max::TASK;
use super::{AdaptiveAxis, AdaptivePool};
use crate::error::{Result, expect_len};
use crate::{Float, memory, parallel};
use samebits_numerics::extrema::replaces_max;
use samebits_numerics::fpenv;
use samebits_numerics::simd::{self, Kernel};
use std::ops::Range;

/// Computes the average of each window; see [`AdaptivePool`].
///
/// # Shapes
///
/// `input` has [`AdaptivePool::input_len`] elements, `out` has [`AdaptivePool::output_len`].
///
/// # Determinism
///
/// Portable: row-major order in f64; see the [module](super).
///
/// # Errors
///
/// [`Error::Length`](crate::Error::Length) if a slice has the wrong length;
/// [`Error::OutOfMemory`](crate::Error::OutOfMemory).
///
/// # Examples
///
/// ```
/// use samebits_cpu_kernels::pooling::{AdaptivePool, adaptive_avg_pool};
///
/// let pool = AdaptivePool::new("adaptive_avg_pool1d", &[1, 1, 5], &[2])?;
/// let mut out = [0.0f32; 2];
/// adaptive_avg_pool(&pool, &[1.0, 2.0, 3.0, 4.0, 5.0], &mut out)?;
/// assert_eq!(out, [2.0, 4.0]);
/// # Ok::<(), samebits_tensor_core::Error>(())
/// ```
///
/// # References
///
/// `torch.nn.functional.adaptive_avg_pool2d`.
pub fn adaptive_avg_pool<T: Float>(pool: &AdaptivePool, input: &[T], out: &mut [T]) -> Result<()> {
    let [.., width] = pool.output();
    expect_len(pool.op(), "input", input.len(), pool.input_len())?;
    expect_len(pool.op(), "out", out.len(), pool.output_len())?;
    if out.is_empty() {
        return Ok(());
    }
    if lanes::pay(pool.planes()) {
        let windows = lanes::windows(pool.axes(), |axis| Axis::of_adaptive(pool.op(), axis))?;
        let sizes = (0..pool.output_plane()).map(|o| window_size(pool, o) as f64);
        let averages = Averages { windows, divisors: memory::collected(pool.op(), sizes)? };
        if let Some(cut) = crate::lanes::cut::<T>(pool.op(), &averages)? {
            return crate::lanes::run(pool.op(), &averages, &cut, input, out, &mut []);
        }
    }
    let rows = &Rows::new(pool)?;
    parallel::try_pieces_of(row_task(pool), out, |start, out| {
        let first = start / width;
        let sums = &mut memory::zeroed(pool.op(), width)?;
        simd::dispatch(AvgRows { rows, input, first, sums, out });
        Ok(())
    })
}

/// Computes the gradient of [`adaptive_avg_pool`].
///
/// # Shapes
///
/// `grad_out` has [`AdaptivePool::output_len`] elements; `grad_input` has [`AdaptivePool::input_len`]
/// and is overwritten.
///
/// # Determinism
///
/// Portable: ascending output index by fma from `+0`; see the [module](super).
///
/// # Errors
///
/// [`Error::Length`](crate::Error::Length) if a slice has the wrong length;
/// [`Error::OutOfMemory`](crate::Error::OutOfMemory).
pub fn adaptive_avg_pool_backward<T: Float>(
    pool: &AdaptivePool,
    grad_out: &[T],
    grad_input: &mut [T],
) -> Result<()> {
    expect_len(pool.op(), "grad_out", grad_out.len(), pool.output_len())?;
    expect_len(pool.op(), "grad_input", grad_input.len(), pool.input_len())?;
    let (in_plane, out_plane) = (pool.input_plane(), pool.output_plane());
    if grad_out.is_empty() || grad_input.is_empty() {
        grad_input.fill(T::ZERO);
        return Ok(());
    }
    if lanes::pay(pool.planes()) {
        let windows = lanes::windows(pool.axes(), |axis| Axis::covering(pool.op(), axis))?;
        let weights = (0..out_plane).map(|o| T::ONE / T::from_usize(window_size(pool, o)));
        let weights = fpenv::ieee(|| memory::collected(pool.op(), weights))?;
        let spread = Spread { windows, weights };
        if let Some(cut) = crate::lanes::cut::<T>(pool.op(), &spread)? {
            return crate::lanes::run(pool.op(), &spread, &cut, grad_out, grad_input, &mut []);
        }
    }
    let planes = TASK.div_ceil(in_plane.max(out_plane));
    parallel::pieces_of(planes * in_plane, grad_input, |start, grad_input| {
        let grad_out = &grad_out[start / in_plane * out_plane..];
        simd::dispatch(AvgPlanes { pool, grad_out, grad_input });
    });
    Ok(())
}

/// Computes the largest element of each window, and its position in its plane; see
/// [`AdaptivePool`]. Its gradient is [`max_pool_backward`](super::max_pool_backward).
///
/// # Shapes
///
/// `input` has [`AdaptivePool::input_len`] elements, `out` and `indices` have
/// [`AdaptivePool::output_len`].
///
/// # Determinism
///
/// Portable: ties go to the lowest index; see the [module](super).
///
/// # Errors
///
/// [`Error::Length`](crate::Error::Length) if a slice has the wrong length;
/// [`Error::OutOfMemory`](crate::Error::OutOfMemory).
///
/// # References
///
/// `torch.nn.functional.adaptive_max_pool2d` with `return_indices`.
pub fn adaptive_max_pool<T: Float>(
    pool: &AdaptivePool,
    input: &[T],
    out: &mut [T],
    indices: &mut [i64],
) -> Result<()> {
    expect_len(pool.op(), "input", input.len(), pool.input_len())?;
    expect_len(pool.op(), "out", out.len(), pool.output_len())?;
    expect_len(pool.op(), "indices", indices.len(), pool.output_len())?;
    if out.is_empty() {
        return Ok(());
    }
    if lanes::pay(pool.planes()) && pool.input_plane() <= lanes::EXACT {
        let windows = lanes::windows(pool.axes(), |axis| Axis::of_adaptive(pool.op(), axis))?;
        let largest = Largest(windows);
        if let Some(cut) = crate::lanes::cut::<T>(pool.op(), &largest)? {
            return crate::lanes::run(pool.op(), &largest, &cut, input, out, indices);
        }
    }
    let [.., width] = pool.output();
    let (rows, task) = (&Rows::new(pool)?, row_task(pool));
    let tasks = parallel::chunks_mut(out, task).zip(parallel::chunks_mut(indices, task));
    tasks.enumerate().for_each(|(number, (out, indices))| {
        let first = number * task / width;
        simd::dispatch(MaxRows { rows, input, first, out, indices });
    });
    Ok(())
}

/// Returns the position of the largest among the elements of `line` and the element at `best`; ties
/// go to the earlier one.
#[inline(always)]
pub(super) fn first_largest<T: Float>(
    plane: &[T],
    mut best: Option<usize>,
    line: Range<usize>,
) -> Option<usize> {
    for at in line {
        if best.is_none_or(|best| replaces_max(plane[best], plane[at])) {
            best = Some(at);
        }
    }
    best
}

/// Returns the number of outputs per task: whole rows.
fn row_task(pool: &AdaptivePool) -> usize {
    let [.., width] = pool.output();
    let (elements, outputs) = (pool.input_plane(), pool.output_plane());
    // As many inputs as other poolings have outputs.
    let count = (TASK.saturating_mul(outputs) / elements.max(1)).clamp(1, TASK);
    count.div_ceil(width) * width
}

/// Whole rows of outputs, counted over all planes. The outputs of a row advance together, so that
/// their additions overlap.
struct Rows<'a> {
    pool: &'a AdaptivePool,
    /// The start and length of each window of a row.
    windows: Vec<Range<usize>>,
    shortest: usize,
}

impl Rows<'_> {
    fn new(pool: &AdaptivePool) -> Result<Rows<'_>> {
        let [.., width] = pool.axes();
        let windows = (0..width.output).map(|o| width.window(o));
        let windows = memory::collected(pool.op(), windows)?;
        let shortest = windows.iter().map(ExactSizeIterator::len).min().unwrap_or(0);
        Ok(Rows { pool, windows, shortest })
    }

    /// Calls `f(output, position in the plane)` for each element of each window of output row
    /// `row`; the elements of one output come in row-major order. Returns the number of window
    /// elements per unit of width.
    #[inline(always)]
    fn visit(&self, row: usize, mut f: impl FnMut(usize, usize)) -> usize {
        let [depth, height, width] = self.pool.axes();
        let depths = depth.window(row / height.output % depth.output);
        let lines = height.window(row % height.output);
        for d in depths.clone() {
            for h in lines.clone() {
                let line = (d * height.input + h) * width.input;
                for offset in 0..self.shortest {
                    for (o, window) in self.windows.iter().enumerate() {
                        f(o, line + window.start + offset);
                    }
                }
                for (o, window) in self.windows.iter().enumerate() {
                    for at in window.start + self.shortest..window.end {
                        f(o, line + at);
                    }
                }
            }
        }
        depths.len() * lines.len()
    }

    /// Returns the plane that contains output row `row`.
    #[inline(always)]
    fn plane<'a, T>(&self, input: &'a [T], row: usize) -> &'a [T] {
        let plane = self.pool.input_plane();
        let [depth, height, _] = self.pool.output();
        &input[row / (depth * height) * plane..][..plane]
    }
}

struct AvgRows<'a, T> {
    rows: &'a Rows<'a>,
    input: &'a [T],
    first: usize,
    /// Scratch memory for the sums of a row.
    sums: &'a mut [f64],
    out: &'a mut [T],
}

impl<T: Float> Kernel for AvgRows<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let (rows, sums) = (self.rows, self.sums);
        let width = sums.len();
        for (offset, out) in self.out.chunks_exact_mut(width).enumerate() {
            let row = self.first + offset;
            let plane = rows.plane(self.input, row);
            sums.fill(0.0);
            let sums = &mut sums[..rows.windows.len()];
            let count = rows.visit(row, |o, at| sums[o] += plane[at].into());
            for ((out, &sum), window) in out.iter_mut().zip(&*sums).zip(&rows.windows) {
                *out = T::from_f64(sum / (count * window.len()) as f64).canonical();
            }
        }
    }
}

struct MaxRows<'a, T> {
    rows: &'a Rows<'a>,
    input: &'a [T],
    first: usize,
    out: &'a mut [T],
    indices: &'a mut [i64],
}

impl<T: Float> Kernel for MaxRows<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let rows = self.rows;
        let width = rows.windows.len();
        let outputs = self.out.chunks_exact_mut(width).zip(self.indices.chunks_exact_mut(width));
        for (offset, (best, indices)) in outputs.enumerate() {
            let row = self.first + offset;
            let plane = rows.plane(self.input, row);
            indices.fill(NONE);
            rows.visit(row, |o, at| {
                let x = plane[at];
                if indices[o] == NONE || replaces_max(best[o], x) {
                    (best[o], indices[o]) = (x, at as i64);
                }
            });
            best.iter_mut().for_each(|x| *x = x.canonical());
        }
    }
}

/// A marker for "no element yet". Every window has at least one element.
const NONE: i64 = -1;

/// Arguments of a kernel: some planes of an average's gradient. It visits the outputs of a plane in
/// ascending order and adds to every position of the window, so each position gets its
/// contributions in that order.
struct AvgPlanes<'a, T> {
    pool: &'a AdaptivePool,
    grad_out: &'a [T],
    grad_input: &'a mut [T],
}

impl<T: Float> Kernel for AvgPlanes<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let AvgPlanes { pool, grad_out, grad_input } = self;
        let [_, height, width] = pool.axes();
        let planes = grad_input.chunks_exact_mut(pool.input_plane());
        for (grad_input, grad_out) in planes.zip(grad_out.chunks_exact(pool.output_plane())) {
            grad_input.fill(T::ZERO);
            for (o, &grad) in grad_out.iter().enumerate() {
                let [depths, lines, columns] = windows(pool.axes(), o);
                let weight = T::ONE / T::from_usize(depths.len() * lines.len() * columns.len());
                for d in depths {
                    for h in lines.clone() {
                        let line = &mut grad_input[(d * height.input + h) * width.input..];
                        for sum in &mut line[columns.clone()] {
                            *sum = grad.mul_add(weight, *sum);
                        }
                    }
                }
            }
            grad_input.iter_mut().for_each(|sum| *sum = sum.canonical());
        }
    }
}

/// Returns the number of elements of the window of output `o` of a plane.
fn window_size(pool: &AdaptivePool, o: usize) -> usize {
    windows(pool.axes(), o).iter().map(ExactSizeIterator::len).product()
}

/// Returns the window of output `o` of a plane.
#[inline(always)]
fn windows([depth, height, width]: &[AdaptiveAxis; 3], o: usize) -> [Range<usize>; 3] {
    [
        depth.window(o / (height.output * width.output)),
        height.window(o / width.output % height.output),
        width.window(o % width.output),
    ]
}
