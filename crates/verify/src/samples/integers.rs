use samebits::functional as f;
use samebits::ops::*;
use samebits::tensor_core::Tensor as Value;
use samebits::{Result, Tensor};

use super::sample::{Samples, indices};
use super::{Cases, Make};

/// Adds integer arithmetic.
pub(super) fn add(cases: &mut Cases, make: Make) {
    arithmetic(cases, make);
    scatters(cases, make);
}

pub(super) fn samples(samples: &mut Samples) {
    let (shape, part) = (&[5, 40, 9], &[5, 300, 9]);
    let integers = |shape: &[usize]| indices(shape, 1 << 40).along(0);
    /// A function of integers, of sources, and of the elements or slices to which these go.
    type Function = fn(&Tensor, &Tensor, &Tensor, &Tensor) -> Result<Tensor>;
    let functions: [(_, Function); _] = [
        ("neg", |x, _, _, _| f::neg(x)),
        ("add", |x, _, _, _| f::add(x, x)),
        ("floor_divide", |x, _, _, _| f::floor_divide(x, 7)),
        ("cumsum", |x, _, _, _| f::cumsum(x, 1)),
        ("cumprod", |x, _, _, _| f::cumprod(x, 1)),
        ("index_add", |x, source, _, slices| f::index_add(x, 1, slices, source, -3.0)),
        ("index_reduce", |x, source, _, slices| {
            f::index_reduce(x, 1, slices, source, ScatterReduceKind::Amin, true)
        }),
        ("scatter_add", |x, source, elements, _| f::scatter_add(x, 1, elements, source)),
        ("scatter_reduce", |x, source, elements, _| {
            f::scatter_reduce(x, 1, elements, source, ScatterReduceKind::Mean, false)
        }),
    ];
    for (name, function) in functions {
        let (elements, slices) = (indices(part, 40).along(0), indices(&[300], 40));
        samples
            .add(format!("{name} of integers"), move |x| function(&x[0], &x[1], &x[2], &x[3]))
            .batch([integers(shape), integers(part), elements, slices]);
    }
}

fn arithmetic(cases: &mut Cases, make: Make) {
    let (a, b) = (wild(make, &[177, 189], 1), wild(make, &[177, 189], 2));
    for kind in [UnaryKind::Neg, UnaryKind::Abs, UnaryKind::Relu, UnaryKind::Square] {
        cases.add(format!("unary {kind:?} i64"), Unary { kind, x: a.clone() });
    }
    use BinaryKind::*;
    for kind in [Add, Sub, Mul, Maximum, Minimum] {
        cases.add(format!("binary {kind:?} i64"), Binary { kind, a: a.clone(), b: b.clone() });
    }
    let few = make.indices_of(&[177, 189], 200, 3);
    cases.add("binary Pow i64", Binary { kind: Pow, a: a.clone(), b: few });
    let divisor = make.here(Value::from_slice(&[-7i64], &[]).expect("one number"));
    for kind in [FloorDivide, Remainder] {
        let b = divisor.clone();
        cases.add(format!("binary {kind:?} i64"), Binary { kind, a: a.clone(), b });
    }
    for dim in [0, 1] {
        for reverse in [false, true] {
            let x = a.clone();
            cases.add(format!("cumsum i64 {dim} {reverse}"), Cumsum { x, dim, reverse });
        }
        cases.add(format!("cumprod i64 {dim}"), Cumprod { x: b.clone(), dim });
    }
}

fn scatters(cases: &mut Cases, make: Make) {
    let (input, source) = (wild(make, &[900, 37], 4), wild(make, &[2500, 37], 5));
    let index = make.indices(2500, 900, 6);
    let (dim, each) = (0, make.indices_of(&[2500, 37], 900, 13));
    cases.add(
        "index_add i64",
        IndexAdd {
            input: input.clone(),
            dim,
            index: index.clone(),
            source: source.clone(),
            alpha: -3.0,
        },
    );
    cases.add(
        "index_put add i64",
        IndexPutAdd { input: input.clone(), indices: vec![index.clone()], values: source.clone() },
    );
    let (x, s) = (input.clone(), source.clone());
    cases.add("scatter_add i64", ScatterAdd { input: x, dim, index: each.clone(), source: s });
    use ScatterReduceKind::*;
    for kind in [Sum, Mean, Prod, Amax, Amin] {
        for include_self in [false, true] {
            let (input, source, name) =
                (input.clone(), source.clone(), format!("i64 {kind:?} {include_self}"));
            let (x, s, each) = (input.clone(), source.clone(), each.clone());
            cases.add(
                format!("scatter_reduce {name}"),
                ScatterReduce { input: x, dim, index: each, source: s, kind, include_self },
            );
            let index = index.clone();
            cases.add(
                format!("index_reduce {name}"),
                IndexReduce { input, dim, index, source, kind, include_self },
            );
        }
    }
}

/// Returns integers of every size, including the extremes.
pub(super) fn wild(make: Make, shape: &[usize], seed: u64) -> Value {
    let count = shape.iter().product();
    let mut state = seed;
    let numbers: Vec<i64> = (0..count)
        .map(|i| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            match i % 37 {
                0 => i64::MIN,
                1 => i64::MAX,
                2 => 0,
                shift => (state as i64) >> (shift % 63),
            }
        })
        .collect();
    make.here(Value::from_slice(&numbers, shape).expect("as many values"))
}
