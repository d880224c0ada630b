use samebits::ops::*;
use samebits::{DType, dispatch};

use super::{Cases, Make, integers};

/// Adds moves and casts of the types that have no arithmetic.
pub(super) fn add(cases: &mut Cases, make: Make) {
    for dtype in [DType::I32, DType::U32, DType::F16, DType::BF16] {
        moves(cases, make, dtype);
    }
}

fn moves(cases: &mut Cases, make: Make, dtype: DType) {
    let of = |shape: &[usize], seed| {
        let x = if dtype.is_float() {
            make.wild(shape, DType::F64, seed)
        } else {
            integers::wild(make, shape, seed)
        };
        make.here(dispatch(&Cast { x, to: dtype }).expect("room for the result"))
    };
    let (x, y) = (of(&[177, 189], 7), of(&[177, 189], 8));
    for to in DType::ALL {
        cases.add(format!("cast {dtype} {to}"), Cast { x: x.clone(), to });
    }
    for from in [DType::F32, DType::F64] {
        let x = make.wild(&[40_001], from, 9);
        cases.add(format!("cast {from} {dtype}"), Cast { x, to: dtype });
    }
    let whole = integers::wild(make, &[40_001], 10);
    cases.add(format!("cast i64 {dtype}"), Cast { x: whole, to: dtype });
    for kind in [CompareKind::Eq, CompareKind::Lt] {
        let (a, b) = (x.clone(), y.clone());
        cases.add(format!("compare {kind:?} {dtype}"), Compare { kind, a, b });
    }
    cases.add(format!("cat {dtype}"), Cat { inputs: vec![x.clone(), y.clone()], dim: 1 });
    let many = of(&[7, 3, 5, 11, 2], 14);
    for dims in [vec![0, 1, 2, 3, 4], vec![4], vec![0, 3], vec![1, 4], vec![2, 3]] {
        cases.add(format!("flip {dtype} {dims:?}"), Flip { x: many.clone(), dims });
    }
    let index = make.indices(300, 177, 11);
    cases.add(
        format!("index_select {dtype}"),
        IndexSelect { x: x.clone(), dim: 0, index: index.clone() },
    );
    cases.add(
        format!("index_put {dtype}"),
        IndexPut { input: x.clone(), indices: vec![index], values: of(&[189], 12) },
    );
    cases.add(format!("nonzero {dtype}"), Nonzero { x: x.clone() });
    let elements = make.indices_of(&[177, 40], 189, 13);
    cases.add(format!("gather {dtype}"), Gather { x: x.clone(), dim: 1, index: elements.clone() });
    cases.add(
        format!("scatter {dtype}"),
        Scatter { input: x.clone(), dim: 1, index: elements, source: y.clone() },
    );
    let condition = make.here(dispatch(&Cast { x: x.clone(), to: DType::Bool }).expect("room"));
    cases.add(format!("where {dtype}"), Where { condition, a: y, b: x.clone() });
    cases.add(
        format!("pad {dtype}"),
        Pad { input: x, pads: vec![[2, 3], [-1, 5]], mode: PadMode::Constant, value: 2.5 },
    );
}
