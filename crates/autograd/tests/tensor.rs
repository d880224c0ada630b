//! Tensor functions that users of PyTorch look for, against written figures.

use samebits_autograd::functional::{Ellipsis, NewAxis};
use samebits_autograd::nn::{
    CircularPad2d, ConstantPad2d, Layer, ReflectionPad2d, ReplicationPad2d, ZeroPad2d,
};
use samebits_autograd::sparse::SparseCoo;
use samebits_autograd::{DType, Error, Result, Tensor, functional as f};
use samebits_tensor_core::ops::PadMode;

#[track_caller]
fn assert_f32(x: Result<Tensor>, shape: &[usize], expected: &[f32]) {
    let x = x.unwrap();
    assert_eq!((x.shape(), x.to_vec::<f32>().unwrap()), (shape, expected.to_vec()));
}

#[track_caller]
fn assert_bools(x: Result<Tensor>, expected: &[bool]) {
    let x = x.unwrap();
    assert!(!x.requires_grad());
    assert_eq!(x.to_bools().unwrap(), expected);
}

#[track_caller]
fn message(x: Result<Tensor>) -> String {
    let error = x.unwrap_err();
    assert!(matches!(error, Error::InvalidArgument { .. }), "{error}");
    error.to_string()
}

/// Returns the gradient of the sum of `y · weights` with respect to `x`.
#[track_caller]
fn gradient(x: &Tensor, y: &Tensor, weights: &[f32]) -> Vec<f32> {
    let weights = Tensor::from_slice(weights, y.shape()).unwrap();
    let gradients = y.backward_from(weights, false).unwrap();
    gradients.of(x).unwrap().to_vec::<f32>().unwrap()
}

fn leaf(values: &[f32], shape: &[usize]) -> Tensor {
    Tensor::from_slice(values, shape).unwrap().set_requires_grad(true).unwrap()
}

#[test]
fn comparisons_take_tensors_and_numbers() {
    let x = leaf(&[1.0, 2.0, f32::NAN, -0.0], &[4]);
    assert_bools(x.eq(2.0), &[false, true, false, false]);
    assert_bools(x.ne(2), &[true, false, true, true]);
    assert_bools(x.lt(2.0f32), &[true, false, false, true]);
    assert_bools(x.le(2i64), &[true, true, false, true]);
    assert_bools(x.gt(1), &[false, true, false, false]);
    assert_bools(x.ge(1u8), &[true, true, false, false]);
    assert_bools(x.eq(false), &[false, false, false, true]);
    // A number is first rounded to the tensor's type, as in PyTorch.
    assert_bools(Tensor::new([0.1f32]).unwrap().eq(0.1), &[true]);
    let (row, column) = (Tensor::new([1, 2]).unwrap(), Tensor::new([[1], [2]]).unwrap());
    let table = row.lt(&column).unwrap();
    assert_eq!(table.shape(), [2, 2]);
    assert_bools(Ok(table), &[false, false, true, false]);
    assert_bools(Tensor::new([i64::MIN, i64::MAX]).unwrap().le(i64::MAX - 1), &[true, false]);
    assert_bools(Tensor::new([true, false]).unwrap().eq(1), &[true, false]);
    assert_bools(Tensor::zeros(&[0, 3], DType::F32).unwrap().eq(0), &[]);
    assert_bools(Tensor::scalar(1.0f32).ge(1), &[true]);
}

#[test]
fn comparisons_refuse_numbers_that_the_type_does_not_hold() {
    let whole = Tensor::new([1, 2]).unwrap();
    assert_eq!(message(whole.lt(1.5)), "lt: 1.5 cannot be combined with a tensor of type i64");
    assert_eq!(message(whole.eq(f64::NAN)), "eq: NaN cannot be combined with a tensor of type i64");
    let bytes = Tensor::new([1u8, 2]).unwrap();
    assert_eq!(message(bytes.ge(256)), "ge: 256 cannot be combined with a tensor of type u8");
    assert_eq!(message(bytes.ne(-1)), "ne: -1 cannot be combined with a tensor of type u8");
    assert_eq!(
        message(bytes.gt(i64::MIN)),
        format!("gt: {} cannot be combined with a tensor of type u8", i64::MIN)
    );
    let truths = Tensor::new([true]).unwrap();
    assert_eq!(message(truths.eq(2)), "eq: 2 cannot be combined with a tensor of type bool");
    assert!(matches!(whole.eq(&bytes), Err(Error::DTypeMismatch { .. })));
    let three = Tensor::arange(3).unwrap();
    assert!(matches!(whole.eq(&three), Err(Error::Broadcast { .. })));
}

#[test]
fn logic_is_of_any_type() {
    let x = Tensor::new([0.0f32, -0.0, f32::NAN, 0.5]).unwrap();
    assert_bools(x.logical_not(), &[true, true, false, false]);
    let (a, b) = (Tensor::new([[true], [false]]).unwrap(), Tensor::new([3, 0]).unwrap());
    let and = a.logical_and(&b).unwrap();
    assert_eq!(and.shape(), [2, 2]);
    assert_bools(Ok(and), &[true, false, false, false]);
    assert_bools(a.logical_or(&b), &[true, true, true, false]);
    assert_bools(Tensor::zeros(&[0], DType::U8).unwrap().logical_not(), &[]);
    let three = Tensor::arange(3).unwrap();
    assert!(matches!(b.logical_and(&three), Err(Error::Broadcast { .. })));
    assert!(matches!(b.logical_or(&three), Err(Error::Broadcast { .. })));
}

