//! Reads from, and assignments to, indexed places: `index_select`, `gather`, `scatter`,
//! `index_copy`, `put`, `take`, `repeat_interleave`, and the gradients of the reads.
//!
//! Tensors are contiguous slices of shape (outer, dim, inner), as in [`scatter`](crate::scatter).
//! Values are moved without arithmetic, so they keep their bits, even those of NaN. If several
//! sources are assigned to one place, the one with the highest index is kept. The gradient of a
//! read is an irregular sum, defined in [`scatter`](crate::scatter).

use crate::error::{Error, Result, expect_len, expect_size};
use crate::scatter::ascending::{Entry, Visitor, visit_rows};
use crate::scatter::{
    Checked, Destinations, Elements, Rows, Sums, check, elements, first_invalid, index_add_to,
    put_add_to, rows, wrapped,
};
use crate::{memory, parallel};
use std::marker::PhantomData;

/// The number of elements that a task of `index_copy` moves.
const MOVED: usize = 1 << 14;

/// Copies the slices that `index` names: `out[o, k, :] = input[o, index[k], :]`.
///
/// # Shapes
///
/// `input` (outer, dim, inner), `index` (n), `out` (outer, n, inner).
///
/// # Determinism
///
/// Portable: values are only moved.
///
/// # Errors
///
/// [`Error::Length`] if a slice does not have the given shape; [`Error::IndexOutOfRange`]. Then
/// nothing is written.
///
/// # Examples
///
/// ```
/// use samebits_cpu_kernels::index::index_select;
///
/// let mut out = [0; 4];
/// index_select("index_select", &mut out, &[1, 2, 3, 4, 5, 6], [1, 3, 2], &[2, 0])?;
/// assert_eq!(out, [5, 6, 1, 2]);
/// # Ok::<(), samebits_cpu_kernels::Error>(())
/// ```
///
/// # References
///
/// `torch.index_select`.
pub fn index_select<T: Copy + Send + Sync>(
    op: &'static str,
    out: &mut [T],
    input: &[T],
    [outer, dim, inner]: [usize; 3],
    index: &[i64],
) -> Result<()> {
    expect_size(op, "input", input.len(), &[outer, dim, inner])?;
    expect_size(op, "out", out.len(), &[outer, index.len(), inner])?;
    check(op, index, dim)?;
    if out.is_empty() {
        return Ok(());
    }
    let n = index.len();
    parallel::rows(inner, out, |start, mut out| {
        let (mut o, mut k) = (start / inner / n, start / inner % n);
        while !out.is_empty() {
            let count = (n - k).min(out.len() / inner);
            let (now, later) = out.split_at_mut(count * inner);
            let (slab, index) = (&input[o * dim * inner..][..dim * inner], &index[k..k + count]);
            match inner {
                1 => select::<1, _>(now, slab, index),
                2 => select::<2, _>(now, slab, index),
                3 => select::<3, _>(now, slab, index),
                4 => select::<4, _>(now, slab, index),
                8 => select::<8, _>(now, slab, index),
                16 => select::<16, _>(now, slab, index),
                _ => {
                    for (out, &i) in now.chunks_exact_mut(inner).zip(index) {
                        out.copy_from_slice(&slab[i as usize * inner..][..inner]);
                    }
                }
            }
            (o, k, out) = (o + 1, 0, later);
        }
    });
    Ok(())
}

/// Copies the rows of `N` elements that an index names.
fn select<const N: usize, T: Copy>(out: &mut [T], rows: &[T], index: &[i64]) {
    let (rows, _) = rows.as_chunks::<N>();
    for (out, &i) in out.as_chunks_mut::<N>().0.iter_mut().zip(index) {
        *out = rows[i as usize];
    }
}

