//! Products with sparse matrices.
//!
//! # Determinism
//!
//! [`mm`] is `Portable`: each output is a chain of fma over the elements of its row, ascending by
//! column and then by position in the list. Columns are cut into blocks of [`K_BLOCK`] as in the
//! dense product; each block starts from +0, blocks are added in ascending order, and blocks
//! without an element are left out. [`sampled_product`] is `Portable`: its sums run in f64 over the
//! contract's fixed tree. [`mm_fast`] is `NotGuaranteed`: it adds elements with float atomics, in
//! any order.

use std::sync::atomic::{AtomicU32, Ordering};

use samebits_numerics::reduce;
use samebits_numerics::simd::{self, Kernel};

use crate::error::{Error, Result, expect_len, expect_size};
use crate::matmul::K_BLOCK;
use crate::{Float, memory, parallel};

const OP: &str = "sparse_mm";

/// A sparse matrix as a list of elements in any order.
#[derive(Clone, Copy, Debug)]
pub struct Elements<'a, T> {
    /// The row of each element.
    pub rows: &'a [i64],
    /// The column of each element.
    pub columns: &'a [i64],
    /// The elements.
    pub values: &'a [T],
    /// The numbers of rows and columns of the matrix.
    pub size: [usize; 2],
    /// The period of the columns: blocks are counted from its multiples. It is the number of
    /// columns of each matrix of a block diagonal, or of the whole matrix.
    pub period: usize,
}

/// Computes `out = elements · dense`.
///
/// # Shapes
///
/// `dense` is (columns, width), `out` (rows, width).
///
/// # Determinism
///
/// Portable: see the [module](self).
///
/// # Errors
///
/// [`Error::IndexOutOfRange`] if an element lies outside the matrix; [`Error::Length`] if a slice
/// has the wrong length; [`Error::Argument`] if there are 2^32 elements or more, or the period is
/// 0; [`Error::OutOfMemory`].
///
/// # Examples
///
/// ```
/// use samebits_cpu_kernels::sparse::{Elements, mm};
///
/// let elements = Elements {
///     rows: &[1, 0],
///     columns: &[0, 2],
///     values: &[2.0f32, 3.0],
///     size: [2, 3],
///     period: 3,
/// };
/// let mut out = [0.0; 2];
/// mm(elements, &[1.0, 10.0, 100.0], 1, &mut out)?;
/// assert_eq!(out, [300.0, 2.0]);
/// # Ok::<(), samebits_cpu_kernels::Error>(())
/// ```
pub fn mm<T: Float>(
    elements: Elements<'_, T>,
    dense: &[T],
    width: usize,
    out: &mut [T],
) -> Result<()> {
    elements.check(dense, width, out)?;
    if out.is_empty() || elements.values.is_empty() {
        out.fill(T::ZERO);
        return Ok(());
    }
    let rows = &elements.by_row()?;
    // About as many multiplications per piece as justify the hand-over to a thread.
    let per_row = (elements.values.len() / elements.size[0] + 1).saturating_mul(width);
    let piece = ((1 << 16) / per_row).clamp(1, 64) * width;
    parallel::try_pieces_of(piece, out, |start, out| {
        let first = start / width;
        let starts = &rows.starts[first..][..=out.len() / width];
        let longest = starts.windows(2).map(|row| row[1] - row[0]).max().unwrap_or(0);
        let list = memory::with_capacity(OP, longest)?;
        simd::dispatch(Rows { elements, rows, dense, width, first, list, out });
        Ok(())
    })
}

