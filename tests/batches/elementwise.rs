use samebits::functional as f;
use samebits::ops::{Cast, Compare, CompareKind};
use samebits::{DType, Result, Tensor, dispatch};

use super::{Batches, Make, plain};

/// A differentiable function of one or two variables.
type Unary = fn(&Tensor) -> Result<Tensor>;
type Binary = fn(&Tensor, &Tensor) -> Result<Tensor>;

pub(super) fn add(batches: &mut Batches, make: Make) {
    let unary: [(_, Unary); _] = [
        ("abs", f::abs),
        ("clamp", |x| f::clamp(x, Some(-0.5), Some(1.0))),
        ("cos", f::cos),
        ("elu", |x| f::elu(x, 0.8)),
        ("erf", f::erf),
        ("exp", f::exp),
        ("exp2", f::exp2),
        ("expm1", f::expm1),
        ("gelu", f::gelu),
        ("gelu_tanh", f::gelu_tanh),
        ("hardtanh", |x| f::hardtanh(x, -0.5, 1.0)),
        ("leaky_relu", |x| f::leaky_relu(x, 0.1)),
        ("log", f::log),
        ("log10", f::log10),
        ("log1p", f::log1p),
        ("log2", f::log2),
        ("log_sigmoid", f::log_sigmoid),
        ("neg", f::neg),
        ("pow_scalar", |x| f::pow_scalar(x, 3.0)),
        ("reciprocal", f::reciprocal),
        ("relu", f::relu),
        ("rsqrt", f::rsqrt),
        ("sigmoid", f::sigmoid),
        ("sign", f::sign),
        ("silu", f::silu),
        ("sin", f::sin),
        ("softplus", |x| f::softplus(x, 1.5, 20.0)),
        ("sqrt", f::sqrt),
        ("square", f::square),
        ("tanh", f::tanh),
    ];
    for (name, function) in unary {
        // An odd width, so that vectors lie otherwise in each row.
        batches.one(make.name(name), make.each(&[5, 1003], 20), function);
    }
    let binary: [(_, Binary); _] = [
        ("add", f::add),
        ("div", f::div),
        ("maximum", f::maximum),
        ("minimum", f::minimum),
        ("mul", f::mul),
        ("pow", f::pow),
        ("sub", f::sub),
    ];
    for (name, function) in binary {
        let (a, b) = (make.each(&[5, 1003], 21), make.each(&[5, 1003], 22));
        batches.add(make.name(name), [a.clone(), b], move |x| Ok(vec![function(&x[0], &x[1])?]));
        let b = make.shared(&[1003], 23);
        batches.add(make.name(&format!("{name}, broadcast")), [a, b], move |x| {
            Ok(vec![function(&x[0], &x[1])?])
        });
    }
    let inputs = [make.each(&[5, 1003], 24), make.each(&[5, 1003], 25)];
    batches.add(make.name("compare, where, cast, cat"), inputs, |x| {
        let (a, b) = (x[0].value().clone(), x[1].value().clone());
        let less = dispatch(&Compare { kind: CompareKind::Lt, a, b })?;
        let chosen = f::where_(&Tensor::from(&less), &x[0], &x[1])?;
        let narrow = dispatch(&Cast { x: x[0].value().clone(), to: DType::I64 })?;
        Ok(vec![plain(less), f::cat(&[x[0].clone(), chosen], 1)?, plain(narrow)])
    });
}