#[test]
fn casts_pass_gradients_between_floats_alone() {
    let x = leaf(&[1.5, -2.5], &[2]);
    let wide = x.to_dtype(DType::F64).unwrap();
    assert_eq!(wide.to_vec::<f64>().unwrap(), [1.5, -2.5]);
    let y = wide.square().unwrap().sum(()).unwrap();
    let gradients = y.backward().unwrap();
    let grad = gradients.of(&x).unwrap();
    assert_eq!((grad.dtype(), grad.to_vec::<f32>().unwrap()), (DType::F32, vec![3.0, -5.0]));
    assert_eq!(gradient(&x, &x.to_dtype(DType::F32).unwrap(), &[2.0, 3.0]), [2.0, 3.0]);
    // A conversion to integers on the way to the result has no gradient; the error says so.
    let steps = x.to_dtype(DType::I64).unwrap().to_dtype(DType::F32).unwrap();
    assert_eq!(steps.to_vec::<f32>().unwrap(), [1.0, -2.0]);
    let error = steps.sum(()).unwrap().backward().unwrap_err().to_string();
    assert_eq!(error, "to_dtype: this result has no gradient");
    let hostile = Tensor::new([f64::NAN, f64::INFINITY, -1e300, 1e300]).unwrap();
    assert_eq!(
        hostile.to_dtype(DType::I64).unwrap().to_vec::<i64>().unwrap(),
        [0, i64::MAX, i64::MIN, i64::MAX]
    );
    assert_eq!(Tensor::scalar(3u8).to_dtype(DType::F64).unwrap().item::<f64>().unwrap(), 3.0);
}

#[test]
fn one_bound_clamps() {
    let x = leaf(&[-1.0, 0.5, 2.0, f32::NAN], &[4]);
    let low = x.clamp_min(0.5).unwrap();
    assert_eq!(low.to_vec::<f32>().unwrap()[..3], [0.5, 0.5, 2.0]);
    assert!(low.to_vec::<f32>().unwrap()[3].is_nan());
    let grad = gradient(&x, &low, &[1.0, 2.0, 3.0, 4.0]);
    assert!(grad[..3] == [0.0, 0.0, 3.0] && grad[3].is_nan(), "{grad:?}");
    let high = x.clamp_max(0.5).unwrap();
    assert_eq!(high.to_vec::<f32>().unwrap()[..3], [-1.0, 0.5, 0.5]);
    let grad = gradient(&x, &high, &[1.0, 2.0, 3.0, 4.0]);
    assert!(grad[..3] == [1.0, 0.0, 0.0] && grad[3].is_nan(), "{grad:?}");
    let whole = Tensor::arange(4).unwrap();
    let clamped = whole.clamp(Some(1.0), Some(2.0)).unwrap();
    assert_eq!(clamped.to_vec::<i64>().unwrap(), [1, 1, 2, 2]);
    assert_eq!(
        message(whole.clamp_min(0.5)),
        "clamp_min: 0.5 cannot be combined with a tensor of type i64"
    );
}

#[test]
fn where_keeps_the_tensor_under_the_condition() {
    let (x, y) = (leaf(&[1.0, 2.0], &[2]), leaf(&[5.0, 6.0], &[2]));
    let condition = x.gt(1.0).unwrap();
    let z = x.where_(&condition, &y).unwrap();
    assert_f32(Ok(z.clone()), &[2], &[5.0, 2.0]);
    assert_eq!(gradient(&x, &z, &[3.0, 4.0]), [0.0, 4.0]);
    assert_eq!(gradient(&y, &z, &[3.0, 4.0]), [3.0, 0.0]);
    assert_f32(x.where_(&condition, -1), &[2], &[-1.0, 2.0]);
    let whole = Tensor::arange(2).unwrap();
    assert_eq!(
        message(whole.where_(&condition, 0.5)),
        "where_: 0.5 cannot be combined with a tensor of type i64"
    );
    assert!(x.where_(&x, 0.0).is_err());
    assert!(f::where_(&condition, &x, &whole).is_err());
}

/// Returns `[[[0, 1, 2, 3], [4, ..], ..], ..]` of shape `[2, 3, 4]`.
fn block() -> Tensor {
    let numbers: Vec<f32> = (0..24).map(|i| i as f32).collect();
    leaf(&numbers, &[2, 3, 4])
}

#[test]
#[expect(clippy::reversed_empty_ranges, reason = "what a range says backwards is empty")]
fn indices_are_integers_ranges_and_markers() {
    let x = block();
    assert_f32(x.i((1, 2, 3)), &[], &[23.0]);
    assert_f32(x.i((-2, -1)), &[4], &[8.0, 9.0, 10.0, 11.0]);
    assert_f32(x.i((.., 1..3, -1)), &[2, 2], &[7.0, 11.0, 19.0, 23.0]);
    assert_f32(x.i((0usize, 1..2usize, 2i64..)), &[1, 2], &[6.0, 7.0]);
    assert_f32(x.i((1, -1, ..-2)), &[2], &[20.0, 21.0]);
    assert_f32(x.i((1, -1, ..=1)), &[2], &[20.0, 21.0]);
    assert_f32(x.i((1, -1, -2..=-1)), &[2], &[22.0, 23.0]);
    assert_f32(x.i((1, -1, ..=-2)), &[3], &[20.0, 21.0, 22.0]);
    assert_f32(x.i((Ellipsis, 0)), &[2, 3], &[0.0, 4.0, 8.0, 12.0, 16.0, 20.0]);
    assert_f32(x.i((1, Ellipsis, -1)), &[3], &[15.0, 19.0, 23.0]);
    assert_f32(x.i((0, 0, 0, Ellipsis)), &[], &[0.0]);
    assert_eq!(x.i(..).unwrap().shape(), [2, 3, 4]);
    assert_eq!(x.i(NewAxis).unwrap().shape(), [1, 2, 3, 4]);
    assert_eq!(x.i((.., NewAxis, 0, NewAxis)).unwrap().shape(), [2, 1, 1, 4]);
    assert_eq!(x.i((Ellipsis, NewAxis)).unwrap().shape(), [2, 3, 4, 1]);
    assert_eq!(x.i((NewAxis, 0, .., NewAxis, 0, NewAxis)).unwrap().shape(), [1, 3, 1, 1]);
    // A range stops at the end, and a range that ends before it starts is empty.
    assert_eq!(x.i((.., 2..100)).unwrap().shape(), [2, 1, 4]);
    assert_eq!(x.i((.., -100..2)).unwrap().shape(), [2, 2, 4]);
    assert_eq!(x.i((.., i64::MIN..i64::MAX)).unwrap().shape(), [2, 3, 4]);
    assert_eq!(x.i((.., i64::MIN..=i64::MAX)).unwrap().shape(), [2, 3, 4]);
    assert_eq!(x.i((.., ..=usize::MAX)).unwrap().shape(), [2, 3, 4]);
    assert_eq!(x.i((.., 2..1)).unwrap().shape(), [2, 0, 4]);
    assert_eq!(x.i((.., 7..)).unwrap().shape(), [2, 0, 4]);
    assert_eq!(Tensor::zeros(&[0, 2], DType::I64).unwrap().i(1..).unwrap().shape(), [0, 2]);
    assert_eq!(Tensor::scalar(1i64).i(Ellipsis).unwrap().shape(), [0; 0]);
    assert_eq!(Tensor::scalar(1i64).i(NewAxis).unwrap().shape(), [1]);
}

