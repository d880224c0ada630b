//! The tree of the parent module, down the columns of row-major matrices.

use alloc::{vec, vec::Vec};

use super::{BLOCK, LANES};
use crate::simd::{self, Aligned, Kernel};

/// The number of columns handled together: one row of them is four cache lines of f32, and their
/// lanes fit the first-level cache.
const TILE: usize = 64;

/// Computes, for each column `j`, the sum of `term(x)` over `values[k * width + j]`, `k` ascending.
///
/// # Shapes
///
/// `values` is (n, width) row-major; `out` has `width` elements. A reduction of an
/// (outer, n, inner) tensor over n is one call per outer index, with `width = inner`.
///
/// # Determinism
///
/// Each column is the tree of the [module](super) over its n terms, independent of the number of
/// columns and their position.
///
/// # Panics
///
/// If `values` is not a whole number of rows, or `out` is not one row.
///
/// # Examples
///
/// ```
/// let mut sums = [0.0; 3];
/// samebits_numerics::reduce::columns(&[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0], 3, f64::from, &mut sums);
/// assert_eq!(sums, [5.0, 7.0, 9.0]);
/// ```
#[inline(always)]
pub fn columns<T: Copy>(values: &[T], width: usize, term: impl Fn(T) -> f64, out: &mut [f64]) {
    assert_eq!(out.len(), width, "columns: out must hold one value per column");
    if width == 0 {
        return;
    }
    if values.is_empty() {
        return out.fill(0.0);
    }
    let mut partials = Vec::new();
    let several = values.len() > BLOCK * width;
    let blocks: &mut [f64] = if several {
        partials.resize((values.len() / width).div_ceil(BLOCK) * width, 0.0);
        &mut partials
    } else {
        &mut *out
    };
    for (block, partial) in values.chunks(BLOCK * width).zip(blocks.chunks_mut(width)) {
        partials_of(block, width, 0, &term, partial);
    }
    if several {
        combine_columns(&partials, width, out);
    }
}

/// Computes the partials of one block of at most [`BLOCK`] rows, for the columns `first..first +
/// out.len()`.
///
/// # Shapes
///
/// `block` is (rows, width) row-major; `out` has one element for each of these columns.
///
/// # Determinism
///
/// The tree of the [module](super).
///
/// # Panics
///
/// If `block` is not a whole number of rows, has too many rows, or lacks the requested columns.
#[inline(always)]
pub fn column_partials<T: Copy>(
    block: &[T],
    width: usize,
    first: usize,
    term: impl Fn(T) -> f64,
    out: &mut [f64],
) {
    partials_of(block, width, first, &term, out);
}

/// Computes the sums from the partials of all blocks: `partials` is (blocks, width) row-major.
///
/// # Determinism
///
/// The upper levels of the tree of the [module](super).
///
/// # Panics
///
/// As [`columns`].
pub fn combine_columns(partials: &[f64], width: usize, out: &mut [f64]) {
    let mut level: Vec<f64>;
    let mut current = partials;
    while width > 0 && current.len() > BLOCK * width {
        let rows = current.len() / width;
        let mut next = vec![0.0; rows.div_ceil(BLOCK) * width];
        for (block, partial) in current.chunks(BLOCK * width).zip(next.chunks_mut(width)) {
            simd::dispatch(Partials { block, width, out: partial });
        }
        level = next;
        current = &level;
    }
    simd::dispatch(Partials { block: current, width, out });
}

/// A block of partials, the terms of the level above.
struct Partials<'a> {
    block: &'a [f64],
    width: usize,
    out: &'a mut [f64],
}

impl Kernel for Partials<'_> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        column_partials(self.block, self.width, 0, |x| x, self.out);
    }
}

/// Computes [`column_partials`] with the closure behind an explicit reference, so that it is
/// inlined.
#[inline(always)]
fn partials_of<T: Copy, F: Fn(T) -> f64>(
    block: &[T],
    width: usize,
    first: usize,
    term: &F,
    out: &mut [f64],
) {
    if width == 0 {
        return;
    }
    expect_columns(block.len(), width, first, out.len());
    for (number, out) in out.chunks_mut(TILE).enumerate() {
        let from = first + number * TILE;
        match <&mut [f64; TILE]>::try_from(&mut *out) {
            Ok(out) => full_tile(block, width, from, term, out),
            Err(_) => narrow_tile(block, width, from, term, out),
        }
    }
}

#[inline(never)]
fn expect_columns(elements: usize, width: usize, first: usize, count: usize) {
    assert!(
        elements.is_multiple_of(width)
            && elements / width <= BLOCK
            && first <= width
            && count <= width - first,
        "column_partials: {elements} elements in rows of {width}, columns {first}..{}",
        first + count
    );
}

#[inline(always)]
fn full_tile<T: Copy, F: Fn(T) -> f64>(
    block: &[T],
    width: usize,
    from: usize,
    term: &F,
    out: &mut [f64; TILE],
) {
    let mut lanes = Aligned([[0.0; TILE]; LANES]);
    for group in block.chunks(LANES * width) {
        for (lane, row) in lanes.iter_mut().zip(group.chunks_exact(width)) {
            let row: &[T; TILE] =
                row[from..from + TILE].try_into().expect("the slice is TILE long");
            for c in 0..TILE {
                lane[c] += term(row[c]);
            }
        }
    }
    halve_rows(&mut lanes);
    *out = lanes[0];
}

/// Sums fewer columns than a tile.
#[inline(always)]
fn narrow_tile<T: Copy, F: Fn(T) -> f64>(
    block: &[T],
    width: usize,
    from: usize,
    term: &F,
    out: &mut [f64],
) {
    let count = out.len();
    let mut lanes = Aligned([[0.0; TILE]; LANES]);
    for group in block.chunks(LANES * width) {
        for (lane, row) in lanes.iter_mut().zip(group.chunks_exact(width)) {
            for (sum, &x) in lane[..count].iter_mut().zip(&row[from..from + count]) {
                *sum += term(x);
            }
        }
    }
    halve_rows(&mut lanes);
    out.copy_from_slice(&lanes[0][..count]);
}

/// Halves the lanes of a tile. It is called per tile and compiled once, not per kind of term: its
/// unrolled loops are long.
#[inline(never)]
fn halve_rows(lanes: &mut [[f64; TILE]; LANES]) {
    simd::dispatch(HalveRows(lanes));
}

struct HalveRows<'a>(&'a mut [[f64; TILE]; LANES]);

impl Kernel for HalveRows<'_> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        for w in [16, 8, 4, 2, 1] {
            let (low, high) = self.0.split_at_mut(w);
            for (low, high) in low.iter_mut().zip(high) {
                for c in 0..TILE {
                    low[c] += high[c];
                }
            }
        }
    }
}
