use samebits::DType;
use samebits::ops::*;

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
    let (x, dims) = (make.normal(&[3, 0, 2], dtype, 1), vec![1]);
    cases.add(format!("logsumexp {dtype} empty"), Logsumexp { x, dims });
}
