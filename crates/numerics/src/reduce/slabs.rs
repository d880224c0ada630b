//! The tree of the parent module down columns whose rows lie anywhere.

use super::tree::{Join, Product, Sum};
use super::{BLOCK, LANES};
use crate::simd::{self, Aligned, Kernel};

/// The most columns of a call of [`Lanes::sums`]: the lanes of all of them fit the first-level cache.
pub const TILE: usize = 64;

/// Room for the lanes of a tile of columns, reused by the next tile.
#[derive(Debug)]
pub struct Lanes(Aligned<[[f64; TILE]; LANES]>);

impl Default for Lanes {
    fn default() -> Lanes {
        Lanes::new()
    }
}

impl Lanes {
    /// Makes room for one tile.
    #[inline]
    #[must_use]
    pub fn new() -> Lanes {
        Lanes(Aligned([[0.0; TILE]; LANES]))
    }

    /// Sums one block of rows: for column `c`, `term(c)(row[c])` over the rows.
    ///
    /// # Determinism
    ///
    /// Each column is one block of the tree of the [module](super).
    ///
    /// # Panics
    ///
    /// If there are more than [`BLOCK`] rows, `out` has more than [`TILE`] columns, or a row has
    /// fewer columns than `out`.
    #[inline(always)]
    pub fn sums<'a, T: Copy + 'a, F: Fn(T) -> f64>(
        &mut self,
        rows: impl Iterator<Item = &'a [T]>,
        term: impl Fn(usize) -> F,
        out: &mut [f64],
    ) {
        tile(&mut self.0, rows, &|_: &[T]| (), &term, Sum, out);
    }

    /// Sums one block of rows as [`Lanes::sums`], and calls `ahead` with each row before it is read.
    ///
    /// # Determinism
    ///
    /// As [`Lanes::sums`].
    ///
    /// # Panics
    ///
    /// As [`Lanes::sums`].
    #[inline(always)]
    pub fn sums_ahead<'a, T: Copy + 'a, F: Fn(T) -> f64>(
        &mut self,
        rows: impl Iterator<Item = &'a [T]>,
        ahead: impl Fn(&[T]),
        term: impl Fn(usize) -> F,
        out: &mut [f64],
    ) {
        tile(&mut self.0, rows, &ahead, &term, Sum, out);
    }

    /// Multiplies one block of rows: for each column, its elements.
    ///
    /// # Determinism
    ///
    /// As [`Lanes::sums`], with `*` in the place of `+` and 1 in that of 0.
    ///
    /// # Panics
    ///
    /// As [`Lanes::sums`].
    #[inline(always)]
    pub fn products<'a, T: Copy + Into<f64> + 'a>(
        &mut self,
        rows: impl Iterator<Item = &'a [T]>,
        out: &mut [f64],
    ) {
        tile(&mut self.0, rows, &|_: &[T]| (), &|_| |x: T| x.into(), Product, out);
    }

    /// Sums one block of rows of `out.len()` elements, which come in runs of consecutive rows: for each
    /// column, `term(x)`.
    ///
    /// # Determinism
    ///
    /// As [`Lanes::sums`].
    ///
    /// # Panics
    ///
    /// As [`Lanes::sums`], and if a run is not a whole number of rows.
    #[inline(always)]
    pub fn dense_sums<'a, T: Copy + 'a>(
        &mut self,
        runs: impl Iterator<Item = &'a [T]>,
        term: impl Fn(T) -> f64,
        out: &mut [f64],
    ) {
        let width = out.len();
        if width == 0 {
            return;
        }
        expect_block(0, width);
        // The lanes of a row follow those of the row before, so that rows of any width fill vectors.
        let lanes = &mut self.0.as_flattened_mut()[..LANES * width];
        let mut rows = 0;
        for mut run in runs {
            assert!(run.len().is_multiple_of(width), "dense_sums: no whole rows");
            while !run.is_empty() {
                let lane = rows % LANES;
                let (now, later) = run.split_at(run.len().min((LANES - lane) * width));
                let lanes = &mut lanes[lane * width..][..now.len()];
                if rows < LANES {
                    for (lane, &x) in lanes.iter_mut().zip(now) {
                        *lane = 0.0 + term(x);
                    }
                } else {
                    for (lane, &x) in lanes.iter_mut().zip(now) {
                        *lane += term(x);
                    }
                }
                rows += now.len() / width;
                run = later;
            }
        }
        expect_block(rows, width);
        halve_dense(lanes, rows.min(LANES), out);
    }

