//! Elementwise operations, reductions, scans, sorting and histograms.

use samebits::functional as f;
use samebits::ops::*;
use samebits::tensor_core::Tensor as Value;
use samebits::{DType, Generator, Tensor};

use super::{Calls, graded};
use crate::fuzz::Draw;

const GELU: [GeluForm; 2] = [GeluForm::Erf, GeluForm::Tanh];

/// The kinds of [`Unary`].
const UNARY: [UnaryKind; 19] = [
    UnaryKind::Neg,
    UnaryKind::Abs,
    UnaryKind::Exp,
    UnaryKind::Exp2,
    UnaryKind::Expm1,
    UnaryKind::Log,
    UnaryKind::Log2,
    UnaryKind::Log10,
    UnaryKind::Log1p,
    UnaryKind::Sqrt,
    UnaryKind::Rsqrt,
    UnaryKind::Sin,
    UnaryKind::Cos,
    UnaryKind::Tanh,
    UnaryKind::Sigmoid,
    UnaryKind::Erf,
    UnaryKind::Relu,
    UnaryKind::Reciprocal,
    UnaryKind::Square,
];

/// The kinds of [`Binary`].
const BINARY: [BinaryKind; 13] = [
    BinaryKind::Add,
    BinaryKind::Sub,
    BinaryKind::Mul,
    BinaryKind::Div,
    BinaryKind::Maximum,
    BinaryKind::Minimum,
    BinaryKind::Pow,
    BinaryKind::Weigh,
    BinaryKind::ReluGrad,
    BinaryKind::TanhGrad,
    BinaryKind::SigmoidGrad,
    BinaryKind::FloorDivide,
    BinaryKind::Remainder,
];

const COMPARE: [CompareKind; 6] = [
    CompareKind::Eq,
    CompareKind::Ne,
    CompareKind::Lt,
    CompareKind::Le,
    CompareKind::Gt,
    CompareKind::Ge,
];

const REDUCE: [ReduceKind; 5] =
    [ReduceKind::Sum, ReduceKind::Mean, ReduceKind::Amax, ReduceKind::Amin, ReduceKind::Prod];

/// Draws two tensors that broadcast together.
fn pair(draw: &mut Draw, dtype: DType) -> [Value; 2] {
    let shape = draw.any_shape();
    [(); 2].map(|()| {
        let part = draw.broadcastable(&shape);
        draw.tensor(&part, dtype)
    })
}

/// Draws a tensor of a numeric type, and returns its rank.
fn numbers(draw: &mut Draw) -> (Value, usize) {
    let (shape, dtype) = (draw.any_shape(), draw.number());
    (draw.tensor(&shape, dtype), shape.len())
}

/// Draws a tensor of floats, and returns its rank.
fn floats(draw: &mut Draw) -> (Value, usize) {
    let (shape, dtype) = (draw.any_shape(), draw.float());
    (draw.tensor(&shape, dtype), shape.len())
}

/// Draws a tensor of any type, and returns its rank.
fn anything(draw: &mut Draw) -> (Value, usize) {
    let (shape, dtype) = (draw.any_shape(), draw.any_type());
    (draw.tensor(&shape, dtype), shape.len())
}

pub(super) fn add(calls: &mut Calls) {
    elementwise(calls);
    activations(calls);
    reductions(calls);
    scans(calls);
    sorting(calls);
}

fn ramp(d: &mut Draw) -> RampKind {
    match d.flag() {
        true => RampKind::LogSigmoid,
        false => RampKind::Softplus { beta: d.real(1.0), threshold: d.real(20.0) },
    }
}

