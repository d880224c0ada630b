//! Padding of one, two or three dimensions: constant, reflect, replicate and circular.
//!
//! # Layouts
//!
//! Tensors are contiguous, and are treated as `planes` planes of one to three dimensions each.
//! Negative padding cuts elements off.
//!
//! # What is computed
//!
//! The forward pass moves values, which keep their bits. A gradient element starts from `+0` and
//! adds the gradients of the outputs that copied it, in ascending output index.

use crate::error::{Result, expect_len};
use crate::memory::{self, named};
use crate::{Float, parallel, short};
use samebits_numerics::simd::{self, Kernel};
use samebits_tensor_core::geometry::Taps;
use std::ops::Range;

pub use samebits_tensor_core::geometry::{PadMode, PaddedAxis, Padding};

/// Pads `input`; `value` is the fill value of [`PadMode::Constant`].
///
/// # Shapes
///
/// `input` has [`Padding::input_len`] elements, `out` has [`Padding::output_len`].
///
/// # Determinism
///
/// Portable: values are only moved.
///
/// # Errors
///
/// [`Error::Length`](crate::Error::Length) if a slice has the wrong length;
/// [`Error::OutOfMemory`](crate::Error::OutOfMemory).
///
/// # Examples
///
/// ```
/// use samebits_cpu_kernels::padding::{PadMode, Padding, pad};
///
/// let padding = Padding::new("pad", &[3], &[[2, 1]], PadMode::Reflect)?;
/// let mut out = [0.0f32; 6];
/// pad(&padding, &[1.0, 2.0, 3.0], 0.0, &mut out)?;
/// assert_eq!(out, [3.0, 2.0, 1.0, 2.0, 3.0, 2.0]);
/// # Ok::<(), samebits_tensor_core::Error>(())
/// ```
pub fn pad<T: Copy + Send + Sync>(
    padding: &Padding,
    input: &[T],
    value: T,
    out: &mut [T],
) -> Result<()> {
    expect_len(padding.op(), "input", input.len(), padding.input_len())?;
    expect_len(padding.op(), "out", out.len(), padding.output_len())?;
    if out.is_empty() {
        return Ok(());
    }
    let [depth, height, width] = padding.axes().each_ref().map(|axis| sources(padding.op(), axis));
    let (depth, height, width) = (depth?, height?, width?);
    let lines = depth.len() * height.len();
    let [_, in_height, in_width] = padding.input();
    let in_plane = padding.input_plane();
    let inside = inside(padding);
    parallel::rows(width.len(), out, |start, out| {
        let row = start / width.len();
        let mut plane = row / lines * in_plane;
        let (mut at_d, mut at_h) = (row % lines / height.len(), row % height.len());
        for out in out.chunks_exact_mut(width.len()) {
            let (d, h, from) = (depth[at_d], height[at_h], plane);
            at_h += 1;
            if at_h == height.len() {
                (at_d, at_h) = (at_d + 1, 0);
            }
            if at_d == depth.len() {
                (plane, at_d) = (plane + in_plane, 0);
            }
            if d == FILL || h == FILL {
                out.fill(value);
                continue;
            }
            let line = &input[from + (d * in_height + h) * in_width..][..in_width];
            for border in [0..inside.start, inside.end..width.len()] {
                for (out, &w) in out[border.clone()].iter_mut().zip(&width[border]) {
                    *out = if w == FILL { value } else { line[w] };
                }
            }
            if let Some(&w) = width[inside.clone()].first() {
                let (from, to) = (&line[w..w + inside.len()], &mut out[inside.clone()]);
                if to.len() <= short::MOST {
                    short::copy(from, to);
                } else {
                    to.copy_from_slice(from);
                }
            }
        }
    });
    Ok(())
}

/// Computes the gradient of [`pad`].
///
/// # Shapes
///
/// `grad_out` has [`Padding::output_len`] elements; `grad_input` has [`Padding::input_len`] and
/// is overwritten.
///
/// # Determinism
///
/// Portable: ascending output index from `+0`.
///
/// # Errors
///
/// As [`pad`].
pub fn pad_backward<T: Float>(
    padding: &Padding,
    grad_out: &[T],
    grad_input: &mut [T],
) -> Result<()> {
    expect_len(padding.op(), "grad_out", grad_out.len(), padding.output_len())?;
    expect_len(padding.op(), "grad_input", grad_input.len(), padding.input_len())?;
    if grad_input.is_empty() {
        return Ok(());
    }
    let [depth, height, width] = padding.axes();
    let copies = |axis: &PaddedAxis| axis.copies().map_err(named(padding.op()));
    let outer = &[copies(depth)?, copies(height)?];
    let sources = &sources(padding.op(), width)?;
    let rows = (1usize << 13).div_ceil(width.input);
    parallel::pieces_of(rows * width.input, grad_input, |start, grad_input| {
        let first = start / width.input;
        simd::dispatch(GradRows { padding, outer, sources, grad_out, first, grad_input });
    });
    Ok(())
}

/// A marker in place of an input position, for an output with the fill value.
const FILL: usize = usize::MAX;

/// Returns the input position that each output of a dimension copies, or [`FILL`].
fn sources(op: &'static str, axis: &PaddedAxis) -> Result<Vec<usize>> {
    memory::collected(op, (0..axis.output).map(|output| axis.source(output).unwrap_or(FILL)))
}

/// Returns the outputs of the last dimension that copy consecutive inputs.
fn inside(padding: &Padding) -> Range<usize> {
    let [.., width] = padding.axes();
    let (size, output) = (width.input as i64, width.output as i64);
    let start = width.before.clamp(0, output);
    start as usize..(width.before + size).clamp(start, output) as usize
}

struct GradRows<'a, T> {
    padding: &'a Padding,
    /// The outputs that copy each input of the first two dimensions.
    outer: &'a [Taps<()>; 2],
    /// See [`sources`].
    sources: &'a [usize],
    grad_out: &'a [T],
    first: usize,
    grad_input: &'a mut [T],
}

impl<T: Float> Kernel for GradRows<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let [depth, height, width] = self.padding.input();
        let [_, out_height, out_width] = self.padding.output();
        let out_plane = self.padding.output_plane();
        let inside = inside(self.padding);
        let (left, right) = (&self.sources[..inside.start], &self.sources[inside.end..]);
        for (offset, sums) in self.grad_input.chunks_exact_mut(width).enumerate() {
            let row = self.first + offset;
            sums.fill(T::ZERO);
            let plane = &self.grad_out[row / (depth * height) * out_plane..][..out_plane];
            for (d, ()) in self.outer[0].of(row / height % depth) {
                for (h, ()) in self.outer[1].of(row % height) {
                    let line = &plane[(d * out_height + h) * out_width..][..out_width];
                    // Ascending: the padding on the left, the inside, the padding on the right.
                    add(sums, left, line);
                    if let Some(&first) = self.sources[inside.clone()].first() {
                        let sums = &mut sums[first..first + inside.len()];
                        for (sum, &grad) in sums.iter_mut().zip(&line[inside.clone()]) {
                            *sum = *sum + grad;
                        }
                    }
                    add(sums, right, &line[inside.end..]);
                }
            }
            sums.iter_mut().for_each(|sum| *sum = sum.canonical());
        }
    }
}

#[inline(always)]
fn add<T: Float>(sums: &mut [T], from: &[usize], grads: &[T]) {
    for (&i, &grad) in from.iter().zip(grads) {
        if let Some(sum) = sums.get_mut(i) {
            *sum = *sum + grad;
        }
    }
}
