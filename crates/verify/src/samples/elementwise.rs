use samebits::functional as f;
use samebits::ops::*;
use samebits::tensor_core::Tensor as Value;
use samebits::{DType, Result, Tensor, dispatch};

use super::sample::{Input, Samples, each, normal, wild};
use super::{Cases, FLOATS, Make};

pub(super) fn add(cases: &mut Cases, make: Make) {
    use UnaryKind::*;
    for kind in [
        Neg, Abs, Exp, Exp2, Expm1, Log, Log2, Log10, Log1p, Sqrt, Rsqrt, Sin, Cos, Tanh, Sigmoid,
        Erf, Relu, Reciprocal, Square,
    ] {
        for dtype in FLOATS {
            let x = make.wild(&[50_003], dtype, 1);
            cases.add(format!("unary {kind:?} {dtype}"), Unary { kind, x });
        }
    }
    for dtype in FLOATS {
        use BinaryKind::*;
        for kind in
            [Add, Sub, Mul, Div, Maximum, Minimum, Weigh, ReluGrad, TanhGrad, SigmoidGrad, Pow]
        {
            let (a, b) = (make.wild(&[177, 189], dtype, 1), make.wild(&[177, 189], dtype, 2));
            let b = b.reshape(&[189, 177]).and_then(|b| b.transpose(0, 1)).expect("two dimensions");
            cases.add(format!("binary {kind:?} {dtype}"), Binary { kind, a, b });
        }
        for (a, b) in [
            (vec![40, 3, 170], vec![170]),
            (vec![40, 1, 170], vec![3, 1]),
            (vec![], vec![40, 3]),
            (vec![5, 0], vec![1]),
        ] {
            let name = format!("binary Add {dtype} {a:?} {b:?}");
            let (a, b) = (make.wild(&a, dtype, 1), make.wild(&b, dtype, 2));
            cases.add(name, Binary { kind: Add, a, b });
        }
        let x = make.wild(&[40_001], dtype, 3);
        cases.add(format!("affine {dtype}"), Affine { x: x.clone(), scale: 0.3, shift: -1.7 });
        for (form, found) in [(GeluForm::Erf, false), (GeluForm::Tanh, true)] {
            let (grad, x) = (make.wild(&[40_001], dtype, 6), x.clone());
            let found = found.then(|| make.wild(&[40_001], dtype, 7));
            cases.add(format!("gelu grad {form:?} {dtype}"), GeluGrad { form, grad, x, found });
        }
        for kind in [
            CompareKind::Eq,
            CompareKind::Ne,
            CompareKind::Lt,
            CompareKind::Le,
            CompareKind::Gt,
            CompareKind::Ge,
        ] {
            let b = make.wild(&[40_001], dtype, 4);
            cases.add(format!("compare {kind:?} {dtype}"), Compare { kind, a: x.clone(), b });
        }
        let condition: Vec<bool> = (0..40_001).map(|i| i % 3 == 0).collect();
        let condition =
            make.here(Value::from_bools(&condition, &[40_001]).expect("as many values"));
        cases.add(
            format!("where {dtype}"),
            Where { condition, a: x.clone(), b: make.wild(&[1], dtype, 5) },
        );
        for to in [DType::F32, DType::F64, DType::I64, DType::U8, DType::Bool] {
            cases.add(format!("cast {dtype} {to}"), Cast { x: x.clone(), to });
        }
    }
    let x = make.indices(1000, 300, 6);
    cases.add("cast i64 u8", Cast { x: x.clone(), to: DType::U8 });
    cases.add(
        "compare Lt i64",
        Compare { kind: CompareKind::Lt, a: x, b: make.indices(1000, 300, 7) },
    );
    for dtype in FLOATS {
        cases.functions(dtype, samples);
    }
}

/// A differentiable function of one or two variables.
type Function = fn(&[Tensor]) -> Result<Tensor>;

