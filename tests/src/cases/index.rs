use samebits::ops::*;
use samebits::tensor_core::Tensor as Value;
use samebits::{DType, dispatch};

use super::{Cases, FLOATS, Make};

pub(super) fn add(cases: &mut Cases, make: Make) {
    for dtype in FLOATS {
        of_type(cases, make, dtype);
    }
    let x = make.indices_of(&[70, 2, 50], 3, 208);
    cases.add("nonzero i64", Nonzero { x });
    let bits: Vec<bool> = (0..3000).map(|i| i % 7 < 3).collect();
    let x = Value::from_bools(&bits, &[60, 50]).expect("as many");
    cases.add("nonzero bool", Nonzero { x: make.here(x) });
}

fn of_type(cases: &mut Cases, make: Make, dtype: DType) {
    let (dim, index) = (1, make.indices(5000, 30, 36));
    let x = make.wild(&[3, 30, 7], dtype, 37);
    cases.add(
        format!("index_select {dtype}"),
        IndexSelect { x: x.clone(), dim, index: index.clone() },
    );
    let source = make.wild(&[3, 5000, 7], dtype, 38);
    for alpha in [1.0, 0.7] {
        let (input, index, source) = (x.clone(), index.clone(), source.clone());
        cases.add(
            format!("index_add {dtype} {alpha}"),
            IndexAdd { input, dim, index, source, alpha },
        );
    }
    let (input, source) = (x.clone(), make.normal(&[3, 5000, 7], dtype, 200));
    cases.add(format!("index_copy {dtype}"), IndexCopy { input, dim, index, source });
    for (shape, dim, part) in [
        (vec![40_000], 0, vec![50_000]),
        (vec![3, 30, 7], 1, vec![3, 5000, 7]),
        (vec![9, 11, 13], 2, vec![4, 11, 50]),
        (vec![3, 0, 2], 0, vec![3, 0, 1]),
    ] {
        let index = make.indices_of(&part, shape[dim] as i64, 201);
        let x = make.wild(&shape, dtype, 202);
        let source = make.wild(&part, dtype, 203);
        let name = format!("{dtype} {shape:?} {dim} {part:?}");
        cases.add(format!("gather {name}"), Gather { x: x.clone(), dim, index: index.clone() });
        cases.add(format!("scatter {name}"), Scatter { input: x, dim, index, source });
    }
    for (shape, parts, values) in [
        (vec![60, 70, 3], vec![vec![9000], vec![9000]], vec![9000, 3]),
        (vec![60, 70], vec![vec![300, 1], vec![40]], vec![300, 40]),
        (vec![500], vec![vec![20_000]], vec![1]),
        (vec![5, 4], vec![vec![0]], vec![0, 4]),
    ] {
        let x = make.wild(&shape, dtype, 204);
        let indices: Vec<Value> = parts
            .iter()
            .zip(&shape)
            .map(|(part, &size)| make.indices_of(part, size as i64, 205))
            .collect();
        let name = format!("{dtype} {shape:?} {parts:?}");
        let (input, values) = (x.clone(), make.wild(&values, dtype, 206));
        cases.add(format!("index {name}"), Index { x, indices: indices.clone() });
        cases.add(
            format!("index_put {name}"),
            IndexPut { input: input.clone(), indices: indices.clone(), values: values.clone() },
        );
        cases.add(format!("index_put added {name}"), IndexPutAdd { input, indices, values });
    }
    for shape in [vec![50_000], vec![3, 7, 5], vec![0, 3]] {
        let x = make.wild(&shape, dtype, 207);
        let zero = Value::zeros(&[], dtype).unwrap().to(x.device()).expect("room on the device");
        let kind = BinaryKind::Maximum;
        let x = dispatch(&Binary { kind, a: x, b: zero }).expect("a valid case");
        cases.add(format!("nonzero {dtype} {shape:?}"), Nonzero { x: make.here(x) });
    }
}
