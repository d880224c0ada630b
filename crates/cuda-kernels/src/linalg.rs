//! Decompositions of matrices, a batch at a time.
//!
//! # Determinism
//!
//! Portable. Elements are converted to f64, computed with basic operations in the order that each
//! function documents, and rounded once at the end. Dot products and sums of squares run over the
//! contract's fixed tree; `a -= f · v` is one fma per element.

use crate::launch::declared::linalg::RawMatrix;
use crate::launch::kernels::linalg as kernels;
use crate::launch::{Buffer, Launch};

use crate::device::{Device, Float, expect_len, product};
use crate::error::{CudaError, Result};
use crate::reduce::grid;

/// Computes `x = q · r`: Q has `columns` columns and R as many rows, `min(m, n)` or `m`.
///
/// For each column `k` in order, let `s` be the power of two at or below its largest magnitude from
/// the diagonal down, and let `a` and `x` be the diagonal element and the elements below it,
/// divided by `s`. Then `norm = √(a² + Σ x²)`, `b = −copysign(norm, a)`, `tau = (b − a) / b`,
/// `v = x / (a − b)`; later columns `c` become `c − (tau · (c_k + v · c)) · (1, v)`. A column that
/// is zero below its diagonal is unchanged. Q is formed by the reflections in descending order. One
/// block computes one matrix.
///
/// # Shapes
///
/// With `[count, m, n] = shape`: `x` is (count, m, n); returns (count, m, columns) and
/// (count, columns, n), row-major.
///
/// # Errors
///
/// [`CudaError::Length`]; [`CudaError::InvalidArgument`] if `columns` is neither `min(m, n)` nor
/// `m`.
pub fn qr<T: Float>(
    device: &Device,
    x: &Buffer<T>,
    [count, m, n]: [usize; 3],
    columns: usize,
) -> Result<(Buffer<T>, Buffer<T>)> {
    let op = "qr";
    if columns != m && columns != m.min(n) {
        return Err(CudaError::invalid(
            op,
            format!("{columns} columns of Q for a {m} x {n} matrix"),
        ));
    }
    let [size, size_q, size_r] =
        [[count, m, n], [count, m, columns], [count, columns, n]].map(|dims| product(op, &dims));
    let (size, size_q, size_r) = (size?, size_q?, size_r?);
    expect_len(op, "the matrices", x, size)?;
    let mut q = device.uninitialised(op, size_q)?;
    let mut r = device.uninitialised(op, size_r)?;
    // The number of empty matrices may exceed the number of blocks of a grid.
    if size_q == 0 {
        return Ok((q, r));
    }
    let mut work = device.uninitialised::<f64>(op, size)?;
    let mut basis = device.uninitialised::<f64>(op, size_q)?;
    let mut taus = device.uninitialised::<f64>(op, count * m.min(n))?;
    kernels::Qr {
        q: &mut q,
        r: &mut r,
        columns: &mut work,
        basis: &mut basis,
        taus: &mut taus,
        x,
        p: RawMatrix::new(m, n, columns),
    }
    .grid(device, op, (grid(op, count)?, 1, 1), (device.block(), 1, 1))?;
    Ok((q, r))
}

/// Computes the gradient of a reduced decomposition with `m >= n`.
///
/// With `M = triu(grad_r · rᵀ − qᵀ · grad_q)`, reflected at its diagonal, the result is
/// `(grad_q + q · M) · r⁻ᵀ`, by substitution from the last column to the first.
///
/// # Shapes
///
/// With `[count, m, n] = shape`: `grad_q` and `q` are (count, m, n), `grad_r` and `r` (count, n, n);
/// returns (count, m, n), row-major.
///
/// # Errors
///
/// [`CudaError::Length`].
pub fn qr_grad<T: Float>(
    device: &Device,
    [grad_q, grad_r]: [&Buffer<T>; 2],
    [q, r]: [&Buffer<T>; 2],
    [count, m, n]: [usize; 3],
) -> Result<Buffer<T>> {
    let op = "qr";
    let (tall, square) = (product(op, &[count, m, n])?, product(op, &[count, n, n])?);
    expect_len(op, "the gradient of Q", grad_q, tall)?;
    expect_len(op, "the gradient of R", grad_r, square)?;
    expect_len(op, "Q", q, tall)?;
    expect_len(op, "R", r, square)?;
    if tall == 0 {
        return device.uninitialised(op, 0);
    }
    let raw = RawMatrix::new(m, n, n);
    let mut mixed = device.uninitialised::<f64>(op, square)?;
    kernels::QrMixed { mixed: &mut mixed, grad_q, grad_r, q, r, p: raw, count }.threads(
        device,
        op,
        product(op, &[square, 32])?,
    )?;
    let mut out = device.uninitialised(op, tall)?;
    let mut solved = device.uninitialised::<f64>(op, tall)?;
    kernels::QrGrad {
        out: &mut out,
        solved: &mut solved,
        mixed: &mixed,
        grad_q,
        q,
        r,
        p: raw,
        count,
    }
    .threads(device, op, count * m)?;
    Ok(out)
}

