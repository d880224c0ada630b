//! Elements in reverse order along some dimensions.

use samebits_tensor_core::ops::FlipGroup;

use crate::error::{Result, expect_size};
use crate::parallel;

/// Copies elements in reverse order along some dimensions.
///
/// # Shapes
///
/// `input` and `out` have the sizes of `groups`, the last one innermost.
///
/// # Determinism
///
/// Portable: values are only moved, and keep their bits.
///
/// # Errors
///
/// [`Error::Length`](crate::Error::Length) if a slice does not have the given shape.
///
/// # Examples
///
/// ```
/// use samebits_cpu_kernels::flip::flip;
/// use samebits_tensor_core::ops::FlipGroup;
///
/// let mut out = [0; 6];
/// let groups =
///     [FlipGroup { size: 2, is_flipped: false }, FlipGroup { size: 3, is_flipped: true }];
/// flip(&mut out, &[1, 2, 3, 4, 5, 6], &groups)?;
/// assert_eq!(out, [3, 2, 1, 6, 5, 4]);
/// # Ok::<(), samebits_cpu_kernels::Error>(())
/// ```
///
/// # References
///
/// `torch.flip`.
pub fn flip<T: Copy + Send + Sync>(out: &mut [T], input: &[T], groups: &[FlipGroup]) -> Result<()> {
    const OP: &str = "flip";
    let sizes: Vec<usize> = groups.iter().map(|group| group.size).collect();
    expect_size(OP, "input", input.len(), &sizes)?;
    expect_size(OP, "out", out.len(), &sizes)?;
    if out.is_empty() {
        return Ok(());
    }
    // Rows keep the order of their elements; those of a slab are reversed or not.
    let (width, outer) = match groups {
        [outer @ .., FlipGroup { size, is_flipped: false }] => (*size, outer),
        _ => (1, groups),
    };
    let (rows, outer) = match outer {
        [outer @ .., rows] => (*rows, outer),
        [] => (FlipGroup { size: 1, is_flipped: false }, outer),
    };
    parallel::rows(width, out, |start, mut out| {
        let mut row = start / width;
        while !out.is_empty() {
            let (slab, first) = (row / rows.size, row % rows.size);
            let count = (rows.size - first).min(out.len() / width);
            let (now, later) = out.split_at_mut(count * width);
            let from = if rows.is_flipped { rows.size - first - count } else { first };
            let from = source(outer, slab) * rows.size + from;
            let from = &input[from * width..][..now.len()];
            if rows.is_flipped {
                reverse_rows(now, from, width);
            } else {
                now.copy_from_slice(from);
            }
            (row, out) = (row + count, later);
        }
    });
    Ok(())
}

/// Returns the number of the slab of the input that becomes a slab of the output.
fn source(groups: &[FlipGroup], mut slab: usize) -> usize {
    let (mut found, mut stride) = (0, 1);
    for (i, group) in groups.iter().enumerate().rev() {
        let at = if i == 0 { slab } else { slab % group.size };
        found += stride * if group.is_flipped { group.size - 1 - at } else { at };
        stride *= group.size;
        slab /= group.size;
    }
    found
}

/// Copies rows in reverse order.
fn reverse_rows<T: Copy>(out: &mut [T], from: &[T], width: usize) {
    match width {
        1 => reverse::<1, _>(out, from),
        2 => reverse::<2, _>(out, from),
        3 => reverse::<3, _>(out, from),
        4 => reverse::<4, _>(out, from),
        8 => reverse::<8, _>(out, from),
        16 => reverse::<16, _>(out, from),
        _ => {
            let rows = from.chunks_exact(width).rev();
            out.chunks_exact_mut(width).zip(rows).for_each(|(out, row)| out.copy_from_slice(row));
        }
    }
}

/// Copies rows of `N` elements in reverse order.
fn reverse<const N: usize, T: Copy>(out: &mut [T], from: &[T]) {
    let rows = from.as_chunks::<N>().0.iter().rev();
    out.as_chunks_mut::<N>().0.iter_mut().zip(rows).for_each(|(out, row)| *out = *row);
}
