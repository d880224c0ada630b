//! Matrix decompositions, exact and approximate.

use samebits_macros::named;
use samebits_rng::Generator;
use samebits_tensor_core::ops::{Cast, Qr, QrGrad, QrMode, Svd};
use samebits_tensor_core::{Error, Result, Tensor as Value};

use super::elementwise::{add, div, mul, neg, sub};
use super::index::index_select;
use super::linear::matmul;
use super::random::{moving, normals};
use super::reduce::mean;
use super::shape::{cat, narrow, transpose, unsqueeze};
use super::{twice_differentiable, zeros_for};
use crate::scope::with_generator;
use crate::{Tensor, run, untracked};

/// Computes the QR decomposition `x = Q · R`: the columns of Q are orthonormal, and R is upper
/// triangular. The diagonal of R has LAPACK's signs. The result is differentiable in reduced mode
/// for matrices of full rank.
///
/// # Shapes
///
/// `x` is `[.., m, n]`. With `k = min(m, n)`, or `m` in complete mode, Q is `[.., m, k]` and R
/// `[.., k, n]`.
///
/// # Determinism
///
/// Householder reflections in f64, rounded once; `samebits_cpu_kernels::linalg` states the order.
/// Each matrix of a batch is decomposed independently.
///
/// # Errors
///
/// `x` is not a matrix of floats.
///
/// # Examples
///
/// ```
/// use samebits_autograd::{Tensor, functional};
/// use samebits_tensor_core::ops::QrMode;
///
/// let x = Tensor::from_slice(&[3.0f32, 4.0], &[2, 1])?;
/// let (q, r) = functional::qr(&x, QrMode::Reduced)?;
/// assert_eq!(q.to_vec::<f32>()?, [-0.6, -0.8]);
/// assert_eq!(r.to_vec::<f32>()?, [-5.0]);
/// # Ok::<(), samebits_tensor_core::Error>(())
/// ```
#[doc(alias = "linalg.qr")]
#[named]
#[track_caller]
pub fn qr(x: &Tensor, mode: QrMode) -> Result<(Tensor, Tensor)> {
    let (q, r) = run(&Qr { x: x.value().clone(), mode })?;
    // A gradient is linear in those of Q and R, so each result is a separate step of the graph.
    let step = |which: usize, value: Value| {
        let (x, q, r) = (x.clone(), Tensor::from(q.clone()), Tensor::from(r.clone()));
        let of = move |grad: &Tensor, q: &Tensor, r: &Tensor, tall: &Tall| {
            let zeros = |x: &Tensor| zeros_for(x)();
            match which {
                0 => qr_grad(grad, &zeros(r)?, q, r, tall),
                _ => qr_grad(&zeros(q)?, grad, q, r, tall),
            }
        };
        Tensor::computed(value, &[&x.clone()], move |grad| {
            let value = of(&grad.detach(), &q, &r, &fused)?.value().clone();
            Ok(vec![Some(twice_differentiable("qr", value, &[grad, &x], move |inputs| {
                let (q, r) = qr(&inputs[1], mode)?;
                of(&inputs[0], &q, &r, &composed)
            }))])
        })
    };
    let (of_q, of_r) = (step(0, q.clone()), step(1, r.clone()));
    Ok((of_q, of_r))
}

