//! The singular value decomposition by one-sided Jacobi rotations.

use std::sync::atomic::{AtomicBool, Ordering};

use samebits_numerics::fpenv;
use samebits_numerics::simd::{self, Kernel};

use super::{Columns, add_scaled, dot, scale_of};
use crate::Float;
use crate::error::{Error, Result, expect_len};
use crate::memory::{collected, volume, zeroed};
use crate::parallel::{CHUNK, tasks};

const OP: &str = "svd";

/// Computes `x = u · diag(s) · vᵀ` with `k = min(m, n)` singular values, descending.
///
/// The columns of the matrix (of its transpose, if it has more columns than rows) are divided by
/// the power of two at or below its largest magnitude. Sweeps visit all pairs `p < q`, row by row.
/// Let `a`, `b` and `g` be the dot products `p·p`, `q·q` and `p·q`. A pair is rotated if
/// `|g| > 2⁻⁵² · √(a·b)`. With `z = (b − a) / 2g`, `t = copysign(1, z) / (|z| + √(1 + z²))`,
/// `c = 1 / √(1 + t²)` and `s = c · t`, the columns become `c·p − s·q` and `s·p + c·q`, each
/// `fma(c, p, −(s·q))` or `fma(s, p, c·q)`. Sweeps end when one rotates nothing, or after the 60th.
/// Columns of singular value 0 are replaced by orthogonal ones made from the unit vectors, in
/// order. Signs are chosen so that in each column of `u` the first element of largest magnitude is
/// not negative.
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
/// M. R. Hestenes, *Inversion of Matrices by Biorthogonalization and Related Results*, 1958.
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
    let (k, wide) = (m.min(n), m < n);
    let mut left = if wide {
        // The transpose by columns is the matrix by rows.
        Columns { rows: n, count: m, data: collected(OP, x.iter().map(|&x| x.into()))? }
    } else {
        Columns::from_rows(OP, x, m, n)?
    };
    let scale = scale_of(&left.data);
    for x in &mut left.data {
        *x /= scale;
    }
    let rows = left.rows;
    let mut left = padded(left)?;
    let mut right = padded(Columns::identity(OP, k, k)?)?;
    let norms = rotate_all(&mut left, &mut right)?;
    let mut order: Vec<usize> = collected(OP, 0..k)?;
    // Equal norms keep the order of their columns; no norm is NaN.
    order.sort_unstable_by(|&a, &b| norms[b].total_cmp(&norms[a]).then(a.cmp(&b)));
    let (mut left, right) = (pick(&left, rows, &order)?, pick(&right, k, &order)?);
    for (j, &from) in order.iter().enumerate() {
        normalize(&mut left, j, norms[from])?;
        s[j] = T::from_f64(norms[from] * scale).canonical();
    }
    let (mut left, mut right) = if wide { (right, left) } else { (left, right) };
    for j in 0..k {
        if leads_negative(left.column(j)) {
            for x in left.column_mut(j).iter_mut().chain(right.column_mut(j)) {
                *x = -*x;
            }
        }
    }
    left.write(u);
    right.write(v);
    Ok(())
}

/// Appends zeros to short columns, so that they fill vectors. The zeros change no bit: no lane of a dot
/// product holds -0, so adding a zero of either sign leaves it.
fn padded(x: Columns) -> Result<Columns> {
    let rows = match x.rows {
        1..=8 => 8,
        9..=16 => 16,
        _ => return Ok(x),
    };
    let mut new = Columns::zeros(OP, rows, x.count)?;
    for j in 0..x.count {
        new.column_mut(j)[..x.rows].copy_from_slice(x.column(j));
    }
    Ok(new)
}

/// Repeats sweeps over both matrices until no pair is rotated. Returns the norms of the columns of
/// `left`.
fn rotate_all(left: &mut Columns, right: &mut Columns) -> Result<Vec<f64>> {
    let at_least = CHUNK.div_ceil(SIDE * SIDE * (left.rows + right.rows).max(1));
    let columns = left.data.chunks_exact_mut(left.rows.max(1));
    let columns = columns.zip(right.data.chunks_exact_mut(right.rows.max(1)));
    let mut columns: Vec<Column<'_>> =
        collected(OP, columns.map(|(x, v)| Column { x, v, square: 0.0, norm: 0.0 }))?;
    simd::dispatch(Measure(&mut columns));
    let mut blocks: Vec<Block<'_, '_>> = collected(OP, columns.chunks_mut(SIDE))?;
    for _ in 0..60 {
        if !sweep(&mut blocks, at_least)? {
            break;
        }
    }
    collected(OP, columns.iter().map(|column| column.norm))
}

