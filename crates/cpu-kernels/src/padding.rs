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

use crate::error::{Error, Result, expect_countable, expect_len};
use crate::{Float, memory, parallel};
use samebits_numerics::simd::{self, Kernel};
use samebits_tensor_core::ops::padded_size;
use std::ops::Range;

pub use samebits_tensor_core::ops::PadMode;

/// The sizes of one padding, and where each output comes from.
///
/// # Examples
///
/// ```
/// use samebits_cpu_kernels::padding::{PadMode, Padding};
///
/// let padding = Padding::new("pad", 1, &[3], &[[2, 1]], PadMode::Reflect)?;
/// let mut out = [0.0f32; 6];
/// padding.forward(&[1.0, 2.0, 3.0], 0.0, &mut out)?;
/// assert_eq!(out, [3.0, 2.0, 1.0, 2.0, 3.0, 2.0]);
/// # Ok::<(), samebits_cpu_kernels::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Padding {
    op: &'static str,
    planes: usize,
    dims: usize,
    axes: [Axis; 3],
}

/// One dimension.
#[derive(Clone, Debug)]
struct Axis {
    input: usize,
    /// The input position that each output copies, or [`FILL`].
    from: Vec<usize>,
    /// Outputs that copy consecutive inputs.
    inside: Range<usize>,
    /// For each input, where its outputs start in `outputs`; one more at the end.
    starts: Vec<usize>,
    /// The outputs that copy each input, ascending.
    outputs: Vec<usize>,
}

const FILL: usize = usize::MAX;

impl Padding {
    /// The padding of `planes` planes of size `input` by `pads[d] = [before, after]` elements in
    /// dimension `d`.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] if there are not one to three dimensions with two pads each, or a pad
    /// is too large for the mode: reflection needs it below the input size, circular padding at
    /// most that size; nothing can be cut off that is not there; or if the sizes are more elements
    /// than can be counted; [`Error::OutOfMemory`].
    ///
    /// # References
    ///
    /// `torch.nn.functional.pad`; its list of pads starts with the last dimension.
    pub fn new(
        op: &'static str,
        planes: usize,
        input: &[usize],
        pads: &[[i64; 2]],
        mode: PadMode,
    ) -> Result<Padding> {
        let dims = input.len();
        if !(1..=3).contains(&dims) || pads.len() != dims {
            return Err(Error::argument(
                op,
                format!("1 to 3 dimensions with two pads each, got {input:?} and {pads:?}"),
            ));
        }
        let mut axes = [const { None }; 3];
        for (at, axis) in axes.iter_mut().enumerate() {
            let missing = 3 - dims;
            *axis = Some(if at < missing {
                Axis::new(op, 1, [0, 0], mode)?
            } else {
                Axis::new(op, input[at - missing], pads[at - missing], mode)?
            });
        }
        let axes = axes.map(|axis| axis.expect("each was set above"));
        let [depth, height, width] = axes.each_ref().map(|axis| axis.from.len());
        expect_countable(op, &[&[planes], input].concat())?;
        expect_countable(op, &[planes, depth, height, width])?;
        Ok(Padding { op, planes, dims, axes })
    }

    /// The size of an output plane, in as many dimensions as the input was given in.
    #[must_use]
    pub fn output_size(&self) -> Vec<usize> {
        self.axes[3 - self.dims..].iter().map(|axis| axis.from.len()).collect()
    }

    /// Elements of the input, all planes together.
    #[must_use]
    pub fn input_len(&self) -> usize {
        self.planes * self.axes.iter().map(|axis| axis.input).product::<usize>()
    }