/// The figures are those of PyTorch 2.15.
#[test]
fn indices_are_tensors_and_masks() {
    #[track_caller]
    fn assert_is(found: Result<Tensor>, shape: &[usize], numbers: &[i32]) {
        let numbers: Vec<f32> = numbers.iter().map(|&number| number as f32).collect();
        assert_f32(found, shape, &numbers);
    }
    let x = block();
    let i = &Tensor::new([2, 0]).unwrap();
    let k = &Tensor::new([0, 0]).unwrap();
    let j = &Tensor::new([[1], [-1]]).unwrap();
    let m = &Tensor::new([true, false, false, true]).unwrap();
    let wide = &Tensor::new([[true, false, true], [false, true, false]]).unwrap();
    assert_is(x.i((.., i, m)), &[2, 2], &[8, 3, 20, 15]);
    assert_is(x.i((Ellipsis, m)), &[2, 3, 2], &[0, 3, 4, 7, 8, 11, 12, 15, 16, 19, 20, 23]);
    assert_is(x.i(wide), &[3, 4], &[0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19]);
    assert_is(x.i((wide, &Tensor::new([0, 1, 2]).unwrap())), &[3], &[0, 9, 18]);
    assert_is(x.i((k, .., j)), &[2, 2, 3], &[1, 5, 9, 1, 5, 9, 3, 7, 11, 3, 7, 11]);
    // An integer is taken first, and is no tensor of indices.
    assert_is(x.i((1, .., i)), &[3, 2], &[14, 12, 18, 16, 22, 20]);
    assert_is(x.i((k, NewAxis, i)), &[2, 1, 4], &[8, 9, 10, 11, 0, 1, 2, 3]);
    assert_is(x.i((0, i)), &[2, 4], &[8, 9, 10, 11, 0, 1, 2, 3]);
    assert_is(x.i((.., 1.., i)), &[2, 2, 2], &[6, 4, 10, 8, 18, 16, 22, 20]);
    assert_is(x.i((k, Ellipsis, i)), &[2, 3], &[2, 6, 10, 0, 4, 8]);
    let one = Tensor::scalar(1i64);
    assert_is(x.i((.., one)), &[2, 4], &[4, 5, 6, 7, 16, 17, 18, 19]);
    assert_eq!(x.i(Tensor::zeros(&[0], DType::I64).unwrap()).unwrap().shape(), [0, 3, 4]);
    assert_eq!(x.i(Tensor::zeros(&[2, 3], DType::Bool).unwrap()).unwrap().shape(), [0, 4]);
    let number = leaf(&[3.0], &[]);
    assert_is(number.i(Tensor::new(true).unwrap()), &[1], &[3]);
    assert_eq!(number.i((Ellipsis, &Tensor::new(false).unwrap())).unwrap().shape(), [0]);

    assert_eq!(message(x.i((.., m))), "i: a mask of shape [4] for dimensions of [3]");
    assert_eq!(message(x.i((wide, wide))), "i: 4 indices for a tensor of rank 3");
    let error = x.i(i).unwrap_err().to_string();
    assert_eq!(error, "i: index 2 at position 0 is out of range for size 2");
    let error = x.i(leaf(&[1.0], &[1])).unwrap_err().to_string();
    assert_eq!(error, "i: expected every index of type i64, got f32");
    // Two of the elements are the same.
    let y = x.i((k, .., j)).unwrap();
    let gradient =
        y.sum_all().unwrap().backward().unwrap().of(&x).unwrap().to_vec::<f32>().unwrap();
    assert_eq!(gradient[..12], [0.0, 2.0, 0.0, 2.0, 0.0, 2.0, 0.0, 2.0, 0.0, 2.0, 0.0, 2.0]);
}

#[test]
fn indices_pass_gradients() {
    let x = leaf(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], &[2, 3]);
    let y = x.i((-1, 1..)).unwrap();
    assert_eq!(gradient(&x, &y, &[7.0, 8.0]), [0.0, 0.0, 0.0, 0.0, 7.0, 8.0]);
    let y = x.i((.., NewAxis, 0)).unwrap();
    assert_eq!(gradient(&x, &y, &[7.0, 8.0]), [7.0, 0.0, 0.0, 8.0, 0.0, 0.0]);
    let y = x.select(-1, -2).unwrap();
    assert_f32(Ok(y.clone()), &[2], &[2.0, 5.0]);
    assert_eq!(gradient(&x, &y, &[7.0, 8.0]), [0.0, 7.0, 0.0, 0.0, 8.0, 0.0]);
}

#[test]
fn indices_out_of_range_are_errors() {
    let x = block();
    assert_eq!(message(x.i(2)), "i: index 2 into dimension 0, which has size 2");
    assert_eq!(message(x.i((.., -4))), "i: index -4 into dimension 1, which has size 3");
    assert_eq!(
        message(x.i((0, i64::MIN))),
        format!("i: index {} into dimension 1, which has size 3", i64::MIN)
    );
    assert_eq!(
        message(x.i(usize::MAX)),
        format!("i: index {} into dimension 0, which has size 2", usize::MAX)
    );
    assert_eq!(message(x.i((0, 0, 0, 0))), "i: 4 indices for a tensor of rank 3");
    assert_eq!(message(Tensor::scalar(1i64).i(..)), "i: 1 indices for a tensor of rank 0");
    assert_eq!(message(x.i((Ellipsis, Ellipsis))), "i: expected at most one ellipsis, got 2");
    let empty = Tensor::zeros(&[0], DType::F32).unwrap();
    assert_eq!(message(empty.i(0)), "i: index 0 into dimension 0, which has size 0");
    assert_eq!(message(x.select(1, 3)), "select: index 3 into dimension 1, which has size 3");
    assert!(message(x.select(2, i64::MIN)).starts_with("select: index -9223372036854775808 into"));
    assert!(message(x.select(3, 0)).starts_with("select: "));
    assert!(message(x.select(-4, 0)).starts_with("select: "));
    assert!(message(Tensor::scalar(1i64).select(0, 0)).starts_with("select: "));
}

