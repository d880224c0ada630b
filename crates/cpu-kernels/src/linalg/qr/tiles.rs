//! Householder reflections of several columns at a time.
//!
//! A tile holds `W` neighbouring columns row by row, so that a vector holds one row of them. A dot
//! product of a column adds whole vectors, in the order of the column's own tree.

use samebits_numerics::simd::Kernel;

use crate::Float;
use crate::arch::reflect::Passes;
use crate::linalg::{dot, largest, scale_of_largest};

/// The number of reflections applied to a column while it is in the cache. It changes no bit: every
/// column gets all reflections in the same order.
pub(in crate::linalg) const PANEL: usize = 32;

/// Finishes the tiles of one panel, whose first column has number `first`: the elements on and
/// above the diagonal become those of R. Writes the vectors of the reflections, each with a 1
/// before it, from the diagonal down.
pub(in crate::linalg) struct Factor<'a, const W: usize> {
    pub(in crate::linalg) rows: usize,
    pub(in crate::linalg) first: usize,
    /// The magnitude up to which a column counts as zero.
    pub(in crate::linalg) negligible: f64,
    pub(in crate::linalg) tiles: &'a mut [[f64; W]],
    pub(in crate::linalg) vectors: &'a mut [f64],
    pub(in crate::linalg) taus: &'a mut [f64],
}

impl<const W: usize> Kernel for Factor<'_, W> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let Factor { rows, first, negligible, tiles, vectors, taus } = self;
        let passes = Passes::new();
        for (number, tile) in tiles.chunks_exact_mut(rows).enumerate() {
            let before = number * W;
            apply(passes, rows, first, &vectors[..before * rows], &taus[..before], tile);
            for c in 0..W.min(taus.len() - before) {
                let (i, k) = (before + c, first + before + c);
                let v = &mut vectors[i * rows..][k..rows];
                for (to, row) in v.iter_mut().zip(&tile[k..]) {
                    *to = row[c];
                }
                let tau = reflection(v, negligible);
                taus[i] = tau;
                let diagonal = std::mem::replace(&mut v[0], 1.0);
                if tau != 0.0 {
                    // Also changes the columns up to this one, which are read only above row k.
                    let tile = &mut tile[k..];
                    let products = passes.dots(&mut tile[1..], &v[1..]);
                    reflect(passes, tau, products, v, tile);
                }
                tile[k][c] = diagonal;
            }
        }
    }
}

/// Applies the reflections from number `first` on to tiles, in ascending order.
pub(in crate::linalg) struct Apply<'a, const W: usize> {
    pub(in crate::linalg) rows: usize,
    pub(in crate::linalg) first: usize,
    pub(in crate::linalg) vectors: &'a [f64],
    pub(in crate::linalg) taus: &'a [f64],
    pub(in crate::linalg) tiles: &'a mut [[f64; W]],
}

impl<const W: usize> Kernel for Apply<'_, W> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let Apply { rows, first, vectors, taus, tiles } = self;
        let passes = Passes::new();
        for tile in tiles.chunks_exact_mut(rows) {
            apply(passes, rows, first, vectors, taus, tile);
        }
    }
}

/// Applies reflections to a tile, in ascending order. The pass of one reflection also computes the
/// dot products for the next.
#[inline(always)]
fn apply<const W: usize>(
    passes: Passes<W>,
    rows: usize,
    first: usize,
    vectors: &[f64],
    taus: &[f64],
    tile: &mut [[f64; W]],
) {
    let mut products = None;
    for (i, &tau) in taus.iter().enumerate() {
        let k = first + i;
        let (v, later) = vectors[i * rows..].split_at(rows);
        let (v, known, tile) = (&v[k..], products.take(), &mut tile[k..]);
        if tau == 0.0 {
            continue;
        }
        let known = match known {
            Some(products) => products,
            None => passes.dots(&mut tile[1..], &v[1..]),
        };
        if i + 1 == taus.len() {
            reflect(passes, tau, known, v, tile);
        } else {
            let factors = factors(tau, known, &tile[0]);
            let (head, tail) = tile.split_at_mut(2);
            passes.add_scaled(factors, &v[..2], head);
            products = Some(passes.add_scaled_dots(factors, &v[2..], tail, &later[k + 2..rows]));
        }
    }
}