    /// Elements of the output, all planes together.
    #[must_use]
    pub fn output_len(&self) -> usize {
        self.planes * self.axes.iter().map(|axis| axis.from.len()).product::<usize>()
    }

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
    /// [`Error::Length`] if a slice does not fit.
    pub fn forward<T: Copy + Send + Sync>(
        &self,
        input: &[T],
        value: T,
        out: &mut [T],
    ) -> Result<()> {
        expect_len(self.op, "input", input.len(), self.input_len())?;
        expect_len(self.op, "out", out.len(), self.output_len())?;
        if out.is_empty() {
            return Ok(());
        }
        let [depth, height, width] = &self.axes;
        let lines = depth.from.len() * height.from.len();
        let [_, in_height, in_width] = self.axes.each_ref().map(|axis| axis.input);
        let in_plane = depth.input * in_height * in_width;
        parallel::rows(width.from.len(), out, |start, out| {
            let first = start / width.from.len();
            for (offset, out) in out.chunks_exact_mut(width.from.len()).enumerate() {
                let row = first + offset;
                let d = depth.from[row % lines / height.from.len()];
                let h = height.from[row % height.from.len()];
                if d == FILL || h == FILL {
                    out.fill(value);
                    continue;
                }
                let from = row / lines * in_plane + (d * in_height + h) * in_width;
                let line = &input[from..from + in_width];
                let inside = width.inside.clone();
                for (out, &w) in out[..inside.start].iter_mut().zip(&width.from) {
                    *out = if w == FILL { value } else { line[w] };
                }
                for (out, &w) in out[inside.end..].iter_mut().zip(&width.from[inside.end..]) {
                    *out = if w == FILL { value } else { line[w] };
                }
                if let Some(&w) = width.from[inside.clone()].first() {
                    out[inside.clone()].copy_from_slice(&line[w..w + inside.len()]);
                }
            }
        });
        Ok(())
    }

    /// The gradient of [`forward`](Padding::forward).
    ///
    /// # Shapes
    ///
    /// `grad_out` has [`Padding::output_len`] elements; `grad_input` has
    /// [`Padding::input_len`] and is overwritten.
    ///
    /// # Determinism
    ///
    /// Portable: ascending output index from `+0`.
    ///
    /// # Errors
    ///
    /// [`Error::Length`] if a slice does not fit.
    pub fn backward<T: Float>(&self, grad_out: &[T], grad_input: &mut [T]) -> Result<()> {
        expect_len(self.op, "grad_out", grad_out.len(), self.output_len())?;
        expect_len(self.op, "grad_input", grad_input.len(), self.input_len())?;
        if grad_input.is_empty() {
            return Ok(());
        }
        let width = self.axes[2].input;
        let rows = (1usize << 13).div_ceil(width);
        parallel::pieces_of(rows * width, grad_input, |start, grad_input| {
            let first = start / width;
            simd::dispatch(GradRows { padding: self, grad_out, first, grad_input });
        });
        Ok(())
    }
}

impl Axis {
    fn new(
        op: &'static str,
        input: usize,
        [before, after]: [i64; 2],
        mode: PadMode,
    ) -> Result<Axis> {
        let output = padded_size(op, input, [before, after], mode).map_err(Error::from_core)?;
        // Room first: that the sizes are small enough for sums of them follows.
        let mut starts = memory::zeroed::<usize>(op, input.saturating_add(1))?;
        let mut from = memory::with_capacity(op, output)?;
        let (size, output) = (input as i64, output as i64);
        let source = |o: i64| -> usize {
            let at = o - before;
            if (0..size).contains(&at) {
                return at as usize;
            }
            match mode {
                PadMode::Constant => FILL,
                // Twice the distance to the nearer end.
                PadMode::Reflect if at < 0 => -at as usize,
                PadMode::Reflect => (2 * (size - 1) - at) as usize,
                PadMode::Replicate => at.clamp(0, size - 1) as usize,
                PadMode::Circular => at.rem_euclid(size) as usize,
            }
        };
        from.extend((0..output).map(source));
        let start = before.clamp(0, output) as usize;
        let end = (before + size).clamp(start as i64, output) as usize;
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
        Ok(Axis { input, from, inside: start..end, starts, outputs })
    }

    #[inline(always)]
    fn outputs_of(&self, input: usize) -> &[usize] {
        &self.outputs[self.starts[input]..self.starts[input + 1]]
    }
}

struct GradRows<'a, T> {
    padding: &'a Padding,
    grad_out: &'a [T],
    first: usize,
    grad_input: &'a mut [T],
}

impl<T: Float> Kernel for GradRows<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let [depth, height, width] = &self.padding.axes;
        let out_plane = depth.from.len() * height.from.len() * width.from.len();
        let lines = depth.input * height.input;
        let inside = width.inside.clone();
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