#[test]
fn chunks_are_of_one_size_but_for_the_last() {
    let sizes = |n: usize, chunks: usize| -> Vec<usize> {
        let parts = Tensor::arange(n).unwrap().chunk(chunks, -1).unwrap();
        parts.iter().map(Tensor::numel).collect()
    };
    assert_eq!(sizes(7, 3), [3, 3, 1]);
    // Four parts of two suffice.
    assert_eq!(sizes(8, 5), [2, 2, 2, 2]);
    assert_eq!(sizes(2, 5), [1, 1]);
    assert_eq!(sizes(2, usize::MAX), [1, 1]);
    assert_eq!(sizes(0, 3), [0, 0, 0]);
    let x = leaf(&[1.0, 2.0, 3.0], &[3]);
    let parts = x.chunk(2, 0).unwrap();
    assert_f32(Ok(parts[1].clone()), &[1], &[3.0]);
    assert_eq!(gradient(&x, &parts[1], &[5.0]), [0.0, 0.0, 5.0]);
    assert_eq!(x.chunk(0, 0).unwrap_err().to_string(), "chunk: expected at least one chunk, got 0");
    assert!(x.chunk(2, 1).is_err() && x.chunk(2, -2).is_err());
    assert!(Tensor::scalar(1.0f32).chunk(1, 0).is_err());
    let none = Tensor::zeros(&[0], DType::F32).unwrap();
    assert!(matches!(none.chunk(usize::MAX, 0), Err(Error::OutOfMemory { op: "chunk", .. })));
}

#[test]
fn triangles_keep_one_side_of_a_diagonal() {
    let x = leaf(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], &[2, 3]);
    assert_f32(x.tril(0), &[2, 3], &[1.0, 0.0, 0.0, 4.0, 5.0, 0.0]);
    assert_f32(x.tril(1), &[2, 3], &[1.0, 2.0, 0.0, 4.0, 5.0, 6.0]);
    assert_f32(x.tril(-1), &[2, 3], &[0.0, 0.0, 0.0, 4.0, 0.0, 0.0]);
    assert_f32(x.triu(0), &[2, 3], &[1.0, 2.0, 3.0, 0.0, 5.0, 6.0]);
    assert_f32(x.triu(1), &[2, 3], &[0.0, 2.0, 3.0, 0.0, 0.0, 6.0]);
    assert_f32(x.triu(-1), &[2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    for (diagonal, lower) in [(i64::MAX, true), (i64::MIN, false)] {
        let [all, none] = [vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0], vec![0.0; 6]];
        let (low, high) = if lower { (&all, &none) } else { (&none, &all) };
        assert_f32(x.tril(diagonal), &[2, 3], low);
        assert_f32(x.triu(diagonal), &[2, 3], high);
    }
    let weights = [7.0, 8.0, 9.0, 10.0, 11.0, 12.0];
    let lower = x.tril(0).unwrap();
    assert_eq!(gradient(&x, &lower, &weights), [7.0, 0.0, 0.0, 10.0, 11.0, 0.0]);
    let upper = x.triu(1).unwrap();
    assert_eq!(gradient(&x, &upper, &weights), [0.0, 8.0, 9.0, 0.0, 0.0, 12.0]);
    let truths = Tensor::ones(&[2, 2, 2], DType::Bool).unwrap();
    assert_bools(truths.tril(0), &[true, false, true, true, true, false, true, true]);
    assert_eq!(Tensor::zeros(&[3, 0], DType::F32).unwrap().tril(0).unwrap().shape(), [3, 0]);
    assert_eq!(Tensor::zeros(&[0, 3], DType::F32).unwrap().triu(0).unwrap().shape(), [0, 3]);
    let line = Tensor::arange(3).unwrap();
    assert_eq!(message(line.tril(0)), "tril: expected matrices, got shape [3]");
    assert_eq!(message(Tensor::scalar(1.0f32).triu(0)), "triu: expected matrices, got shape []");
}

#[test]
fn flips_reverse_dimensions() {
    let x = leaf(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], &[2, 3]);
    assert_f32(x.flip(0), &[2, 3], &[4.0, 5.0, 6.0, 1.0, 2.0, 3.0]);
    assert_f32(x.flip([-1]), &[2, 3], &[3.0, 2.0, 1.0, 6.0, 5.0, 4.0]);
    assert_f32(x.flip(()), &[2, 3], &[6.0, 5.0, 4.0, 3.0, 2.0, 1.0]);
    // Neighbours are reversed as one.
    for shape in [&[2, 3, 1, 4][..], &[3, 1, 2, 33], &[1, 2, 1, 35], &[2, 3, 4, 1]] {
        let x = Tensor::arange(shape.iter().product()).unwrap().reshape(shape).unwrap();
        for chosen in 0..1 << shape.len() {
            let dims: Vec<usize> = (0..shape.len()).filter(|dim| chosen >> dim & 1 == 1).collect();
            let one_by_one = dims.iter().fold(x.clone(), |x, &dim| x.flip(dim as i64).unwrap());
            let [found, expected] =
                [x.flip(&dims[..]).unwrap(), one_by_one].map(|x| x.to_vec::<i64>().unwrap());
            assert_eq!(found, expected, "{shape:?} {dims:?}");
        }
    }
    let y = x.flip(-1).unwrap();
    // Zeros keep their sign.
    let grad = gradient(&x, &y, &[7.0, 8.0, -0.0, 10.0, 11.0, 12.0]);
    assert_eq!(grad, [0.0, 8.0, 7.0, 12.0, 11.0, 10.0]);
    assert!(grad[0].is_sign_negative());
    assert_eq!(Tensor::zeros(&[0, 2], DType::U8).unwrap().flip(0).unwrap().shape(), [0, 2]);
    assert_eq!(Tensor::scalar(2.0f32).flip(()).unwrap().item::<f32>().unwrap(), 2.0);
    assert_eq!(message(x.flip([1, -1])), "flip: dimension 1 is listed twice in [1, 1]");
    assert!(message(x.flip(2)).starts_with("flip: "));
    assert!(message(x.flip(i64::MIN)).starts_with("flip: "));
}