/// Computes [`mm`] with float atomics.
///
/// # Shapes
///
/// As [`mm`].
///
/// # Determinism
///
/// Not guaranteed: the bits depend on the schedule.
///
/// # Errors
///
/// As [`mm`].
pub fn mm_fast(
    elements: Elements<'_, f32>,
    dense: &[f32],
    width: usize,
    out: &mut [f32],
) -> Result<()> {
    elements.check(dense, width, out)?;
    let sums = memory::collected(OP, out.iter().map(|_| AtomicU32::new(0)))?;
    let places = parallel::items(elements.rows)
        .zip(parallel::items(elements.columns))
        .zip(parallel::items(elements.values));
    places.at_least(64).for_each(|((&row, &column), &value)| {
        let dense = &dense[column as usize * width..][..width];
        for (sum, &x) in sums[row as usize * width..][..width].iter().zip(dense) {
            let add = |old: u32| Some((f32::from_bits(old) + value * x).to_bits());
            // The closure always returns `Some`, so there is no error.
            let _ = sum.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
        }
    });
    for (out, sum) in out.iter_mut().zip(sums) {
        *out = samebits_numerics::nan::canonical(f32::from_bits(sum.into_inner()));
    }
    Ok(())
}

/// Computes `out[i] = left[rows[i]] · right[columns[i]]`, with rows of `width` elements.
///
/// # Shapes
///
/// `left` and `right` are (.., width); the others have equal lengths.
///
/// # Determinism
///
/// Portable: see the [module](self).
///
/// # Errors
///
/// [`Error::IndexOutOfRange`] if there is no such row; [`Error::Length`] if a slice has the wrong
/// length.
pub fn sampled_product<T: Float>(
    [rows, columns]: [&[i64]; 2],
    [left, right]: [&[T]; 2],
    sizes: [usize; 2],
    width: usize,
    out: &mut [T],
) -> Result<()> {
    const OP: &str = "sampled_product";
    check(OP, rows, sizes[0])?;
    check(OP, columns, sizes[1])?;
    expect_len(OP, "columns", columns.len(), rows.len())?;
    expect_size(OP, "left", left.len(), &[sizes[0], width])?;
    expect_size(OP, "right", right.len(), &[sizes[1], width])?;
    expect_len(OP, "out", out.len(), rows.len())?;
    parallel::pieces_of(DOTS.max(parallel::CHUNK / width.max(1)), out, |start, out| {
        let range = start..start + out.len();
        let (rows, columns) = (&rows[range.clone()], &columns[range]);
        simd::dispatch(Dots { rows, columns, left, right, width, out });
    });
    Ok(())
}

/// The number of dot products of a task.
const DOTS: usize = 128;

/// The number of columns of a tile: its partial and total sums fit into the registers of every
/// level.
const TILE: usize = 32;

/// Elements by row: `order[starts[r]..starts[r + 1]]` are the elements of row `r` in the order of
/// the chain.
struct ByRow {
    starts: Vec<usize>,
    order: Vec<u32>,
}

impl<T: Float> Elements<'_, T> {
    fn check(&self, dense: &[T], width: usize, out: &[T]) -> Result<()> {
        expect_len(OP, "columns", self.columns.len(), self.rows.len())?;
        expect_len(OP, "values", self.values.len(), self.rows.len())?;
        expect_size(OP, "dense", dense.len(), &[self.size[1], width])?;
        expect_size(OP, "out", out.len(), &[self.size[0], width])?;
        if u32::try_from(self.values.len()).is_err() {
            return Err(Error::argument(
                OP,
                format!("{} elements, but at most {} are possible", self.values.len(), u32::MAX),
            ));
        }
        if self.period == 0 && !self.values.is_empty() {
            return Err(Error::argument(OP, "the period must not be 0"));
        }
        check(OP, self.rows, self.size[0])?;
        check(OP, self.columns, self.size[1])
    }

    /// Sorts by row with a counting sort, which keeps the order of the list, then by column if
    /// necessary.
    fn by_row(&self) -> Result<ByRow> {
        let mut starts = memory::zeroed::<usize>(OP, self.size[0] + 1)?;
        for &row in self.rows {
            starts[row as usize + 1] += 1;
        }
        for row in 0..self.size[0] {
            starts[row + 1] += starts[row];
        }
        let mut next = memory::collected(OP, starts.iter().copied())?;
        let mut order = memory::zeroed::<u32>(OP, self.rows.len())?;
        for (element, &row) in self.rows.iter().enumerate() {
            order[next[row as usize]] = element as u32;
            next[row as usize] += 1;
        }
        for row in starts.windows(2) {
            let row = &mut order[row[0]..row[1]];
            if !row.is_sorted_by_key(|&element| self.columns[element as usize]) {
                // Sorts by position in the list too, because a stable sort would allocate memory.
                row.sort_unstable_by_key(|&element| (self.columns[element as usize], element));
            }
        }
        Ok(ByRow { starts, order })
    }
}

