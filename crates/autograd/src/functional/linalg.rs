//! Decompositions of matrices, exact and approximate.

use samebits_rng::{Draw, Generator};
use samebits_tensor_core::ops::{Normal, Qr, QrGrad, QrMode, Svd};
use samebits_tensor_core::{DType, Error, Result, Tensor};

use super::elementwise::{add, sub};
use super::linear::matmul;
use super::once;
use super::reduce::mean;
use super::shape::{cat, transpose};
use crate::{Var, run};

/// `x = Q · R` with orthogonal columns of Q and an upper triangular R; the diagonal of R has the
/// signs that LAPACK gives it. Differentiable in reduced mode for matrices of full rank.
///
/// # Shapes
///
/// `x` is `[.., m, n]`. With `k = min(m, n)`, or `m` in complete mode, Q is `[.., m, k]` and R
/// `[.., k, n]`.
///
/// # Determinism
///
/// Householder reflections in f64, rounded once; `samebits_cpu_kernels::linalg` says in which
/// order. Matrices of a batch are on their own.
///
/// # Errors
///
/// `x` is not a matrix of floats.
///
/// # Examples
///
/// ```
/// use samebits_autograd::{Var, functional};
/// use samebits_tensor_core::{Tensor, ops::QrMode};
///
/// let x = Var::constant(Tensor::from_slice(&[3.0f32, 4.0], &[2, 1])?);
/// let (q, r) = functional::qr(&x, QrMode::Reduced)?;
/// assert_eq!(q.value().to_vec::<f32>()?, [-0.6, -0.8]);
/// assert_eq!(r.value().to_vec::<f32>()?, [-5.0]);
/// # Ok::<(), samebits_tensor_core::Error>(())
/// ```
#[track_caller]
pub fn qr(x: &Var, mode: QrMode) -> Result<(Var, Var)> {
    let (q, r) = run(&Qr { x: x.value().clone(), mode })?;
    // A gradient is linear in those of Q and R, so each is a step of its own.
    let of_q = {
        let (q, r) = (q.clone(), r.clone());
        Var::computed(q.clone(), &[x], move |grad| {
            let value = qr_grad(Some(grad.value()), None, &q, &r)?;
            Ok(vec![Some(once("qr", value, &[grad]))])
        })
    };
    let of_r = {
        let (q, r) = (q.clone(), r.clone());
        Var::computed(r.clone(), &[x], move |grad| {
            let value = qr_grad(None, Some(grad.value()), &q, &r)?;
            Ok(vec![Some(once("qr", value, &[grad]))])
        })
    };
    Ok((of_q, of_r))
}

/// The thin singular value decomposition `x = U · diag(S) · Vᵀ`: U `[.., m, k]`, S `[.., k]` and V
/// `[.., n, k]` with `k = min(m, n)`. Not differentiable.
///
/// # Determinism
///
/// One-sided Jacobi rotations in f64, rounded once; `samebits_cpu_kernels::linalg` says in which
/// order and which signs.
///
/// # Errors
///
/// `x` is not a matrix of floats, or an element is not finite.
#[track_caller]
pub fn svd(x: &Tensor) -> Result<(Tensor, Tensor, Tensor)> {
    run(&Svd { x: x.clone() })
}

/// An approximate singular value decomposition of rank `q` of `x`, or of `x − m`, from random
/// projections: U `[.., rows, q]`, S `[.., q]` and V `[.., columns, q]`. Moves the generator on by
/// the numbers that `[min(rows, columns), q]` normal ones take. Not differentiable.
///
/// PyTorch's defaults are a `q` of 6 and 2 iterations.
///
/// # Determinism
///
/// Portable, given the generator: composed of normal numbers, [`matmul`], [`qr`] and
/// [`svd`].
///
/// # Errors
///
/// `x` is not a matrix of finite floats, or `m` does not broadcast to it.
///
/// # Examples
///
/// ```
/// use samebits_autograd::functional::svd_lowrank;
/// use samebits_rng::Generator;
/// use samebits_tensor_core::{DType, Tensor};
///
/// let x = Tensor::ones(&[40, 30], DType::F64);
/// let (_, s, _) = svd_lowrank(&x, 3, 2, None, &mut Generator::new(0))?;
/// assert!((s.to_vec::<f64>()?[0] - 1200f64.sqrt()).abs() < 1e-10);
/// let again = svd_lowrank(&x, 3, 2, None, &mut Generator::new(0))?.1;
/// assert_eq!(s.to_bytes()?, again.to_bytes()?);
/// # Ok::<(), samebits_tensor_core::Error>(())
/// ```
///
/// # References
///
/// N. Halko, P.-G. Martinsson and J. Tropp, *Finding Structure with Randomness*, SIAM Review
/// 53(2), 2011: algorithm 5.1.
#[track_caller]
pub fn svd_lowrank(
    x: &Tensor,
    q: usize,
    iterations: usize,
    m: Option<&Tensor>,
    generator: &mut Generator,
) -> Result<(Tensor, Tensor, Tensor)> {
    let (rows, columns) = matrix("svd_lowrank", x)?;
    let mut x = Var::constant(x.clone());
    if let Some(m) = m {
        let m = Var::constant(m.expand(x.shape())?);
        x = sub(&x, &m)?;
    }
    if rows < columns {
        x = flip(&x)?;
    }
    let basis = range(&x, q, iterations, generator)?;
    let small = matmul(&flip(&basis)?, &x)?;
    let (u, s, v) = svd(small.value())?;
    let u = matmul(&basis, &Var::constant(u))?.value().clone();
    Ok(if rows < columns { (v, s, u) } else { (u, s, v) })
}

