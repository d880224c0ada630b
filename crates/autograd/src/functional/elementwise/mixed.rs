//! Functions of several tensors, composed of elementary functions as documented.

use samebits_macros::named;
use samebits_tensor_core::ops::{CompareKind, Formula};
use samebits_tensor_core::{Error, Result};

use super::formula::{Steps, Symbol, formula};
use super::{
    abs, add, affine, bounds::hard_clamp, compare, div, exp, log, log1p, maximum, mul, neg,
    relation, scalar_like, sub, wanted, where_,
};
use crate::functional::broadcast::sum_to;
use crate::functional::{Operand, logical_and, logical_or};
use crate::{Tensor, no_grad};

/// Interpolates linearly: `start + weight · (end − start)`, or from a weight of 1/2 on
/// `end − (end − start) · (1 − weight)`, so a weight of 1 gives `end`. All arguments broadcast.
///
/// An infinite end counts in full for every nonzero weight, and not at all for a weight of 0:
/// between 1 and +∞ the result is +∞, or 1 with weight 0. Between opposite infinities it is NaN.
/// (PyTorch gives NaN in most of these cases.)
///
/// # Determinism
///
/// Each operation is rounded. If `end − start` is infinite, also by overflow, the result is
/// `(1 − weight) · start + weight · end`, where a weight of 0 gives 0; equal infinities differ by
/// 0. The gradients of `start` and `end` are `lerp(grad, 0, weight)` and `lerp(0, grad, weight)`.
///
/// # Errors
///
/// The shapes cannot be broadcast together, or the types differ or are not floats.
///
/// # Examples
///
/// ```
/// use samebits_autograd::Tensor;
///
/// let (a, b) = (Tensor::new([0.0f32, 1.0])?, Tensor::new([4.0f32, f32::INFINITY])?);
/// assert_eq!(a.lerp(&b, 0.25)?.to_vec::<f32>()?, [1.0, f32::INFINITY]);
/// # Ok::<(), samebits_autograd::Error>(())
/// ```
///
/// # References
///
/// `torch.lerp`.
#[named]
#[track_caller]
pub fn lerp(start: &Tensor, end: &Tensor, weight: impl Operand) -> Result<Tensor> {
    let weight = weight.operand("lerp", start)?;
    let value = no_grad(|| formula([start, end, &weight], |f, _| f.known(&Formula::LERP)))?;
    let (a, b, w) = (start.clone(), end.clone(), weight.clone());
    Ok(Tensor::computed(value.into(), &[start, end, &weight], move |grad| {
        let zero = scalar_like(grad, 0.0)?;
        Ok(vec![
            wanted(&a, || sum_to(&lerp(grad, &zero, &w)?, a.shape()))?,
            wanted(&b, || sum_to(&lerp(&zero, grad, &w)?, b.shape()))?,
            wanted(&w, || {
                sum_to(&mul(grad, &formula([&a, &b], |f, [a, b]| way(f, a, b))?)?, w.shape())
            })?,
        ])
    }))
}

/// Writes `end − start`; equal infinities differ by 0.
fn way(f: &mut Steps, start: Symbol, end: Symbol) -> Symbol {
    let is_infinite = is_infinite(f, start);
    let equal = f.compare(CompareKind::Eq, start, end);
    let both = f.choose(is_infinite, equal, is_infinite);
    let (zero, way) = (f.number(0.0), f.sub(end, start));
    f.choose(both, zero, way)
}

fn is_infinite(f: &mut Steps, x: Symbol) -> Symbol {
    let size = f.abs(x);
    f.compare_to(CompareKind::Eq, size, f64::INFINITY)
}

/// Computes `x + value · a · b`, with broadcasting. PyTorch's default `value` is 1.
///
/// # Determinism
///
/// `x + (value · a) · b`, each operation rounded; a `value` of 1 multiplies nothing.
///
/// # Errors
///
/// The shapes cannot be broadcast together, or the types differ.
///
/// # Examples
///
/// ```
/// use samebits_autograd::Tensor;
///
/// let x = Tensor::new([1.0f32, 2.0])?;
/// assert_eq!(x.addcmul(&x, &x, 0.5)?.to_vec::<f32>()?, [1.5, 4.0]);
/// # Ok::<(), samebits_autograd::Error>(())
/// ```
///
/// # References
///
/// `torch.addcmul`.
#[named]
#[track_caller]
pub fn addcmul(x: &Tensor, a: &Tensor, b: &Tensor, value: f64) -> Result<Tensor> {
    formula([x, a, b], |f, [x, a, b]| {
        let a = scaled(f, a, value);
        let product = f.mul(a, b);
        f.add(x, product)
    })
}

