//! Maximum pooling.

use super::Pool;
use super::lanes::{self, Axis, Largest};
use crate::error::{Error, Result, expect_len};
use crate::scatter::{Checked, fold};
use crate::{Float, memory, parallel};
use samebits_numerics::extrema::replaces_max;
use samebits_numerics::simd::{self, Kernel};

/// The number of output elements per task.
pub(super) const TASK: usize = 1 << 13;

/// Computes the largest element of each window, and its position in its plane.
///
/// # Shapes
///
/// `input` has [`Pool::input_len`] elements, `out` and `indices` have
/// [`Pool::output_len`].
///
/// # Determinism
///
/// Portable: ties go to the lowest index; see the [module](super). A window without elements
/// (possible with dilation) gives negative infinity and index -1.
///
/// # Errors
///
/// [`Error::Length`] if a slice has the wrong length; [`Error::Argument`] if a window has 2^32
/// elements or more; [`Error::OutOfMemory`].
///
/// # Examples
///
/// ```
/// use samebits_cpu_kernels::pooling::{Pool, PoolParams, max_pool};
///
/// let params = PoolParams { ceil_mode: true, ..PoolParams::square(1, 2) };
/// let pool = Pool::new("max_pool1d", &[1, 1, 5], &params)?;
/// let (mut out, mut indices) = ([0.0f32; 3], [0; 3]);
/// max_pool(&pool, &[1.0, 3.0, 2.0, 2.0, 5.0], &mut out, &mut indices)?;
/// assert_eq!((out, indices), ([3.0, 2.0, 5.0], [1, 2, 4]));
/// # Ok::<(), samebits_tensor_core::Error>(())
/// ```
///
/// # References
///
/// `torch.nn.functional.max_pool2d` with `return_indices`.
pub fn max_pool<T: Float>(
    pool: &Pool,
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
    let kernel = pool.axes().map(|axis| axis.kernel);
    let window = memory::product(&kernel).unwrap_or(usize::MAX);
    if window >= NONE as usize {
        let message = format!("a window has at most {NONE} elements, got {kernel:?}");
        return Err(Error::argument(pool.op(), message));
    }
    if lanes::pay(pool.planes()) && pool.input_plane() <= lanes::EXACT {
        let windows = lanes::windows(pool.axes(), |axis| Axis::of_pool(pool.op(), axis))?;
        let largest = Largest(windows);
        if let Some(cut) = crate::lanes::cut::<T>(pool.op(), &largest)? {
            return crate::lanes::run(pool.op(), &largest, &cut, input, out, indices);
        }
    }
    let [.., width] = pool.output();
    let rows = TASK.div_ceil(width);
    let size = rows * width;
    let tasks = parallel::chunks_mut(out, size).zip(parallel::chunks_mut(indices, size));
    tasks.enumerate().try_for_each(|(task, (out, indices))| {
        let taps = &mut memory::filled(pool.op(), width, NONE)?;
        simd::dispatch(MaxRows { pool, input, first: task * rows, taps, out, indices });
        Ok(())
    })
}

/// Computes the gradient of [`max_pool`] and of every other maximum pooling: each output's gradient
/// is added to the input position that its index names; the index -1 names none.
///
/// # Shapes
///
/// `grad_out` and `indices` (planes, output plane), `grad_input` (planes, input plane); it is
/// overwritten.
///
/// # Determinism
///
/// Portable: ascending output index from `+0`; see the [module](super).
///
/// # Errors
///
/// [`Error::Length`] if a slice has the wrong length; [`Error::IndexOutOfRange`] if an index is not
/// in its plane, and then nothing is written; [`Error::OutOfMemory`].
///
/// # Examples
///
/// ```
/// use samebits_cpu_kernels::pooling::max_pool_backward;
///
/// let mut grad_input = [0.0f32; 4];
/// max_pool_backward("max_pool1d", 1, &[1.0, 2.0, 3.0], &[1, 1, 3], &mut grad_input)?;
/// assert_eq!(grad_input, [0.0, 3.0, 0.0, 3.0]);
/// # Ok::<(), samebits_cpu_kernels::Error>(())
/// ```
pub fn max_pool_backward<T: Float>(
    op: &'static str,
    planes: usize,
    grad_out: &[T],
    indices: &[i64],
    grad_input: &mut [T],
) -> Result<()> {
    let (out_plane, in_plane) = plane_sizes(op, planes, grad_out.len(), grad_input.len())?;
    expect_len(op, "indices", indices.len(), grad_out.len())?;
    check_indices(op, indices, in_plane, true)?;
    if out_plane == 0 || in_plane == 0 {
        grad_input.fill(T::ZERO);
        return Ok(());
    }
    if planes >= 8 || grad_out.len() < TASK {
        let planes_per_task = TASK.div_ceil(out_plane.max(in_plane));
        parallel::pieces_of(planes_per_task * in_plane, grad_input, |start, grad_input| {
            let first = start / in_plane * out_plane;
            let outputs = first..first + grad_input.len() / in_plane * out_plane;
            let planes = grad_input.chunks_mut(in_plane).zip(
                grad_out[outputs.clone()].chunks(out_plane).zip(indices[outputs].chunks(out_plane)),
            );
            for (grad_input, (grad_out, indices)) in planes {
                grad_input.fill(T::ZERO);
                for (&grad, &index) in grad_out.iter().zip(indices) {
                    if let Some(sum) = grad_input.get_mut(index as usize) {
                        *sum = *sum + grad;
                    }
                }
                grad_input.iter_mut().for_each(|sum| *sum = sum.canonical());
            }
        });
        return Ok(());
    }
    grad_input.fill(T::ZERO);
    // For few large planes: the sources of each stretch of the input, in the same order.
    let mut sources = memory::with_capacity(op, indices.len())?;
    let mut places = memory::with_capacity(op, indices.len())?;
    for (source, &index) in indices.iter().enumerate().filter(|&(_, &index)| index >= 0) {
        sources.push(source);
        places.push(source / out_plane * in_plane + index as usize);
    }
    fold(
        grad_input,
        1,
        &Checked(op, &places),
        |i, _| grad_out[sources[i]],
        |sum, grad| (sum + grad).canonical(),
    )
}

