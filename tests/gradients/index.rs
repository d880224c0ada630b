use samebits::Generator;
use samebits::Tensor;
use samebits::functional as f;

use super::indices;

use super::check_twice;

#[test]
fn indexing_and_dropout() {
    let index = indices(9, 4, 5);
    check_twice("index_select", &[&[2, 4, 3]], &|x| f::index_select(&x[0].square()?, 1, &index));
    check_twice("index_add", &[&[2, 4, 3], &[2, 9, 3]], &|x| {
        f::index_add(&x[0].square()?, 1, &index, &x[1].square()?, 0.5)
    });
    check_twice("embedding", &[&[4, 3]], &|x| {
        f::embedding(&x[0].square()?, &index.reshape([3, 3])?)
    });
    check_twice("dropout", &[&[40]], &|x| f::dropout(&x[0].square()?, 0.4, &mut Generator::new(6)));
}

/// Indices of a shape below `bound`, with repeats.
fn of_shape(shape: &[usize], bound: i64, seed: u64) -> Tensor {
    indices(shape.iter().product(), bound, seed).reshape(shape).unwrap()
}

#[test]
fn reads_and_assignments_by_element() {
    let index = of_shape(&[2, 7, 3], 4, 11);
    check_twice("gather", &[&[2, 4, 3]], &|x| f::gather(&x[0].square()?, 1, &index));
    let part = of_shape(&[1, 7, 2], 4, 12);
    check_twice("gather, in part", &[&[2, 4, 3]], &|x| f::gather(&x[0].square()?, 1, &part));
    check_twice("scatter", &[&[2, 4, 3], &[2, 7, 3]], &|x| {
        f::scatter(&x[0].square()?, 1, &index, &x[1].square()?)
    });
    check_twice("scatter, in part", &[&[2, 4, 3], &[2, 8, 3]], &|x| {
        f::scatter(&x[0].square()?, 1, &part, &x[1].square()?)
    });
    check_twice("scatter a value", &[&[2, 4, 3]], &|x| {
        f::scatter_value(&x[0].square()?, 1, &part, 0.5)
    });
}

#[test]
fn assignments_by_slice() {
    // With repeats: the last one wins, and it alone has a gradient.
    let index = indices(6, 4, 13);
    check_twice("index_copy", &[&[2, 4, 3], &[2, 6, 3]], &|x| {
        f::index_copy(&x[0].square()?, 1, &index, &x[1].square()?)
    });
    check_twice("index_fill", &[&[2, 4, 3]], &|x| f::index_fill(&x[0].square()?, 1, &index, 2.0));
}

#[test]
fn several_indices() {
    let rows = of_shape(&[5, 1], 3, 14);
    let columns = of_shape(&[4], 2, 15);
    let both = [rows, columns];
    check_twice("index", &[&[3, 2, 2]], &|x| f::index(&x[0].square()?, &both));
    for accumulate in [false, true] {
        check_twice("index_put", &[&[3, 2, 2], &[5, 4, 2]], &|x| {
            f::index_put(&x[0].square()?, &both, &x[1].square()?, accumulate)
        });
        check_twice("index_put, broadcast", &[&[3, 2, 2], &[4, 1]], &|x| {
            f::index_put(&x[0].square()?, &both, &x[1].square()?, accumulate)
        });
        let flat = of_shape(&[3, 3], 12, 16);
        check_twice("put", &[&[3, 4], &[9]], &|x| {
            f::put(&x[0].square()?, &flat, &x[1].square()?, accumulate)
        });
    }
    let flat = Tensor::from_slice(&[3i64, -1, 0, -12, 3], &[5]).unwrap();
    check_twice("take", &[&[3, 4]], &|x| f::take(&x[0].square()?, &flat));
}

#[test]
fn masks_and_repeats() {
    let mask = Tensor::from_bools(&[true, false, false, true, true], &[5]).unwrap();
    check_twice("masked_fill", &[&[3, 5]], &|x| f::masked_fill(&x[0].square()?, &mask, 2.0));
    check_twice("masked_select", &[&[3, 1]], &|x| f::masked_select(&x[0].square()?, &mask));
    check_twice("masked_scatter", &[&[3, 5], &[10]], &|x| {
        f::masked_scatter(&x[0].square()?, &mask, &x[1].square()?)
    });
    let repeats = Tensor::from_slice(&[2i64, 0, 3], &[3]).unwrap();
    check_twice("repeat_interleave", &[&[2, 3]], &|x| {
        f::repeat_interleave(&x[0].square()?, &repeats, Some(1))
    });
    check_twice("repeat_interleave a number", &[&[2, 3]], &|x| {
        f::repeat_interleave_n(&x[0].square()?, 3, None)
    });
}