/// Neighbouring columns, which are rotated with those of another block while both are in the cache.
type Block<'a, 'b> = &'a mut [Column<'b>];

/// The number of columns of a block. It changes no bit.
const SIDE: usize = 16;

/// Rotates every pair once; returns true if any pair was rotated. Threads take at least `at_least`
/// pairs of blocks at a time.
///
/// The row-by-row order fixes, for each column, the order of its rotations. If two pairs share a
/// column, the one that comes first has the smaller sum `p + q`, and its blocks do not have a
/// larger sum. So pairs of blocks with one sum are independent, and processing sums in ascending
/// order gives every column its rotations in that order.
fn sweep(blocks: &mut [Block<'_, '_>], at_least: usize) -> Result<bool> {
    let rotated = AtomicBool::new(false);
    let n = blocks.len();
    for sum in 0..(2 * n).saturating_sub(1) {
        let first = sum.saturating_sub(n - 1);
        let blocks = &mut blocks[first..=sum - first];
        // If the number of blocks is odd, the middle one has no partner.
        let (front, back) = blocks.split_at_mut(blocks.len().div_ceil(2));
        let mut back = back.iter_mut().rev();
        let pairs = front.iter_mut().map(|front| Some((front, back.next())));
        let mut pairs: Vec<_> = collected(OP, pairs)?;
        tasks(&mut pairs).at_least(at_least).for_each(|(front, back)| {
            if simd::dispatch(Rotate(front, back.map_or(&mut [], |back| back))) {
                rotated.store(true, Ordering::Relaxed);
            }
        });
    }
    Ok(rotated.into_inner())
}

/// A column of the matrix, its dot product with itself and the root of that, and its column of the
/// product of the rotations so far.
#[derive(Debug)]
struct Column<'a> {
    x: &'a mut [f64],
    v: &'a mut [f64],
    square: f64,
    norm: f64,
}

impl Column<'_> {
    #[inline(always)]
    fn measure(&mut self) {
        self.square = dot(self.x, self.x);
        self.norm = self.square.sqrt();
    }
}

struct Measure<'a, 'b>(&'a mut [Column<'b>]);

impl Kernel for Measure<'_, '_> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        self.0.iter_mut().for_each(Column::measure);
    }
}

/// Rotates each column of the first block with each of the second or, if there is no second, with
/// each later one of the first. Returns true if any pair was rotated.
struct Rotate<'a, 'b>(&'a mut [Column<'b>], &'a mut [Column<'b>]);

impl Kernel for Rotate<'_, '_> {
    type Output = bool;
    #[inline(always)]
    fn run(self) -> bool {
        match self.0.first().map_or(0, |column| column.x.len()) {
            8 => self.pairs::<8>(),
            16 => self.pairs::<16>(),
            _ => self.pairs::<0>(),
        }
    }
}

impl Rotate<'_, '_> {
    /// Rotates columns of `L` elements, or of any number if `L` is 0. A function in place of the
    /// number would not be inlined, and what is not inlined into a kernel has no vectors.
    #[inline(always)]
    fn pairs<const L: usize>(self) -> bool {
        let Rotate(front, back) = self;
        let mut rotated = false;
        for p in 0..front.len() {
            let (done, later) = front.split_at_mut(p + 1);
            let others = if back.is_empty() { later } else { &mut *back };
            for q in others {
                let p = &mut done[p];
                rotated |= if L > 0 { rotate_short::<L>(p, q) } else { rotate_pair(p, q) };
            }
        }
        rotated
    }
}

/// Returns the cosine and the sine of the angle that makes two columns orthogonal, whose dot product is
/// `g`; `None` if they already are.
#[inline(always)]
fn rotation(p: &Column<'_>, q: &Column<'_>, g: f64) -> Option<[f64; 2]> {
    if g == 0.0 || g.abs() <= f64::EPSILON * (p.norm * q.norm) {
        return None;
    }
    let z = (q.square - p.square) / (2.0 * g);
    // If the square would overflow, the rotation is 1 / 2z.
    let t =
        if z.abs() > 1e150 { 0.5 / z } else { 1f64.copysign(z) / (z.abs() + (1.0 + z * z).sqrt()) };
    let c = 1.0 / (1.0 + t * t).sqrt();
    Some([c, c * t])
}