/// Computes the gradient of [`index_select`]: the sum of the slices that were read from each place.
///
/// # Shapes
///
/// `grad_out` (outer, n, inner), `index` (n), `grad_input` (outer, dim, inner), overwritten.
///
/// # Determinism
///
/// Portable: an irregular sum; see [`scatter`](crate::scatter).
///
/// # Errors
///
/// As [`index_select`].
pub fn index_select_backward<T: Sums>(
    grad_input: &mut [T],
    shape: [usize; 3],
    index: &[i64],
    grad_out: &[T],
) -> Result<()> {
    index_add_to("index_select", grad_input, true, shape, index, grad_out, T::ONE)
}

/// Copies the elements that an index of elements names along one dimension: `out[o, k, j] =
/// input[o, index[o, k, j], j]`.
///
/// # Shapes
///
/// `input` (outer, dim, inner), `index` and `out` (outer, n, inner).
///
/// # Determinism
///
/// Portable: values are only moved.
///
/// # Errors
///
/// As [`index_select`], but some of `out` may be written before an index out of range is found.
///
/// # Examples
///
/// ```
/// use samebits_cpu_kernels::index::gather;
///
/// let mut out = [0.0f32; 4];
/// gather(&mut out, &[1.0, 2.0, 3.0, 4.0], [2, 2, 1], &[1, 1, 0, 1])?;
/// assert_eq!(out, [2.0, 2.0, 3.0, 4.0]);
/// # Ok::<(), samebits_cpu_kernels::Error>(())
/// ```
///
/// # References
///
/// `torch.gather`.
pub fn gather<T: Copy + Send + Sync>(
    out: &mut [T],
    input: &[T],
    shape: [usize; 3],
    index: &[i64],
) -> Result<()> {
    const OP: &str = "gather";
    expect_len(OP, "index", index.len(), out.len())?;
    let [_, dim, inner] = shape;
    let Elements { n, .. } = elements(OP, "input", input.len(), shape, index)?;
    if index.is_empty() || input.is_empty() {
        return check(OP, index, dim);
    }
    let (slab, places) = (dim * inner, n * inner);
    parallel::try_pieces(out, |start, mut out| {
        let mut at = start;
        while !out.is_empty() {
            // The rest of a slab, or what is left of this piece.
            let count = (places - at % places).min(out.len());
            let (now, later) = out.split_at_mut(count);
            let from = &input[at / places * slab..][..slab];
            let index = &index[at..at + count];
            let valid = if inner == 1 {
                gather_line(from, index, now)
            } else {
                gather_lines(from, inner, at % inner, index, now)
            };
            if !valid {
                return Err(first_invalid(OP, index, dim, at));
            }
            (at, out) = (at + count, later);
        }
        Ok(())
    })
}

/// Copies the elements of a line that an index names. Returns false if any index is invalid.
fn gather_line<T: Copy>(line: &[T], index: &[i64], out: &mut [T]) -> bool {
    let mut valid = true;
    for (out, &i) in out.iter_mut().zip(index) {
        let is_inside = (i as u64) < line.len() as u64;
        valid &= is_inside;
        *out = line[if is_inside { i as usize } else { 0 }];
    }
    valid
}

/// Copies the elements that an index names of `inner` lines side by side, the first of them from line
/// `column`. Returns false if any index is invalid.
fn gather_lines<T: Copy>(
    lines: &[T],
    inner: usize,
    column: usize,
    index: &[i64],
    out: &mut [T],
) -> bool {
    let size = lines.len() / inner;
    let (mut valid, mut column) = (true, column);
    for (out, &i) in out.iter_mut().zip(index) {
        let is_inside = (i as u64) < size as u64;
        valid &= is_inside;
        *out = lines[if is_inside { i as usize * inner } else { 0 } + column];
        column = if column + 1 == inner { 0 } else { column + 1 };
    }
    valid
}