pub(super) fn samples(samples: &mut Samples) {
    let few = || vec![normal(&[9])];
    let many = || vec![normal(&[40])];
    // Values on both sides of the functions' boundaries.
    let across = || vec![normal(&[40]).by(|x| x.square()?.affine(1.0, -0.9))];
    let positive = || vec![normal(&[9]).positive()];
    let broadcast = || vec![normal(&[4, 9]).squared(), normal(&[9])];
    // The name, true if there are digests of the function, and arguments for its gradient.
    let functions: [(_, bool, Vec<Input>, Function); _] = [
        ("abs", true, across(), |x| f::abs(&x[0])),
        ("add", false, vec![normal(&[3, 4]), normal(&[4])], |x| f::add(&x[0], &x[1])),
        ("celu", false, many(), |x| f::celu(&x[0], 0.8)),
        ("clamp", true, across(), |x| f::clamp(&x[0], Some(-0.5), Some(1.0))),
        ("cos", false, few(), |x| f::cos(&x[0])),
        (
            "div",
            false,
            vec![normal(&[5]), normal(&[5]).by(|x| x.square()?.affine(1.0, 1.0))],
            |x| f::div(&x[0], &x[1]),
        ),
        ("elu", true, many(), |x| f::elu(&x[0], 0.8)),
        ("erf", false, few(), |x| f::erf(&x[0])),
        ("exp", false, few(), |x| f::exp(&x[0])),
        ("exp2", true, few(), |x| f::exp2(&x[0])),
        ("expm1", false, few(), |x| f::expm1(&x[0])),
        ("gelu", true, few(), |x| f::gelu(&x[0])),
        ("gelu_tanh", true, few(), |x| f::gelu_tanh(&x[0])),
        ("hardshrink", false, many(), |x| f::hardshrink(&x[0], 0.5)),
        ("hardsigmoid", false, many(), |x| f::hardsigmoid(&x[0])),
        ("hardswish", false, many(), |x| f::hardswish(&x[0])),
        ("hardtanh", true, across(), |x| f::hardtanh(&x[0], -0.5, 1.0)),
        ("leaky_relu", true, many(), |x| f::leaky_relu(&x[0], 0.1)),
        ("lerp", false, vec![normal(&[9]), normal(&[9])], |x| f::lerp(&x[0], &x[1], 0.3)),
        ("log", false, positive(), |x| f::log(&x[0])),
        ("log10", true, positive(), |x| f::log10(&x[0])),
        ("log1p", false, vec![normal(&[9]).squared()], |x| f::log1p(&x[0])),
        ("log2", true, positive(), |x| f::log2(&x[0])),
        ("log_sigmoid", true, few(), |x| f::log_sigmoid(&x[0])),
        ("logaddexp", false, broadcast(), |x| f::logaddexp(&x[0], &x[1])),
        ("logit", false, vec![normal(&[9]).by(Tensor::sigmoid)], |x| f::logit(&x[0], None)),
        ("maximum", true, broadcast(), |x| f::maximum(&x[0], &x[1])),
        ("minimum", true, broadcast(), |x| f::minimum(&x[0], &x[1])),
        ("mish", false, many(), |x| f::mish(&x[0])),
        ("mul", false, vec![normal(&[3, 4]), normal(&[3, 1])], |x| f::mul(&x[0], &x[1])),
        ("nan_to_num", false, few(), |x| f::nan_to_num(&x[0], 0.0, None, None)),
        ("neg", false, vec![normal(&[5]).by(|x| x.affine(0.7, 3.0))], |x| f::neg(&x[0])),
        ("pow", true, vec![normal(&[9]).positive(), normal(&[9])], |x| f::pow(&x[0], &x[1])),
        ("pow_scalar", true, few(), |x| f::pow_scalar(&x[0], 3.0)),
        ("reciprocal", true, positive(), |x| f::reciprocal(&x[0])),
        ("relu", false, vec![normal(&[50])], |x| f::relu(&x[0])),
        ("rsqrt", true, positive(), |x| f::rsqrt(&x[0])),
        ("selu", false, many(), |x| f::selu(&x[0])),
        ("sigmoid", false, few(), |x| f::sigmoid(&x[0])),
        ("silu", true, few(), |x| f::silu(&x[0])),
        ("sin", false, few(), |x| f::sin(&x[0])),
        ("softplus", true, many(), |x| f::softplus(&x[0], 1.5, 20.0)),
        ("softshrink", false, many(), |x| f::softshrink(&x[0], 0.5)),
        ("softsign", false, many(), |x| f::softsign(&x[0])),
        ("sqrt", false, vec![normal(&[5]).positive()], |x| f::sqrt(&x[0])),
        ("square", false, vec![normal(&[5])], |x| f::square(&x[0])),
        ("sub", false, vec![normal(&[3, 1]), normal(&[2, 1, 4])], |x| f::sub(&x[0], &x[1])),
        ("tanh", false, few(), |x| f::tanh(&x[0])),
        ("tanhshrink", false, few(), |x| f::tanhshrink(&x[0])),
        ("threshold", false, many(), |x| f::threshold(&x[0], 0.1, -0.7)),
    ];
    for (name, digested, gradient, function) in functions {
        let variables = gradient.len();
        let sample = samples.add(name, function).twice(gradient);
        // An odd width, so that vectors are aligned differently in each row.
        sample.batch(vec![each(&[5, 1003]); variables]);
        if variables == 2 {
            sample.batch([each(&[5, 1003]), normal(&[1003])]);
        }
        if digested {
            let wild = [wild(&[83, 109]).seed(8), wild(&[83, 109]).seed(9)];
            sample.digest(&wild[..variables]);
        }
    }
    samples
        .add("prelu", |x| f::prelu(&x[0], &x[1]))
        .twice([normal(&[3, 4]), normal(&[4])])
        .twice([normal(&[5]), normal(&[])]);
    samples.add("glu", |x| f::glu(&x[0], 1)).batch([each(&[5, 1004])]).twice([normal(&[3, 4])]);
    for (name, function) in
        [("round", f::round as fn(&Tensor) -> _), ("floor", f::floor), ("ceil", f::ceil)]
    {
        samples.add(name, move |x| function(&x[0])).batch([each(&[5, 1003])]);
    }
    samples.add("frac", |x| f::frac(&x[0])).batch([each(&[5, 1003])]).twice([normal(&[9])]);
    samples.add("sign", |x| f::sign(&x[0])).batch([each(&[5, 1003])]);
    let softplus = samples.add("softplus, soon linear", |x| f::softplus(&x[0], 1.7, 1.0));
    softplus.twice([normal(&[40])]);
    let reused = samples.add("mul, reused", |x| x[0].mul(&x[0].square()?.add(&x[0])?));
    reused.twice([normal(&[4])]);
    let plain = samples.add("compare, where, cast, cat", |x| {
        let (a, b) = (x[0].value().clone(), x[1].value().clone());
        let less = dispatch(&Compare { kind: CompareKind::Lt, a, b })?;
        let chosen = f::where_(&Tensor::from(&less), &x[0], &x[1])?;
        let narrow = dispatch(&Cast { x: x[0].value().clone(), to: DType::I64 })?;
        let joined = f::cat(&[x[0].clone(), chosen], 1)?;
        Ok(vec![Tensor::from(less), joined, Tensor::from(narrow)])
    });
    plain.batch([each(&[5, 1003]), each(&[5, 1003])]);
}