/// Does what [`rotate_pair`] does with columns of `L` elements, which stay in registers.
#[inline(always)]
fn rotate_short<const L: usize>(p: &mut Column<'_>, q: &mut Column<'_>) -> bool {
    let load = |x: &[f64]| -> [f64; L] { *x.first_chunk().expect("columns have L elements") };
    let (x, y) = (load(p.x), load(q.x));
    let Some([c, s]) = rotation(p, q, dot_short(&x, &y)) else { return false };
    let (mut new_x, mut new_y) = ([0.0; L], [0.0; L]);
    for l in 0..L {
        new_x[l] = c.mul_add(x[l], -(s * y[l]));
    }
    for l in 0..L {
        new_y[l] = s.mul_add(x[l], c * y[l]);
    }
    p.x.copy_from_slice(&new_x);
    q.x.copy_from_slice(&new_y);
    rotate(c, s, p.v, q.v);
    p.square = dot_short(&new_x, &new_x);
    q.square = dot_short(&new_y, &new_y);
    (p.norm, q.norm) = (p.square.sqrt(), q.square.sqrt());
    true
}

/// Returns [`dot`] of columns that leave all further lanes without a term.
#[inline(always)]
fn dot_short<const L: usize>(x: &[f64; L], y: &[f64; L]) -> f64 {
    let mut lanes = [0.0; L];
    for l in 0..L {
        lanes[l] += x[l] * y[l];
    }
    // Keeps the compiler from pairing distant lanes in the loop above.
    let mut lanes = std::hint::black_box(lanes);
    for w in [8, 4, 2, 1] {
        if w < L {
            for l in 0..w {
                lanes[l] += lanes[l + w];
            }
        }
    }
    lanes[0]
}

/// Makes two columns orthogonal; returns false if they already are.
#[inline(always)]
fn rotate_pair(p: &mut Column<'_>, q: &mut Column<'_>) -> bool {
    let Some([c, s]) = rotation(p, q, dot(p.x, q.x)) else { return false };
    rotate(c, s, p.x, q.x);
    rotate(c, s, p.v, q.v);
    p.measure();
    q.measure();
    true
}

#[inline(always)]
fn rotate(c: f64, s: f64, x: &mut [f64], y: &mut [f64]) {
    for (x, y) in x.iter_mut().zip(y) {
        let (p, q) = (*x, *y);
        *x = c.mul_add(p, -(s * q));
        *y = s.mul_add(p, c * q);
    }
}

/// Returns the first `rows` rows of columns, in the given order.
fn pick(x: &Columns, rows: usize, order: &[usize]) -> Result<Columns> {
    let mut new = Columns::zeros(OP, rows, order.len())?;
    for (to, &from) in order.iter().enumerate() {
        new.column_mut(to).copy_from_slice(&x.column(from)[..rows]);
    }
    Ok(new)
}

/// Divides column `j` by its norm. If the norm is 0, replaces the column by one orthogonal to those
/// before it.
fn normalize(x: &mut Columns, j: usize, norm: f64) -> Result<()> {
    if norm > 0.0 {
        for x in x.column_mut(j) {
            *x /= norm;
        }
        return Ok(());
    }
    let mut candidate: Vec<f64> = zeroed(OP, x.rows)?;
    for unit in 0..x.rows {
        candidate.fill(0.0);
        candidate[unit] = 1.0;
        let squares = simd::dispatch(Remainder { x, j, candidate: &mut candidate });
        // For at least one unit vector, 1 / rows of its square remains.
        if squares * 2.0 * x.rows as f64 >= 1.0 {
            let norm = squares.sqrt();
            for (to, value) in x.column_mut(j).iter_mut().zip(&candidate) {
                *to = value / norm;
            }
            break;
        }
    }
    Ok(())
}

/// Subtracts from a candidate its components along the columns before number `j`. Returns the
/// square of the result.
struct Remainder<'a> {
    x: &'a Columns,
    j: usize,
    candidate: &'a mut [f64],
}

impl Kernel for Remainder<'_> {
    type Output = f64;
    #[inline(always)]
    fn run(self) -> f64 {
        let Remainder { x, j, candidate } = self;
        // Runs twice: after one pass an error remains if little of the candidate is left.
        for _ in 0..2 {
            for before in 0..j {
                let share = dot(x.column(before), candidate);
                add_scaled(-share, x.column(before), candidate);
            }
        }
        dot(candidate, candidate)
    }
}

/// Returns true if the first element of largest magnitude is negative.
fn leads_negative(x: &[f64]) -> bool {
    let mut lead = 0.0f64;
    for &x in x {
        if x.abs() > lead.abs() {
            lead = x;
        }
    }
    lead < 0.0
}
