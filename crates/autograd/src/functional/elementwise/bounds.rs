//! Bounds, and gradients of functions that choose among branches.

use samebits_macros::named;
use samebits_tensor_core::Result;
use samebits_tensor_core::ops::CompareKind;

use super::choice::expect_held;
use super::formula::{Steps, Symbol, curve, formula};
use crate::Tensor;

/// Clamps `x` to `[min, max]`; a bound of `None` does not apply, and `max` takes precedence over a
/// larger `min`. NaN stays NaN. The gradient passes if `min < x < max`, is NaN if `x` is, and is 0
/// otherwise, also at a bound, as in PyTorch since 2.15.
///
/// # Errors
///
/// The type is neither f32, f64 nor i64, or a bound of an integer tensor has a fraction.
#[doc(alias = "clip")]
#[named]
#[track_caller]
pub fn clamp(x: &Tensor, min: Option<f64>, max: Option<f64>) -> Result<Tensor> {
    for bound in [min, max].into_iter().flatten() {
        expect_held("clamp", x, bound)?;
    }
    hard_clamp(x, [min, max], [CompareKind::Gt, CompareKind::Lt])
}

/// Replaces elements below `min` with `min`; see [`clamp`].
///
/// # Errors
///
/// The type is neither f32, f64 nor i64.
///
/// # Examples
///
/// ```
/// use samebits_autograd::Tensor;
///
/// let x = Tensor::new([-1.0f32, 2.0])?;
/// assert_eq!(x.clamp_min(0.0)?.to_vec::<f32>()?, [0.0, 2.0]);
/// # Ok::<(), samebits_autograd::Error>(())
/// ```
#[named]
#[track_caller]
pub fn clamp_min(x: &Tensor, min: f64) -> Result<Tensor> {
    clamp(x, Some(min), None)
}

/// Replaces elements above `max` with `max`; see [`clamp`].
///
/// # Errors
///
/// The type is neither f32, f64 nor i64.
///
/// # Examples
///
/// ```
/// use samebits_autograd::Tensor;
///
/// let x = Tensor::new([-1.0f32, 2.0])?;
/// assert_eq!(x.clamp_max(0.0)?.to_vec::<f32>()?, [-1.0, 0.0]);
/// # Ok::<(), samebits_autograd::Error>(())
/// ```
#[named]
#[track_caller]
pub fn clamp_max(x: &Tensor, max: f64) -> Result<Tensor> {
    clamp(x, None, Some(max))
}

/// Clamps `x` to the bounds. The gradient passes where the comparisons of `x` with them hold, and is NaN
/// where the result is.
#[track_caller]
pub(super) fn hard_clamp(
    x: &Tensor,
    bounds: [Option<f64>; 2],
    comparisons: [CompareKind; 2],
) -> Result<Tensor> {
    let value = |f: &mut Steps, mut x: Symbol| {
        let [min, max] = bounds;
        if let Some(min) = min {
            let min = f.number(min);
            x = f.maximum(x, min);
        }
        if let Some(max) = max {
            let max = f.number(max);
            x = f.minimum(x, max);
        }
        x
    };
    curve(x, value, move |f, grad, x| [inside(f, grad, x, bounds, comparisons)])
}

/// Returns `grad` where the comparisons of `x` with the bounds hold, NaN where `x` or a bound is NaN,
/// else 0.
pub(super) fn inside(
    f: &mut Steps,
    grad: Symbol,
    x: Symbol,
    bounds: [Option<f64>; 2],
    comparisons: [CompareKind; 2],
) -> Symbol {
    let mut passed = grad;
    for (kind, bound) in comparisons.into_iter().zip(bounds) {
        if let Some(bound) = bound {
            let (holds, zero) = (f.compare_to(kind, x, bound), f.number(0.0));
            passed = f.choose(holds, passed, zero);
        }
    }
    let nan = bounds.into_iter().flatten().find(|bound| bound.is_nan());
    let ordered = nan.map_or(x, |nan| f.number(nan));
    f.nan_where(ordered, passed)
}

/// Returns `x` with a gradient that is NaN if `x` is: for functions that choose among branches,
/// which would treat NaN as a number.
pub(super) fn nan_sloped(x: &Tensor) -> Tensor {
    let saved = x.detach();
    Tensor::computed(x.value().clone(), &[x], move |grad| Ok(vec![Some(nan_where(&saved, grad)?)]))
}

/// Returns `grad`, or NaN if `x` is NaN.
fn nan_where(x: &Tensor, grad: &Tensor) -> Result<Tensor> {
    formula([x, grad], |f, [x, grad]| f.nan_where(x, grad))
}
