//! The singular value decomposition: reduction to a bidiagonal matrix, then implicit QR iteration.

mod bidiagonal;
mod iterate;
mod layout;

use samebits_numerics::fpenv;
use samebits_numerics::simd;

use super::NEGLIGIBLE;
use super::qr::along::{self, WriteRows, factor_columns};
use super::qr::tiles::{ApplyBack, Form, Write};
use super::qr::{factor, together};
use crate::Float;
use crate::arch::columns::{MULTIPLE, TURNED};
use crate::error::{Error, Result, expect_len};
use crate::memory::{collected, filled, scratch, volume};
use crate::parallel::chunks_mut;
use bidiagonal::{Bidiagonalize, GROUP};
use iterate::iterate;
use layout::{
    Orient, OrientColumns, Scale, ScaleColumns, ScaleTiles, W, to_columns, to_strip, to_tile,
    triangle, triangle_of_columns,
};

const OP: &str = "svd";

/// The number of elements that a thread copies at a time at least.
const GRAIN: usize = 1 << 16;

/// Computes `x = u · diag(s) · vᵀ` with `k = min(m, n)` singular values, descending.
///
/// The matrix A (the transpose of `x`, if that has more columns than rows) is divided by the power of
/// two at or below its largest magnitude. If A has at least `3k` rows, and `k >= 16`, or `k >= 2` and A has
/// at least 200 rows, [`qr`](super::qr) comes first: R takes the place of A, and the reflections are applied
/// to U at the end, in descending order.
///
/// **Reduction.** Every element of A has +0 added. For each column number `i` in order, the column from the
/// diagonal down gives the left reflection, as in `qr`: `tau` and `v`, which is 0 above the diagonal
/// and 1 on it; the diagonal element is `d_i`. For each later column `c`, `share_c = tau · (v · c)` and
/// `x_c = c_i − share_c`. The row `x` gives the right reflection in the same way: `sigma` and `w`, and
/// its first element `e_i`. A column or row has no reflection if no magnitude of it is above 2⁻⁴⁰⁰: then
/// all elements but its first one count as zeros. Let `g` be the sum of
/// `x_c · c`, each row by ascending fma from 0 over groups of 32 columns, which are counted from the
/// first and added in order; let `a` be the next column and `h` the first element of `x`. Then
/// `y = fma(−e_i, a, g) / (h − e_i)` and `z = sigma · fma(−(share · w), v, y)`; a later column becomes
/// `fma(−w_c, z, fma(−share_c, v, c))`. Zero takes the place of `w` and `z` if `sigma` is 0. U and V
/// are formed by the reflections in descending order, as Q is in `qr`.
///
/// **Iteration.** An element `e_i` is negligible if `|e_i| ≤ 2⁻⁵³ · (|d_i| + |d_(i+1)|)` or
/// `|e_i| ≤ 2⁻⁴⁰⁰`. Until all are, but at most `30k` times, a sweep goes over the columns next to the
/// last element that is not negligible, and before these as far as no element between is; the first
/// of them has number 0 below. A rotation of `f` and `g` is `q = fma(f, f, g·g)`, `r = √q`,
/// `c = f / r`, `s = g / r`, or `r = f`, `c = 1`, `s = 0` if `q < 2⁻⁸⁰⁰`. Let `f` and `h` be the
/// magnitudes of the last two `d`, `g` that of the last `e`, and `R(t) = √(fma(t, t, g·g))`; the shift
/// is `(2f / (R(f + h) + R(f − h))) · h`. With `ratio = shift / |d_0|`, a sweep has no shift if
/// `ratio² < 2⁻⁵³` or the magnitude of any `d` is at most 2⁻⁴⁰⁰.
///
/// With a shift, `f = (|d_0| − shift) · (copysign(1, d_0) + shift / d_0)` and `g = e_0`. For each `i` in
/// order: `f` and `g` are rotated, and columns `i` and `i + 1` of V by the same angle; after the first,
/// `e_(i−1) = r`; `f = fma(c, d_i, s·e_i)`, `e_i = fma(c, e_i, −(s·d_i))`, `g = s·d_(i+1)`,
/// `d_(i+1) = c·d_(i+1)`; these are rotated, and the columns of U; `d_i = r`,
/// `f = fma(c, e_i, s·d_(i+1))`, `d_(i+1) = fma(c, d_(i+1), −(s·e_i))`, `g = s·e_(i+1)`,
/// `e_(i+1) = c·e_(i+1)`. At the end `f` is the last `e`. Without a shift, `c = C = 1` and `S = 0` at
/// first; for each `i`, the rotation of `c·d_i` and `e_i` gives `c`, `s` and `r`; after the first,
/// `e_(i−1) = S·r`; the rotation of `C·r` and `s·d_(i+1)` gives `C`, `S` and `d_i`; at the end, with
/// `t = c·d` of the last `d`, `e = t·S` and `d = t·C`. A rotation turns columns `x` and `y` into
/// `fma(c, x, s·y)` and `fma(c, y, −(s·x))`.
///
/// Columns of V with a negative `d` change their sign. Equal singular values keep their order. Signs are
/// chosen so that in each column of `u` the first element of largest magnitude is not negative.
///
/// # Shapes
///
/// `x` is (m, n), `u` (m, k), `s` (k), `v` (n, k), row-major.
///
/// # Determinism
///
/// Portable: see the [module](super).
///
/// # Errors
///
/// [`Error::Argument`] if an element is not finite, [`Error::Length`] if a slice has the wrong
/// length, and [`Error::OutOfMemory`].
///
/// # References
///
/// G. Golub, W. Kahan, *Calculating the Singular Values and Pseudo-Inverse of a Matrix*, 1965.
/// G. H. Golub, C. Reinsch, *Singular Value Decomposition and Least Squares Solutions*, 1970.
/// J. Demmel, W. Kahan, *Accurate Singular Values of Bidiagonal Matrices*, 1990.
///
/// # Examples
///
/// ```
/// use samebits_cpu_kernels::linalg::svd;
///
/// let (mut u, mut s, mut v) = ([0.0; 4], [0.0; 2], [0.0; 4]);
/// svd(&[0.0, 3.0, -2.0, 0.0], [2, 2], &mut u, &mut s, &mut v)?;
/// assert_eq!(s, [3.0, 2.0]);
/// assert_eq!((u, v), ([1.0, 0.0, 0.0, 1.0], [0.0, -1.0, 1.0, 0.0]));
/// # Ok::<(), samebits_cpu_kernels::Error>(())
/// ```
pub fn svd<T: Float>(
    x: &[T],
    [m, n]: [usize; 2],
    u: &mut [T],
    s: &mut [T],
    v: &mut [T],
) -> Result<()> {
    let k = m.min(n);
    expect_len(OP, "the matrix", x.len(), volume(OP, &[m, n])?)?;
    expect_len(OP, "u", u.len(), volume(OP, &[m, k])?)?;
    expect_len(OP, "s", s.len(), k)?;
    expect_len(OP, "v", v.len(), volume(OP, &[n, k])?)?;
    if let Some(position) = x.iter().position(|&x| !x.into().is_finite()) {
        return Err(Error::argument(
            OP,
            format!(
                "element {position} of the matrix is {:?}, but all must be finite",
                x[position]
            ),
        ));
    }
    fpenv::ieee(|| decompose(x, [m, n], u, s, v))
}