fn elementwise(calls: &mut Calls) {
    calls.op("unary", |d| Ok(Unary { kind: d.pick(&UNARY), x: numbers(d).0 }));
    calls.op("binary", |d| {
        let (kind, dtype) = (d.pick(&BINARY), d.number());
        let [a, b] = pair(d, dtype);
        Ok(Binary { kind, a, b })
    });
    calls.op("affine", |d| Ok(Affine { x: floats(d).0, scale: d.real(2.0), shift: d.real(-1.0) }));
    calls.op("gelu", |d| Ok(Gelu { form: d.pick(&GELU), x: floats(d).0 }));
    calls.op("gelu_grad", |d| {
        let (form, shape, dtype) = (d.pick(&GELU), d.any_shape(), d.float());
        let [grad, x] = [(); 2].map(|()| d.tensor(&shape, dtype));
        let found = d.flag().then(|| d.tensor(&shape, dtype));
        Ok(GeluGrad { form, grad, x, found })
    });
    calls.op("silu", |d| Ok(Silu { x: floats(d).0 }));
    calls.op("silu_grad", |d| {
        let (shape, dtype) = (d.any_shape(), d.float());
        let [grad, x] = [(); 2].map(|()| d.tensor(&shape, dtype));
        let found = d.flag().then(|| d.tensor(&shape, dtype));
        Ok(SiluGrad { grad, x, found })
    });
    calls.op("ramp", |d| Ok(Ramp { kind: ramp(d), x: floats(d).0 }));
    calls.op("ramp_grad", |d| {
        let (kind, shape, dtype) = (ramp(d), d.any_shape(), d.float());
        let [grad, x] = [(); 2].map(|()| d.tensor(&shape, dtype));
        Ok(RampGrad { kind, grad, x })
    });
    calls.op("formula", |d| {
        let dtype = d.float();
        let [a, b] = pair(d, dtype);
        let count = d.below(9);
        let steps = (0..count).map(|i| {
            // Some steps read what is not computed yet.
            let [a, b, c] = [(); 3].map(|()| d.below(i + 3));
            match d.below(6) {
                0 => Step::Number(d.real(0.5)),
                1 => Step::Unary(d.pick(&UNARY), a),
                2 => Step::Binary(d.pick(&BINARY), a, b),
                3 => Step::Affine { x: a, scale: d.real(2.0), shift: d.real(-1.0) },
                4 => Step::Compare(d.pick(&COMPARE), a, b),
                _ => Step::Where { condition: a, a: b, b: c },
            }
        });
        let steps = steps.collect();
        Ok(Formula { inputs: vec![a, b], steps })
    });
    calls.op("compare", |d| {
        let (kind, dtype) = (d.pick(&COMPARE), d.any_type());
        let [a, b] = pair(d, dtype);
        Ok(Compare { kind, a, b })
    });
    calls.op("where", |d| {
        let dtype = d.any_type();
        let [a, b] = pair(d, dtype);
        let shape = d.broadcastable(a.shape());
        Ok(Where { condition: d.tensor(&shape, DType::Bool), a, b })
    });
    calls.op("cast", |d| Ok(Cast { x: anything(d).0, to: d.any_type() }));
    calls.op("cat", |d| {
        let dtype = d.any_type();
        let rank = d.between(1, 4);
        let (mut shape, at) = (d.shape(rank), d.below(rank));
        let inputs = (0..d.below(5)).map(|_| {
            shape[at] = d.size();
            d.tensor(&shape, dtype)
        });
        Ok(Cat { inputs: inputs.collect(), dim: d.count(at) })
    });
    calls.op("flip", |d| {
        let (x, rank) = anything(d);
        let dims = (0..rank + 1).filter(|_| d.flag()).collect();
        Ok(Flip { x, dims })
    });
    calls.function("arithmetic", |d| {
        type Two = fn(&Tensor, &Tensor) -> samebits::Result<Tensor>;
        let all: [Two; 8] =
            [f::add, f::sub, f::mul, f::div, f::logaddexp, f::maximum, f::minimum, f::pow];
        let (function, dtype) = (d.pick(&all), d.float());
        let inputs = pair(d, dtype).to_vec();
        graded(d, inputs, |x| function(&x[0], &x[1]))
    });
    calls.function("logic", |d| {
        let [a, b] = [(); 2].map(|()| Tensor::from(anything(d).0));
        let result = match d.below(8) {
            0 => f::logical_and(&a, &b),
            1 => f::logical_or(&a, &b),
            2 => f::logical_xor(&a, &b),
            3 => f::logical_not(&a),
            4 => f::isinf(&a),
            5 => f::isfinite(&a),
            6 => f::isclose(&a, &b, d.real(1e-5), d.real(1e-8), d.flag()),
            _ => f::isin(&a, &b),
        };
        Ok(vec![result?.into()])
    });
    calls.function("where_", |d| {
        let dtype = d.float();
        let inputs = pair(d, dtype).to_vec();
        let shape = d.broadcastable(inputs[0].shape());
        let condition = d.tensor(&shape, DType::Bool);
        graded(d, inputs, |x| f::where_(&Tensor::from(&condition), &x[0], &x[1]))
    });
}

