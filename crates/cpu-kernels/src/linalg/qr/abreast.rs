//! Householder reflections of several matrices at a time: each operation is one of vectors that hold
//! the same element of each matrix.

use samebits_numerics::reduce::BLOCK;
use samebits_numerics::simd::Kernel;

use super::columns::{Element, Shape, TOGETHER, apply_back, distance, factor};
use crate::Float;
use crate::arch::abreast::{AbreastPasses, Elements, MATRICES};
use crate::linalg::{Negligible, scale_of_largest};
use crate::parallel::threads;

/// The most elements of a matrix that is decomposed with others. Of larger ones, neighbouring columns
/// fill the vectors better.
const MOST: usize = 1 << 15;

/// The most elements, times reflections, of matrices that one thread decomposes while others wait.
const ALONE: usize = 1 << 16;

/// The number of elements that are transposed at a time at least.
const TRANSPOSED: usize = 512;

/// Returns how many of `count` matrices are decomposed together with others: all, or all but the
/// last few, or none. That changes no bit.
pub(super) fn together(count: usize, [m, n]: [usize; 2], columns: usize) -> usize {
    let elements = m.saturating_mul(n.max(columns));
    let small = elements > 0 && elements <= MOST && m <= BLOCK && n > 0 && columns > 0;
    // Threads without matrices of their own could share a large one.
    let enough = count.div_ceil(MATRICES) >= threads() || elements * m.min(n) <= ALONE;
    match count % MATRICES {
        _ if !small || !enough => 0,
        rest @ 0..=4 => count - rest,
        _ => count,
    }
}

/// Returns the number of [`Elements`] of which [`Decompose`] needs the space.
pub(super) fn space([m, n]: [usize; 2], columns: usize) -> usize {
    distance(m) * (n.max(columns) + TOGETHER) + m.min(n)
}

/// Returns the number of elements of each matrix that are transposed at a time, of rows of `n`.
pub(super) fn rows(n: usize) -> usize {
    n.max(TRANSPOSED)
}

/// Decomposes up to [`MATRICES`] matrices. The contents of the spaces do not matter.
pub(super) struct Decompose<'a, T> {
    pub(super) x: &'a [T],
    pub(super) size: [usize; 2],
    pub(super) columns: usize,
    pub(super) q: &'a mut [T],
    pub(super) r: &'a mut [T],
    /// As many elements as [`space`] says.
    pub(super) space: &'a mut [Elements],
    /// As many elements as [`rows`] says.
    pub(super) rows: &'a mut [[T; MATRICES]],
}

impl<T: Float> Kernel for Decompose<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let Decompose { x, size: [m, n], columns, q, r, space, rows } = self;
        let passes = AbreastPasses::new();
        let step = distance(m);
        let (a, space) = space.split_at_mut(step * n.max(columns));
        let (own, taus) = space.split_at_mut(step * TOGETHER);
        let taus = &mut taus[..m.min(n)];
        read(x, [m, n], step, &mut a[..step * n], rows);
        let shape = Shape { rows: m, step };
        let mut negligible = [0.0; MATRICES];
        for (negligible, x) in negligible.iter_mut().zip(x.chunks_exact(m * n)) {
            *negligible = Negligible(x).run();
        }
        factor(passes, shape, 0, negligible, &mut a[..step * n], taus);
        let at = |i: usize, j: usize| {
            if i <= j && i < m { a[j * step + i] } else { [0.0; MATRICES] }
        };
        write([columns, n], r, rows, at);
        for k in 0..taus.len() {
            a[k * step + k] = [1.0; MATRICES];
        }
        form(passes, shape, &mut a[..step * columns], own, taus);
        write([m, columns], q, rows, |i, j| a[j * step + i]);
    }
}

/// Reads matrices into columns `step` elements apart. Matrices that are missing are zero.
#[inline(always)]
fn read<T: Float>(
    x: &[T],
    [m, n]: [usize; 2],
    step: usize,
    a: &mut [Elements],
    rows: &mut [[T; MATRICES]],
) {
    let matrices = x.len() / (m * n);
    let several = rows.len() / n;
    rows.fill([T::ZERO; MATRICES]);
    for first in (0..m).step_by(several) {
        let count = several.min(m - first);
        let rows = &mut rows[..count * n];
        let to = rows.as_flattened_mut();
        T::transpose(&x[first * n..], m * n, (matrices, count * n), to, MATRICES);
        for (i, row) in (first..).zip(rows.chunks_exact(n)) {
            for (j, x) in row.iter().enumerate() {
                let to = &mut a[j * step + i];
                for l in 0..MATRICES {
                    to[l] = x[l].into();
                }
            }
        }
    }
}

/// Writes matrices of elements that `at` returns.
#[inline(always)]
fn write<T: Float>(
    [m, n]: [usize; 2],
    out: &mut [T],
    rows: &mut [[T; MATRICES]],
    at: impl Fn(usize, usize) -> Elements,
) {
    let several = rows.len() / n;
    let matrices = out.len() / (m * n);
    for first in (0..m).step_by(several) {
        let count = several.min(m - first);
        let rows = &mut rows[..count * n];
        for (i, row) in (first..).zip(rows.chunks_exact_mut(n)) {
            for (j, to) in row.iter_mut().enumerate() {
                let x = at(i, j);
                for l in 0..MATRICES {
                    to[l] = T::from_f64(x[l]).canonical();
                }
            }
        }
        let from = rows.as_flattened();
        T::transpose(from, MATRICES, (count * n, matrices), &mut out[first * n..], m * n);
    }
}

