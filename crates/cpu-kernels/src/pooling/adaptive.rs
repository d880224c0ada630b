//! Pooling to a given output size.

use super::max::TASK;
use crate::error::{Error, Result, expect_countable, expect_len};
use crate::{Float, memory, parallel};
use samebits_numerics::extrema::replaces_max;
use samebits_numerics::simd::{self, Kernel};
use std::ops::Range;

/// The sizes of an adaptive pooling. Output `o` of a dimension covers the inputs from
/// `floor(o * input / output)` to `ceil((o + 1) * input / output)`.
///
/// # Examples
///
/// ```
/// use samebits_cpu_kernels::pooling::{Adaptive, adaptive_avg_pool};
///
/// let sizes = Adaptive::new("adaptive_avg_pool1d", 1, &[5], &[2])?;
/// let mut out = [0.0f32; 2];
/// adaptive_avg_pool(&sizes, &[1.0, 2.0, 3.0, 4.0, 5.0], &mut out)?;
/// assert_eq!(out, [2.0, 4.0]);
/// # Ok::<(), samebits_cpu_kernels::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Adaptive {
    op: &'static str,
    planes: usize,
    input: [usize; 3],
    output: [usize; 3],
}

impl Adaptive {
    /// The sizes of a pooling of `planes` planes of size `input` to size `output`.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] if the sizes are not one to three numbers each, an input size is 0, or
    /// they are more elements than can be counted.
    ///
    /// # References
    ///
    /// `torch.nn.functional.adaptive_avg_pool2d`.
    pub fn new(
        op: &'static str,
        planes: usize,
        input: &[usize],
        output: &[usize],
    ) -> Result<Adaptive> {
        let dims = input.len();
        if !(1..=3).contains(&dims) || output.len() != dims {
            return Err(Error::argument(
                op,
                format!("input {input:?} and output {output:?} must have 1 to 3 sizes each"),
            ));
        }
        if input.contains(&0) {
            return Err(Error::argument(op, format!("the input must not be empty: {input:?}")));
        }
        expect_countable(op, &[&[planes], input].concat())?;
        expect_countable(op, &[&[planes], output].concat())?;
        for (&input, &output) in input.iter().zip(output) {
            // Where a window begins is a quotient of products of both.
            expect_countable(op, &[input, output])?;
        }
        let mut sizes = Adaptive { op, planes, input: [1; 3], output: [1; 3] };
        sizes.input[3 - dims..].copy_from_slice(input);
        sizes.output[3 - dims..].copy_from_slice(output);
        Ok(sizes)
    }

    /// Elements of the input, all planes together.
    #[must_use]
    pub fn input_len(&self) -> usize {
        self.planes * self.input.iter().product::<usize>()
    }

    /// Elements of the output, all planes together.
    #[must_use]
    pub fn output_len(&self) -> usize {
        self.planes * self.output.iter().product::<usize>()
    }

    #[inline(always)]
    fn window(&self, dim: usize, o: usize) -> Range<usize> {
        let (input, output) = (self.input[dim], self.output[dim]);
        o * input / output..((o + 1) * input).div_ceil(output)
    }

    /// The window of output `o` of a plane, and the number of its elements.
    #[inline(always)]
    fn windows(&self, o: usize) -> ([Range<usize>; 3], usize) {
        let [_, height, width] = self.output;
        let windows = [
            self.window(0, o / (height * width)),
            self.window(1, o / width % height),
            self.window(2, o % width),
        ];
        let count = windows.iter().map(ExactSizeIterator::len).product();
        (windows, count)
    }

    /// Calls `f(position, line)` for each row of a window: the row's first position in the
    /// plane and its length.
    #[inline(always)]
    fn lines(&self, windows: &[Range<usize>; 3], mut f: impl FnMut(Range<usize>)) {
        for d in windows[0].clone() {
            for h in windows[1].clone() {
                let line = (d * self.input[1] + h) * self.input[2];
                f(line + windows[2].start..line + windows[2].end);
            }
        }
    }
}

/// The average of each window; see [`Adaptive`].
///
/// # Shapes
///
/// `input` has [`Adaptive::input_len`] elements, `out` has [`Adaptive::output_len`].
///
/// # Determinism
///
/// Portable: row-major order in f64, see the [module](super).
///
/// # Errors
///
/// [`Error::Length`] if a slice does not fit the sizes; [`Error::OutOfMemory`].
///
/// # References
///
/// `torch.nn.functional.adaptive_avg_pool2d`.
pub fn adaptive_avg_pool<T: Float>(sizes: &Adaptive, input: &[T], out: &mut [T]) -> Result<()> {
    expect_len(sizes.op, "input", input.len(), sizes.input_len())?;
    expect_len(sizes.op, "out", out.len(), sizes.output_len())?;
    if out.is_empty() {
        return Ok(());
    }
    let rows = &Rows::new(sizes)?;
    parallel::try_pieces_of(row_task(sizes), out, |start, out| {
        let first = start / sizes.output[2];
        let sums = &mut memory::zeroed(sizes.op, sizes.output[2])?;
        simd::dispatch(AvgRows { rows, input, first, sums, out });
        Ok(())
    })
}

