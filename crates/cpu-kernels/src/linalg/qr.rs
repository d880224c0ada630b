//! The QR decomposition by Householder reflections.

mod abreast;
pub(super) mod along;
pub(super) mod columns;
pub(super) mod tiles;

use samebits_numerics::fpenv;
use samebits_numerics::reduce::BLOCK;
use samebits_numerics::simd::{self, Kernel, Level};

use super::{Columns, Negligible, add_scaled, dot};
use crate::Float;
use crate::arch::abreast::MATRICES;
use crate::error::{Result, expect_len};
use crate::memory::{collected, scratch, volume, zeroed};
use crate::parallel::{chunks_mut, try_parts};
use abreast::Decompose;
use along::{ApplyBack, LINE, ReadColumns, WriteRows, factor_columns};
use columns::GRAIN;
use tiles::{Apply, Factor, Form, PANEL, Read, Write};

const OP: &str = "qr";

/// Computes `x = q · r`: Q has `columns` columns and R as many rows, `min(m, n)` or `m`.
///
/// For each column `k` in order, let `s` be the power of two at or below its largest magnitude from
/// the diagonal down, and let `a` and `x` be the diagonal element and the elements below it,
/// divided by `s`. Then `norm = √(a² + Σ x²)`, `b = −copysign(norm, a)`, `tau = (b − a) / b`, `v =
/// x / (a − b)`; later columns `c` become `c − (tau · (c_k + v · c)) · (1, v)`. There is no reflection,
/// and the elements below the diagonal count as zeros, if `Σ x²` is 0, or if no magnitude from the
/// diagonal down is above 2⁻⁴⁰⁰ times the power of two at or below the largest of the matrix, and none of
/// these elements is NaN. Q is formed by the reflections in descending order.
///
/// # Shapes
///
/// `x` is (m, n), `q` (m, columns), `r` (columns, n), row-major.
///
/// # Determinism
///
/// Portable: see the [module](super).
///
/// # Errors
///
/// [`Error::Length`](crate::Error::Length) if a slice has the wrong length, and
/// [`Error::OutOfMemory`](crate::Error::OutOfMemory).
///
/// # Examples
///
/// ```
/// use samebits_cpu_kernels::linalg::qr;
///
/// let (mut q, mut r) = ([0.0; 2], [0.0]);
/// qr(&[3.0f32, 4.0], [2, 1], 1, &mut q, &mut r)?;
/// assert_eq!((q, r), ([-0.6, -0.8], [-5.0]));
/// # Ok::<(), samebits_cpu_kernels::Error>(())
/// ```
pub fn qr<T: Float>(
    x: &[T],
    [m, n]: [usize; 2],
    columns: usize,
    q: &mut [T],
    r: &mut [T],
) -> Result<()> {
    expect_len(OP, "the matrix", x.len(), volume(OP, &[m, n])?)?;
    expect_len(OP, "q", q.len(), volume(OP, &[m, columns])?)?;
    expect_len(OP, "r", r.len(), volume(OP, &[columns, n])?)?;
    fpenv::ieee(|| match (m, n) {
        _ if along::pays([m, n]) => by_columns(x, [m, n], columns, [q, r]),
        (1..=BLOCK, 9..) if m <= narrow_rows() => by_tiles::<T, 16>(x, [m, n], columns, [q, r]),
        (1..=BLOCK, 8..) => by_tiles::<T, 8>(x, [m, n], columns, [q, r]),
        _ => by_columns(x, [m, n], columns, [q, r]),
    })
}

