use samebits::functional as f;
use samebits::ops::*;
use samebits::tensor_core::Tensor as Value;
use samebits::{DType, Result, Tensor};

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
        for kind in [Add, Sub, Mul, Div, Maximum, Minimum, ReluGrad, TanhGrad, SigmoidGrad, Pow] {
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
        for to in DType::ALL {
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
        for (name, function) in functions() {
            cases.call(format!("{name} {dtype}"), move || {
                let arguments = [make.wild(&[83, 109], dtype, 8), make.wild(&[83, 109], dtype, 9)];
                make.with_gradients(&arguments, |x| function(&x[0], &x[1]))
            });
        }
    }
}

/// A differentiable function of one or two variables.
type Function = fn(&Tensor, &Tensor) -> Result<Tensor>;

fn functions() -> Vec<(&'static str, Function)> {
    vec![
        ("abs", |x, _| f::abs(x)),
        ("clamp", |x, _| f::clamp(x, Some(-0.5), Some(1.0))),
        ("elu", |x, _| f::elu(x, 0.8)),
        ("exp2", |x, _| f::exp2(x)),
        ("gelu", |x, _| f::gelu(x)),
        ("gelu_tanh", |x, _| f::gelu_tanh(x)),
        ("hardtanh", |x, _| f::hardtanh(x, -0.5, 1.0)),
        ("leaky_relu", |x, _| f::leaky_relu(x, 0.1)),
        ("log10", |x, _| f::log10(x)),
        ("log2", |x, _| f::log2(x)),
        ("log_sigmoid", |x, _| f::log_sigmoid(x)),
        ("maximum", f::maximum),
        ("minimum", f::minimum),
        ("pow", f::pow),
        ("pow_scalar", |x, _| f::pow_scalar(x, 3.0)),
        ("reciprocal", |x, _| f::reciprocal(x)),
        ("rsqrt", |x, _| f::rsqrt(x)),
        ("silu", |x, _| f::silu(x)),
        ("softplus", |x, _| f::softplus(x, 1.5, 20.0)),
    ]
}