fn decompose<T: Float>(
    x: &[T],
    [m, n]: [usize; 2],
    u: &mut [T],
    s: &mut [T],
    v: &mut [T],
) -> Result<()> {
    let (k, rows) = (m.min(n), m.max(n));
    if k == 0 {
        return Ok(());
    }
    let tall = rows / 3 >= k && (k >= 16 || k >= 2 && rows >= 200);
    let side = if tall { k } else { rows };
    let long = tall && along::pays([rows, k]);
    let shape = along::shape(rows);
    let step = side.next_multiple_of(MULTIPLE);
    let wide = k.next_multiple_of(W);
    let strips = [side.div_ceil(TURNED), k.div_ceil(TURNED)];
    let lens = [
        if long { volume(OP, &[shape.step, k])? } else { volume(OP, &[rows, wide])? },
        volume(OP, &[k, wide])?,
        if tall { volume(OP, &[if long { shape.step } else { rows }, k])? } else { 0 },
        volume(OP, &[step, k])?,
        volume(OP, &[k, k])?,
        volume(OP, &[step, wide])?,
        volume(OP, &[strips[0] + strips[1], TURNED, k])?,
        volume(OP, &[step, 2 + k.div_ceil(GROUP)])?,
        volume(OP, &[k, 9])?,
    ];
    let space = lens.iter().fold(MULTIPLE, |sum, len| sum.saturating_add(len + MULTIPLE));
    let mut space = scratch::<f64>(OP, space)?;
    let [left, right, vectors, a, rights, basis, strip, columns, lists] =
        split(space.as_mut_slice(), lens);
    let (left_columns, left) = left.split_at_mut(if long { left.len() } else { 0 });
    let [left, right, basis] = [left, right, basis].map(|x| x.as_chunks_mut::<W>().0);
    let strip = strip.as_chunks_mut::<TURNED>().0;
    let (taus, lists) = lists.split_at_mut(k);
    let (left_taus, lists) = lists.split_at_mut(k);
    let (right_taus, lists) = lists.split_at_mut(k);
    let (diagonal, lists) = lists.split_at_mut(k);
    let (above, shares) = lists.split_at_mut(k);

    let scale = if long {
        let scale = simd::dispatch(ScaleColumns { x, size: [m, n], shape, columns: vectors });
        factor_columns(shape, NEGLIGIBLE, vectors, taus);
        triangle_of_columns(vectors, shape, step, a);
        // In place of R's diagonal.
        for (j, column) in vectors.chunks_exact_mut(shape.step).enumerate() {
            column[j] = 1.0;
        }
        scale
    } else if tall {
        let flipped;
        let x = if m < n {
            flipped = transposed(x, [m, n])?;
            &flipped
        } else {
            x
        };
        let scale = simd::dispatch(ScaleTiles { x, rows, count: k, tiles: left });
        factor(rows, NEGLIGIBLE, left, vectors, taus);
        triangle(left, rows, step, a);
        scale
    } else if m < n {
        // The transpose by columns is the matrix by rows.
        simd::dispatch(Scale { x, rows, step, out: a })
    } else {
        let x = &transposed(x, [m, n])?;
        simd::dispatch(Scale { x, rows, step, out: a })
    };
    let (updates, sums) = columns.split_at_mut(2 * step);
    let inner = k - 1;
    let (right_taus, rights) = (&mut right_taus[..inner], &mut rights[..inner * inner]);
    simd::dispatch(Bidiagonalize {
        rows: side,
        a,
        rights,
        left_taus,
        right_taus,
        diagonal,
        above,
        updates,
        sums,
        shares,
    });
    let (left_strips, right_strips) = strip.split_at_mut(strips[0] * k);
    form([step, 0, k], a, left_taus, basis, left_strips);
    form([inner, 1, k], rights, right_taus, basis, right_strips);
    iterate(OP, diagonal, above, strip, strips[0])?;

    let (left_strips, right_strips) = strip.split_at_mut(strips[0] * k);
    for (j, value) in diagonal.iter_mut().enumerate() {
        if *value < 0.0 {
            for strip in right_strips.chunks_exact_mut(k) {
                strip[j] = strip[j].map(|x| -x);
            }
        }
        *value = value.abs();
    }
    let mut order: Vec<usize> = collected(OP, 0..k)?;
    // Equal values keep the order of their columns; no value is NaN.
    order.sort_unstable_by(|&a, &b| diagonal[b].total_cmp(&diagonal[a]).then(a.cmp(&b)));
    for (s, &from) in s.iter_mut().zip(&order) {
        *s = T::from_f64(diagonal[from] * scale).canonical();
    }
    let at_least = GRAIN.div_ceil(rows * W);
    let at_least_left = if tall { together::<W>(rows, k) } else { at_least };
    let (left_strips, right_strips) = (&*left_strips, &*right_strips);
    if long {
        let (vectors, taus) = (&*vectors, &*taus);
        let several = along::together(shape, k);
        let columns = chunks_mut(left_columns, several * shape.step);
        columns.enumerate().for_each(|(i, columns)| {
            to_columns(left_strips, k, &order[i * several..], shape, columns);
            simd::dispatch(along::ApplyBack { shape, vectors, taus, first: None, columns });
        });
    }
    chunks_mut(left, rows).at_least(at_least_left).enumerate().for_each(|(i, tile)| {
        let columns = &order[i * W..k.min((i + 1) * W)];
        to_tile(left_strips, k, side, columns, tile);
        if tall {
            simd::dispatch(ApplyBack { rows, vectors, taus, tiles: tile });
        }
    });
    chunks_mut(right, k).at_least(at_least).enumerate().for_each(|(i, tile)| {
        to_tile(right_strips, k, k, &order[i * W..k.min((i + 1) * W)], tile);
    });
    let several = GRAIN.div_ceil(k);
    if long {
        simd::dispatch(OrientColumns {
            columns: left_columns,
            shape,
            tiles: right,
            tiles_lead: m < n,
        });
        let (columns, tiles) = (&*left_columns, &*right);
        let [left_out, right_out] = if m < n { [v, u] } else { [u, v] };
        chunks_mut(left_out, several * k).enumerate().for_each(|(i, out)| {
            let first = i * several;
            simd::dispatch(WriteRows::<_, false> { columns, shape, first, count: k, out });
        });
        chunks_mut(right_out, several * k).enumerate().for_each(|(i, out)| {
            let first = i * several;
            simd::dispatch(Write::<_, W, false> { tiles, rows: k, first, count: k, out });
        });
        return Ok(());
    }
    let [left, right] = if m < n { [right, left] } else { [left, right] };
    let tiles = chunks_mut(left, m).zip(chunks_mut(right, n)).at_least(at_least);
    tiles.for_each(|(leading, other)| simd::dispatch(Orient { leading, other }));
    for (tiles, rows, out) in [(&*left, m, u), (&*right, n, v)] {
        chunks_mut(out, several * k).enumerate().for_each(|(i, out)| {
            simd::dispatch(Write::<_, W, false> { tiles, rows, first: i * several, count: k, out });
        });
    }
    Ok(())
}