/// Computes the thin singular value decomposition `x = U · diag(S) · Vᵀ`: U is `[.., m, k]`, S
/// `[.., k]` and V `[.., n, k]` with `k = min(m, n)`. The result is differentiable.
///
/// The gradients of U and V divide by the differences of squared singular values, so they are
/// infinite or NaN where two are equal; those of a matrix that is not square also divide by the
/// singular values. The gradient of S is finite for every matrix.
///
/// # Determinism
///
/// Reduction to a bidiagonal matrix and implicit QR iteration in f64, rounded once;
/// `samebits_cpu_kernels::linalg` states the order and the signs. The gradient is composed of products. With `D = (Sⱼ − Sᵢ) · (Sⱼ + Sᵢ)` off the
/// diagonal and 1 on it, and `skew(A) = A − Aᵀ`, it is the sum of:
///
/// - for U, `(U · (skew(Uᵀ · Ū) / D · S) + (Ū − U · (Uᵀ · Ū)) / S) · Vᵀ`, without the second term
///   if U is square;
/// - for S, `(U · S̄) · Vᵀ`;
/// - for V, `U · ((S · (skew(Vᵀ · V̄) / D)) · Vᵀ + ((V̄ − V · (Vᵀ · V̄)) / S)ᵀ)`, without the second
///   term if V is square.
///
/// # Errors
///
/// `x` is not a matrix of floats, or an element is not finite.
///
/// # Examples
///
/// ```
/// use samebits_autograd::{Tensor, functional};
///
/// let x = Tensor::from_slice(&[3.0f64, 0.0, 0.0, 2.0], &[2, 2])?.set_requires_grad(true)?;
/// let (_, s, _) = functional::svd(&x)?;
/// assert_eq!(s.to_vec::<f64>()?, [3.0, 2.0]);
/// let gradients = s.sum(())?.backward()?;
/// assert_eq!(gradients.of(&x).unwrap().to_vec::<f64>()?, [1.0, 0.0, 0.0, 1.0]);
/// # Ok::<(), samebits_autograd::Error>(())
/// ```
///
/// # References
///
/// J. Townsend, *Differentiating the Singular Value Decomposition*, 2016.
#[doc(alias = "linalg.svd")]
#[named]
#[track_caller]
pub fn svd(x: &Tensor) -> Result<(Tensor, Tensor, Tensor)> {
    let (u, s, v) = run(&Svd { x: x.value().clone() })?;
    let results = [&u, &s, &v].map(|value| Tensor::from(value.clone()));
    // A gradient is linear in those of the results, so each is a separate step of the graph.
    let step = |which: usize, value: Value| {
        let (x, results) = (x.clone(), results.clone());
        Tensor::computed(value, &[&x.clone()], move |grad| {
            let value = svd_grad(which, &grad.detach(), &results)?.value().clone();
            Ok(vec![Some(twice_differentiable("svd", value, &[grad, &x], move |inputs| {
                let (u, s, v) = svd(&inputs[1])?;
                svd_grad(which, &inputs[0], &[u, s, v])
            }))])
        })
    };
    let (of_u, of_s, of_v) = (step(0, u.clone()), step(1, s.clone()), step(2, v.clone()));
    Ok((of_u, of_s, of_v))
}

/// Computes the gradient of a matrix from that of result `which` of its decomposition.
fn svd_grad(which: usize, grad: &Tensor, [u, s, v]: &[Tensor; 3]) -> Result<Tensor> {
    let last = s.shape().len() - 1;
    let (row, column) = (unsqueeze(s, last)?, unsqueeze(s, last + 1)?);
    // The part of a gradient within the space of a result's columns, and the part outside of it.
    let parts = |basis: &Tensor| -> Result<(Tensor, Option<Tensor>)> {
        let inner = matmul(&flip(basis)?, grad)?;
        let gaps = mul(&sub(&row, &column)?, &add(&row, &column)?)?;
        let gaps = add(&gaps, &triangle(s, |i, j| i == j)?)?;
        let within = div(&sub(&inner, &flip(&inner)?)?, &gaps)?;
        let [.., rows, columns] = *basis.shape() else { return Ok((within, None)) };
        let outside = (rows > columns).then(|| div(&sub(grad, &matmul(basis, &inner)?)?, &row));
        Ok((within, outside.transpose()?))
    };
    match which {
        0 => {
            let (within, outside) = parts(u)?;
            let of_u = matmul(u, &mul(&within, &row)?)?;
            let of_u = match outside {
                Some(outside) => add(&of_u, &outside)?,
                None => of_u,
            };
            matmul(&of_u, &flip(v)?)
        }
        1 => matmul(&mul(u, &unsqueeze(grad, last)?)?, &flip(v)?),
        _ => {
            let (within, outside) = parts(v)?;
            let of_v = matmul(&mul(&column, &within)?, &flip(v)?)?;
            let of_v = match outside {
                Some(outside) => add(&of_v, &flip(&outside)?)?,
                None => of_v,
            };
            matmul(u, &of_v)
        }
    }
}