/// Does what [`qr`] does for each of `count` matrices, which lie one after the other in each slice.
///
/// Matrices that are not large are decomposed eight at a time, each in a lane of its own.
///
/// # Shapes
///
/// `x` is (count, m, n), `q` (count, m, columns), `r` (count, columns, n), row-major.
///
/// # Determinism
///
/// Portable: see the [module](super).
///
/// # Errors
///
/// As [`qr`].
pub fn qr_batched<T: Float>(
    x: &[T],
    [count, m, n]: [usize; 3],
    columns: usize,
    q: &mut [T],
    r: &mut [T],
) -> Result<()> {
    let [size, size_q, size_r] = [[m, n], [m, columns], [columns, n]].map(|size| volume(OP, &size));
    let [size, size_q, size_r] = [size?, size_q?, size_r?];
    expect_len(OP, "the matrices", x.len(), volume(OP, &[count, size])?)?;
    expect_len(OP, "q", q.len(), volume(OP, &[count, size_q])?)?;
    expect_len(OP, "r", r.len(), volume(OP, &[count, size_r])?)?;
    let together = abreast::together(count, [m, n], columns);
    let (x, rest) = x.split_at(together * size);
    let (q, rest_q) = q.split_at_mut(together * size_q);
    let (r, rest_r) = r.split_at_mut(together * size_r);
    if together > 0 {
        let qs = chunks_mut(q, MATRICES * size_q);
        let rs = chunks_mut(r, MATRICES * size_r);
        let several = (GRAIN / (MATRICES * size * m.min(n))).max(1);
        qs.zip(rs).at_least(several).enumerate().try_for_each(|(i, (q, r))| {
            let x = &x[i * MATRICES * size..][..q.len() / size_q * size];
            decompose_abreast(x, [m, n], columns, [q, r])
        })?;
    }
    let work = rest.len().saturating_mul(m.min(n)).saturating_add(rest_q.len());
    let outs = [(rest_q, size_q), (rest_r, size_r)];
    try_parts(OP, count - together, work, outs, |i, [q, r]| {
        qr(&rest[i * size..][..size], [m, n], columns, q, r)
    })
}

/// Decomposes up to [`MATRICES`] matrices together.
fn decompose_abreast<T: Float>(
    x: &[T],
    size: [usize; 2],
    columns: usize,
    [q, r]: [&mut [T]; 2],
) -> Result<()> {
    let mut space = scratch::<f64>(OP, (abreast::space(size, columns) + 1) * MATRICES)?;
    let space = aligned(space.as_mut_slice());
    let mut rows = scratch::<T>(OP, abreast::rows(size[1].max(columns)) * MATRICES)?;
    let rows = rows.as_mut_slice::<T>().as_chunks_mut().0;
    simd::dispatch(Decompose { x, size, columns, q, r, space, rows });
    Ok(())
}

/// Returns the most rows of tiles of 16 columns. With longer vectors a row of 8 is too short.
fn narrow_rows() -> usize {
    if simd::level() == Level::Avx512 { 320 } else { 128 }
}

/// Does what [`qr`] does with tiles of `W` columns.
fn by_tiles<T: Float, const W: usize>(
    x: &[T],
    [m, n]: [usize; 2],
    columns: usize,
    [q, r]: [&mut [T]; 2],
) -> Result<()> {
    let k = m.min(n);
    let len = volume(OP, &[m, n.max(columns).div_ceil(W) * W])?;
    let mut tiles = scratch::<f64>(OP, len.saturating_add(W - 1))?;
    let tiles = aligned::<W>(tiles.as_mut_slice());
    let mut vectors = scratch::<f64>(OP, volume(OP, &[m, k])?)?;
    let vectors = vectors.as_mut_slice::<f64>();
    let mut taus: Vec<f64> = zeroed(OP, k)?;

    let several = together::<W>(m, 8);
    let a = &mut tiles[..n.div_ceil(W) * m];
    chunks_mut(a, several * m).enumerate().for_each(|(i, tiles)| {
        simd::dispatch(Read { x, count: n, rows: m, first: i * several * W, tiles });
    });
    factor(m, simd::dispatch(Negligible(x)), a, vectors, &mut taus);
    let several_rows = (GRAIN / (8 * n.max(columns))).max(1);
    let a = &*a;
    chunks_mut(r, several_rows * n).enumerate().for_each(|(i, out)| {
        let first = i * several_rows;
        simd::dispatch(Write::<_, W, true> { tiles: a, rows: m, first, count: n, out });
    });

    let basis = &mut tiles[..columns.div_ceil(W) * m];
    let (vectors, taus, several) = (&*vectors, &*taus, together::<W>(m, k));
    chunks_mut(basis, several * m).enumerate().for_each(|(i, tiles)| {
        simd::dispatch(Form { rows: m, first: i * several * W, vectors, taus, tiles });
    });
    let basis = &*basis;
    chunks_mut(q, (several_rows * columns).max(1)).enumerate().for_each(|(i, out)| {
        let first = i * several_rows;
        simd::dispatch(Write::<_, W, false> { tiles: basis, rows: m, first, count: columns, out });
    });
    Ok(())
}