#[test]
fn rolls_shift_around_the_end() {
    let x = leaf(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], &[2, 3]);
    assert_f32(x.roll(&[1], -1), &[2, 3], &[3.0, 1.0, 2.0, 6.0, 4.0, 5.0]);
    assert_f32(x.roll(&[-1], 1), &[2, 3], &[2.0, 3.0, 1.0, 5.0, 6.0, 4.0]);
    assert_f32(x.roll(&[1, 2], [0, 1]), &[2, 3], &[5.0, 6.0, 4.0, 2.0, 3.0, 1.0]);
    assert_f32(x.roll(&[3, 1], [1, 1]), &[2, 3], &[3.0, 1.0, 2.0, 6.0, 4.0, 5.0]);
    // -2^63 is 1 modulo 3.
    assert_f32(x.roll(&[i64::MIN], 1), &[2, 3], &[3.0, 1.0, 2.0, 6.0, 4.0, 5.0]);
    let y = x.roll(&[1], 1).unwrap();
    let grad = gradient(&x, &y, &[7.0, 8.0, -0.0, 10.0, 11.0, 12.0]);
    assert_eq!(grad, [8.0, 0.0, 7.0, 11.0, 12.0, 10.0]);
    assert!(grad[1].is_sign_negative());
    assert_f32(Tensor::zeros(&[0], DType::F32).unwrap().roll(&[5], 0), &[0], &[]);
    assert_eq!(Tensor::scalar(1i64).roll(&[], ()).unwrap().shape(), [0; 0]);
    assert_eq!(message(x.roll(&[1], ())), "roll: expected a shift for each of [0, 1], got [1]");
    assert!(message(x.roll(&[1], 2)).starts_with("roll: "));
    assert!(message(x.roll(&[1], -3)).starts_with("roll: "));
}

#[test]
fn repeats_tile_a_tensor() {
    let x = leaf(&[1.0, 2.0], &[2]);
    assert_f32(x.repeat(&[2]), &[4], &[1.0, 2.0, 1.0, 2.0]);
    assert_f32(x.repeat(&[2, 1]), &[2, 2], &[1.0, 2.0, 1.0, 2.0]);
    let column = leaf(&[1.0, 2.0], &[2, 1]);
    assert_f32(column.repeat(&[2, 2]), &[4, 2], &[1.0, 1.0, 2.0, 2.0, 1.0, 1.0, 2.0, 2.0]);
    let y = x.repeat(&[2]).unwrap();
    assert_eq!(gradient(&x, &y, &[1.0, 2.0, 3.0, 5.0]), [4.0, 7.0]);
    assert_f32(x.repeat(&[0]), &[0], &[]);
    assert_f32(x.repeat(&[3, 0]), &[3, 0], &[]);
    assert_f32(Tensor::scalar(4.0f32).repeat(&[2]), &[2], &[4.0, 4.0]);
    assert_f32(Tensor::scalar(4.0f32).repeat(&[]), &[], &[4.0]);
    assert_eq!(message(column.repeat(&[2])), "repeat: expected at least 2 sizes, got [2]");
    assert!(message(x.repeat(&[usize::MAX])).starts_with("repeat: sizes [18446744073709551615]"));
    assert!(x.repeat(&[1 << 40, 1 << 40, 1]).is_err());
}

#[test]
fn tensors_like_another() {
    let x = leaf(&[1.0, 2.0], &[2, 1]);
    assert_f32(x.zeros_like(), &[2, 1], &[0.0, 0.0]);
    assert_f32(x.ones_like(), &[2, 1], &[1.0, 1.0]);
    assert_f32(x.full_like(-2.5), &[2, 1], &[-2.5, -2.5]);
    assert!(!x.ones_like().unwrap().requires_grad());
    let whole = Tensor::arange(2).unwrap();
    assert_eq!(whole.full_like(7.9).unwrap().to_vec::<i64>().unwrap(), [7, 7]);
    assert_bools(Tensor::from_bools(&[false], &[1]).unwrap().ones_like(), &[true]);
    assert_eq!(Tensor::zeros(&[0, 3], DType::U8).unwrap().ones_like().unwrap().shape(), [0, 3]);
    assert_eq!(Tensor::scalar(1.0f64).zeros_like().unwrap().item::<f64>().unwrap(), 0.0);
}

#[test]
fn random_tensors_like_another_are_drawn_from_the_default_generator() {
    use samebits_tensor_core::ops::{Normal, Uniform};
    use samebits_tensor_core::{Device, dispatch, random};

    for dtype in [DType::F32, DType::F64] {
        let x = Tensor::zeros(&[5, 3], dtype).unwrap();
        let generator = random::manual_seed(3);
        let (shape, device) = (vec![5, 3], Device::Cpu);
        let uniform =
            Uniform { shape, dtype, device, low: 0.0, high: 1.0, generator: generator.clone() };
        let shape = vec![5, 3];
        let normal = Normal { shape, dtype, device, mean: 0.0, std: 1.0, generator };
        let [uniform, normal] = [dispatch(&uniform).unwrap(), dispatch(&normal).unwrap()];
        let bytes = |x: Result<Tensor>| x.unwrap().to_bytes().unwrap();
        assert_eq!(bytes(x.rand_like()), uniform.to_bytes().unwrap());
        // The next draw has other numbers.
        assert_ne!(bytes(x.rand_like()), uniform.to_bytes().unwrap());
        random::manual_seed(3);
        assert_eq!(bytes(x.randn_like()), normal.to_bytes().unwrap());
        assert_ne!(bytes(x.randn_like()), normal.to_bytes().unwrap());
    }
    assert_eq!(Tensor::zeros(&[0], DType::F32).unwrap().rand_like().unwrap().numel(), 0);
    let whole = Tensor::arange(2).unwrap();
    let before = random::get_rng_state().unwrap();
    assert!(matches!(whole.rand_like(), Err(Error::DTypeMismatch { op: "rand_like", .. })));
    assert!(matches!(whole.randn_like(), Err(Error::DTypeMismatch { op: "randn_like", .. })));
    assert_eq!(random::get_rng_state().unwrap(), before);
}