/// Computes an approximate singular value decomposition of rank `q` of `x`, or of `x − m`, from
/// random projections: U is `[.., rows, q]`, S `[.., q]` and V `[.., columns, q]`. The result is
/// differentiable as [`svd`] and [`qr`] are: the random matrix is a constant.
///
/// The method [`Tensor::svd_lowrank`] uses PyTorch's defaults: a `q` of 6, 2 iterations and no `m`.
///
/// # Determinism
///
/// Portable, given the generator: composed of normal numbers, [`matmul`], [`qr`] and
/// [`svd`].
///
/// # Errors
///
/// `x` is not a matrix of finite floats, `m` does not broadcast to it, or this thread was not
/// seeded (see [`with_default`](samebits_tensor_core::random::with_default)).
///
/// # Examples
///
/// ```
/// use samebits_autograd::{Tensor, functional::svd_lowrank};
/// use samebits_tensor_core::{DType, random::manual_seed};
///
/// manual_seed(0);
/// let x = Tensor::ones(&[40, 30], DType::F64)?;
/// let (_, s, _) = svd_lowrank(&x, 3, 2, None)?;
/// assert!((s.to_vec::<f64>()?[0] - 1200f64.sqrt()).abs() < 1e-10);
/// # Ok::<(), samebits_tensor_core::Error>(())
/// ```
///
/// # References
///
/// N. Halko, P.-G. Martinsson and J. Tropp, *Finding Structure with Randomness*, SIAM Review
/// 53(2), 2011: algorithm 5.1.
#[named]
#[track_caller]
pub fn svd_lowrank(
    x: &Tensor,
    q: usize,
    niter: usize,
    m: Option<&Tensor>,
) -> Result<(Tensor, Tensor, Tensor)> {
    with_generator("svd_lowrank", x.device(), |generator| {
        svd_lowrank_with(x, q, niter, m, generator)
    })
}

/// Computes [`svd_lowrank`] with numbers from `generator`, which advances by the words of
/// `[min(rows, columns), q]` normal numbers, and not at all on error.
///
/// # Errors
///
/// As [`svd_lowrank`].
///
/// # Examples
///
/// ```
/// use samebits_autograd::{Tensor, functional::svd_lowrank_with};
/// use samebits_rng::Generator;
/// use samebits_tensor_core::DType;
///
/// let x = Tensor::ones(&[40, 30], DType::F64)?;
/// let (_, once, _) = svd_lowrank_with(&x, 3, 2, None, &mut Generator::new(0))?;
/// let (_, again, _) = svd_lowrank_with(&x, 3, 2, None, &mut Generator::new(0))?;
/// assert_eq!(once.to_bytes()?, again.to_bytes()?);
/// # Ok::<(), samebits_tensor_core::Error>(())
/// ```
#[named]
#[track_caller]
pub fn svd_lowrank_with(
    x: &Tensor,
    q: usize,
    niter: usize,
    m: Option<&Tensor>,
    generator: &mut Generator,
) -> Result<(Tensor, Tensor, Tensor)> {
    let (rows, columns) = matrix("svd_lowrank_with", x)?;
    let mut x = x.clone();
    if let Some(m) = m {
        x = sub(&x, &m.expand(x.shape())?)?;
    }
    if rows < columns {
        x = flip(&x)?;
    }
    moving(generator, |generator| {
        let basis = range(&x, q, niter, generator)?;
        let small = matmul(&flip(&basis)?, &x)?;
        let (u, s, v) = svd(&small)?;
        let u = matmul(&basis, &u)?;
        Ok(if rows < columns { (v, s, u) } else { (u, s, v) })
    })
}

