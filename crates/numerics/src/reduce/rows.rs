//! The tree of the parent module along many rows.

use super::tree::{Join, Product, Sum, halve, start_of, sum_of};
use super::{BLOCK, LANES};
use crate::simd::Aligned;

/// The number of short rows whose terms are computed before any are added. Row by row, the terms
/// would pass through memory between the two steps, and each row would wait for that.
const TOGETHER: usize = 16;

/// Computes, for each row `r` of `n` elements, the sum of `term(r)(x)` over its elements.
///
/// # Shapes
///
/// `values` is (rows, n) row-major; `out` has one element for each row.
///
/// # Determinism
///
/// Each row is the tree of the [module](super) over its `n` terms, independent of the number of
/// rows and their position.
///
/// # Panics
///
/// If `values` does not hold `out.len()` rows of `n`.
///
/// # Examples
///
/// ```
/// let mut sums = [0.0; 2];
/// let scales = [1.0, 10.0];
/// let term = |row: usize| {
///     let scale = scales[row];
///     move |x| scale * f64::from(x)
/// };
/// samebits_numerics::reduce::rows(&[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0], 3, term, &mut sums);
/// assert_eq!(sums, [6.0, 150.0]);
/// ```
#[inline(always)]
pub fn rows<T: Copy, F: Fn(T) -> f64>(
    values: &[T],
    n: usize,
    term: impl Fn(usize) -> F,
    out: &mut [f64],
) {
    assert_eq!(values.len(), out.len() * n, "rows: wrong number of elements");
    if n <= LANES {
        return short_rows(values, n, &term, Sum, out);
    }
    if n <= BLOCK {
        for (r, out) in out.iter_mut().enumerate() {
            *out = start_of(&values[r * n..], n, &term(r), Sum);
        }
        return;
    }
    for (r, (row, out)) in values.chunks_exact(n).zip(out).enumerate() {
        *out = sum_of(row, term(r));
    }
}

/// Computes the product of each row of `n` elements, at most [`BLOCK`].
///
/// # Shapes
///
/// As [`rows`].
///
/// # Determinism
///
/// The tree of the [module](super), with `*` instead of `+` and 1 instead of 0.
///
/// # Panics
///
/// As [`rows`], and if `n` exceeds [`BLOCK`].
///
/// # Examples
///
/// ```
/// let mut products = [0.0; 2];
/// samebits_numerics::reduce::product_rows(&[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0], 3, &mut products);
/// assert_eq!(products, [6.0, 120.0]);
/// ```
#[inline(always)]
pub fn product_rows<T: Copy + Into<f64>>(values: &[T], n: usize, out: &mut [f64]) {
    assert!(n <= BLOCK, "product_rows: {n} factors, at most {BLOCK}");
    assert_eq!(values.len(), out.len() * n, "product_rows: wrong number of elements");
    if n <= LANES {
        return short_rows(values, n, &|_| |x: T| x.into(), Product, out);
    }
    for (r, out) in out.iter_mut().enumerate() {
        *out = start_of(&values[r * n..], n, &|x: T| x.into(), Product);
    }
}

/// Joins rows that leave lanes without a term. Halving starts with the lanes that have terms,
/// because the others hold the identity.
#[inline(always)]
fn short_rows<T: Copy, F: Fn(T) -> f64, J: Join>(
    values: &[T],
    n: usize,
    term: &impl Fn(usize) -> F,
    join: J,
    out: &mut [f64],
) {
    match n {
        0 => out.fill(J::IDENTITY),
        1..=8 => rows_of::<8, T, F, J>(values, n, term, join, out),
        9..=16 => rows_of::<16, T, F, J>(values, n, term, join, out),
        _ => rows_of::<LANES, T, F, J>(values, n, term, join, out),
    }
}

/// Joins rows of at most `L` elements, in `L` lanes.
#[inline(always)]
fn rows_of<const L: usize, T: Copy, F: Fn(T) -> f64, J: Join>(
    values: &[T],
    n: usize,
    term: &impl Fn(usize) -> F,
    join: J,
    out: &mut [f64],
) {
    let mut lanes = Aligned([[J::IDENTITY; L]; TOGETHER]);
    for (number, out) in out.chunks_mut(TOGETHER).enumerate() {
        let first = number * TOGETHER;
        for (r, lanes) in lanes[..out.len()].iter_mut().enumerate() {
            let rest = &values[(first + r) * n..];
            // Loads whole vectors, including elements of the next row, which are discarded below.
            let mut last = [rest[0]; L];
            let row = *rest.first_chunk().unwrap_or_else(|| {
                last[..n].copy_from_slice(&rest[..n]);
                &last
            });
            let term = term(first + r);
            let mut terms = [J::IDENTITY; L];
            for l in 0..L {
                terms[l] = join.join(terms[l], term(row[l]));
            }
            *lanes = terms;
        }
        for l in n..L {
            lanes.iter_mut().for_each(|lanes| lanes[l] = J::IDENTITY);
        }
        for (out, lanes) in out.iter_mut().zip(&*lanes) {
            // Row by row, or the compiler would gather the same lane of many rows.
            *out = halve(*core::hint::black_box(lanes), join);
        }
    }
}
