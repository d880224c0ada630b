//! The QR decomposition by Householder reflections.

use super::{Columns, add_scaled, dot, scale_of};
use crate::Float;
use crate::error::{Result, expect_len};
use crate::memory::{collected, volume, zeroed};
use samebits_numerics::fpenv;

const OP: &str = "qr";

/// `x = q · r`: Q has `columns` columns and R as many rows, `min(m, n)` or `m`.
///
/// For each column `k` in order, with `s` the power of two at or below its largest magnitude
/// from the diagonal down: `norm = √(a² + Σ x²)` of the scaled diagonal element `a` and elements
/// `x` below, `b = −copysign(norm, a)`, `tau = (b − a) / b`, `v = x / (a − b)`; later columns `c`
/// become `c − (tau · (c_k + v · c)) · (1, v)`. A column that is zero below its diagonal is left
/// as it is. Q is formed by the reflections in descending order.
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
/// [`Error::Length`](crate::Error::Length) if a slice does not fit, and
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
    fpenv::ieee(|| {
        let mut a = Columns::from_rows(OP, x, m, n)?;
        let mut taus: Vec<f64> = zeroed(OP, m.min(n))?;
        for (k, tau) in taus.iter_mut().enumerate() {
            *tau = reflect(&mut a, k);
        }
        let mut basis = Columns::identity(OP, m, columns)?;
        for (k, &tau) in taus.iter().enumerate().rev() {
            for j in k..columns {
                apply(tau, &a.column(k)[k + 1..], &mut basis.column_mut(j)[k..]);
            }
        }
        basis.write(q);
        write_upper(&a, [m, n], r);
        Ok(())
    })
}

/// Writes the elements on and above the diagonal, and zeros below.
fn write_upper<T: Float>(a: &Columns, [m, n]: [usize; 2], r: &mut [T]) {
    for (i, row) in r.chunks_exact_mut(n.max(1)).enumerate() {
        for (j, out) in row.iter_mut().enumerate() {
            let inside = i <= j && i < m;
            *out = if inside { T::from_f64(a.column(j)[i]).canonical() } else { T::ZERO };
        }
    }
}

/// The gradient of a reduced decomposition with `m >= n`.
///
/// With `M = triu(grad_r · rᵀ − qᵀ · grad_q)`, reflected at its diagonal, the result is
/// `(grad_q + q · M) · r⁻ᵀ`, by substitution from the last column to the first.
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
/// [`Error::Length`](crate::Error::Length) if a slice does not fit, and
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
    fpenv::ieee(|| {
        solve([grad_q, grad_r], [q, r], [m, n])?.write(out);
        Ok(())
    })
}

/// The gradient that [`qr_backward`] writes.
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
    // X · Rᵀ = grad: column j of it holds columns j.. of X.
    for j in (0..n).rev() {
        for k in j + 1..n {
            let (target, solved) = grad.pair_mut(j, k);
            add_scaled(-r[j * n + k], solved, target);
        }
        let pivot = r[j * n + j];
        for x in grad.column_mut(j) {
            *x /= pivot;
        }
    }
    Ok(grad)
}

/// Makes column `k` zero below its diagonal, where the reflection's vector is kept, and applies
/// the reflection to later columns. Returns its factor.
fn reflect(a: &mut Columns, k: usize) -> f64 {
    let column = &mut a.column_mut(k)[k..];
    let scale = scale_of(column);
    for x in column.iter_mut() {
        *x /= scale;
    }
    let (head, tail) = column.split_first_mut().expect("k is less than the number of rows");
    let squares = dot(tail, tail);
    if squares == 0.0 {
        *head *= scale;
        return 0.0;
    }
    let norm = head.mul_add(*head, squares).sqrt();
    let beta = -norm.copysign(*head);
    let tau = (beta - *head) / beta;
    let divisor = *head - beta;
    for x in tail.iter_mut() {
        *x /= divisor;
    }
    *head = beta * scale;
    for j in k + 1..a.count {
        let (reflected, column) = a.pair_mut(k, j);
        apply(tau, &reflected[k + 1..], &mut column[k..]);
    }
    tau
}

/// Applies the reflection `1 − tau · (1, v) · (1, v)ᵀ` to a column.
fn apply(tau: f64, v: &[f64], column: &mut [f64]) {
    if tau == 0.0 {
        return;
    }
    let (head, tail) = column.split_first_mut().expect("a column of at least the diagonal");
    let share = tau * (*head + dot(v, tail));
    *head -= share;
    add_scaled(-share, v, tail);
}
