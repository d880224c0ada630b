//! Elementwise arithmetic without a graph. Each function rounds once unless its comment says
//! otherwise. Sums, products and bounds of halves are computed in f32 and rounded once.

use samebits_tensor_core::ops::{Affine, Binary, BinaryKind, Cast, Unary, UnaryKind};
use samebits_tensor_core::{DType, Device, Result, Tensor as Value};

use crate::functional::{Steps, Symbol};
use crate::{run, run_all};

pub(super) fn full_like(x: &Value, value: f64) -> Result<Value> {
    Value::full(x.shape(), value, x.dtype())?.to(x.device())
}

pub(super) fn add(a: &Value, b: &Value) -> Result<Value> {
    binary(BinaryKind::Add, a, b)
}

pub(super) fn mul(a: &Value, b: &Value) -> Result<Value> {
    binary(BinaryKind::Mul, a, b)
}

pub(super) fn div(a: &Value, b: &Value) -> Result<Value> {
    binary(BinaryKind::Div, a, b)
}

pub(super) fn maximum(a: &Value, b: &Value) -> Result<Value> {
    binary(BinaryKind::Maximum, a, b)
}

pub(super) fn minimum(a: &Value, b: &Value) -> Result<Value> {
    binary(BinaryKind::Minimum, a, b)
}

pub(super) fn neg(x: &Value) -> Result<Value> {
    run(&Unary { kind: UnaryKind::Neg, x: x.clone() })
}

pub(super) fn abs(x: &Value) -> Result<Value> {
    run(&Unary { kind: UnaryKind::Abs, x: x.clone() })
}

pub(super) fn sqrt(x: &Value) -> Result<Value> {
    run(&Unary { kind: UnaryKind::Sqrt, x: x.clone() })
}

/// Returns `x * factor`; the factor is first rounded to the element type.
pub(super) fn scale(x: &Value, factor: f64) -> Result<Value> {
    in_f32(&[x], |x| run(&Affine { x: x[0].clone(), scale: factor, shift: -0.0 }))
}

/// Returns [`scale`] of each tensor. A device scales all of a type together.
pub(super) fn scale_all(all: &[&Value], factor: f64) -> Result<Vec<Value>> {
    if all.iter().any(|x| x.dtype().is_half() || x.device() == Device::Cpu) {
        return all.iter().map(|x| scale(x, factor)).collect();
    }
    let ops: Vec<Affine> =
        all.iter().map(|&x| Affine { x: x.clone(), scale: factor, shift: -0.0 }).collect();
    run_all(&ops)
}

/// Returns `x + shift`; the shift is first rounded to the element type.
pub(super) fn offset(x: &Value, shift: f64) -> Result<Value> {
    run(&Affine { x: x.clone(), scale: 1.0, shift })
}

/// Returns `x * factor + y`, with two roundings.
pub(super) fn scale_add(x: &Value, factor: f64, y: &Value) -> Result<Value> {
    add(&scale(x, factor)?, y)
}

/// Returns `decay * parameter + gradient` with two roundings, or the gradient itself if the decay
/// is 0.
pub(super) fn decayed(gradient: &Value, decay: f64, parameter: &Value) -> Result<Value> {
    if decay == 0.0 { Ok(gradient.clone()) } else { scale_add(parameter, decay, gradient) }
}

/// Returns `share * old + (1 - share) * new` with three roundings.
pub(super) fn averaged(old: &Value, share: f64, new: &Value) -> Result<Value> {
    add(&scale(old, share)?, &scale(new, 1.0 - share)?)
}

/// Writes [`decayed`].
pub(super) fn write_decayed(f: &mut Steps, g: Symbol, decay: f64, parameter: Symbol) -> Symbol {
    if decay == 0.0 { g } else { write_scale_add(f, parameter, decay, g) }
}

/// Writes [`averaged`].
pub(super) fn write_averaged(f: &mut Steps, old: Symbol, share: f64, new: Symbol) -> Symbol {
    let (old, new) = (f.times(old, share), f.times(new, 1.0 - share));
    f.add(old, new)
}

/// Writes [`scale_add`].
pub(super) fn write_scale_add(f: &mut Steps, x: Symbol, factor: f64, y: Symbol) -> Symbol {
    let x = f.times(x, factor);
    f.add(x, y)
}

/// Casts to another type.
pub(super) fn cast(x: &Value, to: DType) -> Result<Value> {
    run(&Cast { x: x.clone(), to })
}

fn binary(kind: BinaryKind, a: &Value, b: &Value) -> Result<Value> {
    in_f32(&[a, b], |x| run(&Binary { kind, a: x[0].clone(), b: x[1].clone() }))
}

/// Returns `f(x)`; for halves of one type, with arguments in f32 and the result rounded once.
fn in_f32(x: &[&Value], f: impl FnOnce(&[&Value]) -> Result<Value>) -> Result<Value> {
    let half = x[0].dtype();
    if !half.is_half() || x.iter().any(|x| x.dtype() != half) {
        return f(x);
    }
    let wide = x.iter().map(|x| cast(x, DType::F32)).collect::<Result<Vec<_>>>()?;
    cast(&f(&wide.iter().collect::<Vec<_>>())?, half)
}
