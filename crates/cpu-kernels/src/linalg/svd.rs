//! The singular value decomposition by one-sided Jacobi rotations.

use std::sync::atomic::{AtomicBool, Ordering};

use samebits_numerics::fpenv;
use samebits_numerics::reduce::{Accumulator, blocks};
use samebits_numerics::simd::{self, Kernel};

use super::{Columns, add_scaled, dot, largest, scale_of};
use crate::Float;
use crate::arch::jacobi::{MULTIPLE, Rotations, TURNED};
use crate::error::{Error, Result, expect_len};
use crate::memory::{collected, filled, scratch, volume, with_capacity, zeroed};
use crate::parallel::{CHUNK, chunks_mut, tasks};

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
    let (k, rows) = (m.min(n), m.max(n));
    if k == 0 {
        return Ok(());
    }
    // Zeros after the last row change no bit: no lane of a dot product holds -0, so adding a zero of
    // either sign leaves it.
    let stride = rows.next_multiple_of(MULTIPLE);
    let len = volume(OP, &[stride, k])?;
    let mut left = scratch::<f64>(OP, len.saturating_add(MULTIPLE))?;
    let left = &mut aligned(left.as_mut_slice())[..len];
    let scale = if m < n {
        // The transpose by columns is the matrix by rows.
        simd::dispatch(Scale { x, rows, stride, out: left })
    } else {
        let mut columns = filled(OP, x.len(), T::ZERO)?;
        T::transpose(x, n, (m, n), &mut columns, m);
        simd::dispatch(Scale { x: &columns, rows, stride, out: left })
    };
    let len = volume(OP, &[k.next_multiple_of(TURNED), k])?;
    let mut right = scratch::<f64>(OP, len.saturating_add(MULTIPLE))?;
    let (right, _) = aligned(right.as_mut_slice())[..len].as_chunks_mut();
    let norms = rotate_all(left, right, k)?;
    let mut order: Vec<usize> = collected(OP, 0..k)?;
    // Equal norms keep the order of their columns; no norm is NaN.
    order.sort_unstable_by(|&a, &b| norms[b].total_cmp(&norms[a]).then(a.cmp(&b)));
    let (mut left, right) = (pick(left, rows, &order)?, pick_turned(right, &order)?);
    for (j, &from) in order.iter().enumerate() {
        normalize(&mut left, j, norms[from])?;
        s[j] = T::from_f64(norms[from] * scale).canonical();
    }
    let (mut left, mut right) = if m < n { (right, left) } else { (left, right) };
    for j in 0..k {
        if simd::dispatch(LeadsNegative(left.column(j))) {
            for x in left.column_mut(j).iter_mut().chain(right.column_mut(j)) {
                *x = -*x;
            }
        }
    }
    left.write(OP, u)?;
    right.write(OP, v)
}

/// Returns the elements from the first cache line on; [`MULTIPLE`] fewer at most.
fn aligned(x: &mut [f64]) -> &mut [f64] {
    let start = x.as_ptr().align_offset(64).min(MULTIPLE);
    &mut x[start..]
}

/// Writes columns of `rows` elements, divided by the power of two at or below the largest magnitude,
/// `stride` elements apart. Returns the divisor.
struct Scale<'a, T> {
    x: &'a [T],
    rows: usize,
    stride: usize,
    out: &'a mut [f64],
}

impl<T: Float> Kernel for Scale<'_, T> {
    type Output = f64;
    #[inline(always)]
    fn run(self) -> f64 {
        let Scale { x, rows, stride, out } = self;
        for (out, x) in out.chunks_exact_mut(stride).zip(x.chunks_exact(rows)) {
            for (out, &x) in out.iter_mut().zip(x) {
                *out = x.into();
            }
            out[rows..].fill(0.0);
        }
        let scale = scale_of(out);
        for out in out.iter_mut() {
            *out /= scale;
        }
        scale
    }
}

