//! The singular value decomposition by one-sided Jacobi rotations.

use super::{Columns, add_scaled, dot, scale_of};
use crate::Float;
use crate::error::{Error, Result, expect_len};
use crate::memory::{collected, volume, zeroed};
use samebits_numerics::fpenv;

const OP: &str = "svd";

/// `x = u · diag(s) · vᵀ` with `k = min(m, n)` singular values, descending.
///
/// The columns of the matrix (of its transpose, if it has more columns than rows) are divided by
/// the power of two at or below its largest magnitude. Sweeps visit all pairs `p < q`, row by
/// row. With `a`, `b` and `g` the dot products `p·p`, `q·q` and `p·q`, a pair is rotated if
/// `|g| > 2⁻⁵² · √(a·b)`: with `z = (b − a) / 2g`, `t = copysign(1, z) / (|z| + √(1 + z²))`,
/// `c = 1 / √(1 + t²)` and `s = c · t`, they become `c·p − s·q` and `s·p + c·q`, each
/// `fma(c, p, −(s·q))` or `fma(s, p, c·q)`. The sweep in which nothing is rotated is the last; so
/// is the 60th. Columns of singular value 0 are completed to orthogonal ones from the unit
/// vectors, in order. The sign is such that the first element of largest magnitude of each column
/// of `u` is not negative.
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
/// [`Error::Argument`] if an element is not finite, [`Error::Length`] if a slice does not fit, and
/// [`Error::OutOfMemory`].
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
    let mut right = Columns::identity(OP, k, k)?;
    for _ in 0..60 {
        if !sweep(&mut left, &mut right) {
            break;
        }
    }
    let norm = |j| dot(left.column(j), left.column(j)).sqrt();
    let norms: Vec<f64> = collected(OP, (0..k).map(norm))?;
    let mut order: Vec<usize> = collected(OP, 0..k)?;
    // In the order of the columns where norms are equal; no norm is NaN.
    order.sort_unstable_by(|&a, &b| norms[b].total_cmp(&norms[a]).then(a.cmp(&b)));
    let (mut left, right) = (pick(&left, &order)?, pick(&right, &order)?);
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

/// Rotates every pair once; true if any was.
fn sweep(left: &mut Columns, right: &mut Columns) -> bool {
    let mut rotated = false;
    for p in 0..left.count {
        for q in p + 1..left.count {
            let (x, y) = left.pair_mut(p, q);
            let (a, b, g) = (dot(x, x), dot(y, y), dot(x, y));
            if g == 0.0 || g.abs() <= f64::EPSILON * (a.sqrt() * b.sqrt()) {
                continue;
            }
            rotated = true;
            let z = (b - a) / (2.0 * g);
            // Beyond the range of squares the rotation is 1 / 2z.
            let t = if z.abs() > 1e150 {
                0.5 / z
            } else {
                1f64.copysign(z) / (z.abs() + (1.0 + z * z).sqrt())
            };
            let c = 1.0 / (1.0 + t * t).sqrt();
            let s = c * t;
            rotate(c, s, x, y);
            let (x, y) = right.pair_mut(p, q);
            rotate(c, s, x, y);
        }
    }
    rotated
}

fn rotate(c: f64, s: f64, x: &mut [f64], y: &mut [f64]) {
    for (x, y) in x.iter_mut().zip(y) {
        let (p, q) = (*x, *y);
        *x = c.mul_add(p, -(s * q));
        *y = s.mul_add(p, c * q);
    }
}

fn pick(x: &Columns, order: &[usize]) -> Result<Columns> {
    let mut new = Columns::zeros(OP, x.rows, order.len())?;
    for (to, &from) in order.iter().enumerate() {
        new.column_mut(to).copy_from_slice(x.column(from));
    }
    Ok(new)
}

/// Divides column `j` by its norm. If that is 0, makes it orthogonal to those before it.
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
        // Twice, because once leaves a rest where little remains.
        for _ in 0..2 {
            for before in 0..j {
                let share = dot(x.column(before), &candidate);
                add_scaled(-share, x.column(before), &mut candidate);
            }
        }
        let squares = dot(&candidate, &candidate);
        // Some unit vector keeps at least 1 / rows of its square.
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

/// Whether the first element of largest magnitude is negative.
fn leads_negative(x: &[f64]) -> bool {
    let mut lead = 0.0f64;
    for &x in x {
        if x.abs() > lead.abs() {
            lead = x;
        }
    }
    lead < 0.0
}