/// Makes tiles of `rows` rows upper triangular, and writes the vectors of the reflections. Columns up to
/// the magnitude `negligible` count as zero.
pub(super) fn factor<const W: usize>(
    rows: usize,
    negligible: f64,
    tiles: &mut [[f64; W]],
    vectors: &mut [f64],
    taus: &mut [f64],
) {
    for (i, taus) in taus.chunks_mut(PANEL).enumerate() {
        let first = PANEL * i;
        let last = first + taus.len();
        let (done, later) = tiles.split_at_mut(last.div_ceil(W) * rows);
        let tiles = &mut done[first / W * rows..];
        let vectors = &mut vectors[first * rows..last * rows];
        simd::dispatch(Factor { rows, first, negligible, tiles, vectors, taus });
        let (vectors, taus) = (&*vectors, &*taus);
        chunks_mut(later, together::<W>(rows, taus.len()) * rows).for_each(|tiles| {
            simd::dispatch(Apply { rows, first, vectors, taus, tiles });
        });
    }
}

/// Returns the number of tiles that a thread takes at a time.
pub(super) fn together<const W: usize>(rows: usize, reflections: usize) -> usize {
    GRAIN.div_ceil(rows * W * reflections)
}

/// Returns the rows of tiles from the first cache line on.
fn aligned<const W: usize>(x: &mut [f64]) -> &mut [[f64; W]] {
    from_line(x).as_chunks_mut().0
}

/// Returns the elements from the first cache line on.
fn from_line(x: &mut [f64]) -> &mut [f64] {
    let start = x.as_ptr().align_offset(64).min(x.len()).min(LINE - 1);
    &mut x[start..]
}

/// Does what [`qr`] does, column by column.
fn by_columns<T: Float>(
    x: &[T],
    [m, n]: [usize; 2],
    columns: usize,
    [q, r]: [&mut [T]; 2],
) -> Result<()> {
    let (k, shape) = (m.min(n), along::shape(m));
    let step = shape.step;
    let lens = [volume(OP, &[step, n])?, volume(OP, &[step, columns])?];
    let space = lens[0].saturating_add(lens[1]).saturating_add(k + LINE);
    let mut space = scratch::<f64>(OP, space)?;
    let space = from_line(space.as_mut_slice());
    let (a, space) = space.split_at_mut(lens[0]);
    let (basis, taus) = space.split_at_mut(lens[1]);
    let taus = &mut taus[..k];
    let several = along::together(shape, 8);
    chunks_mut(a, several * step).enumerate().for_each(|(i, columns)| {
        simd::dispatch(ReadColumns { x, count: n, shape, first: i * several, columns });
    });
    factor_columns(shape, simd::dispatch(Negligible(x)), a, taus);
    let several_rows = (GRAIN / (8 * n.max(columns).max(1))).max(1);
    let columns_a = &*a;
    chunks_mut(r, (several_rows * n).max(1)).enumerate().for_each(|(i, out)| {
        let first = i * several_rows;
        simd::dispatch(WriteRows::<_, true> { columns: columns_a, shape, first, count: n, out });
    });
    // In place of R's diagonal.
    for k in 0..taus.len() {
        a[k * step + k] = 1.0;
    }
    let (vectors, taus) = (&*a, &*taus);
    let several = along::together(shape, k.max(1));
    chunks_mut(basis, several * step).enumerate().for_each(|(i, columns)| {
        let first = i * several;
        columns.fill(0.0);
        for (j, column) in (first..).zip(columns.chunks_exact_mut(step)) {
            if let Some(x) = column[..m].get_mut(j) {
                *x = 1.0;
            }
        }
        simd::dispatch(ApplyBack { shape, vectors, taus, first: Some(first), columns });
    });
    let basis = &*basis;
    chunks_mut(q, (several_rows * columns).max(1)).enumerate().for_each(|(i, out)| {
        let first = i * several_rows;
        simd::dispatch(WriteRows::<_, false> { columns: basis, shape, first, count: columns, out });
    });
    Ok(())
}

