use samebits::functional as f;
use samebits::ops::*;
use samebits::{DType, Result, Tensor, dispatch};

use super::sample::{Samples, each, indices, normal};
use super::{Cases, FLOATS, Make};

pub(super) fn add(cases: &mut Cases, make: Make) {
    for dtype in FLOATS {
        of_type(cases, make, dtype);
    }
    for kind in [ReduceKind::Sum, ReduceKind::Amax, ReduceKind::Amin, ReduceKind::Prod] {
        for (shape, dims) in
            [(vec![300_007], vec![0]), (vec![33, 500], vec![1]), (vec![6, 50, 7, 20], vec![0, 2])]
        {
            let name = format!("reduce {kind:?} i64 {shape:?} {dims:?}");
            let x = make.indices_of(&shape, i64::MAX, 212);
            cases.add(name, Reduce { kind, x, dims });
        }
    }
    for kind in [ReduceKind::Sum, ReduceKind::Prod] {
        let x = make.indices_of(&[3, 0, 2], 9, 212);
        cases.add(format!("reduce {kind:?} i64 empty"), Reduce { kind, x, dims: vec![1] });
    }
}

fn of_type(cases: &mut Cases, make: Make, dtype: DType) {
    for kind in
        [ReduceKind::Sum, ReduceKind::Mean, ReduceKind::Amax, ReduceKind::Amin, ReduceKind::Prod]
    {
        for (shape, dims) in [
            (vec![300_007], vec![0]),
            (vec![33, 5000], vec![1]),
            (vec![9001, 37], vec![0]),
            (vec![7, 129, 11], vec![1]),
            (vec![6, 50, 7, 20], vec![0, 2]),
            (vec![4, 3], vec![]),
        ] {
            let name = format!("reduce {kind:?} {dtype} {shape:?} {dims:?}");
            let x = make.normal(&shape, dtype, 8);
            cases.add(name, Reduce { kind, x, dims });
        }
        let x = make.wild(&[40, 1000], dtype, 9);
        cases.add(format!("reduce {kind:?} {dtype} wild"), Reduce { kind, x, dims: vec![1] });
    }
    let x = make.normal(&[3, 0, 2], dtype, 1);
    cases.add(
        format!("reduce Sum {dtype} empty"),
        Reduce { kind: ReduceKind::Sum, x, dims: vec![1] },
    );
    for kind in [ArgReduceKind::Argmax, ArgReduceKind::Argmin] {
        let x = make.wild(&[70, 333], dtype, 10);
        cases.add(format!("arg_reduce {kind:?} {dtype}"), ArgReduce { kind, x, dim: 0 });
    }
    for (shape, dims) in
        [(vec![300_007], vec![0]), (vec![33, 5000], vec![1]), (vec![6, 50, 7, 20], vec![0, 2])]
    {
        let x = make.normal(&shape, dtype, 210);
        let name = format!("{dtype} {shape:?} {dims:?}");
        for correction in [0.0, 1.0] {
            let op = Variance { x: x.clone(), dims: dims.clone(), correction };
            cases.add(format!("var {name} {correction}"), op);
        }
        for p in [0.0, 1.0, 2.0, 3.5, -1.0, f64::INFINITY, f64::NEG_INFINITY] {
            let op = Norm { x: x.clone(), dims: dims.clone(), p };
            cases.add(format!("norm {name} {p}"), op);
        }
        cases.add(format!("logsumexp {name}"), Logsumexp { x, dims });
    }
    let x = make.wild(&[40, 1000], dtype, 211);
    let dims = vec![1];
    cases.add(
        format!("var {dtype} wild"),
        Variance { x: x.clone(), dims: dims.clone(), correction: 1.0 },
    );
    cases.add(format!("norm {dtype} wild"), Norm { x: x.clone(), dims: dims.clone(), p: 2.0 });
    cases.add(format!("logsumexp {dtype} wild"), Logsumexp { x, dims });
    // Rows whose powers leave the range of f64, and one row of ordinary numbers.
    let x = make.scaled_rows(&[5, 300], dtype, 212);
    for p in [2.0, 0.5, 40.0, -40.0, 1e5] {
        cases.add(format!("norm {dtype} far {p}"), Norm { x: x.clone(), dims: vec![1], p });
    }
    let (x, dims) = (make.normal(&[3, 0, 2], dtype, 1), vec![1]);
    cases.add(format!("logsumexp {dtype} empty"), Logsumexp { x, dims });
}

/// A reduction of some dimensions, which stay or not.
type Reduction = fn(&Tensor, &[usize], bool) -> Result<Tensor>;