/// Computes the gradient of [`gather`].
///
/// # Shapes
///
/// `grad_out` and `index` (outer, n, inner), `grad_input` (outer, dim, inner), overwritten.
///
/// # Determinism
///
/// Portable: an irregular sum; see [`scatter`](crate::scatter).
///
/// # Errors
///
/// As [`index_select`].
pub fn gather_backward<T: Sums>(
    grad_input: &mut [T],
    shape: [usize; 3],
    index: &[i64],
    grad_out: &[T],
) -> Result<()> {
    const OP: &str = "gather";
    expect_len(OP, "grad_out", grad_out.len(), index.len())?;
    let elements = elements(OP, "grad_input", grad_input.len(), shape, index)?;
    T::add_rows(grad_input, true, 1, &elements, &rows(grad_out, 1))
}

/// Assigns each element of `source` to the element of `out` that its index names.
///
/// # Shapes
///
/// `out` (outer, dim, inner), `index` and `source` (outer, n, inner).
///
/// # Determinism
///
/// Portable: of duplicates, the highest source index is kept.
///
/// # Errors
///
/// As [`index_select`].
///
/// # Examples
///
/// ```
/// use samebits_cpu_kernels::index::scatter;
///
/// let mut out = [0; 3];
/// scatter(&mut out, [1, 3, 1], &[2, 0, 2], &[5, 6, 7])?;
/// assert_eq!(out, [6, 0, 7]);
/// # Ok::<(), samebits_cpu_kernels::Error>(())
/// ```
///
/// # References
///
/// `torch.Tensor.scatter_`, which does not define the result for duplicates.
pub fn scatter<T: Copy + Send + Sync>(
    out: &mut [T],
    shape: [usize; 3],
    index: &[i64],
    source: &[T],
) -> Result<()> {
    const OP: &str = "scatter";
    expect_len(OP, "source", source.len(), index.len())?;
    let places = elements(OP, "out", out.len(), shape, index)?;
    assign(out, 1, &places, source)
}

/// Assigns each slice of `source` to the slice of `out` that `index` names.
///
/// # Shapes
///
/// `out` (outer, dim, inner), `index` (n), `source` (outer, n, inner).
///
/// # Determinism
///
/// Portable: of duplicates, the highest source index is kept.
///
/// # Errors
///
/// As [`index_select`].
///
/// # References
///
/// `torch.Tensor.index_copy_`, which does not define the result for duplicates.
pub fn index_copy<T: Copy + Send + Sync>(
    out: &mut [T],
    [outer, dim, inner]: [usize; 3],
    index: &[i64],
    source: &[T],
) -> Result<()> {
    const OP: &str = "index_copy";
    expect_size(OP, "out", out.len(), &[outer, dim, inner])?;
    expect_size(OP, "source", source.len(), &[outer, index.len(), inner])?;
    check(OP, index, dim)?;
    if out.is_empty() {
        return Ok(());
    }
    let (slab, sources) = (dim * inner, index.len() * inner);
    let is_crowded = index.len() >= 2 * dim && (slab <= MOVED || outer > 1);
    if sources >= MOVED && !is_crowded {
        // The rows of one slab are work for all threads.
        for (out, source) in out.chunks_mut(slab).zip(source.chunks(sources)) {
            let rows = Rows { op: OP, index, size: dim, base: 0 };
            assign(out, inner, &rows, source)?;
        }
        return Ok(());
    }
    // Small slabs share the index, so the source that each row keeps is found once.
    let moves = if is_crowded { last_of_each(index, dim)? } else { last_of_some(index)? };
    let slabs = (MOVED / sources.max(1)).clamp(1, outer);
    parallel::pieces_of(slabs * slab, out, |start, out| {
        let source = &source[start / slab * sources..];
        for (out, source) in out.chunks_exact_mut(slab).zip(source.chunks(sources.max(1))) {
            for &(row, from) in &moves {
                if inner == 1 {
                    out[row] = source[from];
                } else {
                    out[row * inner..][..inner].copy_from_slice(&source[from * inner..][..inner]);
                }
            }
        }
    });
    Ok(())
}

