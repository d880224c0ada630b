use samebits_tensor_core::ops::{
    Cumextreme, Cumprod, CumprodGrad, Cumsum, Logcumsumexp, LogcumsumexpGrad,
};
use samebits_tensor_core::{Result, Tensor};

use super::scatter::scatter_add;
use super::{once, zeros_like};
use crate::{Var, run};

/// The sum of each element and all before it along `dim`.
///
/// # Determinism
///
/// Portable: in f64, over tiles of the dimension that depend on its size alone.
///
/// # Errors
///
/// There is no such dimension.
///
/// # Examples
///
/// ```
/// use samebits_autograd::{Var, functional};
/// use samebits_tensor_core::Tensor;
///
/// let x = Var::constant(Tensor::from_slice(&[1.0f32, 2.0, 3.0], &[3])?);
/// assert_eq!(functional::cumsum(&x, 0)?.value().to_vec::<f32>()?, [1.0, 3.0, 6.0]);
/// # Ok::<(), samebits_tensor_core::Error>(())
/// ```
///
/// # References
///
/// `torch.cumsum`.
#[track_caller]
pub fn cumsum(x: &Var, dim: usize) -> Result<Var> {
    running_sum(x, dim, false)
}

/// The product of each element and all before it along `dim`.
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
#[track_caller]
pub fn cumprod(x: &Var, dim: usize) -> Result<Var> {
    let value = run(&Cumprod { x: x.value().clone(), dim })?;
    let x_saved = x.value().clone();
    Ok(Var::computed(value, &[x], move |grad| {
        let value = run(&CumprodGrad { grad: grad.value().clone(), x: x_saved.clone(), dim })?;
        Ok(vec![Some(once("cumprod", value, &[grad]))])
    }))
}

/// The logarithm of the sum of the exponentials of each element and all before it along `dim`.
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
/// use samebits_autograd::{Var, functional};
/// use samebits_tensor_core::Tensor;
///
/// let x = Var::constant(Tensor::from_slice(&[1000.0f32, 1000.0], &[2])?);
/// let y = functional::logcumsumexp(&x, 0)?;
/// assert_eq!(y.value().to_vec::<f32>()?, [1000.0, 1000.6932]);
/// # Ok::<(), samebits_tensor_core::Error>(())
/// ```
///
/// # References
///
/// `torch.logcumsumexp`.
#[track_caller]
pub fn logcumsumexp(x: &Var, dim: usize) -> Result<Var> {
    let value = run(&Logcumsumexp { x: x.value().clone(), dim })?;
    let (x_saved, y) = (x.value().clone(), value.clone());
    Ok(Var::computed(value, &[x], move |grad| {
        let value = run(&LogcumsumexpGrad {
            grad: grad.value().clone(),
            x: x_saved.clone(),
            y: y.clone(),
            dim,
        })?;
        Ok(vec![Some(once("logcumsumexp", value, &[grad]))])
    }))
}

/// The largest of each element and all before it along `dim`, and its index.
///
/// # Determinism
///
/// Portable: of equal elements the first is taken, and NaN counts as the largest.
///
/// # Errors
///
/// There is no such dimension.
///
/// # References
///
/// `torch.cummax`, which takes the last of equal elements.
#[track_caller]
pub fn cummax(x: &Var, dim: usize) -> Result<(Var, Tensor)> {
    running_extreme(x, dim, true)
}

/// The smallest of each element and all before it along `dim`, and its index.
///
/// # Determinism
///
/// Portable: of equal elements the first is taken, and NaN wins.
///
/// # Errors
///
/// There is no such dimension.
///
/// # References
///
/// `torch.cummin`, which takes the last of equal elements.
#[track_caller]
pub fn cummin(x: &Var, dim: usize) -> Result<(Var, Tensor)> {
    running_extreme(x, dim, false)
}

#[track_caller]
fn running_sum(x: &Var, dim: usize, reverse: bool) -> Result<Var> {
    let value = run(&Cumsum { x: x.value().clone(), dim, reverse })?;
    Ok(Var::computed(value, &[x], move |grad| Ok(vec![Some(running_sum(grad, dim, !reverse)?)])))
}

#[track_caller]
fn running_extreme(x: &Var, dim: usize, largest: bool) -> Result<(Var, Tensor)> {
    let (value, indices) = run(&Cumextreme { x: x.value().clone(), dim, largest })?;
    let (zeros, saved) = (zeros_like(x), indices.clone());
    let value = Var::computed(value, &[x], move |grad| {
        Ok(vec![Some(scatter_add(&zeros()?, dim, &saved, grad)?)])
    });
    Ok((value, indices))
}