/// Repeats sweeps over the columns of the matrix, and over the rows of the product of the rotations,
/// until no pair is rotated. Returns the norms of the columns.
fn rotate_all(left: &mut [f64], right: &mut [[f64; TURNED]], k: usize) -> Result<Vec<f64>> {
    let rows = left.len() / k;
    for (i, row) in right.iter_mut().enumerate() {
        *row = [0.0; TURNED];
        let (tile, column) = (i / k, i % k);
        if column / TURNED == tile {
            row[column % TURNED] = 1.0;
        }
    }
    // Few columns are one block, which one thread rotates: its dot products would wait for others.
    let side = match rows.saturating_mul(k * k) {
        0..=SERIAL => k,
        // Fewer columns make more blocks, so that there are several independent pairs of them.
        _ if k < 8 * SIDE && rows > 256 => SIDE / 2,
        _ => SIDE,
    };
    let (mut squares, mut norms) = (zeroed(OP, k)?, zeroed(OP, k)?);
    let mut blocks: Vec<Block<'_>> = with_capacity(OP, k.div_ceil(side))?;
    let lengths = squares.chunks_mut(side).zip(norms.chunks_mut(side));
    for (x, (squares, norms)) in left.chunks_mut(side * rows).zip(lengths) {
        simd::dispatch(Measure { x, squares, norms });
        blocks.push(Block { x, squares, norms });
    }
    let pairs = blocks.len() * (blocks.len() + 1) / 2;
    let mut angles = filled(OP, volume(OP, &[pairs, side, side])?, [0.0; 2])?;
    let at_least = CHUNK.div_ceil(k * k * TURNED).max(1);
    for _ in 0..60 {
        if !sweep(&mut blocks, rows, &mut angles)? {
            break;
        }
        let angles = &angles;
        chunks_mut(right, k).at_least(at_least).for_each(|rows| turn(rows, side, angles));
    }
    drop(blocks);
    Ok(norms)
}

/// Neighbouring columns, the dot product of each with itself and the root of that.
#[derive(Debug)]
struct Block<'a> {
    x: &'a mut [f64],
    squares: &'a mut [f64],
    norms: &'a mut [f64],
}

/// The number of columns of a block of a matrix with many. It changes no bit.
const SIDE: usize = 16;

/// The number of elements of a matrix, times columns, up to which one thread rotates it.
const SERIAL: usize = 1 << 20;

/// The number of elements of the columns that are rotated with each other while they are in the
/// first-level cache.
const CACHED: usize = 1 << 12;

/// Rotates every pair once; returns true if any pair was rotated. Writes the cosine and the sine of
/// each pair, the cosine 0 for none.
///
/// The row-by-row order fixes, for each column, the order of its rotations. If two pairs share a
/// column, the one that comes first has the smaller sum `p + q`, and its blocks do not have a
/// larger sum. So pairs of blocks with one sum are independent, and processing sums in ascending
/// order gives every column its rotations in that order. The same holds for pairs of columns.
fn sweep(blocks: &mut [Block<'_>], rows: usize, angles: &mut [[f64; 2]]) -> Result<bool> {
    let rotated = AtomicBool::new(false);
    let (n, mut angles) = (blocks.len(), angles);
    let side = blocks[0].squares.len();
    let at_least = CHUNK.div_ceil(side * side * rows);
    for sum in 0..2 * n - 1 {
        let first = sum.saturating_sub(n - 1);
        let blocks = &mut blocks[first..=sum - first];
        // If the number of blocks is odd, the middle one has no partner.
        let (front, back) = blocks.split_at_mut(blocks.len().div_ceil(2));
        let (now, later) = std::mem::take(&mut angles).split_at_mut(front.len() * side * side);
        angles = later;
        let mut back = back.iter_mut().rev();
        let pairs = front.iter_mut().zip(now.chunks_exact_mut(side * side));
        let pairs = pairs.map(|(front, angles)| Some((front, back.next(), angles)));
        let mut pairs: Vec<_> = collected(OP, pairs)?;
        tasks(&mut pairs).at_least(at_least).for_each(|(front, back, angles)| {
            if simd::dispatch(Rotate { rows, front, back, angles }) {
                rotated.store(true, Ordering::Relaxed);
            }
        });
    }
    Ok(rotated.into_inner())
}

/// Applies the rotations of a sweep to [`TURNED`] rows of their product, column by column.
fn turn(rows: &mut [[f64; TURNED]], side: usize, angles: &[[f64; 2]]) {
    let rotations = Rotations::new();
    let n = rows.len().div_ceil(side);
    let mut angles = angles.chunks_exact(side * side);
    for sum in 0..2 * n - 1 {
        for p in sum.saturating_sub(n - 1)..=sum / 2 {
            let (q, angles) = (sum - p, angles.next().unwrap_or_default());
            let last = rows.len().min((q + 1) * side);
            for (i, angles) in angles.chunks_exact(side).enumerate() {
                let p = p * side + i;
                // Of a block with itself, the pairs above the diagonal.
                let first = (q * side).max(p + 1);
                if first < last {
                    let (front, back) = rows[..last].split_at_mut(first);
                    rotations.turn(&mut front[p], back, &angles[first - q * side..]);
                }
            }
        }
    }
}

struct Measure<'a> {
    x: &'a [f64],
    squares: &'a mut [f64],
    norms: &'a mut [f64],
}

