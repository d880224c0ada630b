//! Padding of one, two or three dimensions: constant, reflect, replicate and circular.
//!
//! # Layouts
//!
//! Tensors are contiguous and are seen as `planes` planes of one to three dimensions each.
//! Negative padding cuts elements off.
//!
//! # What is computed
//!
//! Forward, values are moved and keep their bits. A gradient element starts from `+0` and adds
//! the gradients of the outputs that copied it, in ascending output index.

use crate::error::{Result, expect_len};
use crate::{Float, memory, parallel};
use samebits_numerics::simd::{self, Kernel};
use std::ops::Range;

pub use samebits_tensor_core::geometry::{PadMode, PaddedAxis, Padding};

/// Pads `input`; `value` is what [`PadMode::Constant`] fills with.
///
/// # Shapes
///
/// `input` has [`Padding::input_len`] elements, `out` has [`Padding::output_len`].
///
/// # Determinism
///
/// Portable: values are moved.
///
/// # Errors
///
/// [`Error::Length`](crate::Error::Length) if a slice does not fit;
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
    let [depth, height, width] = &sources(padding)?;
    let lines = depth.len() * height.len();
    let [_, in_height, in_width] = padding.input();
    let in_plane = padding.input_plane();
    let inside = inside(padding);
    parallel::rows(width.len(), out, |start, out| {
        let first = start / width.len();
        for (offset, out) in out.chunks_exact_mut(width.len()).enumerate() {
            let row = first + offset;
            let d = depth[row % lines / height.len()];
            let h = height[row % height.len()];
            if d == FILL || h == FILL {
                out.fill(value);
                continue;
            }
            let from = row / lines * in_plane + (d * in_height + h) * in_width;
            let line = &input[from..from + in_width];
            for (out, &w) in out[..inside.start].iter_mut().zip(width) {
                *out = if w == FILL { value } else { line[w] };
            }
            for (out, &w) in out[inside.end..].iter_mut().zip(&width[inside.end..]) {
                *out = if w == FILL { value } else { line[w] };
            }
            if let Some(&w) = width[inside.clone()].first() {
                out[inside.clone()].copy_from_slice(&line[w..w + inside.len()]);
            }
        }
    });
    Ok(())
}

/// The gradient of [`pad`].
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
    let [depth, height, width] = sources(padding)?;
    let [in_depth, in_height, in_width] = padding.input();
    let op = padding.op();
    let axes = [
        Axis::new(op, in_depth, depth)?,
        Axis::new(op, in_height, height)?,
        Axis::new(op, in_width, width)?,
    ];
    let (axes, inside) = (&axes, &inside(padding));
    let rows = (1usize << 13).div_ceil(in_width);
    parallel::pieces_of(rows * in_width, grad_input, |start, grad_input| {
        let first = start / in_width;
        simd::dispatch(GradRows { axes, inside, grad_out, first, grad_input });
    });
    Ok(())
}

/// In the place of an input position: an output that is filled with the value.
const FILL: usize = usize::MAX;

/// The input position that each output of each dimension copies, or [`FILL`].
fn sources(padding: &Padding) -> Result<[Vec<usize>; 3]> {
    let of = |axis: &PaddedAxis| {
        let outputs = 0..axis.output;
        memory::collected(padding.op(), outputs.map(|o| axis.source(o).unwrap_or(FILL)))
    };
    let [depth, height, width] = padding.axes();
    Ok([of(depth)?, of(height)?, of(width)?])
}

/// The outputs of the last dimension that copy consecutive inputs.
fn inside(padding: &Padding) -> Range<usize> {
    let [.., width] = padding.axes();
    let (size, output) = (width.input as i64, width.output as i64);
    let start = width.before.clamp(0, output);
    start as usize..(width.before + size).clamp(start, output) as usize
}

/// One dimension of a gradient.
struct Axis {
    input: usize,
    /// See [`sources`].
    from: Vec<usize>,
    /// For each input, where its outputs start in `outputs`; one more at the end.
    starts: Vec<usize>,
    /// The outputs that copy each input, ascending.
    outputs: Vec<usize>,
}

impl Axis {
    fn new(op: &'static str, input: usize, from: Vec<usize>) -> Result<Axis> {
        let mut starts = memory::zeroed::<usize>(op, input + 1)?;
        from.iter().filter(|&&i| i != FILL).for_each(|&i| starts[i + 1] += 1);
        for i in 0..input {
            starts[i + 1] += starts[i];
        }
        let mut outputs = memory::zeroed(op, starts[input])?;
        let mut next = memory::collected(op, starts.iter().copied())?;
        for (o, &i) in from.iter().enumerate().filter(|&(_, &i)| i != FILL) {
            outputs[next[i]] = o;
            next[i] += 1;
        }
        Ok(Axis { input, from, starts, outputs })
    }

    #[inline(always)]
    fn outputs_of(&self, input: usize) -> &[usize] {
        &self.outputs[self.starts[input]..self.starts[input + 1]]
    }
}

struct GradRows<'a, T> {
    axes: &'a [Axis; 3],
    inside: &'a Range<usize>,
    grad_out: &'a [T],
    first: usize,
    grad_input: &'a mut [T],
}

impl<T: Float> Kernel for GradRows<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let [depth, height, width] = self.axes;
        let out_plane = depth.from.len() * height.from.len() * width.from.len();
        let lines = depth.input * height.input;
        let inside = self.inside.clone();
        let (left, right) = (&width.from[..inside.start], &width.from[inside.end..]);
        for (offset, sums) in self.grad_input.chunks_exact_mut(width.input).enumerate() {
            let row = self.first + offset;
            sums.fill(T::ZERO);
            let plane = &self.grad_out[row / lines * out_plane..][..out_plane];
            for &d in depth.outputs_of(row % lines / height.input) {
                for &h in height.outputs_of(row % height.input) {
                    let line = &plane[(d * height.from.len() + h) * width.from.len()..]
                        [..width.from.len()];
                    // Ascending: what is padded on the left, the inside, what is on the right.
                    add(sums, left, line);
                    if let Some(&first) = width.from[inside.clone()].first() {
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
