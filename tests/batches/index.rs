use samebits::functional as f;
use samebits::{Result, Tensor};
use workspace_tests::indices;

use super::{Batches, Make};

/// A function of an input, indices and a source.
type Placed = fn(&Tensor, &Tensor, &Tensor) -> Result<Tensor>;

pub(super) fn add(batches: &mut Batches, make: Make) {
    let x = || make.each(&[5, 30, 7], 40);
    let index = Tensor::from(indices(200, 30, 41));
    let slices: [(_, Placed); _] = [
        ("index_select", |x, index, _| f::index_select(x, 1, index)),
        ("index_add", |x, index, s| f::index_add(x, 1, index, s, 0.7)),
        ("index_copy", |x, index, s| f::index_copy(x, 1, index, s)),
        ("index_fill", |x, index, _| f::index_fill(x, 1, index, 0.3)),
    ];
    for (name, function) in slices {
        let index = index.clone();
        batches.add(make.name(name), [x(), make.each(&[5, 200, 7], 42)], move |x| {
            Ok(vec![function(&x[0], &index, &x[1])?])
        });
    }
    let elements: [(_, Placed); _] = [
        ("gather", |x, index, _| f::gather(x, 1, index)),
        ("scatter", |x, index, s| f::scatter(x, 1, index, s)),
        ("scatter_value", |x, index, _| f::scatter_value(x, 1, index, 0.2)),
    ];
    for (name, function) in elements {
        let inputs = [x(), make.indices(&[5, 200, 7], 30, 43), make.each(&[5, 200, 7], 44)];
        batches.add(make.name(name), inputs, move |x| Ok(vec![function(&x[0], &x[1], &x[2])?]));
    }
    let repeats = Tensor::from(indices(30, 5, 45));
    batches.one(make.name("repeat_interleave"), x(), move |x| {
        f::repeat_interleave(x, &repeats, Some(1))
    });
    // One index for each element of the first dimension.
    let inputs = [make.indices(&[9], 30, 46), make.shared(&[30, 7], 47)];
    batches.add(make.name("index"), inputs, |x| {
        Ok(vec![f::index(&x[1], std::slice::from_ref(&x[0]))?])
    });
}