/// Computes a principal component analysis: the [`svd_lowrank`] of a matrix of samples, whose
/// columns are centred first if `center` is true. `q` defaults to `min(6, rows, columns)`.
///
/// The method [`Tensor::pca_lowrank`] uses PyTorch's defaults: no `q`, centred, 2 iterations.
///
/// # Determinism
///
/// As [`svd_lowrank`]; means are computed in f64 over a fixed tree.
///
/// # Errors
///
/// As [`svd_lowrank`]; or `q` exceeds the shorter side.
#[named]
#[track_caller]
pub fn pca_lowrank(
    x: &Tensor,
    q: Option<usize>,
    center: bool,
    niter: usize,
) -> Result<(Tensor, Tensor, Tensor)> {
    with_generator("pca_lowrank", x.device(), |generator| {
        pca_lowrank_with(x, q, center, niter, generator)
    })
}

/// Computes [`pca_lowrank`] with numbers from `generator`, which advances as in
/// [`svd_lowrank_with`].
///
/// # Errors
///
/// As [`pca_lowrank`].
#[named]
#[track_caller]
pub fn pca_lowrank_with(
    x: &Tensor,
    q: Option<usize>,
    center: bool,
    niter: usize,
    generator: &mut Generator,
) -> Result<(Tensor, Tensor, Tensor)> {
    const OP: &str = "pca_lowrank_with";
    let (rows, columns) = matrix(OP, x)?;
    let q = q.unwrap_or(rows.min(columns).min(6));
    if q > rows.min(columns) {
        return Err(Error::invalid(
            OP,
            format!("q {q} exceeds the shorter side of {rows} by {columns}"),
        ));
    }
    if !center {
        return svd_lowrank_with(x, q, niter, None, generator);
    }
    let centred = sub(x, &mean(x, [x.shape().len() - 2], true)?)?;
    svd_lowrank_with(&centred, q, niter, None, generator)
}

/// Returns an orthonormal basis that approximates the range of a tall matrix.
#[track_caller]
fn range(x: &Tensor, q: usize, niter: usize, generator: &mut Generator) -> Result<Tensor> {
    let start = normals(
        &[x.shape()[x.shape().len() - 1], q],
        x.dtype(),
        x.device(),
        [0.0, 1.0],
        generator,
    )?;
    let orthogonal = |x: &Tensor| Ok::<Tensor, Error>(qr(x, QrMode::Reduced)?.0);
    let mut basis = orthogonal(&matmul(x, &start)?)?;
    for _ in 0..niter {
        basis = orthogonal(&matmul(&flip(x)?, &basis)?)?;
        basis = orthogonal(&matmul(x, &basis)?)?;
    }
    Ok(basis)
}

/// The gradient of a decomposition of matrices with at least as many rows as columns. Its arguments
/// are the gradients of Q and R, then Q and R.
type Tall = dyn Fn([&Tensor; 4]) -> Result<Tensor>;

/// Computes the gradient of a decomposition, by way of [`Tall`].
fn qr_grad(
    grad_q: &Tensor,
    grad_r: &Tensor,
    q: &Tensor,
    r: &Tensor,
    tall: &Tall,
) -> Result<Tensor> {
    let last = r.shape().len() - 1;
    let (rows, columns) = (r.shape()[last - 1], r.shape()[last]);
    let m = q.shape()[last - 1];
    if rows > columns {
        return Err(Error::invalid(
            "qr",
            format!("the complete mode of a {m} by {columns} matrix is not differentiable"),
        ));
    }
    if columns <= rows {
        return tall([grad_q, grad_r, q, r]);
    }
    // More columns than rows: x = (a | b) = (Q · U | Q · V), and V = Qᵀ · b depends on Q.
    let halves = |x: &Tensor| -> Result<[Tensor; 2]> {
        Ok([narrow(x, last, 0, rows)?, narrow(x, last, rows, columns - rows)?])
    };
    let ([u, v], [grad_u, grad_v]) = (halves(r)?, halves(grad_r)?);
    let b = matmul(q, &v)?;
    let grad_q = add(grad_q, &matmul(&b, &flip(&grad_v)?)?)?;
    let grad_a = tall([&grad_q, &grad_u, q, &u])?;
    cat(&[grad_a, matmul(q, &grad_v)?], last)
}