fn check(op: &'static str, index: &[i64], size: usize) -> Result<()> {
    let valid = |&i: &i64| usize::try_from(i).is_ok_and(|i| i < size);
    match index.iter().position(|i| !valid(i)) {
        Some(position) => {
            Err(Error::IndexOutOfRange { op, position, index: index[position], size })
        }
        None => Ok(()),
    }
}

struct Rows<'a, T> {
    elements: Elements<'a, T>,
    rows: &'a ByRow,
    dense: &'a [T],
    width: usize,
    first: usize,
    /// Space for the longest row: the start of the row of the dense matrix, the block, and the
    /// value of each element.
    list: Vec<(usize, usize, T)>,
    out: &'a mut [T],
}

impl<T: Float> Kernel for Rows<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let mut list = self.list;
        let Elements { columns, values, period, .. } = self.elements;
        for (i, out) in self.out.chunks_exact_mut(self.width).enumerate() {
            let row = self.first + i;
            list.clear();
            for &element in &self.rows.order[self.rows.starts[row]..self.rows.starts[row + 1]] {
                let column = columns[element as usize] as usize;
                let block = column % period / K_BLOCK;
                list.push((column * self.width, block, values[element as usize]));
            }
            let (tiles, rest) = out.as_chunks_mut::<TILE>();
            let count = tiles.len();
            for (tile, out) in tiles.iter_mut().enumerate() {
                chain::<T, TILE>(&list, &self.dense[tile * TILE..], out);
            }
            for (j, out) in rest.iter_mut().enumerate() {
                let mut one = [T::ZERO];
                chain::<T, 1>(&list, &self.dense[count * TILE + j..], &mut one);
                *out = one[0];
            }
        }
    }
}

/// Computes the chains of `N` neighbouring columns; `dense` begins at the first of them.
#[inline(always)]
fn chain<T: Float, const N: usize>(list: &[(usize, usize, T)], dense: &[T], out: &mut [T; N]) {
    let mut total = [T::ZERO; N];
    let mut partial = [T::ZERO; N];
    let mut begun = false;
    let mut current = list.first().map_or(0, |&(_, block, _)| block);
    let mut finish = |partial: &mut [T; N], total: &mut [T; N]| {
        for (total, partial) in total.iter_mut().zip(partial) {
            *total = if begun { *total + *partial } else { *partial };
            *partial = T::ZERO;
        }
        begun = true;
    };
    for &(at, block, value) in list {
        if block != current {
            finish(&mut partial, &mut total);
            current = block;
        }
        let dense = &dense[at..at + N];
        for (partial, &x) in partial.iter_mut().zip(dense) {
            *partial = value.mul_add(x, *partial);
        }
    }
    finish(&mut partial, &mut total);
    for (out, total) in out.iter_mut().zip(total) {
        *out = total.canonical();
    }
}

struct Dots<'a, T> {
    rows: &'a [i64],
    columns: &'a [i64],
    left: &'a [T],
    right: &'a [T],
    width: usize,
    out: &'a mut [T],
}

impl<T: Float> Kernel for Dots<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let pairs = self.rows.iter().zip(self.columns);
        for (out, (&row, &column)) in self.out.iter_mut().zip(pairs) {
            let left = &self.left[row as usize * self.width..][..self.width];
            let right = &self.right[column as usize * self.width..][..self.width];
            let sum = reduce::dot_of(left, right, |x, y| {
                let (x, y): (f64, f64) = (x.into(), y.into());
                x * y
            });
            *out = T::from_f64(sum).canonical();
        }
    }
}