    /// The number of elements of the rows that [`Lanes::made`] asks for together, at most.
    pub const MADE: usize = 256;

    /// Returns the first row and the number of rows that [`Lanes::add_made`] takes at a time: of `rows`
    /// rows of `width` elements, all in order.
    ///
    /// The caller computes the rows in a loop of its own and passes no closure, since a long closure
    /// is not always inlined, and what is not inlined into a kernel has no vectors.
    ///
    /// # Panics
    ///
    /// If there are more than [`BLOCK`] rows, or more than [`TILE`] columns.
    #[inline(always)]
    pub fn made(rows: usize, width: usize) -> impl Iterator<Item = (usize, usize)> {
        expect_block(rows, width);
        // A power of two, so that rows made together have consecutive lanes.
        let together = match Lanes::MADE.checked_div(width) {
            Some(few @ 1..LANES) => 1 << few.ilog2(),
            _ => LANES,
        };
        (0..rows).step_by(together).map(move |row| (row, together.min(rows - row)))
    }

    /// Adds rows of `width` elements, which follow each other from row `row` on; see [`Lanes::made`].
    ///
    /// # Determinism
    ///
    /// As [`Lanes::sums`].
    ///
    /// # Panics
    ///
    /// If the rows go beyond the last lane.
    #[inline(always)]
    pub fn add_made<T: Copy + Into<f64>>(&mut self, row: usize, width: usize, made: &[T]) {
        let lanes = &mut self.0.as_flattened_mut()[..LANES * width];
        let lanes = &mut lanes[row % LANES * width..][..made.len()];
        if row < LANES {
            for (lane, &x) in lanes.iter_mut().zip(made) {
                *lane = 0.0 + x.into();
            }
        } else {
            for (lane, &x) in lanes.iter_mut().zip(made) {
                *lane += x.into();
            }
        }
    }

    /// Writes the sums of `rows` rows of `out.len()` elements that [`Lanes::add_made`] has taken.
    #[inline(always)]
    pub fn finish_made(&mut self, rows: usize, out: &mut [f64]) {
        let width = out.len();
        if width > 0 {
            halve_dense(&mut self.0.as_flattened_mut()[..LANES * width], rows.min(LANES), out);
        }
    }
}

/// Adds the lanes of `rows` rows, which follow each other without gaps.
#[inline(always)]
fn halve_dense(lanes: &mut [f64], mut rows: usize, out: &mut [f64]) {
    let width = out.len();
    for w in [16, 8, 4, 2, 1] {
        if rows > w {
            let (low, high) = lanes.split_at_mut(w * width);
            for (low, high) in low.iter_mut().zip(&high[..(rows - w) * width]) {
                *low += *high;
            }
            rows = w;
        }
    }
    if rows == 0 {
        return out.fill(0.0);
    }
    out.copy_from_slice(&lanes[..width]);
}

#[inline(always)]
fn tile<'a, T: Copy + 'a, F: Fn(T) -> f64, J: Join>(
    lanes: &mut [[f64; TILE]; LANES],
    rows: impl Iterator<Item = &'a [T]>,
    ahead: &impl Fn(&[T]),
    term: &impl Fn(usize) -> F,
    join: J,
    out: &mut [f64],
) {
    let count = if out.len() == TILE {
        columns(lanes, rows, ahead, term, join, |row| {
            let row: &[T; TILE] = row[..TILE].try_into().expect("the slice is TILE long");
            row
        })
    } else {
        expect_block(0, out.len());
        let width = out.len();
        columns(lanes, rows, ahead, term, join, move |row| &row[..width])
    };
    expect_block(count, out.len());
    if count == 0 {
        return out.fill(J::IDENTITY);
    }
    let left = if count <= LANES { count.min(QUARTER) } else { LANES };
    halve(lanes, left, out.len(), join);
    out.copy_from_slice(&lanes[0][..out.len()]);
}