impl Kernel for Measure<'_> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let columns = self.x.chunks_exact(self.x.len() / self.squares.len());
        for ((x, square), norm) in columns.zip(self.squares).zip(self.norms) {
            *square = dot(x, x);
            *norm = square.sqrt();
        }
    }
}

/// Rotates each column of the first block with each of the second or, if there is no second, with
/// each later one of the first. Returns true if any pair was rotated.
struct Rotate<'a, 'b> {
    rows: usize,
    front: &'a mut Block<'b>,
    back: Option<&'a mut Block<'b>>,
    angles: &'a mut [[f64; 2]],
}

/// The most pairs whose angles are computed together.
const TOGETHER: usize = 16;

impl Kernel for Rotate<'_, '_> {
    type Output = bool;
    #[inline(always)]
    fn run(self) -> bool {
        let Rotate { rows, front, mut back, angles } = self;
        let rotations = Rotations::new();
        let (count, others) =
            (front.norms.len(), back.as_ref().map_or(front.norms.len(), |back| back.norms.len()));
        let row = angles.len().isqrt();
        let some = (CACHED / rows).max(2);
        let mut rotated = false;
        for p_start in (0..count).step_by(some) {
            let p_end = count.min(p_start + some);
            for q_start in (if back.is_some() { 0 } else { p_start }..others).step_by(some) {
                let q_end = others.min(q_start + some);
                // Pairs with one sum share no column.
                for sum in p_start + q_start..(p_end + q_end).saturating_sub(1) {
                    let mut first = p_start.max((sum + 1).saturating_sub(q_end));
                    let mut last = p_end.min(sum + 1 - q_start);
                    if back.is_none() {
                        last = last.min(sum.div_ceil(2));
                    }
                    while first < last {
                        let (p, count) = (first, TOGETHER.min(last - first));
                        let q = sum + 1 - p - count;
                        let (left, right) = match &mut back {
                            Some(back) => (front.part(p, count, rows), back.part(q, count, rows)),
                            None => front.parts([p, q], count, rows),
                        };
                        let found = rotate(rotations, left, right);
                        for (i, [c, s]) in found.into_iter().take(count).enumerate() {
                            angles[(p + i) * row + sum - p - i] = [c, s];
                            rotated |= c != 0.0;
                        }
                        first += count;
                    }
                }
            }
        }
        rotated
    }
}

impl Block<'_> {
    /// Returns `count` columns from number `p` on.
    #[inline(always)]
    fn part(&mut self, p: usize, count: usize, rows: usize) -> Block<'_> {
        Block {
            x: &mut self.x[p * rows..][..count * rows],
            squares: &mut self.squares[p..][..count],
            norms: &mut self.norms[p..][..count],
        }
    }

    /// Returns `count` columns from number `p` on, and as many from number `q` on.
    #[inline(always)]
    fn parts(&mut self, [p, q]: [usize; 2], count: usize, rows: usize) -> (Block<'_>, Block<'_>) {
        let (x, later_x) = self.x.split_at_mut(q * rows);
        let (squares, later_squares) = self.squares.split_at_mut(q);
        let (norms, later_norms) = self.norms.split_at_mut(q);
        (
            Block {
                x: &mut x[p * rows..][..count * rows],
                squares: &mut squares[p..][..count],
                norms: &mut norms[p..][..count],
            },
            Block {
                x: &mut later_x[..count * rows],
                squares: &mut later_squares[..count],
                norms: &mut later_norms[..count],
            },
        )
    }
}