/// Runs [`QrGrad`].
fn fused(arguments: [&Tensor; 4]) -> Result<Tensor> {
    let [grad_q, grad_r, q, r] = arguments.map(|x| x.value().clone());
    untracked(&QrGrad { grad_q, grad_r, q, r })
}

/// Computes what [`fused`] does from differentiable operations.
fn composed([grad_q, grad_r, q, r]: [&Tensor; 4]) -> Result<Tensor> {
    let mixed = sub(&matmul(grad_r, &flip(r)?)?, &matmul(&flip(q)?, grad_q)?)?;
    let upper = mul(&mixed, &triangle(r, |i, j| i <= j)?)?;
    let above = mul(&mixed, &triangle(r, |i, j| i < j)?)?;
    solve(&add(grad_q, &matmul(q, &add(&upper, &flip(&above)?)?)?)?, r)
}

/// Returns `x` with `x · rᵀ = b`, where R is upper triangular.
fn solve(b: &Tensor, r: &Tensor) -> Result<Tensor> {
    // The gradient of a decomposition ends with this solution; with a Q of zero it does nothing
    // else.
    let zeros = |x: &Tensor| zeros_for(x)();
    let x = fused([b, &zeros(r)?, &zeros(b)?, r])?.value().clone();
    let (solution, saved) = (x.clone(), r.clone());
    Ok(Tensor::computed(x, &[b, r], move |grad| {
        // y · r = grad, with the last row and column first.
        let backwards = |x: &Tensor, dim: usize| {
            let places: Vec<i64> = (0..x.shape()[dim] as i64).rev().collect();
            let places = Tensor::from_slice(&places, &[places.len()])?.to(x.device())?;
            index_select(x, dim, &places)
        };
        let last = saved.shape().len() - 1;
        let mirrored = backwards(&backwards(&flip(&saved)?, last - 1)?, last)?;
        let of_b = backwards(&solve(&backwards(grad, last)?, &mirrored)?, last)?;
        let of_r = matmul(&flip(&of_b)?, &Tensor::from(solution.clone()))?;
        let of_r = mul(&neg(&of_r)?, &triangle(&saved, |i, j| i <= j)?)?;
        // The solution counts as a constant here: `twice_differentiable` needs no further
        // derivative.
        Ok(vec![Some(of_b), Some(of_r)])
    }))
}

/// Returns a square matrix of the size of `like`, with ones where `inside(row, column)` holds.
fn triangle(like: &Tensor, inside: impl Fn(usize, usize) -> bool) -> Result<Tensor> {
    let n = like.shape()[like.shape().len() - 1];
    let ones: Vec<f64> = (0..n * n).map(|at| f64::from(u8::from(inside(at / n, at % n)))).collect();
    let x = Tensor::from_slice(&ones, &[n, n])?;
    untracked(&Cast { x: x.into(), to: like.dtype() })?.to(like.device())
}

fn matrix(op: &'static str, x: &Tensor) -> Result<(usize, usize)> {
    match *x.shape() {
        [.., rows, columns] => Ok((rows, columns)),
        ref shape => Err(Error::invalid(op, format!("expected a matrix, got shape {shape:?}"))),
    }
}

/// Transposes the matrices.
fn flip(x: &Tensor) -> Result<Tensor> {
    let rank = x.shape().len();
    transpose(x, rank - 2, rank - 1)
}