/// A quarter of the lanes.
const QUARTER: usize = LANES / 4;

/// Joins the rows with the lanes, at most [`LANES`] rows with a [`QUARTER`] of them; returns how many rows there
/// were.
#[inline(always)]
fn columns<'a, T: Copy + 'a, F: Fn(T) -> f64, J: Join, R: AsRef<[T]> + ?Sized + 'a>(
    lanes: &mut [[f64; TILE]; LANES],
    mut rows: impl Iterator<Item = &'a [T]>,
    ahead: &impl Fn(&[T]),
    term: &impl Fn(usize) -> F,
    join: J,
    cut: impl Fn(&'a [T]) -> &'a R,
) -> usize {
    let (mut first, mut count): ([&[T]; LANES], usize) = ([&[]; LANES], 0);
    for row in rows.by_ref().take(LANES) {
        first[count] = row;
        count += 1;
    }
    let next = rows.next();
    if next.is_none() {
        few(lanes, &first[..count], ahead, term, join, cut);
        return count;
    }
    for (lane, row) in lanes.iter_mut().zip(first) {
        ahead(row);
        for (c, (lane, &x)) in lane.iter_mut().zip(cut(row).as_ref()).enumerate() {
            *lane = join.join(J::IDENTITY, term(c)(x));
        }
    }
    for row in next.into_iter().chain(rows) {
        ahead(row);
        let lane = &mut lanes[count % LANES];
        for (c, (lane, &x)) in lane.iter_mut().zip(cut(row).as_ref()).enumerate() {
            *lane = join.join(*lane, term(c)(x));
        }
        count += 1;
    }
    count
}

/// Joins at most [`LANES`] rows down to a [`QUARTER`], without the lanes between.
///
/// The identity is joined with the left one of four only: the others change a sum by no bit if they are -0.
#[inline(always)]
fn few<'a, T: Copy + 'a, F: Fn(T) -> f64, J: Join, R: AsRef<[T]> + ?Sized + 'a>(
    lanes: &mut [[f64; TILE]; LANES],
    rows: &[&'a [T]],
    ahead: &impl Fn(&[T]),
    term: &impl Fn(usize) -> F,
    join: J,
    cut: impl Fn(&'a [T]) -> &'a R,
) {
    for (i, lane) in lanes[..QUARTER].iter_mut().enumerate().take(rows.len()) {
        let mut four = [cut(rows[i]).as_ref(); 4];
        let mut count = 0;
        for (k, row) in rows[i..].iter().step_by(QUARTER).enumerate() {
            ahead(row);
            four[k] = cut(row).as_ref();
            count = k + 1;
        }
        let [a, b, c, d] = four;
        let rows = lane.iter_mut().zip(a.iter().zip(b).zip(c.iter().zip(d))).enumerate();
        match count {
            1 => {
                for (i, (lane, ((&a, _), _))) in rows {
                    *lane = join.join(J::IDENTITY, term(i)(a));
                }
            }
            2 => {
                for (i, (lane, ((&a, &b), _))) in rows {
                    *lane = join.join(join.join(J::IDENTITY, term(i)(a)), term(i)(b));
                }
            }
            3 => {
                for (i, (lane, ((&a, &b), (&c, _)))) in rows {
                    let left = join.join(join.join(J::IDENTITY, term(i)(a)), term(i)(c));
                    *lane = join.join(left, term(i)(b));
                }
            }
            _ => {
                for (i, (lane, ((&a, &b), (&c, &d)))) in rows {
                    let left = join.join(join.join(J::IDENTITY, term(i)(a)), term(i)(c));
                    *lane = join.join(left, join.join(term(i)(b), term(i)(d)));
                }
            }
        }
    }
}

#[inline(never)]
fn expect_block(rows: usize, width: usize) {
    assert!(
        rows <= BLOCK && width <= TILE,
        "Lanes: {rows} rows of {width} columns, at most {BLOCK} of {TILE}"
    );
}

/// A call for each tile and not for each kind of term. Lanes without a term change nothing and are
/// left out.
#[inline(never)]
fn halve<J: Join>(lanes: &mut [[f64; TILE]; LANES], rows: usize, width: usize, join: J) {
    simd::dispatch(Halve { lanes, rows, width, join });
}

struct Halve<'a, J> {
    lanes: &'a mut [[f64; TILE]; LANES],
    rows: usize,
    width: usize,
    join: J,
}