/// Forms the columns of Q in place of the vectors of the reflections, which begin with 1.
#[inline(always)]
fn form(
    passes: AbreastPasses,
    shape: Shape,
    a: &mut [Elements],
    own: &mut [Elements],
    taus: &[Elements],
) {
    let Shape { rows, step } = shape;
    for first in (0..a.len() / step).step_by(TOGETHER).rev() {
        let (done, later) = a.split_at_mut(first * step);
        let count = (later.len() / step).min(TOGETHER);
        let group = &mut later[..count * step];
        let own = &mut own[..group.len()];
        own.copy_from_slice(group);
        group.fill([0.0; MATRICES]);
        for (c, column) in group.chunks_exact_mut(step).enumerate() {
            if let Some(x) = column[..rows].get_mut(first + c) {
                *x = [1.0; MATRICES];
            }
        }
        let (done, own) = (&*done, &*own);
        let vector = |k: usize| match k.checked_sub(first) {
            Some(c) => &own[c * step..][..rows],
            None => &done[k * step..][..rows],
        };
        apply_back(passes, shape, 0, vector, taus, Some(first), group);
    }
}

impl Element for Elements {
    type Passes = AbreastPasses;

    const ZERO: Elements = [0.0; MATRICES];
    const ONE: Elements = [1.0; MATRICES];

    #[inline(always)]
    fn none(self) -> bool {
        self.iter().all(|&tau| tau == 0.0)
    }

    #[inline(always)]
    fn factor(self, tau: Elements, sum: Elements) -> Elements {
        let mut factor = [0.0; MATRICES];
        for l in 0..MATRICES {
            let value = -(tau[l] * (self[l] + sum[l]));
            // Without a reflection, the vector is +0 and its product -0, which changes nothing.
            factor[l] = if tau[l] == 0.0 { -0.0 } else { value };
        }
        factor
    }

    #[inline(always)]
    fn add_product(self, factor: Elements, x: Elements) -> Elements {
        let mut sum = [0.0; MATRICES];
        for l in 0..MATRICES {
            sum[l] = factor[l].mul_add(x[l], self[l]);
        }
        sum
    }

    #[inline(always)]
    fn reflection(
        passes: AbreastPasses,
        column: &mut [Elements],
        negligible: Elements,
    ) -> Elements {
        reflection(passes, column, &negligible)
    }

    #[inline(always)]
    fn add_scaled(
        passes: AbreastPasses,
        columns: &mut [Elements],
        step: usize,
        factors: &[Elements],
        x: &[Elements],
    ) {
        passes.add_scaled(columns, step, factors, x);
    }

    #[inline(always)]
    fn dots(
        passes: AbreastPasses,
        columns: &[Elements],
        step: usize,
        z: &[Elements],
        sums: &mut [Elements],
    ) {
        passes.dots(columns, step, z, sums);
    }

    #[inline(always)]
    fn add_scaled_dots(
        passes: AbreastPasses,
        columns: &mut [Elements],
        step: usize,
        factors: &[Elements],
        vectors: [&[Elements]; 2],
        sums: &mut [Elements],
    ) {
        passes.add_scaled_dots(columns, step, factors, vectors, sums);
    }
}

/// Does what [`reflection`](super::tiles::reflection) does to a column of each matrix, but stores
/// zeros if there is no reflection. Returns the factors.
#[inline(always)]
fn reflection(passes: AbreastPasses, column: &mut [Elements], negligible: &Elements) -> Elements {
    let mut largest = [0.0f64; MATRICES];
    for x in &*column {
        for l in 0..MATRICES {
            largest[l] = if x[l].abs() > largest[l] { x[l].abs() } else { largest[l] };
        }
    }
    let mut scale = [0.0; MATRICES];
    for l in 0..MATRICES {
        scale[l] = scale_of_largest(largest[l]);
    }
    // The inverse of a power of two is exact.
    let inverse = scale.map(|scale| 1.0 / scale);
    let (head, tail) = column.split_first_mut().expect("k is less than the number of rows");
    let squares = passes.scaled_squares(tail, &inverse);
    for l in 0..MATRICES {
        head[l] *= inverse[l];
    }
    let (mut tau, mut divisor, mut none) = ([0.0; MATRICES], [0.0; MATRICES], [false; MATRICES]);
    for l in 0..MATRICES {
        let norm = head[l].mul_add(head[l], squares[l]).sqrt();
        let beta = -norm.copysign(head[l]);
        divisor[l] = head[l] - beta;
        none[l] = squares[l] == 0.0 || largest[l] <= negligible[l] && !norm.is_nan();
        tau[l] = if none[l] { 0.0 } else { (beta - head[l]) / beta };
        head[l] = if none[l] { head[l] } else { beta } * scale[l];
    }
    if tau.none() {
        return tau;
    }
    passes.scale_and_divide(tail, &[inverse, divisor]);
    for l in 0..MATRICES {
        if none[l] {
            tail.iter_mut().for_each(|x| x[l] = 0.0);
        }
    }
    tau
}