fn activations(calls: &mut Calls) {
    calls.function("functions", |d| {
        type One = fn(&Tensor) -> samebits::Result<Tensor>;
        let all: [One; 38] = [
            f::abs,
            f::ceil,
            f::cos,
            f::erf,
            f::exp,
            f::exp2,
            f::expm1,
            f::floor,
            f::frac,
            f::gelu,
            f::gelu_tanh,
            f::hardsigmoid,
            f::hardswish,
            f::log,
            f::log10,
            f::log1p,
            f::log2,
            f::log_sigmoid,
            f::mish,
            f::neg,
            f::reciprocal,
            f::relu,
            f::relu6,
            f::round,
            f::rsqrt,
            f::selu,
            f::sigmoid,
            f::sign,
            f::silu,
            f::sin,
            f::softsign,
            f::sqrt,
            f::square,
            f::tanh,
            f::tanhshrink,
            f::trunc,
            |x| x.sum_all(),
            f::median,
        ];
        let (function, x) = (d.pick(&all), floats(d).0);
        graded(d, vec![x], |x| function(&x[0]))
    });
    calls.function("clamp", |d| {
        let x = floats(d).0;
        let [low, high] = [-1.0, 1.0].map(|bound| d.flag().then(|| d.real(bound)));
        graded(d, vec![x], |x| f::clamp(&x[0], low, high))
    });
    calls.function("parametric", |d| {
        let (which, x) = (d.below(15), floats(d).0);
        let (a, b) = (d.real(0.5), d.real(1.5));
        graded(d, vec![x], |x| match which {
            0 => f::elu(&x[0], a),
            1 => f::hardtanh(&x[0], a, b),
            2 => f::leaky_relu(&x[0], a),
            3 => f::softplus(&x[0], a, b),
            4 => f::pow_scalar(&x[0], a),
            5 => f::affine(&x[0], a, b),
            6 => f::nanmedian(&x[0]),
            7 => f::celu(&x[0], a),
            8 => f::hardshrink(&x[0], a),
            9 => f::softshrink(&x[0], a),
            10 => f::threshold(&x[0], a, b),
            11 => f::logit(&x[0], Some(a)),
            12 => f::nan_to_num(&x[0], a, Some(b), None),
            13 => f::rrelu_with(&x[0], a, b, &mut Generator::new(7)),
            _ => f::quantile(&x[0], a, (), true),
        })
    });
}

fn reductions(calls: &mut Calls) {
    /// Draws a tensor that no operation copies, but whose elements are all read.
    fn walked(of: fn(&mut Draw) -> (Value, usize), d: &mut Draw) -> (Value, usize) {
        d.expand_less();
        of(d)
    }
    calls.op("reduce", |d| {
        let (x, rank) = walked(floats, d);
        Ok(Reduce { kind: d.pick(&REDUCE), x, dims: d.dims(rank) })
    });
    calls.op("var", |d| {
        let (x, rank) = walked(floats, d);
        Ok(Variance { x, dims: d.dims(rank), correction: d.real(1.0) })
    });
    calls.op("norm", |d| {
        let (x, rank) = walked(floats, d);
        let p = d.pick(&[0.0, 1.0, 2.0, 3.0, 0.5, f64::INFINITY, f64::NEG_INFINITY]);
        Ok(Norm { x, dims: d.dims(rank), p: d.real(p) })
    });
    calls.op("logsumexp", |d| {
        let (x, rank) = walked(floats, d);
        Ok(Logsumexp { x, dims: d.dims(rank) })
    });
    calls.op("arg_reduce", |d| {
        let kind = d.pick(&[ArgReduceKind::Argmax, ArgReduceKind::Argmin]);
        let (x, rank) = walked(anything, d);
        Ok(ArgReduce { kind, x, dim: d.dim(rank) })
    });
    calls.function("reductions", |d| {
        let (x, rank) = walked(floats, d);
        let (which, dims, keep) = (d.below(10), d.dims(rank), d.flag());
        let (p, dim) = (d.real(2.0), d.dim(rank));
        graded(d, vec![x], |x| match which {
            0 => f::sum(&x[0], &dims, true),
            1 => f::mean(&x[0], &dims, true),
            2 => f::prod(&x[0], &dims, keep),
            3 => f::var(&x[0], &dims, p, keep),
            4 => f::std(&x[0], &dims, p, keep),
            5 => f::norm(&x[0], p, &dims, keep),
            6 => f::logsumexp(&x[0], &dims, keep),
            7 => f::amax(&x[0], &dims, keep),
            8 => f::amin(&x[0], &dims, keep),
            _ => Ok(f::max(&x[0], dim, keep)?.0),
        })
    });
    calls.function("truths", |d| {
        let (x, rank) = walked(anything, d);
        let (dims, keep) = (d.dims(rank), d.flag());
        let dim = d.flag().then(|| d.dim(rank));
        let x = Tensor::from(&x);
        let found = match d.below(4) {
            0 => f::any(&x, &dims, keep)?,
            1 => f::all(&x, &dims, keep)?,
            2 => f::argmax(&x, dim, keep)?,
            _ => f::argmin(&x, dim, keep)?,
        };
        Ok(vec![found.into()])
    });
}

