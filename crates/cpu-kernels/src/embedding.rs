//! Rows of a table: `embedding`, `embedding_bag` and their gradients.
//!
//! The gradient of the table is an irregular sum, defined in [`scatter`](crate::scatter). Each
//! function documents its addends.

mod bag;

pub use bag::{
    BagBounds, BagMode, Bags, embedding_bag, embedding_bag_backward, embedding_bag_backward_fast,
    embedding_bag_weights_backward,
};

use crate::error::{Result, expect_size};
use crate::index::index_select;
use crate::scatter::Sums;
use crate::scatter::{Adder, Atomic, Checked, Exact, check, picked};
use crate::{Float, memory, parallel};

/// Copies the rows of `weight` that `index` names.
///
/// # Shapes
///
/// `weight` (rows, width), `index` (n), `out` (n, width).
///
/// # Determinism
///
/// Portable: values are only moved.
///
/// # Errors
///
/// [`Error::Length`](crate::Error::Length) if a slice does not have the given shape;
/// [`Error::IndexOutOfRange`](crate::Error::IndexOutOfRange).
///
/// # Examples
///
/// ```
/// use samebits_cpu_kernels::embedding::embedding;
///
/// let mut out = [0.0f32; 4];
/// embedding(&mut out, &[1.0, 2.0, 3.0, 4.0], [2, 2], &[1, 1])?;
/// assert_eq!(out, [3.0, 4.0, 3.0, 4.0]);
/// # Ok::<(), samebits_cpu_kernels::Error>(())
/// ```
///
/// # References
///
/// `torch.nn.functional.embedding`.
pub fn embedding<T: Copy + Send + Sync>(
    out: &mut [T],
    weight: &[T],
    [rows, width]: [usize; 2],
    index: &[i64],
) -> Result<()> {
    index_select("embedding", out, weight, [1, rows, width], index)
}

/// Computes the gradient of the table of [`embedding`].
///
/// Row `r` is the exact sum of the gradients of the places that hold `r`; with `scale_grad_by_freq`
/// it is then divided by their number. The row `padding_idx` gets no gradient.
///
/// # Shapes
///
/// `grad_out` (n, width), `index` (n), `grad_weight` (rows, width), overwritten.
///
/// # Determinism
///
/// Portable.
///
/// # Errors
///
/// As [`embedding`]; [`Error::OutOfMemory`](crate::Error::OutOfMemory).
///
/// # References
///
/// `torch.nn.functional.embedding`, `embedding_dense_backward`.
pub fn embedding_backward<T: Sums>(
    grad_weight: &mut [T],
    shape: [usize; 2],
    index: &[i64],
    grad_out: &[T],
    padding_idx: Option<usize>,
    scale_grad_by_freq: bool,
) -> Result<()> {
    let scale = scale_grad_by_freq;
    backward::<T, Exact>(grad_weight, shape, index, grad_out, padding_idx, scale)
}

/// Computes [`embedding_backward`] with float atomics.
///
/// # Shapes
///
/// As [`embedding_backward`].
///
/// # Determinism
///
/// Not guaranteed: the bits depend on the schedule.
///
/// # Errors
///
/// As [`embedding`].
pub fn embedding_backward_fast(
    grad_weight: &mut [f32],
    shape: [usize; 2],
    index: &[i64],
    grad_out: &[f32],
    padding_idx: Option<usize>,
    scale_grad_by_freq: bool,
) -> Result<()> {
    let scale = scale_grad_by_freq;
    backward::<f32, Atomic>(grad_weight, shape, index, grad_out, padding_idx, scale)
}

fn backward<T: Float, A: Adder<T>>(
    grad_weight: &mut [T],
    [rows, width]: [usize; 2],
    index: &[i64],
    grad_out: &[T],
    padding_idx: Option<usize>,
    scale_grad_by_freq: bool,
) -> Result<()> {
    const OP: &str = "embedding";
    expect_size(OP, "grad_weight", grad_weight.len(), &[rows, width])?;
    expect_size(OP, "grad_out", grad_out.len(), &[index.len(), width])?;
    check(OP, index, rows)?;
    if grad_weight.is_empty() {
        return Ok(());
    }
    let (sources, places) = without(padding_idx, index)?;
    let addends = picked(grad_out, &sources, width);
    A::add_rows(grad_weight, true, width, &Checked(OP, &places), &addends)?;
    if scale_grad_by_freq {
        divide_by_counts(OP, grad_weight, width, &places)?;
    }
    Ok(())
}

/// Returns the sources whose index is not `padding_idx`, and their rows. The index must have been
/// checked.
fn without(padding_idx: Option<usize>, index: &[i64]) -> Result<(Vec<usize>, Vec<usize>)> {
    let mut sources = memory::with_capacity("embedding", index.len())?;
    let mut rows = memory::with_capacity("embedding", index.len())?;
    let kept = index.iter().map(|&row| row as usize).enumerate();
    for (source, row) in kept.filter(|&(_, row)| Some(row) != padding_idx) {
        sources.push(source);
        rows.push(row);
    }
    Ok((sources, rows))
}

/// Divides each row by its number of occurrences in `places`. The gradient must not be empty.
fn divide_by_counts<T: Float>(
    op: &'static str,
    grad_weight: &mut [T],
    width: usize,
    places: &[usize],
) -> Result<()> {
    let mut counts = memory::zeroed::<usize>(op, grad_weight.len() / width)?;
    places.iter().for_each(|&row| counts[row] += 1);
    parallel::rows(width, grad_weight, |start, rows| {
        for (row, &count) in rows.chunks_exact_mut(width).zip(&counts[start / width..]) {
            if count > 1 {
                let divisor = T::from_usize(count);
                row.iter_mut().for_each(|x| *x = (*x / divisor).canonical());
            }
        }
    });
    Ok(())
}
