use samebits_macros::named;
use samebits_tensor_core::ops::{
    CompareKind, Cumextreme, Cumprod, CumprodGrad, CumprodGradGrad, Cumsum, Flip, Logcumsumexp,
    LogcumsumexpGrad, Unary, UnaryKind,
};
use samebits_tensor_core::{DType, Result, Tensor as Value};

use super::broadcast::integers;
use super::elementwise::{abs, compare, mul, scalar_like, sub, where_};
use super::index::scatter_add;
use super::scalar::lifted;
use super::shape::reshape;
use super::{once_differentiable, zeros_for};
use crate::dims::Dim;
use crate::{Tensor, run};

/// Computes the running sum along `dim`, each element included. Integers and booleans are added as
/// i64, which wraps around.
///
/// # Determinism
///
/// Portable: floats are added in f64, over tiles that depend only on the size of the dimension.
///
/// # Errors
///
/// There is no such dimension.
///
/// # Examples
///
/// ```
/// use samebits_autograd::{Tensor, functional};
///
/// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0], &[3])?;
/// assert_eq!(functional::cumsum(&x, 0)?.to_vec::<f32>()?, [1.0, 3.0, 6.0]);
/// # Ok::<(), samebits_tensor_core::Error>(())
/// ```
///
/// # References
///
/// `torch.cumsum`.
#[named]
#[track_caller]
pub fn cumsum(x: &Tensor, dim: impl Dim) -> Result<Tensor> {
    let dim = dim.dim("cumsum", x.rank())?;
    if let Some(x) = integers(x)? {
        return cumsum(&x, dim);
    }
    running_sum(x, dim, false)
}

/// Computes the running product along `dim`, each element included. Integers and booleans are
/// multiplied as i64, which wraps around.
///
/// # Determinism
///
/// As [`cumsum`].
///
/// # Errors
///
/// There is no such dimension.
///
/// # References
///
/// `torch.cumprod`.
#[named]
#[track_caller]
pub fn cumprod(x: &Tensor, dim: impl Dim) -> Result<Tensor> {
    let dim = dim.dim("cumprod", x.rank())?;
    if let Some(x) = integers(x)? {
        return cumprod(&x, dim);
    }
    if let Some(x) = lifted(x, dim)? {
        return reshape(&cumprod(&x, 0)?, ());
    }
    let value = run(&Cumprod { x: x.value().clone(), dim })?;
    let saved = x.clone();
    Ok(Tensor::computed(value, &[x], move |grad| Ok(vec![Some(product_grad(grad, &saved, dim)?)])))
}

/// Computes the logarithm of the running sum of exponentials along `dim`.
///
/// The gradient of an infinite result is split evenly among the elements up to it that equal it.
/// The same holds for a result too large to hold a sum: 2^30 at f32, 2^59 at f64.
///
/// # Determinism
///
/// As [`cumsum`].
///
/// # Errors
///
/// There is no such dimension.
///
/// # Examples
///
/// ```
/// use samebits_autograd::{Tensor, functional};
///
/// let x = Tensor::from_slice(&[1000.0f32, 1000.0], &[2])?;
/// let y = functional::logcumsumexp(&x, 0)?;
/// assert_eq!(y.to_vec::<f32>()?, [1000.0, 1000.6932]);
/// # Ok::<(), samebits_tensor_core::Error>(())
/// ```
///
/// # References
///
/// `torch.logcumsumexp`.
#[named]
#[track_caller]
pub fn logcumsumexp(x: &Tensor, dim: impl Dim) -> Result<Tensor> {
    let dim = dim.dim("logcumsumexp", x.rank())?;
    if let Some(x) = lifted(x, dim)? {
        return reshape(&logcumsumexp(&x, 0)?, ());
    }
    let value = run(&Logcumsumexp { x: x.value().clone(), dim })?;
    let line = Line { x: x.clone(), y: value.clone(), dim };
    Ok(Tensor::computed(value, &[x], move |grad| Ok(vec![Some(line.grad(grad)?)])))
}

/// Returns the running maximum along `dim`, and its index.
///
/// # Determinism
///
/// Portable: of equal elements, the first is taken; NaN counts as the largest.
///
/// # Errors
///
/// There is no such dimension.
///
/// # References
///
/// `torch.cummax`, which takes the last of equal elements.
#[named]
#[track_caller]
pub fn cummax(x: &Tensor, dim: impl Dim) -> Result<(Tensor, Tensor)> {
    let dim = dim.dim("cummax", x.rank())?;
    running_extreme(x, dim, true)
}

/// Returns the running minimum along `dim`, and its index.
///
/// # Determinism
///
/// Portable: of equal elements, the first is taken; NaN takes precedence.
///
/// # Errors
///
/// There is no such dimension.
///
/// # References
///
/// `torch.cummin`, which takes the last of equal elements.
#[named]
#[track_caller]
pub fn cummin(x: &Tensor, dim: impl Dim) -> Result<(Tensor, Tensor)> {
    let dim = dim.dim("cummin", x.rank())?;
    running_extreme(x, dim, false)
}