/// Returns parts of the given lengths, each from a cache line on if there is room before it.
fn split<const N: usize>(mut space: &mut [f64], lens: [usize; N]) -> [&mut [f64]; N] {
    lens.map(|len| {
        let rest = std::mem::take(&mut space);
        let start = rest.as_ptr().align_offset(64).min(MULTIPLE);
        let (part, rest) = rest[start..].split_at_mut(len);
        space = rest;
        part
    })
}

/// Returns the columns of a matrix, one after the other.
fn transposed<T: Float>(x: &[T], [m, n]: [usize; 2]) -> Result<Vec<T>> {
    let mut out = filled(OP, x.len(), T::ZERO)?;
    T::transpose(x, n, (m, n), &mut out, m);
    Ok(out)
}

/// Forms a product of reflections in tiles of `rows` rows, and writes the strips of it behind `unit`
/// rows and columns of the identity, `count` columns in all.
fn form(
    [rows, unit, count]: [usize; 3],
    vectors: &[f64],
    taus: &[f64],
    tiles: &mut [[f64; W]],
    strips: &mut [[f64; TURNED]],
) {
    let tiles = &mut tiles[..taus.len().div_ceil(W) * rows];
    if rows > 0 {
        let several = together::<W>(rows, taus.len());
        chunks_mut(tiles, several * rows).enumerate().for_each(|(i, tiles)| {
            simd::dispatch(Form { rows, first: i * several * W, vectors, taus, tiles });
        });
    }
    let (tiles, at_least) = (&*tiles, GRAIN.div_ceil(count * TURNED));
    chunks_mut(strips, count).at_least(at_least).enumerate().for_each(|(i, strip)| {
        to_strip(tiles, rows, unit, i, strip);
    });
}