#[test]
fn regular_tensors() {
    let eye = Tensor::eye(3, DType::I64).unwrap();
    assert_eq!(eye.shape(), [3, 3]);
    assert_eq!(eye.to_vec::<i64>().unwrap(), [1, 0, 0, 0, 1, 0, 0, 0, 1]);
    assert_bools(Tensor::eye(2, DType::Bool), &[true, false, false, true]);
    assert_f32(Tensor::eye(0, DType::F32), &[0, 0], &[]);
    assert!(message(Tensor::eye(usize::MAX, DType::F32)).starts_with("eye: "));

    let line = |start, end, steps| Tensor::linspace(start, end, steps, DType::F32);
    assert_f32(line(0.0, 1.0, 5), &[5], &[0.0, 0.25, 0.5, 0.75, 1.0]);
    assert_f32(line(3.0, -3.0, 4), &[4], &[3.0, 1.0, -1.0, -3.0]);
    assert_f32(line(2.0, 5.0, 1), &[1], &[2.0]);
    assert_f32(line(2.0, 5.0, 0), &[0], &[]);
    assert_f32(line(2.0, 2.0, 3), &[3], &[2.0, 2.0, 2.0]);
    // Both ends are exact.
    let tenths = Tensor::linspace(0.1, 0.7, 8, DType::F64).unwrap().to_vec::<f64>().unwrap();
    assert_eq!((tenths[0], tenths[7]), (0.1, 0.7));
    assert!(message(line(0.0, 1.0, usize::MAX)).starts_with("linspace: "));
    let whole = Tensor::linspace(0.0, 1.0, 2, DType::I64);
    assert!(matches!(whole, Err(Error::DTypeMismatch { op: "linspace", .. })));

    let range = |start, end, step| -> Vec<i64> {
        Tensor::arange_step(start, end, step).unwrap().to_vec().unwrap()
    };
    assert_eq!(range(1, 8, 3), [1, 4, 7]);
    assert_eq!(range(1, 7, 3), [1, 4]);
    assert_eq!(range(3, -2, -2), [3, 1, -1]);
    assert_eq!(range(5, 5, -1), [0; 0]);
    assert_eq!(range(i64::MIN, i64::MAX, i64::MAX), [i64::MIN, -1, i64::MAX - 1]);
    assert_eq!(range(i64::MAX, i64::MIN, i64::MIN), [i64::MAX, -1]);
    let steps = |start, end, step| message(Tensor::arange_step(start, end, step));
    assert_eq!(steps(0, 3, 0), "arange_step: step 0 does not lead from 0 towards 3");
    assert_eq!(steps(0, 3, -1), "arange_step: step -1 does not lead from 0 towards 3");
    assert_eq!(steps(3, 0, 1), "arange_step: step 1 does not lead from 3 towards 0");
    assert!(steps(i64::MIN, i64::MAX, 1).starts_with("arange_step: shape"));
}

#[test]
fn classes_become_ones() {
    let classes = Tensor::new([[2, 0], [1, 1]]).unwrap();
    let ones = classes.one_hot(3).unwrap();
    assert_eq!((ones.shape(), ones.dtype()), (&[2, 2, 3][..], DType::I64));
    assert_eq!(ones.to_vec::<i64>().unwrap(), [0, 0, 1, 1, 0, 0, 0, 1, 0, 0, 1, 0]);
    let one = Tensor::scalar(1i64).one_hot(2).unwrap();
    assert_eq!((one.shape(), one.to_vec::<i64>().unwrap()), (&[2][..], vec![0, 1]));
    assert_eq!(Tensor::arange(0).unwrap().one_hot(4).unwrap().shape(), [0, 4]);
    assert!(classes.one_hot(2).is_err() && classes.one_hot(0).is_err());
    assert!(classes.one_hot(usize::MAX).is_err());
    assert!(Tensor::new([-1]).unwrap().one_hot(3).is_err());
    assert!(Tensor::new([i64::MIN]).unwrap().one_hot(3).is_err());
    assert!(Tensor::new([1.0f32]).unwrap().one_hot(3).is_err());
}

#[test]
fn grids_vary_along_one_dimension_each() {
    let (x, y) = (leaf(&[1.0, 2.0], &[2]), leaf(&[3.0, 4.0, 5.0], &[3]));
    let grids = f::meshgrid(&[x.clone(), y.clone()]).unwrap();
    assert_f32(Ok(grids[0].clone()), &[2, 3], &[1.0, 1.0, 1.0, 2.0, 2.0, 2.0]);
    assert_f32(Ok(grids[1].clone()), &[2, 3], &[3.0, 4.0, 5.0, 3.0, 4.0, 5.0]);
    let weights = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
    assert_eq!(gradient(&x, &grids[0], &weights), [6.0, 15.0]);
    assert_eq!(gradient(&y, &grids[1], &weights), [5.0, 7.0, 9.0]);
    let one = f::meshgrid(&[Tensor::scalar(7.0f32), x.clone()]).unwrap();
    assert_f32(Ok(one[0].clone()), &[1, 2], &[7.0, 7.0]);
    let none = Tensor::zeros(&[0], DType::F32).unwrap();
    assert_eq!(f::meshgrid(&[x.clone(), none]).unwrap()[0].shape(), [2, 0]);
    let failure = |tensors: &[Tensor]| f::meshgrid(tensors).unwrap_err().to_string();
    assert_eq!(failure(&[]), "meshgrid: expected at least one tensor, got none");
    let table = x.unsqueeze(0).unwrap();
    assert_eq!(failure(&[x, table]), "meshgrid: expected at most one dimension, got shape [1, 2]");
}

