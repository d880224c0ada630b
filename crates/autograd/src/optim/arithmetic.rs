//! Elementwise arithmetic without a graph. Each function rounds once unless its comment says
//! otherwise. Sums, products and bounds of halves are computed in f32 and rounded once.

use samebits_tensor_core::ops::{
    Affine, Binary, BinaryKind, Cast, Formula, Step, Unary, UnaryKind,
};
use samebits_tensor_core::{DType, Device, Result, Tensor as Value};

use crate::{run, run_all};

pub(super) fn full_like(x: &Value, value: f64) -> Result<Value> {
    Value::full(x.shape(), value, x.dtype())?.to(x.device())
}

pub(super) fn add(a: &Value, b: &Value) -> Result<Value> {
    binary(BinaryKind::Add, a, b)
}

/// Returns the sum of each pair. A device adds all pairs of a type together.
pub(super) fn add_all(pairs: &[(&Value, &Value)]) -> Result<Vec<Value>> {
    if pairs.iter().any(|(a, b)| !is_joined(a) || !is_joined(b)) {
        return pairs.iter().map(|(a, b)| add(a, b)).collect();
    }
    let sum =
        |&(a, b): &(&Value, &Value)| Binary { kind: BinaryKind::Add, a: a.clone(), b: b.clone() };
    run_all(&pairs.iter().map(sum).collect::<Vec<_>>())
}

/// Returns each tensor with its elements limited to ±`limit`, which is first rounded to the element type;
/// NaN stays NaN. A device limits all of a type together.
pub(super) fn clamp_all(all: &[&Value], limit: f64) -> Result<Vec<Value>> {
    if all.iter().all(|x| is_joined(x)) {
        let steps = [
            Step::Number(-limit),
            Step::Binary(BinaryKind::Maximum, 0, 1),
            Step::Number(limit),
            Step::Binary(BinaryKind::Minimum, 2, 3),
        ];
        let formula = |&x: &&Value| Formula { inputs: vec![x.clone()], steps: steps.to_vec() };
        return run_all(&all.iter().map(formula).collect::<Vec<_>>());
    }
    let clamp = |&x: &&Value| {
        let bound = |limit| Value::full(&[], limit, x.dtype())?.to(x.device());
        let above = binary(BinaryKind::Maximum, x, &bound(-limit)?)?;
        binary(BinaryKind::Minimum, &above, &bound(limit)?)
    };
    all.iter().map(clamp).collect()
}

/// Returns the negative of each tensor. A device negates all of a type together.
pub(super) fn neg_all(all: &[&Value]) -> Result<Vec<Value>> {
    let negative = |&x: &&Value| Unary { kind: UnaryKind::Neg, x: x.clone() };
    run_all(&all.iter().map(negative).collect::<Vec<_>>())
}

/// Returns `x * factor`; the factor is first rounded to the element type.
pub(super) fn scale(x: &Value, factor: f64) -> Result<Value> {
    in_f32(&[x], |x| run(&Affine { x: x[0].clone(), scale: factor, shift: -0.0 }))
}

/// Returns [`scale`] of each tensor. A device scales all of a type together.
pub(super) fn scale_all(all: &[&Value], factor: f64) -> Result<Vec<Value>> {
    if !all.iter().all(|x| is_joined(x)) {
        return all.iter().map(|x| scale(x, factor)).collect();
    }
    let ops: Vec<Affine> =
        all.iter().map(|&x| Affine { x: x.clone(), scale: factor, shift: -0.0 }).collect();
    run_all(&ops)
}

/// Returns true for tensors of a device that are not halves: it computes several in one launch.
fn is_joined(x: &Value) -> bool {
    !x.dtype().is_half() && x.device() != Device::Cpu
}

/// Casts each tensor to a type. A device casts all of a type together, between halves and f32.
pub(super) fn cast_all(all: &[(&Value, DType)]) -> Result<Vec<Value>> {
    let cast = |&(x, to): &(&Value, DType)| Cast { x: x.clone(), to };
    run_all(&all.iter().map(cast).collect::<Vec<_>>())
}

/// Casts to another type.
fn cast(x: &Value, to: DType) -> Result<Value> {
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