/// Computes `x = u · diag(s) · vᵀ` with `k = min(m, n)` singular values, descending.
///
/// Householder reflections from both sides reduce the matrix, or its R, to a bidiagonal one; implicit
/// QR iteration makes that diagonal. `samebits_cpu_kernels::linalg::svd` states the order of all
/// operations. One block computes one matrix: warps take columns for reflections, threads take rows
/// for rotations, and the first thread computes the rotations of a sweep.
///
/// Waits for the device, to reject elements that are not finite.
///
/// # Shapes
///
/// With `[count, m, n] = shape`: `x` is (count, m, n); returns (count, m, k), (count, k) and
/// (count, n, k), row-major.
///
/// # Errors
///
/// [`CudaError::Length`]; [`CudaError::InvalidArgument`] if an element is not finite.
///
/// # References
///
/// G. Golub, W. Kahan, *Calculating the Singular Values and Pseudo-Inverse of a Matrix*, 1965.
/// G. H. Golub, C. Reinsch, *Singular Value Decomposition and Least Squares Solutions*, 1970.
/// J. Demmel, W. Kahan, *Accurate Singular Values of Bidiagonal Matrices*, 1990.
pub fn svd<T: Float>(
    device: &Device,
    x: &Buffer<T>,
    [count, m, n]: [usize; 3],
) -> Result<(Buffer<T>, Buffer<T>, Buffer<T>)> {
    let (op, k, rows) = ("svd", m.min(n), m.max(n));
    let size = product(op, &[count, m, n])?;
    expect_len(op, "the matrices", x, size)?;
    if size == 0 {
        let empty = || device.uninitialised(op, 0);
        return Ok((empty()?, empty()?, empty()?));
    }
    refuse_broken(device, op, x, size, m * n)?;
    let mut u = device.uninitialised(op, product(op, &[count, m, k])?)?;
    let mut s = device.uninitialised(op, product(op, &[count, k])?)?;
    let mut v = device.uninitialised(op, product(op, &[count, n, k])?)?;
    // A thread for each row of U and V, if a block has so many.
    let threads = (rows + k).next_multiple_of(32).min(device.block() as usize) as u32;
    // The kernel's division of the scratch memory.
    let tall = rows / 3 >= k && (k >= 16 || k >= 2 && rows >= 200);
    let side = if tall { k } else { rows };
    let matrices = k * (rows + side + 2 * k) + if tall { rows * k } else { 0 };
    let each = matrices + 13 * k + 2 * side + 3;
    let mut scratch = device.uninitialised::<f64>(op, product(op, &[count, each])?)?;
    let mut places = device.uninitialised::<i64>(op, count * (k + 2))?;
    kernels::Svd {
        u: &mut u,
        s: &mut s,
        v: &mut v,
        scratch: &mut scratch,
        places: &mut places,
        x,
        p: RawMatrix::new(m, n, k),
        side,
        each,
    }
    .grid(device, op, (grid(op, count)?, 1, 1), (threads, 1, 1))?;
    Ok((u, s, v))
}

/// Returns an error for the first element that is not finite, with its position in its matrix of
/// `each` elements.
fn refuse_broken<T: Float>(
    device: &Device,
    op: &'static str,
    x: &Buffer<T>,
    size: usize,
    each: usize,
) -> Result<()> {
    let mut first = device.upload(&[u64::MAX])?;
    kernels::FindBroken { first: &mut first, x, n: size }.threads(device, op, size)?;
    let place = device.download(&first)?[0];
    if place == u64::MAX {
        return Ok(());
    }
    let value = device.download(x)?[place as usize];
    let position = place as usize % each;
    Err(CudaError::invalid(
        op,
        format!("element {position} of the matrix is {value:?}, but all must be finite"),
    ))
}

impl RawMatrix {
    fn new(m: usize, n: usize, k: usize) -> RawMatrix {
        RawMatrix { m, n, k }
    }
}