impl<J: Join> Kernel for Halve<'_, J> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let mut rows = self.rows;
        for w in [16, 8, 4, 2, 1] {
            if rows > w {
                let (low, high) = self.lanes.split_at_mut(w);
                for (low, high) in low.iter_mut().zip(&high[..rows - w]) {
                    if self.width == TILE {
                        for c in 0..TILE {
                            low[c] = self.join.join(low[c], high[c]);
                        }
                    } else {
                        for (low, high) in low[..self.width].iter_mut().zip(high) {
                            *low = self.join.join(*low, *high);
                        }
                    }
                }
                rows = w;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;
    use crate::reduce::{product_rows, sum_by};

    #[test]
    fn columns_anywhere_follow_the_tree() {
        let mut lanes = Lanes::new();
        for width in [1usize, 2, 3, 15, 16, 31, 63, 64] {
            for n in [0usize, 1, 2, 3, 15, 16, 17, 31, 32, 33, 70, 4095, 4096] {
                let stride = width + 3;
                // Zeros of both signs are among the terms.
                let value = |i: usize| ((i * 7919) % 1013) as f32 / 7.0 - 70.0;
                let data: Vec<f32> = (0..n * stride).map(|i| value(i) * (i % 5) as f32).collect();
                let rows = || (0..n).map(|k| &data[k * stride..][..width]);
                let mut out = [7.0; TILE];
                let out = &mut out[..width];
                let scale = |c: usize| 1.0 + c as f64;
                lanes.sums(rows(), |c| move |x: f32| scale(c) * f64::from(x), out);
                for (c, &sum) in out.iter().enumerate() {
                    let tree = sum_by(n, |k| scale(c) * f64::from(data[k * stride + c]));
                    assert_eq!(sum.to_bits(), tree.to_bits(), "{n} rows, column {c} of {width}");
                }
                lanes.products(rows(), out);
                for (c, &product) in out.iter().enumerate() {
                    let column: Vec<f32> = rows().map(|row| row[c]).collect();
                    let mut tree = [7.0];
                    product_rows(&column, n, &mut tree);
                    assert_eq!(product.to_bits(), tree[0].to_bits(), "{n} rows, column {c}");
                }
                let dense: Vec<f32> = rows().flatten().copied().collect();
                for run in [1, 7, 32, 80, 5000] {
                    lanes.dense_sums(dense.chunks(run * width), f64::from, out);
                    for (c, &sum) in out.iter().enumerate() {
                        let tree = sum_by(n, |k| f64::from(dense[k * width + c]));
                        let bits = (sum.to_bits(), tree.to_bits());
                        assert_eq!(
                            bits.0, bits.1,
                            "{n} rows, column {c} of {width}, runs of {run}"
                        );
                    }
                }
                for (row, count) in Lanes::made(n, width) {
                    lanes.add_made(row, width, &dense[row * width..][..count * width]);
                }
                lanes.finish_made(n, out);
                for (c, &sum) in out.iter().enumerate() {
                    let tree = sum_by(n, |k| f64::from(dense[k * width + c]));
                    assert_eq!(sum.to_bits(), tree.to_bits(), "{n} made rows, {c} of {width}");
                }
            }
        }
    }
}