/// Computes `x + value · a / b`, with broadcasting. PyTorch's default `value` is 1.
///
/// # Determinism
///
/// `x + (value · a) / b`, each operation rounded; a `value` of 1 multiplies nothing.
///
/// # Errors
///
/// The shapes cannot be broadcast together, or the types differ.
///
/// # Examples
///
/// ```
/// use samebits_autograd::Tensor;
///
/// let (x, b) = (Tensor::new([1.0f32, 2.0])?, Tensor::new([2.0f32, 4.0])?);
/// assert_eq!(x.addcdiv(&x, &b, 2.0)?.to_vec::<f32>()?, [2.0, 3.0]);
/// # Ok::<(), samebits_autograd::Error>(())
/// ```
///
/// # References
///
/// `torch.addcdiv`.
#[named]
#[track_caller]
pub fn addcdiv(x: &Tensor, a: &Tensor, b: &Tensor, value: f64) -> Result<Tensor> {
    formula([x, a, b], |f, [x, a, b]| {
        let a = scaled(f, a, value);
        let quotient = f.div(a, b);
        f.add(x, quotient)
    })
}

fn scaled(f: &mut Steps, x: Symbol, factor: f64) -> Symbol {
    if factor == 1.0 {
        return x;
    }
    let factor = f.number(factor);
    f.mul(x, factor)
}

/// Computes `log(exp(a) + exp(b))` without overflow, with broadcasting.
///
/// # Determinism
///
/// `max(a, b) + log1p(exp(−|a − b|))`, each operation rounded.
///
/// # Errors
///
/// The shapes cannot be broadcast together, or the types differ or are not floats.
///
/// # Examples
///
/// ```
/// use samebits_autograd::Tensor;
///
/// let x = Tensor::new([1000.0f32, f32::NEG_INFINITY])?;
/// assert_eq!(x.logaddexp(&x)?.to_vec::<f32>()?, [1000.6932, f32::NEG_INFINITY]);
/// # Ok::<(), samebits_autograd::Error>(())
/// ```
///
/// # References
///
/// `torch.logaddexp`.
#[named]
#[track_caller]
pub fn logaddexp(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    // The difference of equal infinities would be NaN.
    let equal = relation(CompareKind::Eq, a, b)?;
    let apart = where_(&equal, &scalar_like(a, 0.0)?, &sub(a, b)?)?;
    add(&maximum(a, b)?, &log1p(&exp(&neg(&abs(&apart)?)?)?)?)
}

/// Computes `log(x / (1 − x))`, the inverse of [`sigmoid`](super::sigmoid). With `eps`, `x` is
/// first clamped to `[eps, 1 − eps]`. Outside `[0, 1]` the value and the gradient are NaN; at 0 and
/// 1 they are infinite.
///
/// # Determinism
///
/// Each operation is rounded.
///
/// # Errors
///
/// The type is not a float, or `eps` is not in `[0, 1/2]`.
///
/// # Examples
///
/// ```
/// use samebits_autograd::Tensor;
///
/// let x = Tensor::new([0.5f32, 0.0])?;
/// assert_eq!(x.logit(None)?.to_vec::<f32>()?, [0.0, f32::NEG_INFINITY]);
/// # Ok::<(), samebits_autograd::Error>(())
/// ```
///
/// # References
///
/// `torch.logit`.
#[named]
#[track_caller]
pub fn logit(x: &Tensor, eps: Option<f64>) -> Result<Tensor> {
    match eps {
        None => log_odds(x),
        Some(eps) if (0.0..=0.5).contains(&eps) => {
            let (low, high) = (eps, 1.0 - eps);
            let bounds = [Some(low), Some(high)];
            log_odds(&hard_clamp(x, bounds, [CompareKind::Ge, CompareKind::Le])?)
        }
        Some(eps) => {
            let message = format!("eps must be in [0, 1/2], got {eps}");
            Err(Error::invalid("logit", message))
        }
    }
}

/// Computes [`logit`] without bounds.
#[track_caller]
fn log_odds(x: &Tensor) -> Result<Tensor> {
    let odds = |x: &Tensor| -> Result<_> {
        let rest = affine(x, -1.0, 1.0)?;
        Ok((div(x, &rest)?, rest))
    };
    let value = log(&odds(&x.detach())?.0)?.value().clone();
    let saved = x.clone();
    Ok(Tensor::computed_onto(value, x, move |grad, found| {
        let (odds, rest) = odds(&saved)?;
        let of_odds = div(&div(grad, &odds)?, &rest)?;
        let of_rest = div(&mul(&of_odds, &saved)?, &rest)?;
        // At 0 and 1 the slope is infinite; outside [0, 1] there is none.
        let zero = scalar_like(grad, 0.0)?;
        let at = |end| compare(CompareKind::Eq, &saved, end);
        let end = logical_or(&at(0.0)?, &at(1.0)?)?;
        let of_end = mul(grad, &scalar_like(grad, f64::INFINITY)?)?;
        let outside = where_(&end, &of_end, &scalar_like(grad, f64::NAN)?)?;
        let above = compare(CompareKind::Gt, &saved, 0.0)?;
        let inside = logical_and(&above, &compare(CompareKind::Lt, &saved, 1.0)?)?;
        let first = where_(&inside, &of_odds, &outside)?;
        let first = found.map_or_else(|| Ok(first.clone()), |found| add(&found, &first))?;
        add(&first, &where_(&inside, &of_rest, &zero)?)
    }))
}
