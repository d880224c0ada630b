use samebits::functional as f;
use samebits::ops::*;
use samebits::tensor_core::Tensor as Value;
use samebits::{DType, Result, Tensor, dispatch};

use super::sample::{Samples, each, given, indices, normal};
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

/// A function of an input, indices and a source.
type Placed = fn(&Tensor, &Tensor, &Tensor) -> Result<Tensor>;

pub(super) fn samples(samples: &mut Samples) {
    samples.no_batch("index_put", "the index says the first place");
    samples.no_batch("nonzero", "as many results as are found");
    // With repeats: the last one is kept, and only it has a gradient.
    let slices: [(_, Placed); _] = [
        ("index_select", |x, index, _| f::index_select(x, 1, index)),
        ("index_add", |x, index, s| f::index_add(x, 1, index, s, 0.7)),
        ("index_copy", |x, index, s| f::index_copy(x, 1, index, s)),
        ("index_fill", |x, index, _| f::index_fill(x, 1, index, 0.3)),
    ];
    for (name, function) in slices {
        let source = normal(&[2, 9, 3]).squared();
        samples
            .add(name, move |x| function(&x[0], &x[1], &x[2]))
            .batch([each(&[5, 30, 7]), indices(&[200], 30), each(&[5, 200, 7])])
            .twice([normal(&[2, 4, 3]).squared(), indices(&[9], 4), source]);
    }
    let elements: [(_, Placed); _] = [
        ("gather", |x, index, _| f::gather(x, 1, index)),
        ("scatter", |x, index, s| f::scatter(x, 1, index, s)),
        ("scatter_value", |x, index, _| f::scatter_value(x, 1, index, 0.2)),
    ];
    for (name, function) in elements {
        let (x, source) = (normal(&[2, 4, 3]).squared(), normal(&[2, 8, 3]).squared());
        samples
            .add(name, move |x| function(&x[0], &x[1], &x[2]))
            .batch([each(&[5, 30, 7]), indices(&[5, 200, 7], 30).along(0), each(&[5, 200, 7])])
            .twice([x.clone(), indices(&[2, 7, 3], 4), source.clone()])
            // An index that covers a part of the tensor.
            .twice([x, indices(&[1, 7, 2], 4), source]);
    }
    samples
        .add("repeat_interleave", |x| f::repeat_interleave(&x[0], &x[1], Some(1)))
        .batch([each(&[5, 30, 7]), indices(&[30], 5)])
        .twice([normal(&[2, 3]).squared(), given(Value::from_slice(&[2i64, 0, 3], &[3]))]);
    samples
        .add("repeat_interleave a number", |x| f::repeat_interleave_n(&x[0], 3, None))
        .twice([normal(&[2, 3]).squared()]);
    samples
        .add("index", |x| f::index(&x[0], &x[1..]))
        .batch([normal(&[30, 7]), indices(&[9], 30).along(0)])
        .twice([normal(&[3, 2, 2]).squared(), indices(&[5, 1], 3), indices(&[4], 2)]);
    // `x[:, i, j]`, with adjacent indices, and `x[:, i, :, j]`, with separated ones.
    let inner = |x: &[Tensor]| f::index(&x[0], &[None, Some(&x[1]), Some(&x[2])]);
    let apart = |x: &[Tensor]| f::index(&x[0], &[None, Some(&x[1]), None, Some(&x[2])]);
    samples
        .add("index inner", inner)
        .batch([each(&[5, 30, 7, 2]), indices(&[40, 1], 30), indices(&[3], 7)])
        .twice([normal(&[2, 3, 2, 2]).squared(), indices(&[5, 1], 3), indices(&[4], 2)]);
    samples.add("index apart", apart).twice([
        normal(&[2, 3, 2, 2]).squared(),
        indices(&[5, 1], 3),
        indices(&[4], 2),
    ]);
    for accumulate in [false, true] {
        let (rows, columns) = (indices(&[5, 1], 3), indices(&[4], 2));
        let x = || normal(&[3, 2, 2]).squared();
        samples
            .add(format!("index_put {accumulate}"), move |x| {
                f::index_put(&x[0], &x[2..], &x[1], accumulate)
            })
            .twice([x(), normal(&[5, 4, 2]).squared(), rows.clone(), columns.clone()])
            // With broadcasting.
            .twice([x(), normal(&[4, 1]).squared(), rows.clone(), columns.clone()]);
        let x = || normal(&[2, 3, 2, 2]).squared();
        samples
            .add(format!("index_put inner {accumulate}"), move |x| {
                f::index_put(&x[0], &[None, Some(&x[2]), Some(&x[3])], &x[1], accumulate)
            })
            .twice([x(), normal(&[2, 5, 4, 2]).squared(), rows.clone(), columns.clone()])
            .twice([x(), normal(&[4, 1]).squared(), rows.clone(), columns.clone()]);
        samples
            .add(format!("index_put apart {accumulate}"), move |x| {
                f::index_put(&x[0], &[None, Some(&x[2]), None, Some(&x[3])], &x[1], accumulate)
            })
            .twice([x(), normal(&[5, 4, 2, 2]).squared(), rows.clone(), columns.clone()])
            .twice([x(), normal(&[2, 1]).squared(), rows, columns]);
        samples
            .add(format!("put {accumulate}"), move |x| f::put(&x[0], &x[2], &x[1], accumulate))
            .twice([normal(&[3, 4]).squared(), normal(&[9]).squared(), indices(&[3, 3], 12)]);
    }
    samples
        .add("take", |x| f::take(&x[0], &x[1]))
        .twice([normal(&[3, 4]).squared(), given(Value::from_slice(&[3i64, -1, 0, -12, 3], &[5]))]);
    let mask = || given(Value::from_bools(&[true, false, false, true, true], &[5]));
    samples
        .add("masked_fill", |x| f::masked_fill(&x[0], &x[1], 2.0))
        .twice([normal(&[3, 5]).squared(), mask()]);
    samples
        .add("masked_select", |x| f::masked_select(&x[0], &x[1]))
        .twice([normal(&[3, 1]).squared(), mask()]);
    samples.add("masked_scatter", |x| f::masked_scatter(&x[0], &x[1], &x[2])).twice([
        normal(&[3, 5]).squared(),
        mask(),
        normal(&[10]).squared(),
    ]);
}