fn scans(calls: &mut Calls) {
    /// Draws tensors of one shape and type, and a dimension.
    fn alike<const N: usize>(d: &mut Draw) -> ([Value; N], usize) {
        let rank = d.between(1, 4);
        let (shape, dtype) = (d.shape(rank), d.float());
        ([(); N].map(|()| d.tensor(&shape, dtype)), d.dim(rank))
    }
    calls.op("cumsum", |d| {
        let (x, rank) = numbers(d);
        Ok(Cumsum { x, dim: d.dim(rank), reverse: d.flag() })
    });
    calls.op("cumprod", |d| {
        let (x, rank) = numbers(d);
        Ok(Cumprod { x, dim: d.dim(rank) })
    });
    calls.op("cumprod_grad", |d| {
        let ([grad, x], dim) = alike(d);
        Ok(CumprodGrad { grad, x, dim })
    });
    calls.op("cumprod_grad_grad", |d| {
        let ([outer, grad, x], dim) = alike(d);
        Ok(CumprodGradGrad { outer, grad, x, dim })
    });
    calls.op("logcumsumexp", |d| {
        let (x, rank) = floats(d);
        Ok(Logcumsumexp { x, dim: d.dim(rank) })
    });
    calls.op("logcumsumexp_grad", |d| {
        let ([grad, x, y], dim) = alike(d);
        Ok(LogcumsumexpGrad { grad, x, y, dim })
    });
    calls.op("cumextreme", |d| {
        let (x, rank) = floats(d);
        Ok(Cumextreme { x, dim: d.dim(rank), largest: d.flag() })
    });
    calls.function("scans", |d| {
        let (x, rank) = floats(d);
        let (which, dim) = (d.below(7), d.dim(rank));
        graded(d, vec![x], |x| match which {
            0 => f::cumsum(&x[0], dim),
            1 => f::cumprod(&x[0], dim),
            2 => f::logcumsumexp(&x[0], dim),
            3 => Ok(f::cummax(&x[0], dim)?.0),
            4 => Ok(f::cummin(&x[0], dim)?.0),
            5 => f::softmax(&x[0], dim),
            _ => f::log_softmax(&x[0], dim),
        })
    });
}

fn sorting(calls: &mut Calls) {
    calls.op("sort", |d| {
        let (x, rank) = anything(d);
        Ok(Sort { x, dim: d.dim(rank), descending: d.flag() })
    });
    calls.op("topk", |d| {
        let (x, rank) = anything(d);
        Ok(Topk { x, k: d.count(1), dim: d.dim(rank), largest: d.flag() })
    });
    calls.op("kthvalue", |d| {
        let (x, rank) = anything(d);
        Ok(Kthvalue { x, k: d.count(1), dim: d.dim(rank) })
    });
    calls.op("median", |d| {
        let (x, rank) = anything(d);
        Ok(Median { x, dim: d.dim(rank), ignore_nan: d.flag() })
    });
    calls.op("unique", |d| Ok(Unique { x: anything(d).0, consecutive: d.flag() }));
    calls.op("unique_dim", |d| {
        let (x, rank) = anything(d);
        Ok(UniqueDim { x, dim: d.dim(rank), consecutive: d.flag() })
    });
    calls.op("bincount", |d| {
        let n = d.size();
        Ok(Bincount { x: d.indices(&[n], 20), bins: bins(d) })
    });
    calls.op("bincount_weighted", |d| {
        let (n, dtype) = (d.size(), d.float());
        let (x, weights) = (d.indices(&[n], 20), d.tensor(&[n], dtype));
        Ok(BincountWeighted { x, weights, bins: bins(d) })
    });
    calls.op("histc", |d| {
        Ok(Histc { x: floats(d).0, bins: d.count(7), min: d.real(-1.0), max: d.real(1.0) })
    });
    calls.function("sorting", |d| {
        let (x, rank) = floats(d);
        let (which, dim, k, keep) = (d.below(5), d.dim(rank), d.count(1), d.flag());
        graded(d, vec![x], |x| {
            Ok(match which {
                0 => f::sort(&x[0], dim, keep)?.0,
                1 => f::topk(&x[0], k, dim, keep)?.0,
                2 => f::kthvalue(&x[0], k, dim, keep)?.0,
                3 => f::median_dim(&x[0], dim, keep)?.0,
                _ => f::nanmedian_dim(&x[0], dim, keep)?.0,
            })
        })
    });
}

fn bins(d: &mut Draw) -> Bins {
    if d.flag() { Bins::AtLeast(d.count(3)) } else { Bins::Exactly(d.count(20)) }
}