#[test]
fn affine_grids_span_corners_or_centres() {
    // The identity keeps the points; x comes before y.
    let identity = leaf(&[1.0, 0.0, 0.0, 0.0, 1.0, 0.0], &[1, 2, 3]);
    let corners = [-1.0, -1.0, 0.0, -1.0, 1.0, -1.0, -1.0, 1.0, 0.0, 1.0, 1.0, 1.0];
    assert_f32(f::affine_grid(&identity, &[1, 1, 2, 3], true), &[1, 2, 3, 2], &corners);
    let centres = [-0.75, 0.0, -0.25, 0.0, 0.25, 0.0, 0.75, 0.0];
    assert_f32(f::affine_grid(&identity, &[1, 1, 1, 4], false), &[1, 1, 4, 2], &centres);
}

#[test]
fn five_dimensions_are_padded_as_one_would_by_hand() {
    let x = leaf(&[1.0, 2.0], &[1, 1, 2, 1, 1]);
    // Pads of the last dimension come first.
    let y = f::pad(&x, &[0, 1, 1, 0, 0, 0, 1, 0, 0, 1], PadMode::Constant, 9.0).unwrap();
    let at = |place: [usize; 5]| match place {
        [0, 1, which, 1, 0] => which as f32 + 1.0,
        _ => 9.0,
    };
    let expected: Vec<f32> =
        (0..32).map(|n| at([n / 16, n / 8 % 2, n / 4 % 2, n / 2 % 2, n % 2])).collect();
    assert_f32(Ok(y), &[2, 2, 2, 2, 2], &expected);
}

#[test]
fn smoothing_mixes_probabilities_with_the_uniform_distribution() {
    let logits = leaf(&[0.5, -1.0, 2.0], &[1, 3]);
    let loss = |target: [f32; 3], label_smoothing: f64| {
        let options = f::ClassLoss { label_smoothing, ..Default::default() };
        let target = Tensor::new([target]).unwrap();
        let loss = f::cross_entropy_probabilities(&logits, &target, &options).unwrap();
        loss.item::<f32>().unwrap()
    };
    let mixed = [0.25 + 0.5 / 3.0, 0.25 + 0.5 / 3.0, 0.5 / 3.0];
    assert!((loss([0.5, 0.5, 0.0], 0.5) - loss(mixed, 0.0)).abs() < 1e-6);
}

#[test]
fn coalescing_sorts_and_sums() {
    let indices = Tensor::new([[1i64, 0, 1], [0, 2, 0]]).unwrap();
    let list = SparseCoo::new(&indices, &leaf(&[1.0, 2.0, 4.0], &[3]), &[2, 3]).unwrap();
    let sorted = list.coalesce().unwrap();
    assert_eq!([list.is_coalesced(), sorted.is_coalesced()], [false, true]);
    assert_f32(Ok(sorted.values().clone()), &[2], &[2.0, 5.0]);
    assert_eq!(sorted.indices().unwrap().to_vec::<i64>().unwrap(), [0, 1, 2, 0]);
    let dense = sorted.to_dense();
    assert!(SparseCoo::from_dense(dense.as_ref().unwrap()).unwrap().is_coalesced());
    assert_f32(dense, &[2, 3], &[0.0, 0.0, 2.0, 5.0, 0.0, 0.0]);
}

#[test]
fn sums_of_products_are_those_of_the_equation() {
    let a = Tensor::new([[1.0f32, 2.0, 3.0], [4.0, 5.0, 6.0]]).unwrap();
    let b = Tensor::new([[1.0f32, 0.5], [0.0, -1.0], [2.0, 3.0]]).unwrap();
    let x = Tensor::new([1.0f32, 10.0, 100.0]).unwrap();
    let e = |equation: &str, operands: &[&Tensor]| f::einsum(equation, operands);
    assert_f32(e("ij,jk", &[&a, &b]), &[2, 2], &[7.0, 7.5, 16.0, 15.0]);
    assert_f32(e(" i j , j k -> k i ", &[&a, &b]), &[2, 2], &[7.0, 16.0, 7.5, 15.0]);
    // Implicit results: capitals first, each group in alphabetical order.
    assert_f32(e("ba", &[&a]), &[3, 2], &[1.0, 4.0, 2.0, 5.0, 3.0, 6.0]);
    assert_f32(e("aB", &[&a]), &[3, 2], &[1.0, 4.0, 2.0, 5.0, 3.0, 6.0]);
    assert_f32(e("ij->", &[&a]), &[], &[21.0]);
    assert_f32(e("ij->j", &[&a]), &[3], &[5.0, 7.0, 9.0]);
    assert_f32(e("...j,j->...", &[&a, &x]), &[2], &[321.0, 654.0]);
    assert_f32(e("i...->...", &[&a]), &[3], &[5.0, 7.0, 9.0]);
    assert_f32(e("...->", &[&a]), &[], &[21.0]);
    assert_f32(e("i,i,i->i", &[&x, &x, &x]), &[3], &[1.0, 1e3, 1e6]);
    let outer = e("i,j->ji", &[&x.narrow(0, 0, 2).unwrap(), &x]);
    assert_f32(outer, &[3, 2], &[1.0, 10.0, 10.0, 100.0, 100.0, 1000.0]);
    let square = e("ij,jk->ik", &[&a, &b]).unwrap();
    assert_f32(e("ii", &[&square]), &[], &[22.0]);
    assert_f32(e("ii->i", &[&square]), &[2], &[7.0, 15.0]);
    // A product without a sum keeps the sign of zero.
    let zero = e("i,i->i", &[&Tensor::new([-0.0f32]).unwrap(), &Tensor::new([1.0f32]).unwrap()]);
    assert_eq!(zero.unwrap().to_vec::<f32>().unwrap()[0].to_bits(), (-0.0f32).to_bits());
    // Nothing to sum, and no elements at all.
    let none = Tensor::zeros(&[2, 0], DType::F32).unwrap();
    assert_f32(e("ij,kj->ik", &[&none, &none]), &[2, 2], &[0.0; 4]);
    assert_f32(e("ij->j", &[&none]), &[0], &[]);
    assert_f32(e("", &[&Tensor::scalar(2.0f32)]), &[], &[2.0]);
}