/// The gradient of [`adaptive_avg_pool`].
///
/// # Shapes
///
/// `grad_out` has [`Adaptive::output_len`] elements; `grad_input` has [`Adaptive::input_len`]
/// and is overwritten.
///
/// # Determinism
///
/// Portable: ascending output index by fma from `+0`, see the [module](super).
///
/// # Errors
///
/// [`Error::Length`] if a slice does not fit the sizes; [`Error::OutOfMemory`].
pub fn adaptive_avg_pool_backward<T: Float>(
    sizes: &Adaptive,
    grad_out: &[T],
    grad_input: &mut [T],
) -> Result<()> {
    expect_len(sizes.op, "grad_out", grad_out.len(), sizes.output_len())?;
    expect_len(sizes.op, "grad_input", grad_input.len(), sizes.input_len())?;
    let (in_plane, out_plane) = planes_of(sizes);
    if grad_out.is_empty() || grad_input.is_empty() {
        grad_input.fill(T::ZERO);
        return Ok(());
    }
    let planes =
        parallel::chunks_mut(grad_input, in_plane).zip(parallel::chunks(grad_out, out_plane));
    planes.for_each(|(grad_input, grad_out)| {
        simd::dispatch(AvgPlane { sizes, grad_out, grad_input });
    });
    Ok(())
}

/// The largest element of each window, and its position in its plane; see [`Adaptive`]. Its
/// gradient is [`max_pool_backward`](super::max_pool_backward).
///
/// # Shapes
///
/// `input` has [`Adaptive::input_len`] elements, `out` and `indices` have
/// [`Adaptive::output_len`].
///
/// # Determinism
///
/// Portable: the first index wins, see the [module](super).
///
/// # Errors
///
/// [`Error::Length`] if a slice does not fit the sizes; [`Error::OutOfMemory`].
///
/// # References
///
/// `torch.nn.functional.adaptive_max_pool2d` with `return_indices`.
pub fn adaptive_max_pool<T: Float>(
    sizes: &Adaptive,
    input: &[T],
    out: &mut [T],
    indices: &mut [i64],
) -> Result<()> {
    expect_len(sizes.op, "input", input.len(), sizes.input_len())?;
    expect_len(sizes.op, "out", out.len(), sizes.output_len())?;
    expect_len(sizes.op, "indices", indices.len(), sizes.output_len())?;
    if out.is_empty() {
        return Ok(());
    }
    let (rows, task) = (&Rows::new(sizes)?, row_task(sizes));
    let tasks = parallel::chunks_mut(out, task).zip(parallel::chunks_mut(indices, task));
    tasks.enumerate().for_each(|(number, (out, indices))| {
        let first = number * task / sizes.output[2];
        simd::dispatch(MaxRows { rows, input, first, out, indices });
    });
    Ok(())
}

/// The position of the largest element of `line` or at `best`; the earlier one of equals.
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

fn planes_of(sizes: &Adaptive) -> (usize, usize) {
    (sizes.input.iter().product(), sizes.output.iter().product())
}

/// Outputs per task: whole rows.
fn row_task(sizes: &Adaptive) -> usize {
    let elements = sizes.input.iter().product::<usize>();
    let outputs = sizes.output.iter().product::<usize>();
    // As many inputs as other poolings have outputs.
    let count = (TASK.saturating_mul(outputs) / elements.max(1)).clamp(1, TASK);
    count.div_ceil(sizes.output[2]) * sizes.output[2]
}

/// Whole rows of outputs, counted over all planes. The outputs of a row advance together, so
/// that the additions of one need not wait for each other.
struct Rows<'a> {
    sizes: &'a Adaptive,
    /// Where each window of a row starts and how long it is.
    windows: Vec<Range<usize>>,
    shortest: usize,
}

impl Rows<'_> {
    fn new(sizes: &Adaptive) -> Result<Rows<'_>> {
        let windows = (0..sizes.output[2]).map(|o| sizes.window(2, o));
        let windows = memory::collected(sizes.op, windows)?;
        let shortest = windows.iter().map(ExactSizeIterator::len).min().unwrap_or(0);
        Ok(Rows { sizes, windows, shortest })
    }

    /// Calls `f(output, position in the plane)` for each element of each window of output row
    /// `row`, those of one output in row-major order. Returns the elements of a window of each
    /// unit of width.
    #[inline(always)]
    fn visit(&self, row: usize, mut f: impl FnMut(usize, usize)) -> usize {
        let [_, height, width] = self.sizes.input;
        let [_, rows, _] = self.sizes.output;
        let lines = self.sizes.output[0] * rows;
        let depth = self.sizes.window(0, row % lines / rows);
        let lines = self.sizes.window(1, row % rows);
        for d in depth.clone() {
            for h in lines.clone() {
                let line = (d * height + h) * width;
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
        depth.len() * lines.len()
    }

    /// The plane that holds output row `row`.
    #[inline(always)]
    fn plane<'a, T>(&self, input: &'a [T], row: usize) -> &'a [T] {
        let plane: usize = self.sizes.input.iter().product();
        &input[row / (self.sizes.output[0] * self.sizes.output[1]) * plane..][..plane]
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

/// No element seen yet. Every window has one.
const NONE: i64 = -1;

/// One plane of an average's gradient. Going through the outputs in ascending order and adding
/// to every position of the window gives each position its contributions in that order.
struct AvgPlane<'a, T> {
    sizes: &'a Adaptive,
    grad_out: &'a [T],
    grad_input: &'a mut [T],
}

impl<T: Float> Kernel for AvgPlane<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let AvgPlane { sizes, grad_out, grad_input } = self;
        grad_input.fill(T::ZERO);
        for (o, &grad) in grad_out.iter().enumerate() {
            let (windows, count) = sizes.windows(o);
            let weight = T::ONE / T::from_usize(count);
            sizes.lines(&windows, |line| {
                for sum in &mut grad_input[line] {
                    *sum = grad.mul_add(weight, *sum);
                }
            });
        }
        grad_input.iter_mut().for_each(|sum| *sum = sum.canonical());
    }
}