#[track_caller]
fn running_sum(x: &Tensor, dim: usize, reverse: bool) -> Result<Tensor> {
    if let Some(x) = lifted(x, dim)? {
        return reshape(&running_sum(&x, 0, reverse)?, ());
    }
    let value = run(&Cumsum { x: x.value().clone(), dim, reverse })?;
    Ok(Tensor::computed(value, &[x], move |grad| Ok(vec![Some(running_sum(grad, dim, !reverse)?)])))
}

#[track_caller]
fn running_extreme(x: &Tensor, dim: usize, largest: bool) -> Result<(Tensor, Tensor)> {
    if let Some(x) = lifted(x, dim)? {
        let (value, indices) = running_extreme(&x, 0, largest)?;
        return Ok((reshape(&value, ())?, indices.reshape(())?));
    }
    let (value, indices) = run(&Cumextreme { x: x.value().clone(), dim, largest })?;
    let indices = Tensor::from(indices);
    let (zeros, saved) = (zeros_for(x), indices.clone());
    let value = Tensor::computed(value, &[x], move |grad| {
        Ok(vec![Some(scatter_add(&zeros()?, dim, &saved, grad)?)])
    });
    Ok((value, indices))
}

/// Returns the gradient of a running product. It can be differentiated once more.
#[track_caller]
fn product_grad(grad: &Tensor, x: &Tensor, dim: usize) -> Result<Tensor> {
    let value = run(&CumprodGrad { grad: grad.value().clone(), x: x.value().clone(), dim })?;
    let (g, saved) = (grad.clone(), x.clone());
    Ok(Tensor::computed(value, &[grad, x], move |outer| {
        let (of_grad, of_x) = run(&CumprodGradGrad {
            outer: outer.value().clone(),
            grad: g.value().clone(),
            x: saved.value().clone(),
            dim,
        })?;
        let inputs = [outer, &g, &saved];
        Ok(vec![
            Some(once_differentiable("cumprod", of_grad, &inputs)),
            Some(once_differentiable("cumprod", of_x, &inputs)),
        ])
    }))
}

/// The logarithm `y` of the running sum of exponentials of `x`. With the shares
/// `w[i][k] = exp(x[i] − y[k])` of the elements up to `k`, the gradient for an incoming `g` is
/// `Σ_k w[i][k] · g[k]`, and the change of `y` for a change `v` of `x` is `Σ_i w[i][k] · v[i]`. The
/// derivatives of both are built from both, so every order exists. A large `y[k]` has no change: it
/// is NaN.
#[derive(Clone)]
struct Line {
    x: Tensor,
    y: Value,
    dim: usize,
}

impl Line {
    #[track_caller]
    fn grad(&self, grad: &Tensor) -> Result<Tensor> {
        let Line { x, y, dim } = self.clone();
        let value =
            run(&LogcumsumexpGrad { grad: grad.value().clone(), x: x.value().clone(), y, dim })?;
        let (line, g) = (self.clone(), grad.clone());
        Ok(Tensor::computed(value, &[grad, &self.x], move |outer| {
            let change = line.change(outer)?;
            let own = mul(outer, &line.grad(&g)?)?;
            let through = line.grad(&mul(&g, &change)?)?;
            Ok(vec![Some(change), Some(sub(&own, &through)?)])
        }))
    }

    #[track_caller]
    fn change(&self, v: &Tensor) -> Result<Tensor> {
        // The gradient of the line that runs backward from −y to −x.
        let mirrored = |x: &Value| -> Result<Value> {
            let x = flipped(x, self.dim)?;
            run(&Unary { kind: UnaryKind::Neg, x })
        };
        let value = run(&LogcumsumexpGrad {
            grad: flipped(v.value(), self.dim)?,
            x: mirrored(&self.y)?,
            y: mirrored(self.x.value())?,
            dim: self.dim,
        })?;
        let (line, v_saved) = (self.clone(), v.clone());
        let value = Tensor::from(flipped(&value, self.dim)?);
        let y = Tensor::from(&self.y);
        let large = if y.dtype() == DType::F64 { 59 } else { 30 };
        let small = compare(CompareKind::Lt, &abs(&y)?, (1u64 << large) as f64)?;
        let value = where_(&small, &value, &scalar_like(&y, f64::NAN)?)?.value().clone();
        Ok(Tensor::computed(value, &[v, &self.x], move |outer| {
            let grad = line.grad(outer)?;
            let own = mul(&v_saved, &grad)?;
            let through = line.grad(&mul(outer, &line.change(&v_saved)?)?)?;
            Ok(vec![Some(grad), Some(sub(&own, &through)?)])
        }))
    }
}

/// Returns the elements along `dim` in reverse order.
#[track_caller]
fn flipped(x: &Value, dim: usize) -> Result<Value> {
    run(&Flip { x: x.clone(), dims: vec![dim] })
}
