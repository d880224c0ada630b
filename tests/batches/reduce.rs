use samebits::functional as f;
use samebits::ops::{Reduce, ReduceKind};
use samebits::{Result, Tensor, dispatch};

use super::{Batches, Make, plain};

/// A reduction of some dimensions.
type Reduction = fn(&Tensor, &[usize]) -> Result<Tensor>;

pub(super) fn add(batches: &mut Batches, make: Make) {
    let reductions: [(_, Reduction); _] = [
        ("sum", |x, dims| f::sum(x, dims, true)),
        ("mean", |x, dims| f::mean(x, dims, true)),
        ("prod", |x, dims| f::prod(x, dims, true)),
        ("amax", |x, dims| f::amax(x, dims, true)),
        ("amin", |x, dims| f::amin(x, dims, true)),
        ("var", |x, dims| f::var(x, dims, 1.0, true)),
        ("std", |x, dims| f::std(x, dims, 0.0, true)),
        ("norm 1", |x, dims| f::norm(x, 1.0, dims, true)),
        ("norm 2", |x, dims| f::norm(x, 2.0, dims, true)),
        ("norm 3.5", |x, dims| f::norm(x, 3.5, dims, true)),
        ("norm inf", |x, dims| f::norm(x, f64::INFINITY, dims, true)),
        ("logsumexp", |x, dims| f::logsumexp(x, dims, true)),
    ];
    for (name, reduction) in reductions {
        // Few long rows, many short ones, columns, all but the batch.
        for (shape, dims) in [
            (vec![5, 50_007], vec![1]),
            (vec![80, 300], vec![1]),
            (vec![70, 129, 11], vec![1]),
            (vec![6, 50, 7, 20], vec![1, 3]),
            (vec![3, 9001, 7], vec![1]),
        ] {
            let name = make.name(&format!("{name} {shape:?} {dims:?}"));
            batches.one(name, make.each(&shape, 100), move |x| reduction(x, &dims));
        }
    }
    batches.add(make.name("searches"), [make.each(&[9, 333, 4], 101)], |x| {
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
    });
    for kind in [ReduceKind::Sum, ReduceKind::Prod, ReduceKind::Amax, ReduceKind::Amin] {
        let x = make.indices(&[7, 500], i64::MAX, 102);
        batches.add(make.name(&format!("{kind:?} of integers")), [x], move |x| {
            let x = x[0].value().clone();
            Ok(vec![plain(dispatch(&Reduce { kind, x, dims: vec![1] })?)])
        });
    }
}