/// Makes tiles of the identity, the first of which starts with column `first`, and applies all
/// reflections in descending order.
pub(in crate::linalg) struct Form<'a, const W: usize> {
    pub(in crate::linalg) rows: usize,
    pub(in crate::linalg) first: usize,
    pub(in crate::linalg) vectors: &'a [f64],
    pub(in crate::linalg) taus: &'a [f64],
    pub(in crate::linalg) tiles: &'a mut [[f64; W]],
}

impl<const W: usize> Kernel for Form<'_, W> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let Form { rows, first, vectors, taus, tiles } = self;
        let passes = Passes::new();
        let firsts = (first..).step_by(W);
        for (first, tile) in firsts.clone().zip(tiles.chunks_exact_mut(rows)) {
            tile.fill([0.0; W]);
            for (c, row) in tile.iter_mut().skip(first).take(W).enumerate() {
                row[c] = 1.0;
            }
        }
        for panel in (0..taus.len().div_ceil(PANEL)).rev() {
            let low = panel * PANEL;
            for (first, tile) in firsts.clone().zip(tiles.chunks_exact_mut(rows)) {
                let high = taus.len().min(low + PANEL).min(first + W);
                if low < high {
                    let vectors = &vectors[low * rows..high * rows];
                    form(passes, rows, [low, first], vectors, &taus[low..high], tile);
                }
            }
        }
    }
}

/// Applies all reflections to tiles, in descending order.
pub(in crate::linalg) struct ApplyBack<'a, const W: usize> {
    pub(in crate::linalg) rows: usize,
    pub(in crate::linalg) vectors: &'a [f64],
    pub(in crate::linalg) taus: &'a [f64],
    pub(in crate::linalg) tiles: &'a mut [[f64; W]],
}

impl<const W: usize> Kernel for ApplyBack<'_, W> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let ApplyBack { rows, vectors, taus, tiles } = self;
        let passes = Passes::new();
        for (panel, taus) in taus.chunks(PANEL).enumerate().rev() {
            let low = panel * PANEL;
            let vectors = &vectors[low * rows..][..taus.len() * rows];
            for tile in tiles.chunks_exact_mut(rows) {
                form(passes, rows, [low, 0], vectors, taus, tile);
            }
        }
    }
}

/// Applies the reflections from number `low` on to a tile of the identity, which starts with column
/// `first`, in descending order.
#[inline(always)]
fn form<const W: usize>(
    passes: Passes<W>,
    rows: usize,
    [low, first]: [usize; 2],
    vectors: &[f64],
    taus: &[f64],
    tile: &mut [[f64; W]],
) {
    let mut products = None;
    for i in (0..taus.len()).rev() {
        let k = low + i;
        let (tau, v, known) = (taus[i], &vectors[i * rows..][k..rows], products.take());
        if tau == 0.0 {
            continue;
        }
        let tile = &mut tile[k..];
        let known = match known {
            Some(products) => products,
            None => passes.dots(&mut tile[1..], &v[1..]),
        };
        // Reflections after a column's number do not change it: it is zero there, so they add zeros
        // to zeros unless they hold NaN.
        if !tau.is_finite() {
            reflect(passes, tau, known, v, tile);
            for row in tile.iter_mut() {
                row[..k.saturating_sub(first).min(W)].fill(0.0);
            }
        } else if i == 0 {
            reflect(passes, tau, known, v, tile);
        } else {
            let factors = factors(tau, known, &tile[0]);
            let next = &vectors[(i - 1) * rows..][k..rows];
            products = Some(passes.add_scaled_dots(factors, v, tile, next));
        }
    }
}

/// Returns what each column adds of the reflection's vector, of whose products with the column the
/// first element's is missing.
#[inline(always)]
fn factors<const W: usize>(tau: f64, products: [f64; W], head: &[f64; W]) -> [f64; W] {
    let mut factors = [0.0; W];
    for c in 0..W {
        factors[c] = -(tau * (head[c] + products[c]));
    }
    factors
}