/// Makes each column of the first block orthogonal to one of the second: the first to the last, and
/// so on. Returns the cosine and the sine of each rotation, the cosine 0 if there was none.
#[inline(always)]
fn rotate(rotations: Rotations, front: Block<'_>, back: Block<'_>) -> [[f64; 2]; TOGETHER] {
    let count = front.norms.len();
    let blocks = blocks(front.x.len() / count);
    let mut g = [0.0; TOGETHER];
    rotations.dots(front.x, back.x, 0, &mut g[..count]);
    if blocks > 1 {
        let mut sums = [(); TOGETHER].map(|()| Accumulator::new());
        for block in 0..blocks {
            rotations.dots(front.x, back.x, block, &mut g[..count]);
            sums.iter_mut().zip(g).for_each(|(sum, g)| sum.push(g));
        }
        g = sums.map(Accumulator::finish);
    }
    // The loops below have no constant length, or the compiler would unroll them without vectors.
    let n = count.next_multiple_of(MULTIPLE);
    let (mut squares, mut norms) = ([0.0; 2 * TOGETHER], [0.0; 2 * TOGETHER]);
    for i in 0..count {
        squares[i] = front.squares[i];
        norms[i] = front.norms[i];
        squares[n + i] = back.squares[count - 1 - i];
        norms[n + i] = back.norms[count - 1 - i];
    }
    let (squares, norms) = (&mut squares[..2 * n], &mut norms[..2 * n]);
    let ((a, b), (norm_a, norm_b)) = (squares.split_at(n), norms.split_at(n));
    let (mut cos, mut sin) = ([0.0; TOGETHER], [0.0; TOGETHER]);
    let outs = cos[..n].iter_mut().zip(&mut sin[..n]).zip(&g[..n]);
    for ((((cos, sin), &g), (&a, &b)), (&norm_a, &norm_b)) in
        outs.zip(a.iter().zip(b)).zip(norm_a.iter().zip(norm_b))
    {
        let z = (b - a) / (2.0 * g);
        // If the square would overflow, the rotation is 1 / 2z.
        let near = 1f64.copysign(z) / (z.abs() + (1.0 + z * z).sqrt());
        let t = if z.abs() > 1e150 { 0.5 / z } else { near };
        let c = 1.0 / (1.0 + t * t).sqrt();
        let orthogonal = (g == 0.0) | (g.abs() <= f64::EPSILON * (norm_a * norm_b));
        *cos = if orthogonal { 0.0 } else { c };
        *sin = c * t;
    }
    let mut angles = [[0.0; 2]; TOGETHER];
    for i in 0..TOGETHER {
        angles[i] = [cos[i], sin[i]];
    }
    let used = &angles[..count];
    if blocks == 1 {
        rotations.rotate(front.x, back.x, 0, used, squares.split_at_mut(n).into());
    } else {
        let mut sums = [(); TOGETHER].map(|()| [Accumulator::new(), Accumulator::new()]);
        let (mut p, mut q) = ([0.0; TOGETHER], [0.0; TOGETHER]);
        for block in 0..blocks {
            rotations.rotate(front.x, back.x, block, used, [&mut p, &mut q]);
            for (sums, (p, q)) in sums.iter_mut().zip(p.into_iter().zip(q)) {
                sums[0].push(p);
                sums[1].push(q);
            }
        }
        for (i, (sums, [c, _])) in sums.into_iter().zip(used).enumerate() {
            if *c != 0.0 {
                [squares[i], squares[n + i]] = sums.map(Accumulator::finish);
            }
        }
    }
    let (squares, norms) = (squares.as_chunks::<16>().0, norms.as_chunks_mut::<16>().0);
    for (norms, squares) in norms.iter_mut().zip(squares) {
        for i in 0..16 {
            norms[i] = squares[i].sqrt();
        }
    }
    let (squares, norms) = (squares.as_flattened(), norms.as_flattened());
    for i in 0..count {
        front.squares[i] = squares[i];
        front.norms[i] = norms[i];
        back.squares[count - 1 - i] = squares[n + i];
        back.norms[count - 1 - i] = norms[n + i];
    }
    angles
}

/// Returns columns in the given order, and of each the first `rows` rows.
fn pick(x: &[f64], rows: usize, order: &[usize]) -> Result<Columns> {
    let stride = x.len() / order.len();
    let mut new = Columns::zeros(OP, rows, order.len())?;
    for (to, &from) in order.iter().enumerate() {
        new.column_mut(to).copy_from_slice(&x[from * stride..][..rows]);
    }
    Ok(new)
}

/// Returns the columns of the product of the rotations in the given order.
fn pick_turned(x: &[[f64; TURNED]], order: &[usize]) -> Result<Columns> {
    let k = order.len();
    let mut new = Columns::zeros(OP, k, k)?;
    for (to, &from) in order.iter().enumerate() {
        let rows = x.iter().skip(from).step_by(k);
        for (out, x) in new.column_mut(to).chunks_mut(TURNED).zip(rows) {
            out.copy_from_slice(&x[..out.len()]);
        }
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
struct LeadsNegative<'a>(&'a [f64]);

impl Kernel for LeadsNegative<'_> {
    type Output = bool;
    #[inline(always)]
    fn run(self) -> bool {
        let largest = largest(self.0);
        self.0.iter().find(|x| x.abs() == largest).is_some_and(|&x| x < 0.0)
    }
}