/// [`svd_lowrank`] of a matrix of samples, whose columns are first centred if `center` says so:
/// a principal component analysis. `q` is `min(6, rows, columns)` if missing.
///
/// # Determinism
///
/// As [`svd_lowrank`]; means run in f64 over a fixed tree.
///
/// # Errors
///
/// As [`svd_lowrank`]; `q` is more than the shorter side.
#[track_caller]
pub fn pca_lowrank(
    x: &Tensor,
    q: Option<usize>,
    center: bool,
    iterations: usize,
    generator: &mut Generator,
) -> Result<(Tensor, Tensor, Tensor)> {
    const OP: &str = "pca_lowrank";
    let (rows, columns) = matrix(OP, x)?;
    let q = q.unwrap_or(rows.min(columns).min(6));
    if q > rows.min(columns) {
        return Err(Error::invalid(
            OP,
            format!("q is {q}, more than the shorter side of {rows} by {columns}"),
        ));
    }
    if !center {
        return svd_lowrank(x, q, iterations, None, generator);
    }
    let x = Var::constant(x.clone());
    let centred = sub(&x, &mean(&x, &[x.shape().len() - 2])?)?;
    svd_lowrank(centred.value(), q, iterations, None, generator)
}

/// An orthogonal basis of about the range of a tall matrix.
#[track_caller]
fn range(x: &Var, q: usize, iterations: usize, generator: &mut Generator) -> Result<Var> {
    let columns = x.shape()[x.shape().len() - 1];
    let shape = vec![columns, q];
    let numbers = samebits_tensor_core::layout::numel("svd_lowrank", &shape)?;
    let normal = Normal {
        shape,
        dtype: x.dtype(),
        device: x.value().device(),
        mean: 0.0,
        std: 1.0,
        generator: generator.clone(),
    };
    let start = Var::constant(run(&normal)?);
    generator.advance(match x.dtype() {
        DType::F64 => Draw::blocks_u64(numbers),
        _ => Draw::blocks_u32(numbers),
    });
    let orthogonal = |x: &Var| Ok::<Var, Error>(qr(x, QrMode::Reduced)?.0);
    let mut basis = orthogonal(&matmul(x, &start)?)?;
    for _ in 0..iterations {
        basis = orthogonal(&matmul(&flip(x)?, &basis)?)?;
        basis = orthogonal(&matmul(x, &basis)?)?;
    }
    Ok(basis)
}

/// The gradient of a decomposition, of which some part may have none.
fn qr_grad(
    grad_q: Option<&Tensor>,
    grad_r: Option<&Tensor>,
    q: &Tensor,
    r: &Tensor,
) -> Result<Tensor> {
    let zeros = |x: &Tensor| -> Result<Tensor> {
        Tensor::zeros(&[], x.dtype()).to(x.device())?.expand(x.shape())
    };
    let grad_q = grad_q.map_or_else(|| zeros(q), |grad| Ok(grad.clone()))?;
    let grad_r = grad_r.map_or_else(|| zeros(r), |grad| Ok(grad.clone()))?;
    let last = r.rank() - 1;
    let (rows, columns) = (r.shape()[last - 1], r.shape()[last]);
    let m = q.shape()[last - 1];
    if rows > columns {
        return Err(Error::invalid(
            "qr",
            format!("the complete mode of a {m} by {columns} matrix is not differentiable"),
        ));
    }
    if columns <= rows {
        return run(&QrGrad { grad_q, grad_r, q: q.clone(), r: r.clone() });
    }
    // More columns than rows: x = (a | b) = (Q · U | Q · V), and V = Qᵀ · b depends on Q.
    let constant = |x: &Tensor| Var::constant(x.clone());
    let (u, v) = (r.narrow(last, 0, rows)?, r.narrow(last, rows, columns - rows)?);
    let (grad_u, grad_v) =
        (grad_r.narrow(last, 0, rows)?, grad_r.narrow(last, rows, columns - rows)?);
    let b = matmul(&constant(q), &constant(&v))?;
    let through = matmul(&b, &flip(&constant(&grad_v))?)?;
    let grad_q = add(&constant(&grad_q), &through)?.value().clone();
    let grad_a = run(&QrGrad { grad_q, grad_r: grad_u, q: q.clone(), r: u })?;
    let grad_b = matmul(&constant(q), &constant(&grad_v))?;
    Ok(cat(&[Var::constant(grad_a), grad_b], last)?.value().clone())
}

fn matrix(op: &'static str, x: &Tensor) -> Result<(usize, usize)> {
    match *x.shape() {
        [.., rows, columns] => Ok((rows, columns)),
        ref shape => Err(Error::invalid(op, format!("expected a matrix, got shape {shape:?}"))),
    }
}

/// The transposed matrices.
fn flip(x: &Var) -> Result<Var> {
    let rank = x.shape().len();
    transpose(x, rank - 2, rank - 1)
}