/// Returns each row that an index names, and its last source.
fn last_of_some(index: &[i64]) -> Result<Vec<(usize, usize)>> {
    let moves = index.iter().enumerate().map(|(source, &row)| (row as usize, source));
    let mut moves: Vec<(usize, usize)> = memory::collected("index_copy", moves)?;
    parallel::sort_unstable(&mut moves);
    moves.dedup_by(|later, kept| {
        let same = later.0 == kept.0;
        if same {
            kept.1 = later.1;
        }
        same
    });
    Ok(moves)
}

/// Computes [`last_of_some`] for an index of more sources than the `dim` rows.
fn last_of_each(index: &[i64], dim: usize) -> Result<Vec<(usize, usize)>> {
    let mut last = memory::filled("index_copy", dim, None)?;
    for (source, &row) in index.iter().enumerate() {
        last[row as usize] = Some(source);
    }
    let mut moves = memory::with_capacity("index_copy", dim)?;
    moves.extend(last.into_iter().enumerate().filter_map(|(row, source)| Some((row, source?))));
    Ok(moves)
}

/// Assigns each row of `values` to the row of `out` that its linear index names: `index_put` and
/// `put` without `accumulate`. See [`put_add`](crate::scatter::put_add) for the other mode.
///
/// # Shapes
///
/// `out` (rows, width), `index` (n), `values` (n, width). Negative indices count from the end.
///
/// # Determinism
///
/// Portable: of duplicates, the highest source index is kept.
///
/// # Errors
///
/// As [`index_select`].
///
/// # References
///
/// `torch.Tensor.index_put_`, `torch.Tensor.put_`.
pub fn put<T: Copy + Send + Sync>(
    out: &mut [T],
    [rows, width]: [usize; 2],
    index: &[i64],
    values: &[T],
) -> Result<()> {
    const OP: &str = "index_put";
    expect_size(OP, "out", out.len(), &[rows, width])?;
    expect_size(OP, "values", values.len(), &[index.len(), width])?;
    let places = wrapped(OP, index, rows)?;
    assign(out, width, &Checked(OP, &places), values)
}

/// Copies the rows that a linear index names: `take`, and reads with several index tensors.
///
/// # Shapes
///
/// `input` (rows, width), `index` (n), `out` (n, width). Negative indices count from the end.
///
/// # Determinism
///
/// Portable: values are only moved.
///
/// # Errors
///
/// As [`index_select`].
///
/// # References
///
/// `torch.take`.
pub fn take<T: Copy + Send + Sync>(
    out: &mut [T],
    input: &[T],
    [rows, width]: [usize; 2],
    index: &[i64],
) -> Result<()> {
    const OP: &str = "take";
    expect_size(OP, "input", input.len(), &[rows, width])?;
    expect_size(OP, "out", out.len(), &[index.len(), width])?;
    let places = wrapped(OP, index, rows)?;
    if out.is_empty() {
        return Ok(());
    }
    parallel::rows(width, out, |start, out| {
        for (out, &place) in out.chunks_exact_mut(width).zip(&places[start / width..]) {
            out.copy_from_slice(&input[place * width..][..width]);
        }
    });
    Ok(())
}

/// Computes the gradient of [`take`].
///
/// # Shapes
///
/// `grad_out` (n, width), `index` (n), `grad_input` (rows, width), overwritten.
///
/// # Determinism
///
/// Portable: an irregular sum; see [`scatter`](crate::scatter).
///
/// # Errors
///
/// As [`take`].
pub fn take_backward<T: Sums>(
    grad_input: &mut [T],
    shape: [usize; 2],
    index: &[i64],
    grad_out: &[T],
) -> Result<()> {
    put_add_to(grad_input, true, shape, index, grad_out)
}

