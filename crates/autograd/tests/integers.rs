//! Integer arithmetic against 128-bit arithmetic, and types without arithmetic.

use samebits_autograd::{Error, Result, Tensor, bf16, f16, functional as f};
use samebits_tensor_core::ops::ScatterReduceKind;
use samebits_tensor_core::{DType, Element};

const EXTREMES: [i64; 15] = [
    i64::MIN,
    i64::MIN + 1,
    i64::MAX,
    i64::MAX - 1,
    -1 << 32,
    1 << 31,
    3037000500,
    -7,
    -2,
    -1,
    0,
    1,
    2,
    3,
    7,
];

/// Truncates an exact result to 64 bits.
fn wrap(x: i128) -> i64 {
    x as i64
}

fn whole(x: Result<Tensor>) -> Vec<i64> {
    x.unwrap().to_vec().unwrap()
}

/// Divides and rounds down, by the definition.
fn floor(a: i128, b: i128) -> i128 {
    let quotient = a / b;
    if quotient * b != a && (a < 0) != (b < 0) { quotient - 1 } else { quotient }
}

#[test]
fn operators_wrap_around() {
    let x = Tensor::from_slice(&EXTREMES, &[15]).unwrap();
    let (column, row) = (x.unsqueeze(1).unwrap(), x.unsqueeze(0).unwrap());
    let pairs = || EXTREMES.iter().flat_map(|&a| EXTREMES.map(|b| (i128::from(a), i128::from(b))));
    let of = |f: fn(i128, i128) -> i128| pairs().map(|(a, b)| wrap(f(a, b))).collect::<Vec<_>>();
    assert_eq!(whole(&column + &row), of(|a, b| a + b));
    assert_eq!(whole(&column - &row), of(|a, b| a - b));
    assert_eq!(whole(&column * &row), of(|a, b| a * b));
    assert_eq!(whole(column.maximum(&row)), of(i128::max));
    assert_eq!(whole(column.minimum(&row)), of(i128::min));
    assert_eq!(whole(-&x), EXTREMES.map(|a| wrap(-i128::from(a))));
    assert_eq!(whole(x.abs()), EXTREMES.map(|a| wrap(i128::from(a).abs())));
    assert_eq!(whole(x.square()), EXTREMES.map(|a| wrap(i128::from(a) * i128::from(a))));
    assert_eq!(whole(x.relu()), EXTREMES.map(|a| a.max(0)));
    assert_eq!(whole(x.sign()), EXTREMES.map(i64::signum));
    assert_eq!(whole(2 - (&x * 3).unwrap()), EXTREMES.map(|a| wrap(2 - i128::from(a) * 3)));
    assert_eq!(whole(x.clamp(Some(-5.0), Some(2.0))), EXTREMES.map(|a| a.clamp(-5, 2)));
}

#[test]
fn division_has_the_rules_of_python() {
    let x = Tensor::from_slice(&EXTREMES, &[15]).unwrap();
    for divisor in EXTREMES.into_iter().filter(|&b| b != 0) {
        let b = i128::from(divisor);
        let quotients = EXTREMES.map(|a| wrap(floor(a.into(), b)));
        assert_eq!(whole(x.floor_divide(divisor)), quotients, "{divisor}");
        let rests = EXTREMES.map(|a| wrap(i128::from(a) - floor(a.into(), b) * b));
        assert_eq!(whole(x.remainder(divisor)), rests, "{divisor}");
    }
    let error = x.floor_divide(&x).unwrap_err().to_string();
    assert_eq!(error, "floor_divide: divisor 0 of integers");
    let error = x.remainder(0).unwrap_err().to_string();
    assert_eq!(error, "remainder: divisor 0 of integers");
    let none = Tensor::zeros(&[0], DType::I64).unwrap();
    assert_eq!(whole(none.remainder(0)), [0i64; 0]);
    let error = Tensor::scalar(1.0f32).floor_divide(2.0).unwrap_err();
    assert!(matches!(error, Error::DTypeMismatch { expected: DType::I64, .. }), "{error}");
    // True division converts to floats.
    let y = (Tensor::new([1, -7, 0]).unwrap() / Tensor::new([3, 2, 0]).unwrap()).unwrap();
    let y = y.to_vec::<f32>().unwrap();
    assert_eq!(y[..2], [1.0 / 3.0, -3.5]);
    assert!(y[2].is_nan());
    let halves = Tensor::new([1u8, 3]).unwrap() / Tensor::new([2u8, 2]).unwrap();
    assert_eq!(halves.unwrap().to_vec::<f32>().unwrap(), [0.5, 1.5]);
}