/// Returns the number of elements per plane of two slices.
pub(super) fn plane_sizes(
    op: &'static str,
    planes: usize,
    outputs: usize,
    inputs: usize,
) -> Result<(usize, usize)> {
    let divisor = planes.max(1);
    expect_len(op, "grad_out", outputs, outputs / divisor * planes)?;
    expect_len(op, "grad_input", inputs, inputs / divisor * planes)?;
    Ok((outputs / divisor, inputs / divisor))
}

/// Checks that every index is in `0..size`, or -1 for "none" if allowed.
pub(super) fn check_indices(
    op: &'static str,
    indices: &[i64],
    size: usize,
    none_allowed: bool,
) -> Result<()> {
    let none = u64::from(none_allowed);
    // Adding one maps -1 to 0, and every other negative number to a huge one.
    let inside = |index: i64| (index as u64).wrapping_add(none) < size as u64 + none;
    let valid = |piece: &[i64]| piece.iter().fold(true, |valid, &index| valid & inside(index));
    if !parallel::chunks(indices, 1 << 16).any(|piece| !valid(piece)) {
        return Ok(());
    }
    match indices.iter().position(|&index| !inside(index)) {
        Some(position) => {
            Err(Error::IndexOutOfRange { op, position, index: indices[position], size })
        }
        None => Ok(()),
    }
}

/// Whole rows of outputs, counted over all planes.
struct MaxRows<'a, T> {
    pool: &'a Pool,
    input: &'a [T],
    first: usize,
    /// Scratch memory for a row: the number of the largest element in each window, or `NONE`.
    taps: &'a mut [u32],
    out: &'a mut [T],
    indices: &'a mut [i64],
}

impl<T: Float> Kernel for MaxRows<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let [depth, height, width] = self.pool.axes();
        let in_plane = self.pool.input_plane();
        let taps = self.taps;
        let indices = self.indices.chunks_exact_mut(width.output);
        let rows = self.out.chunks_exact_mut(width.output).zip(indices);
        // In planes of ordinary size, a window element is known by its position, counted as if the
        // output were the first of its row. This needs no division.
        let reach = width.kernel.saturating_mul(width.dilation).saturating_add(in_plane);
        let near = reach < NONE as usize;
        for (offset, (best, indices)) in rows.enumerate() {
            let row = self.first + offset;
            let (d, h) = (row / height.output % depth.output, row % height.output);
            let plane = row / (depth.output * height.output);
            let input = &self.input[plane * in_plane..][..in_plane];
            best.fill(T::LOWEST);
            taps.fill(NONE);
            for kd in depth.taps(d) {
                let id = depth.position(d, kd);
                for kh in height.taps(h) {
                    let ih = height.position(h, kh);
                    let start = (id * height.input + ih) * width.input;
                    let line = &input[start..][..width.input];
                    for (kw, outputs) in width.taps_of_all() {
                        let line = &line[width.position(outputs.start, kw)..];
                        let tap = if near {
                            start + kw * width.dilation
                        } else {
                            (kd * height.kernel + kh) * width.kernel + kw
                        } as u32;
                        let best = &mut best[outputs.clone()];
                        let taps = &mut taps[outputs];
                        match width.stride {
                            1 => keep_larger::<T, 1>(best, taps, line, 1, tap),
                            2 => keep_larger::<T, 2>(best, taps, line, 2, tap),
                            stride => keep_larger::<T, 0>(best, taps, line, stride, tap),
                        }
                    }
                }
            }
            for (w, (index, &tap)) in indices.iter_mut().zip(&*taps).enumerate() {
                *index = match near {
                    true if tap == NONE => -1,
                    true => i64::from(tap) + (w * width.stride) as i64 - width.padding as i64,
                    false => index_of_tap(self.pool, tap, [d, h, w]),
                };
            }
            best.iter_mut().for_each(|x| *x = x.canonical());
        }
    }
}

const NONE: u32 = u32::MAX;

/// Compares one window element of a row of outputs with the largest so far. A `STRIDE` of 0 stands
/// for any stride; the others let the compiler vectorise.
#[inline(always)]
fn keep_larger<T: Float, const STRIDE: usize>(
    best: &mut [T],
    taps: &mut [u32],
    line: &[T],
    stride: usize,
    tap: u32,
) {
    let stride = if STRIDE == 0 { stride } else { STRIDE };
    let n = best.len();
    let (taps, line) = (&mut taps[..n], &line[..(n - 1) * stride + 1]);
    for o in 0..n {
        let x = line[o * stride];
        let wins = replaces_max(best[o], x) | (taps[o] == NONE);
        best[o] = if wins { x } else { best[o] };
        taps[o] = if wins { tap } else { taps[o] };
    }
}

#[inline(always)]
fn index_of_tap(pool: &Pool, tap: u32, [d, h, w]: [usize; 3]) -> i64 {
    if tap == NONE {
        return -1;
    }
    let [depth, height, width] = pool.axes();
    let tap = tap as usize;
    let id = depth.position(d, tap / (height.kernel * width.kernel));
    let ih = height.position(h, tap / width.kernel % height.kernel);
    let iw = width.position(w, tap % width.kernel);
    ((id * height.input + ih) * width.input + iw) as i64
}
