//! The partial inverse of maximum pooling.

use super::max::check_indices;
use crate::error::{Result, expect_len};
use crate::{Float, parallel};

/// Copies each input to the output that its index names, and sets all other outputs to zero.
///
/// # Shapes
///
/// `input` and `indices` (planes, input plane), `out` (planes, output plane); it is overwritten.
/// An index is a position in its output plane.
///
/// # Determinism
///
/// Portable: if several inputs have one index, the last one is kept. Values keep their bits.
///
/// # Errors
///
/// [`Error::Length`](crate::Error::Length) if a slice has the wrong length;
/// [`Error::IndexOutOfRange`](crate::Error::IndexOutOfRange), and then nothing is written.
///
/// # Examples
///
/// ```
/// use samebits_cpu_kernels::pooling::max_unpool;
///
/// let mut out = [9.0f32; 4];
/// max_unpool("max_unpool1d", 1, &[1.0, 2.0, 3.0], &[2, 0, 2], &mut out)?;
/// assert_eq!(out, [2.0, 0.0, 3.0, 0.0]);
/// # Ok::<(), samebits_cpu_kernels::Error>(())
/// ```
///
/// # References
///
/// `torch.nn.functional.max_unpool2d`, which does not define the result for duplicates.
pub fn max_unpool<T: Float>(
    op: &'static str,
    planes: usize,
    input: &[T],
    indices: &[i64],
    out: &mut [T],
) -> Result<()> {
    let (in_plane, out_plane) = check(op, planes, input.len(), indices, out.len(), false)?;
    if in_plane == 0 || out_plane == 0 {
        out.fill(T::ZERO);
        return Ok(());
    }
    let inputs = parallel::chunks(input, in_plane).zip(parallel::chunks(indices, in_plane));
    parallel::chunks_mut(out, out_plane).zip(inputs).for_each(|(out, (input, indices))| {
        out.fill(T::ZERO);
        for (&x, &index) in input.iter().zip(indices) {
            out[index as usize] = x;
        }
    });
    Ok(())
}

/// Computes the gradient of [`max_unpool`]: the gradient of an input is that of the output its
/// index names. The index -1 names none and gives `+0`; it occurs because a window of
/// [`max_pool`](super::max_pool) can be empty.
///
/// # Shapes
///
/// `grad_out` (planes, output plane), `indices` and `grad_input` (planes, input plane).
///
/// # Determinism
///
/// Portable: nothing is added. An input that a later duplicate overwrote gets the same gradient as
/// that duplicate, as in PyTorch.
///
/// # Errors
///
/// As [`max_unpool`].
pub fn max_unpool_backward<T: Float>(
    op: &'static str,
    planes: usize,
    grad_out: &[T],
    indices: &[i64],
    grad_input: &mut [T],
) -> Result<()> {
    let (in_plane, out_plane) = check(op, planes, grad_input.len(), indices, grad_out.len(), true)?;
    if in_plane == 0 || out_plane == 0 {
        grad_input.fill(T::ZERO);
        return Ok(());
    }
    let inputs = parallel::chunks(grad_out, out_plane).zip(parallel::chunks(indices, in_plane));
    let planes = parallel::chunks_mut(grad_input, in_plane).zip(inputs);
    planes.for_each(|(grad_input, (grad_out, indices))| {
        for (grad, &index) in grad_input.iter_mut().zip(indices) {
            *grad = grad_out.get(index as usize).copied().unwrap_or(T::ZERO);
        }
    });
    Ok(())
}

fn check(
    op: &'static str,
    planes: usize,
    input: usize,
    indices: &[i64],
    out: usize,
    none_allowed: bool,
) -> Result<(usize, usize)> {
    let divisor = planes.max(1);
    expect_len(op, "the input", input, input / divisor * planes)?;
    expect_len(op, "the output", out, out / divisor * planes)?;
    expect_len(op, "indices", indices.len(), input)?;
    check_indices(op, indices, out / divisor, none_allowed)?;
    Ok((input / divisor, out / divisor))
}