/// Combines several index tensors over the leading dimensions `sizes` into one linear index for
/// [`put`], [`take`] and [`put_add`](crate::scatter::put_add). Negative indices count from the end
/// of their dimension.
///
/// # Errors
///
/// [`Error::IndexOutOfRange`] for the first index out of range; [`Error::Argument`] if there is not
/// one index tensor per size, their lengths differ, or the number of rows overflows;
/// [`Error::OutOfMemory`].
///
/// # Examples
///
/// ```
/// let linear = samebits_cpu_kernels::index::linear_index("index_put", &[&[0, -1], &[2, 1]], &[2, 3])?;
/// assert_eq!(linear, [2, 4]);
/// # Ok::<(), samebits_cpu_kernels::Error>(())
/// ```
pub fn linear_index(op: &'static str, indices: &[&[i64]], sizes: &[usize]) -> Result<Vec<i64>> {
    if indices.len() != sizes.len() {
        return Err(Error::argument(
            op,
            format!("{} index tensors for {} dimensions", indices.len(), sizes.len()),
        ));
    }
    let Some(first) = indices.first() else {
        return Err(Error::argument(op, "at least one index tensor is needed"));
    };
    let rows = |rows: i64, &size: &usize| rows.checked_mul(i64::try_from(size.max(1)).ok()?);
    if sizes.iter().try_fold(1, rows).is_none() {
        return Err(Error::argument(op, format!("sizes {sizes:?} are too many rows")));
    }
    let mut linear = memory::zeroed::<i64>(op, first.len())?;
    for (index, &size) in indices.iter().zip(sizes) {
        expect_len(op, "every index", index.len(), linear.len())?;
        for (place, at) in linear.iter_mut().zip(wrapped(op, index, size)?) {
            *place = *place * size as i64 + at as i64;
        }
    }
    Ok(linear)
}

/// Returns the index that repeats element `i` of a dimension `repeats[i]` times. Use it with
/// [`index_select`], and with [`index_select_backward`] for the gradient.
///
/// # Errors
///
/// [`Error::Argument`] if a count is negative or their sum is too large; [`Error::OutOfMemory`].
///
/// # Examples
///
/// ```
/// let index = samebits_cpu_kernels::index::repeat_interleave_index(&[2, 0, 1])?;
/// assert_eq!(index, [0, 0, 2]);
/// # Ok::<(), samebits_cpu_kernels::Error>(())
/// ```
///
/// # References
///
/// `torch.repeat_interleave`.
pub fn repeat_interleave_index(repeats: &[i64]) -> Result<Vec<i64>> {
    const OP: &str = "repeat_interleave";
    let mut total: i64 = 0;
    for (position, &count) in repeats.iter().enumerate() {
        if count < 0 {
            return Err(Error::argument(
                OP,
                format!("the count at position {position} must not be negative, got {count}"),
            ));
        }
        total = total
            .checked_add(count)
            .filter(|&total| total < 1 << 48)
            .ok_or_else(|| Error::argument(OP, "the counts add up to too many elements"))?;
    }
    let mut index = memory::with_capacity(OP, total as usize)?;
    for (i, &count) in repeats.iter().enumerate() {
        index.resize(index.len() + count as usize, i as i64);
    }
    Ok(index)
}

/// Assigns the sources to their rows; of duplicates, the last one is kept.
fn assign<T: Copy + Send + Sync>(
    out: &mut [T],
    width: usize,
    destinations: &dyn Destinations,
    source: &[T],
) -> Result<()> {
    struct Assign<'a, T>(&'a [T], usize, PhantomData<fn() -> T>);
    impl<T: Copy + Send + Sync> Visitor for Assign<'_, T> {
        type Element = T;
        type State = ();
        #[inline(always)]
        fn start(&self, _: &mut [T]) -> Result<()> {
            Ok(())
        }
        #[inline(always)]
        fn visit(&self, (): &mut (), out: &mut [T], base: usize, entries: &[Entry]) -> Result<()> {
            let width = self.1;
            for entry in entries {
                let (row, source) = (entry.row as usize, base + entry.packed as usize);
                out[row * width..][..width].copy_from_slice(&self.0[source * width..][..width]);
            }
            Ok(())
        }
        #[inline(always)]
        fn finish(&self, (): (), _: &mut [T]) -> Result<()> {
            Ok(())
        }
    }
    visit_rows(out, width, destinations, &Assign(source, width, PhantomData))
}