#[test]
fn einsum_refuses_what_it_cannot_read() {
    let a = Tensor::zeros(&[2, 3], DType::F32).unwrap();
    let e = |equation: &str, operands: &[&Tensor]| message(f::einsum(equation, operands));
    assert_eq!(
        e("ij,jk->ik", &[&a, &a]),
        "einsum: \"ij,jk->ik\": j has size 3, but size 2 in operand 1"
    );
    assert_eq!(e("ii", &[&a]), "einsum: \"ii\": i has sizes 2 and 3 in operand 0");
    assert_eq!(e("ij", &[&a, &a]), "einsum: \"ij\": 1 terms for 2 operands");
    assert_eq!(e("", &[]), "einsum: \"\": there are no operands");
    assert_eq!(e("i", &[&a]), "einsum: \"i\": 1 letters for operand 0 of shape [2, 3]");
    assert_eq!(e("ijk", &[&a]), "einsum: \"ijk\": 3 letters for operand 0 of shape [2, 3]");
    assert_eq!(e("ij->k", &[&a]), "einsum: \"ij->k\": the result has k, but no operand has it");
    assert_eq!(e("ij->ii", &[&a]), "einsum: \"ij->ii\": the result has i twice");
    assert_eq!(e("i1", &[&a]), "einsum: \"i1\": '1' is not a letter");
    assert_eq!(e("i..", &[&a]), "einsum: \"i..\": '.' is not a letter");
    assert_eq!(e("ij->i->j", &[&a]), "einsum: \"ij->i->j\": '-' is not a letter");
    let b = Tensor::zeros(&[4, 2], DType::F32).unwrap();
    assert_eq!(
        e("...,...", &[&a, &b]),
        "einsum: \"...,...\": dimension -2 of `...` has size 2, but size 4 in operand 1"
    );
}

#[test]
fn only_floats_require_gradients() {
    for x in [Tensor::scalar(1i64), Tensor::from_bools(&[true], &[1]).unwrap()] {
        let error = x.clone().set_requires_grad(true).unwrap_err();
        assert!(matches!(error, Error::DTypeMismatch { op: "set_requires_grad", .. }), "{error}");
        assert!(!x.set_requires_grad(false).unwrap().requires_grad());
    }
}

#[test]
fn dimensions_are_flattened_and_split() {
    let x = Tensor::arange(24).unwrap().reshape([2, 3, 4]).unwrap();
    assert_eq!(x.flatten(0, -1).unwrap().shape(), [24]);
    assert_eq!(x.flatten(1, 1).unwrap().shape(), [2, 3, 4]);
    assert_eq!(Tensor::scalar(1i64).flatten(0, -1).unwrap().shape(), [1]);
    assert_eq!(
        message(x.flatten(2, 1)),
        "flatten: cannot flatten dimensions 2 to 1 of shape [2, 3, 4]"
    );
    assert_eq!(
        message(x.flatten(0, 3)),
        "flatten: cannot flatten dimensions 0 to 3 of shape [2, 3, 4]"
    );
    assert_eq!(x.unflatten(1, [3, 1, -1]).unwrap().shape(), [2, 3, 1, 1, 4]);
    assert_eq!(
        message(x.unflatten(1, [2, 2])),
        "unflatten: sizes [2, 2] do not multiply to a dimension of 3"
    );
    assert!(message(x.unflatten(3, [1])).starts_with("unflatten: "));
    let diagonal =
        |offset| x.i(0).unwrap().diagonal(offset, 0, 1).unwrap().to_vec::<i64>().unwrap();
    assert_eq!([diagonal(0), diagonal(1)], [[0, 5, 10], [1, 6, 11]]);
    assert_eq!([diagonal(-2), diagonal(3)], [[8], [3]]);
    assert_eq!(diagonal(i64::MIN).len() + diagonal(4).len(), 0);
    assert_eq!(x.diagonal(0, -1, 0).unwrap().shape(), [3, 2]);
    assert_eq!(message(x.diagonal(0, 1, -2)), "diagonal: expected two dimensions, got 1 twice");
}

#[test]
fn a_variable_made_a_leaf_again_is_another_variable() {
    let x = Tensor::scalar(2.0f32).set_requires_grad(true).unwrap();
    let again = x.clone().set_requires_grad(true).unwrap();
    let gradients = x.mul(&again).unwrap().backward().unwrap();
    assert_eq!(gradients.of(&x).unwrap().item::<f32>().unwrap(), 2.0);
    let thawed = x.clone().set_requires_grad(false).unwrap().set_requires_grad(true).unwrap();
    let gradients = x.mul(&thawed).unwrap().backward().unwrap();
    assert_eq!(gradients.of(&x).unwrap().item::<f32>().unwrap(), 4.0);
}

/// The figures are those of PyTorch 2.15.
#[test]
fn padding_layers_pad_like_torch() {
    #[track_caller]
    fn expect(layer: &dyn Layer, shape: &[usize], numbers: &[f32]) {
        let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0], &[1, 1, 2, 3]).unwrap();
        let y = layer.forward(&x).unwrap();
        assert_eq!((y.shape(), &y.to_vec::<f32>().unwrap()[..]), (shape, numbers));
    }
    let reflected = [5., 4., 5., 6., 5., 4., 2., 1., 2., 3., 2., 1., 5., 4., 5., 6., 5., 4.];
    expect(&ReflectionPad2d::new([1, 2, 1, 0]), &[1, 1, 3, 6], &reflected);
    let replicated = [1., 1., 2., 3., 4., 4., 5., 6., 4., 4., 5., 6., 4., 4., 5., 6.];
    expect(&ReplicationPad2d::new([1, 0, 0, 2]), &[1, 1, 4, 4], &replicated);
    let constant = [-0.5, -0.5, -0.5, -0.5, 1., 2., 3., -0.5, 4., 5., 6., -0.5];
    expect(&ConstantPad2d::new([0, 1, 1, 0], -0.5), &[1, 1, 3, 4], &constant);
    expect(&ZeroPad2d::new([1, -1, 0, 1]), &[1, 1, 3, 3], &[0., 1., 2., 0., 4., 5., 0., 0., 0.]);
    let circular = [2., 3., 1., 2., 3., 5., 6., 4., 5., 6., 2., 3., 1., 2., 3.];
    expect(&CircularPad2d::new([2, 0, 0, 1]), &[1, 1, 3, 5], &circular);
}