/// Computes the gradient of a reduced decomposition with `m >= n`.
///
/// With `M = triu(grad_r · rᵀ − qᵀ · grad_q)`, reflected at its diagonal, the result is `(grad_q +
/// q · M) · r⁻ᵀ`, by substitution from the last column to the first.
///
/// # Shapes
///
/// `grad_q`, `q` and `out` are (m, n), `grad_r` and `r` (n, n), row-major.
///
/// # Determinism
///
/// Portable: see the [module](super).
///
/// # Errors
///
/// [`Error::Length`](crate::Error::Length) if a slice has the wrong length, and
/// [`Error::OutOfMemory`](crate::Error::OutOfMemory).
pub fn qr_backward<T: Float>(
    [grad_q, grad_r]: [&[T]; 2],
    [q, r]: [&[T]; 2],
    [m, n]: [usize; 2],
    out: &mut [T],
) -> Result<()> {
    for (what, len, expected) in [
        ("grad_q", grad_q.len(), [m, n]),
        ("grad_r", grad_r.len(), [n, n]),
        ("q", q.len(), [m, n]),
        ("r", r.len(), [n, n]),
        ("out", out.len(), [m, n]),
    ] {
        expect_len(OP, what, len, volume(OP, &expected)?)?;
    }
    fpenv::ieee(|| solve([grad_q, grad_r], [q, r], [m, n])?.write(OP, out))
}

/// Returns the gradient that [`qr_backward`] writes.
fn solve<T: Float>(
    [grad_q, grad_r]: [&[T]; 2],
    [q, r]: [&[T]; 2],
    [m, n]: [usize; 2],
) -> Result<Columns> {
    let wide = |x: &[T]| collected::<f64>(OP, x.iter().map(|&x| x.into()));
    // Rows of R and of its gradient; columns of Q and of its gradient.
    let (r, grad_r) = (wide(r)?, wide(grad_r)?);
    let q = Columns::from_rows(OP, q, m, n)?;
    let mut grad = Columns::from_rows(OP, grad_q, m, n)?;
    let mut mixed = Columns::zeros(OP, n, n)?;
    simd::dispatch(Solve { q: &q, grad: &mut grad, r: &r, grad_r: &grad_r, mixed: &mut mixed });
    Ok(grad)
}

/// Turns the gradient of Q into that of the matrix; `mixed` is scratch space.
struct Solve<'a> {
    q: &'a Columns,
    grad: &'a mut Columns,
    r: &'a [f64],
    grad_r: &'a [f64],
    mixed: &'a mut Columns,
}

impl Kernel for Solve<'_> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let Solve { q, grad, r, grad_r, mixed } = self;
        let n = q.count;
        for i in 0..n {
            for j in i..n {
                let value =
                    dot(&grad_r[i * n..][..n], &r[j * n..][..n]) - dot(q.column(i), grad.column(j));
                mixed.column_mut(j)[i] = value;
                mixed.column_mut(i)[j] = value;
            }
        }
        for j in 0..n {
            for i in 0..n {
                add_scaled(mixed.column(j)[i], q.column(i), grad.column_mut(j));
            }
        }
        // Solves X · Rᵀ = grad: column j of grad is a combination of columns j.. of X.
        for j in (0..n).rev() {
            let (before, solved) = grad.split_at_mut(j + 1);
            let target = &mut before[j * q.rows..];
            for (k, solved) in (j + 1..n).zip(solved.chunks_exact(q.rows)) {
                add_scaled(-r[j * n + k], solved, target);
            }
            let pivot = r[j * n + j];
            for x in target {
                *x /= pivot;
            }
        }
    }
}
