use samebits::DType;
use samebits::functional as f;
use samebits::ops::*;
use samebits::tensor_core::Tensor as Value;

use super::sample::{Samples, each, given, indices, normal};
use super::{Cases, FLOATS, Make};

pub(super) fn add(cases: &mut Cases, make: Make) {
    for dtype in FLOATS {
        for (shape, dim, part) in [
            (vec![40_000], 0, vec![150_000]),
            (vec![17], 0, vec![300_000]),
            (vec![3, 30, 7], 1, vec![3, 5000, 7]),
            (vec![9, 11, 13], 2, vec![4, 11, 50]),
            (vec![3, 0, 2], 0, vec![3, 0, 1]),
        ] {
            of_shape(cases, make, dtype, &shape, dim, &part);
        }
    }
}

fn of_shape(
    cases: &mut Cases,
    make: Make,
    dtype: DType,
    shape: &[usize],
    dim: usize,
    part: &[usize],
) {
    let index = make.indices_of(part, shape[dim] as i64, 230);
    for (kind_of, input, source) in [
        ("normal", make.normal(shape, dtype, 231), make.normal(part, dtype, 232)),
        ("wild", make.wild(shape, dtype, 233), make.wild(part, dtype, 234)),
    ] {
        let name = format!("{dtype} {shape:?} {dim} {part:?} {kind_of}");
        let (input, index, source) = (input.clone(), index.clone(), source.clone());
        cases.add(
            format!("scatter_add {name}"),
            ScatterAdd { input: input.clone(), dim, index: index.clone(), source: source.clone() },
        );
        use ScatterReduceKind::*;
        for (kind, include_self) in
            [(Sum, false), (Mean, true), (Mean, false), (Prod, true), (Amax, true), (Amin, false)]
        {
            let (input, index, source) = (input.clone(), index.clone(), source.clone());
            cases.add(
                format!("scatter_reduce {kind:?} {include_self} {name}"),
                ScatterReduce { input, dim, index, source, kind, include_self },
            );
        }
    }
    let (m, mut slices) = (part[dim], shape.to_vec());
    slices[dim] = m;
    let index = make.indices(m, shape[dim] as i64, 235);
    let (input, source) = (make.normal(shape, dtype, 236), make.normal(&slices, dtype, 237));
    let (kind, include_self) = (ScatterReduceKind::Mean, true);
    cases.add(
        format!("index_reduce {dtype} {shape:?} {dim} {m}"),
        IndexReduce { input, dim, index, source, kind, include_self },
    );
}

pub(super) fn samples(samples: &mut Samples) {
    use ScatterReduceKind::*;
    let batches: [(&[usize], &[usize]); _] =
        [(&[5, 30, 7], &[5, 700, 7]), (&[6, 1000], &[6, 9000])];
    let small = || (normal(&[2, 4, 3]), normal(&[2, 7, 3]));
    let (x, source) = (small().0.squared(), normal(&[2, 8, 3]).squared());
    let sum = samples.add("scatter_add", |x| f::scatter_add(&x[0], 1, &x[1], &x[2])).twice([
        x,
        indices(&[2, 7, 3], 4),
        source,
    ]);
    for (shape, part) in batches {
        sum.batch([each(shape), indices(part, shape[1] as i64).along(0), each(part)]);
    }
    for kind in [Sum, Mean, Prod, Amax, Amin] {
        for include_self in [false, true] {
            let name = format!("{kind:?} {include_self}");
            let (x, source) = small();
            let elements = samples
                .add(format!("scatter_reduce {name}"), move |x| {
                    f::scatter_reduce(&x[0], 1, &x[1], &x[2], kind, include_self)
                })
                .twice([x, indices(&[2, 7, 3], 4), source.squared()]);
            for (shape, part) in batches {
                elements.batch([each(shape), indices(part, shape[1] as i64).along(0), each(part)]);
            }
            let (x, source) = small();
            let slices = samples
                .add(format!("index_reduce {name}"), move |x| {
                    f::index_reduce(&x[0], 1, &x[1], &x[2], kind, include_self)
                })
                .twice([x, indices(&[7], 4), source]);
            for (shape, part) in batches {
                let index = indices(&part[1..2], shape[1] as i64);
                slices.batch([each(shape), index, each(part)]);
            }
        }
    }
    // One zero among some elements: the product of the others changes with it.
    let zeros = samples
        .add("products with zeros", |x| f::scatter_reduce(&x[0], 0, &x[2], &x[1], Prod, true));
    for (own, sent) in [(&[0][..], &[1][..]), (&[], &[1, 3]), (&[0, 2], &[]), (&[1, 2], &[0, 3])] {
        let index = given(Value::from_slice(&[0i64, 0, 0, 1, 1, 2], &[6]));
        zeros.twice([normal(&[3]).zeros_at(own), normal(&[6]).zeros_at(sent), index]);
    }
}
