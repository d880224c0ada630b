//! Pooling to a given output size.

use super::max::TASK;
use crate::Float;
use crate::error::{Error, Result, expect_len};
use rayon::prelude::*;
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
    /// [`Error::Argument`] if the sizes are not one to three numbers each, or an input size is
    /// 0.
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
/// [`Error::Length`] if a slice does not fit the sizes.
///
/// # References
///
/// `torch.nn.functional.adaptive_avg_pool2d`.
pub fn adaptive_avg_pool<T: Float>(sizes: &Adaptive, input: &[T], out: &mut [T]) -> Result<()> {
    expect_len(sizes.op, "input", input.len(), sizes.input_len())?;
    expect_len(sizes.op, "out", out.len(), sizes.output_len())?;
    let (in_plane, out_plane) = planes_of(sizes);
    if out.is_empty() {
        return Ok(());
    }
    let task = TASK.min(out.len().div_ceil(64));
    out.par_chunks_mut(task).enumerate().for_each(|(number, out)| {
        for (offset, out) in out.iter_mut().enumerate() {
            let o = number * task + offset;
            let input = &input[o / out_plane * in_plane..][..in_plane];
            let (windows, count) = sizes.windows(o % out_plane);
            let mut sum = 0.0;
            sizes.lines(&windows, |line| input[line].iter().for_each(|&x| sum += x.into()));
            *out = T::from_f64(sum / count as f64).canonical();
        }
    });
    Ok(())
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
/// [`Error::Length`] if a slice does not fit the sizes.
pub fn adaptive_avg_pool_backward<T: Float>(
    sizes: &Adaptive,
    grad_out: &[T],
    grad_input: &mut [T],
) -> Result<()> {
    expect_len(sizes.op, "grad_out", grad_out.len(), sizes.output_len())?;
    expect_len(sizes.op, "grad_input", grad_input.len(), sizes.input_len())?;
    let (in_plane, out_plane) = planes_of(sizes);
    grad_input.fill(T::ZERO);
    if grad_out.is_empty() || grad_input.is_empty() {
        return Ok(());
    }
    grad_input.par_chunks_mut(in_plane).zip(grad_out.par_chunks(out_plane)).for_each(
        |(grad_input, grad_out)| simd::dispatch(AvgPlane { sizes, grad_out, grad_input }),
    );
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
/// [`Error::Length`] if a slice does not fit the sizes.
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
    let (in_plane, out_plane) = planes_of(sizes);
    if out.is_empty() {
        return Ok(());
    }
    let task = TASK.min(out.len().div_ceil(64));
    out.par_chunks_mut(task).zip(indices.par_chunks_mut(task)).enumerate().for_each(
        |(number, (out, indices))| {
            for (offset, (out, index)) in out.iter_mut().zip(indices).enumerate() {
                let o = number * task + offset;
                let input = &input[o / out_plane * in_plane..][..in_plane];
                let (windows, _) = sizes.windows(o % out_plane);
                let mut best: Option<usize> = None;
                sizes.lines(&windows, |line| best = first_largest(input, best, line));
                let best = best.expect("a window of a nonempty plane has an element");
                *out = input[best].canonical();
                *index = best as i64;
            }
        },
    );
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