/// Applies the reflection of the vector `v`, which begins with 1, to the rows of a tile.
#[inline(always)]
fn reflect<const W: usize>(
    passes: Passes<W>,
    tau: f64,
    products: [f64; W],
    v: &[f64],
    tile: &mut [[f64; W]],
) {
    // An fma with the 1 is a subtraction.
    passes.add_scaled(factors(tau, products, &tile[0]), v, tile);
}

/// Reads rows of `count` elements, from column `first` on, into tiles; columns beyond the last are
/// zero.
pub(in crate::linalg) struct Read<'a, T, const W: usize> {
    pub(in crate::linalg) x: &'a [T],
    pub(in crate::linalg) count: usize,
    pub(in crate::linalg) rows: usize,
    pub(in crate::linalg) first: usize,
    pub(in crate::linalg) tiles: &'a mut [[f64; W]],
}

impl<T: Float, const W: usize> Kernel for Read<'_, T, W> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let Read { x, count, rows, first, tiles } = self;
        for (first, tile) in (first..).step_by(W).zip(tiles.chunks_exact_mut(rows)) {
            for (row, x) in tile.iter_mut().zip(x.chunks_exact(count)) {
                match x[first..].first_chunk::<W>() {
                    Some(x) => {
                        for c in 0..W {
                            row[c] = x[c].into();
                        }
                    }
                    None => {
                        *row = [0.0; W];
                        for (to, &x) in row.iter_mut().zip(&x[first..]) {
                            *to = x.into();
                        }
                    }
                }
            }
        }
    }
}

/// Writes the rows from number `first` on of tiles to rows of `count` elements; if `UPPER`, with
/// zeros below the diagonal.
pub(in crate::linalg) struct Write<'a, T, const W: usize, const UPPER: bool> {
    pub(in crate::linalg) tiles: &'a [[f64; W]],
    pub(in crate::linalg) rows: usize,
    pub(in crate::linalg) first: usize,
    pub(in crate::linalg) count: usize,
    pub(in crate::linalg) out: &'a mut [T],
}

impl<T: Float, const W: usize, const UPPER: bool> Kernel for Write<'_, T, W, UPPER> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let Write { tiles, rows, first: first_row, count, out } = self;
        for (number, tile) in tiles.chunks_exact(rows).enumerate() {
            let first = number * W;
            let outs = (first_row..).zip(out.chunks_exact_mut(count));
            for ((i, out), row) in outs.zip(&tile[first_row.min(rows)..]) {
                let out = &mut out[first..];
                match out.first_chunk_mut::<W>() {
                    Some(out) => {
                        for c in 0..W {
                            out[c] = T::from_f64(row[c]).canonical();
                        }
                    }
                    None => {
                        for (out, &x) in out.iter_mut().zip(row) {
                            *out = T::from_f64(x).canonical();
                        }
                    }
                }
                if UPPER && i > first {
                    let below = out.len().min(W).min(i - first);
                    out[..below].fill(T::ZERO);
                }
            }
        }
        if UPPER {
            // Rows that the matrix does not have.
            let inside = rows.saturating_sub(first_row) * count;
            out.get_mut(inside..).unwrap_or_default().fill(T::ZERO);
        }
    }
}

/// Makes a column zero below its first element (the diagonal), and stores the vector of the
/// reflection there. Returns the factor of the reflection, which is 0 for columns up to a negligible
/// magnitude.
#[inline(always)]
pub(in crate::linalg) fn reflection(column: &mut [f64], negligible: f64) -> f64 {
    let largest = largest(column);
    let scale = scale_of_largest(largest);
    // The inverse of a power of two is exact.
    let inverse = 1.0 / scale;
    for x in column.iter_mut() {
        *x *= inverse;
    }
    let (head, tail) = column.split_first_mut().expect("k is less than the number of rows");
    let squares = dot(tail, tail);
    let norm = head.mul_add(*head, squares).sqrt();
    if squares == 0.0 || largest <= negligible && !norm.is_nan() {
        *head *= scale;
        tail.fill(0.0);
        return 0.0;
    }
    let beta = -norm.copysign(*head);
    let tau = (beta - *head) / beta;
    let divisor = *head - beta;
    for x in tail.iter_mut() {
        *x /= divisor;
    }
    *head = beta * scale;
    tau
}