#[test]
fn powers_wrap_around() {
    for (base, exponent, power) in [
        (0, 0, 1),
        (0, 5, 0),
        (-1, i64::MAX, -1),
        (2, 63, i64::MIN),
        (2, 64, 0),
        (-3, 5, -243),
        (3, 41, 3i64.wrapping_pow(41)),
        (i64::MIN, 1, i64::MIN),
    ] {
        let y = Tensor::scalar(base).pow(&Tensor::scalar(exponent));
        assert_eq!(whole(y), [power], "{base} {exponent}");
    }
    let x = Tensor::new([2, 3]).unwrap();
    assert_eq!(whole(x.pow_scalar(3.0)), [8, 27]);
    let error = x.pow_scalar(-1.0).unwrap_err().to_string();
    assert_eq!(error, "pow_scalar: exponent -1 of integers");
    let error = x.pow_scalar(0.5).unwrap_err().to_string();
    assert_eq!(error, "pow_scalar: 0.5 cannot be combined with a tensor of type i64");
}

#[test]
fn running_sums_and_products_wrap_around() {
    let x = Tensor::from_slice(&EXTREMES, &[15]).unwrap();
    let running = |f: fn(i64, i64) -> i64, first| {
        EXTREMES.iter().scan(first, move |so_far, &x| {
            *so_far = f(*so_far, x);
            Some(*so_far)
        })
    };
    let sums: Vec<i64> = running(i64::wrapping_add, 0).collect();
    let products: Vec<i64> = running(i64::wrapping_mul, 1).collect();
    assert_eq!(whole(x.cumsum(0)), sums);
    assert_eq!(whole(x.cumprod(0)), products);
    let columns = f::stack(&[x.clone(), x.clone()], 1).unwrap().cumsum(0).unwrap();
    assert_eq!(whole(columns.select(1, 1)), sums);
    let truths = Tensor::new([true, false, true]).unwrap();
    assert_eq!(whole(truths.cumsum(0)), [1, 1, 2]);
    assert_eq!(whole(Tensor::from_slice(&[i32::MAX; 3], &[3]).unwrap().cumsum(0))[2], 6442450941);
}

#[test]
fn scattered_integers_are_added_multiplied_and_compared() {
    let x = Tensor::new([10, i64::MAX, -5]).unwrap();
    let (index, source) =
        (Tensor::new([0, 1, 0, 0]).unwrap(), Tensor::new([-1, 1, -8, -4]).unwrap());
    assert_eq!(whole(x.scatter_add(0, &index, &source)), [-3, i64::MIN, -5]);
    assert_eq!(whole(x.index_add(0, &index, &source, -2.0)), [36, i64::MAX - 2, -5]);
    assert_eq!(whole(x.index_put(std::slice::from_ref(&index), &source, true)), [-3, i64::MIN, -5]);
    let error = x.index_add(0, &index, &source, 0.5).unwrap_err().to_string();
    assert_eq!(error, "index_add: alpha 0.5 cannot be combined with a tensor of type i64");
    use ScatterReduceKind::*;
    for (kind, with, without) in [
        (Sum, [-3, i64::MIN, -5], [-13, 1, -5]),
        (Prod, [-320, i64::MAX, -5], [-32, 1, -5]),
        (Amax, [10, i64::MAX, -5], [-1, 1, -5]),
        (Amin, [-8, 1, -5], [-8, 1, -5]),
        // Rounded down: −3 / 4 and −13 / 3. The division uses the wrapped sum.
        (Mean, [-1, i64::MIN / 2, -5], [-5, 1, -5]),
    ] {
        for (include_self, expected) in [(true, with), (false, without)] {
            let y = x.scatter_reduce(0, &index, &source, kind, include_self);
            assert_eq!(whole(y), expected, "{kind:?} {include_self}");
            let y = f::index_reduce(&x, 0, &index, &source, kind, include_self);
            assert_eq!(whole(y), expected, "{kind:?} {include_self}");
        }
    }
    let error = x.scatter_add(0, &Tensor::new([3]).unwrap(), &Tensor::new([1]).unwrap());
    assert!(matches!(error, Err(Error::IndexOutOfRange { index: 3, .. })));
}