pub(super) fn samples(samples: &mut Samples) {
    // The name, true if it is linear in its pieces, and the function.
    let reductions: [(_, bool, Reduction); _] = [
        ("sum", true, |x, dims, keep| f::sum(x, dims, keep)),
        ("mean", true, |x, dims, keep| f::mean(x, dims, keep)),
        ("prod", false, |x, dims, keep| f::prod(x, dims, keep)),
        ("amax", true, |x, dims, keep| f::amax(x, dims, keep)),
        ("amin", true, |x, dims, keep| f::amin(x, dims, keep)),
        ("var", false, |x, dims, keep| f::var(x, dims, 1.0, keep)),
        ("std", false, |x, dims, keep| f::std(x, dims, 0.0, keep)),
        ("norm 1", false, |x, dims, keep| f::norm(x, 1.0, dims, keep)),
        ("norm 2", false, |x, dims, keep| f::norm(x, 2.0, dims, keep)),
        ("norm 3.5", false, |x, dims, keep| f::norm(x, 3.5, dims, keep)),
        ("norm inf", false, |x, dims, keep| f::norm(x, f64::INFINITY, dims, keep)),
        ("norm -1", false, |x, dims, keep| f::norm(x, -1.0, dims, keep)),
        ("norm -inf", false, |x, dims, keep| f::norm(x, f64::NEG_INFINITY, dims, keep)),
        ("norm 0", false, |x, dims, keep| f::norm(x, 0.0, dims, keep)),
        ("logsumexp", false, |x, dims, keep| f::logsumexp(x, dims, keep)),
    ];
    for (name, linear, reduction) in reductions {
        // Few long rows, many short ones, columns, and all dimensions but the batch.
        let batches: [(&[usize], &'static [usize]); _] = [
            (&[5, 50_007], &[1]),
            (&[80, 300], &[1]),
            (&[70, 129, 11], &[1]),
            (&[6, 50, 7, 20], &[1, 3]),
            (&[3, 9001, 7], &[1]),
        ];
        for (shape, dims) in batches {
            samples
                .add(format!("{name} {shape:?} {dims:?}"), move |x| reduction(&x[0], dims, true))
                .batch([each(shape)]);
        }
        let gradients: [(&'static [usize], bool); _] =
            [(&[1], false), (&[0, 2], true), (&[0, 1, 2], false)];
        for (dims, keepdim) in gradients {
            let x = normal(&[3, 4, 2]);
            let x = if linear { x.squared() } else { x };
            let sample = samples.add(format!("{name} {dims:?} {keepdim}"), move |x| {
                reduction(&x[0], dims, keepdim)
            });
            if name == "norm 0" {
                sample.once("a count has no derivative but zero", [x]);
            } else {
                sample.twice([x]);
            }
            // Zeros make some products vanish, but not their derivatives.
            if name == "prod" {
                for zeros in [&[2][..], &[0, 7], &[1, 3, 5]] {
                    sample.twice([normal(&[3, 4, 2]).zeros_at(zeros)]);
                }
            }
        }
    }
    let pairs: [(&'static [usize], bool); _] =
        [(&[1], false), (&[0, 2], true), (&[0, 1, 2], false)];
    for (dims, keepdim) in pairs {
        samples
            .add(format!("var_mean {dims:?}"), move |x| {
                let (var, mean) = f::var_mean(&x[0], dims, 0.5, keepdim)?;
                var.mul(&mean)
            })
            .twice([normal(&[3, 4, 2])]);
    }
    for keepdim in [false, true] {
        samples
            .add(format!("max {keepdim}"), move |x| f::max(&x[0], 1, keepdim))
            .twice([normal(&[3, 4, 2]).squared()]);
        samples
            .add(format!("min {keepdim}"), move |x| f::min(&x[0], 1, keepdim))
            .twice([normal(&[3, 4, 2]).squared()]);
    }
    samples
        .add("searches", |x| {
            let (largest, place) = f::max(&x[0], 1, true)?;
            let x = &x[0];
            Ok(vec![
                largest,
                place,
                f::min(x, 1, true)?.0,
                f::argmax(x, Some(1), true)?,
                f::argmin(x, Some(2), true)?,
                f::any(x, [1], true)?,
                f::all(x, [1, 2], true)?,
            ])
        })
        .batch([each(&[9, 333, 4])]);
    for kind in [ReduceKind::Sum, ReduceKind::Prod, ReduceKind::Amax, ReduceKind::Amin] {
        samples
            .add(format!("{kind:?} of integers"), move |x| {
                let x = x[0].value().clone();
                Ok(Tensor::from(dispatch(&Reduce { kind, x, dims: vec![1] })?))
            })
            .batch([indices(&[7, 500], i64::MAX).along(0)]);
    }
}
