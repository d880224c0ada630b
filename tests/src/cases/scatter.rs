use samebits::DType;
use samebits::ops::*;

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