/// Compares each rearrangement of six elements with the same on lists.
fn moves<T: Element>(values: [T; 6], fill: f64) {
    let of = |places: &[usize]| places.iter().map(|&i| values[i]).collect::<Vec<_>>();
    let check = |x: Result<Tensor>, places: &[usize]| {
        let x = x.unwrap();
        assert_eq!(x.dtype(), T::DTYPE);
        assert_eq!(x.to_vec::<T>().unwrap(), of(places));
    };
    let x = Tensor::from_slice(&values, &[2, 3]).unwrap();
    let (rows, columns) = (Tensor::new([1, 0, 1]).unwrap(), Tensor::new([[2, 0], [0, 1]]).unwrap());
    check(x.transpose(0, 1), &[0, 3, 1, 4, 2, 5]);
    check(f::cat(&[x.clone(), x.clone()], 1), &[0, 1, 2, 0, 1, 2, 3, 4, 5, 3, 4, 5]);
    check(f::stack(&[x.clone(), x.clone()], 0), &[0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5]);
    check(x.index_select(0, &rows), &[3, 4, 5, 0, 1, 2, 3, 4, 5]);
    check(x.gather(1, &columns), &[2, 0, 3, 4]);
    check(f::index(&x, std::slice::from_ref(&rows)), &[3, 4, 5, 0, 1, 2, 3, 4, 5]);
    check(x.flip(1), &[2, 1, 0, 5, 4, 3]);
    check(x.roll(&[1], 1), &[2, 0, 1, 5, 3, 4]);
    check(x.narrow(1, 1, 2), &[1, 2, 4, 5]);
    check(x.scatter(1, &columns, &x), &[1, 1, 0, 3, 4, 5]);
    check(
        x.index_copy(0, &rows, &f::cat(&[x.clone(), x.narrow(0, 0, 1).unwrap()], 0).unwrap()),
        &[3, 4, 5, 0, 1, 2],
    );
    let mask = Tensor::new([[true, false, true]]).unwrap();
    check(f::where_(&mask, &x, &x.flip(0).unwrap()), &[0, 4, 2, 3, 1, 5]);
    check(x.masked_select(&mask.expand(&[2, 3]).unwrap()), &[0, 2, 3, 5]);
    let filled = x.masked_fill(&mask, fill).unwrap();
    assert_eq!(filled.to_dtype(DType::F64).unwrap().to_vec::<f64>().unwrap()[0], fill);
    check(Ok(filled.select(1, 1).unwrap()), &[1, 4]);
    assert_eq!(x.eq(&x.flip(0).unwrap()).unwrap().to_bools().unwrap(), [false; 6]);
    let ordered = values.iter().map(|_| true).collect::<Vec<_>>();
    assert_eq!(x.eq(&x).unwrap().to_bools().unwrap(), ordered);
    assert!(x.to_string().starts_with("tensor([["));
    if T::DTYPE.is_float() {
        return;
    }
    // Adding elements without arithmetic is an error, never a panic.
    let error = (&x + &x).unwrap_err();
    assert!(matches!(error, Error::DTypeMismatch { op: "add", .. }), "{error}");
    assert!(x.sqrt().is_err() && x.matmul(&x.transpose(0, 1).unwrap()).is_err());
    assert!(x.softmax(1).is_err() && x.sort(0, false).is_err() && x.mean(()).is_err());
}

#[test]
fn elements_without_arithmetic_are_moved() {
    moves([1i32, -2, i32::MIN, i32::MAX, 0, 5], -7.0);
    moves([1u32, 2, u32::MAX, 3, 0, 5], 7.0);
    moves([1.5, -2.0, 65504.0, 6e-8, 0.0, 5.0].map(f16::from_f32), 0.5);
    moves([1.5, -2.0, 3e38, 1e-40, 0.0, 5.0].map(bf16::from_f32), 0.5);
}

#[test]
fn halves_compare_and_cast_as_numbers() {
    let x = Tensor::new([f16::NAN, f16::from_f32(-0.0), f16::INFINITY]).unwrap();
    assert_eq!(x.eq(0).unwrap().to_bools().unwrap(), [false, true, false]);
    assert_eq!(x.gt(1e9).unwrap().to_bools().unwrap(), [false, false, false]);
    assert_eq!(x.eq(&x).unwrap().to_bools().unwrap(), [false, true, true]);
    assert_eq!(whole(x.nonzero()), [0, 2]);
    assert_eq!(whole(x.to_dtype(DType::I64)), [0, 0, i64::MAX]);
    assert_eq!(x.to_dtype(DType::Bool).unwrap().to_bools().unwrap(), [true, false, true]);
    let unsigned = Tensor::new([u32::MAX, 1]).unwrap();
    assert_eq!(unsigned.gt(2).unwrap().to_bools().unwrap(), [true, false]);
    assert_eq!(whole(unsigned.sum(())), [1 << 32]);
    // A gradient passes through a half-precision type.
    let leaf = Tensor::new([1.0f32, 2.0]).unwrap().set_requires_grad(true).unwrap();
    let y = leaf.to_dtype(DType::BF16).unwrap().to_dtype(DType::F32).unwrap();
    let gradients = y.sum(()).unwrap().backward().unwrap();
    assert_eq!(gradients.of(&leaf).unwrap().to_vec::<f32>().unwrap(), [1.0, 1.0]);
}

#[test]
fn numbers_of_32_bits_come_out_as_they_went_in() {
    let x = Tensor::from_slice(&[3i32, -4], &[2]).unwrap();
    assert_eq!(x.dtype(), DType::I32);
    assert_eq!(Vec::<i32>::try_from(&x).unwrap(), [3, -4]);
}
