//! Elementwise kernels.

use crate::data::{Source, clean, same, same64};
use crate::device::{on_device, under_schedules};
use samebits_cuda_kernels::elementwise::{
    self, BinaryKind, CompareKind, Narrow, Pairing, Special, UnaryKind, View, affine, binary, cast,
    cat, compare, copy, fill, integer, narrow, select, special, truth, unary, widen,
};
use samebits_cuda_kernels::{Buffer, CudaError, Device};
use samebits_numerics::math;
use samebits_tensor_core::scalar::{Exact, Scalar};
use samebits_tensor_core::{bf16, f16};
use std::cmp::Ordering;

/// Returns every kind of difficult number, and a sweep over all exponents.
fn inputs() -> Vec<f32> {
    let mut x = Source::new(1).broken(3000);
    x.extend([0.0, -0.0, 1.0, -1.0, f32::INFINITY, f32::NEG_INFINITY, f32::NAN, f32::MIN_POSITIVE]);
    x.extend((0..2048u32).map(|i| f32::from_bits((i << 21) | (i * 517))));
    x.extend((-2000..2000).map(|i| i as f32 * 0.0625));
    x
}

#[test]
fn functions_have_the_bits_of_the_cpu() {
    on_device(|device| {
        let x = inputs();
        let buffer = device.upload(&x).unwrap();
        let functions: [(UnaryKind, fn(f32) -> f32); 19] = [
            (UnaryKind::Neg, |x| -x),
            (UnaryKind::Abs, |x| if x < 0.0 { -x } else { x + 0.0 }),
            (UnaryKind::Exp, math::exp),
            (UnaryKind::Exp2, math::exp2),
            (UnaryKind::Expm1, math::expm1),
            (UnaryKind::Log, math::log),
            (UnaryKind::Log2, math::log2),
            (UnaryKind::Log10, math::log10),
            (UnaryKind::Log1p, math::log1p),
            (UnaryKind::Rsqrt, math::rsqrt),
            (UnaryKind::Sin, math::sin),
            (UnaryKind::Cos, math::cos),
            (UnaryKind::Erf, math::erf),
            (UnaryKind::Sqrt, math::sqrt),
            (UnaryKind::Tanh, math::tanh),
            (UnaryKind::Sigmoid, math::sigmoid),
            (UnaryKind::Relu, |x| if x <= 0.0 { 0.0 } else { x }),
            (UnaryKind::Reciprocal, |x| 1.0 / x),
            (UnaryKind::Square, |x| x * x),
        ];
        for (kind, f) in functions {
            let got = device.download(&unary(device, kind, &buffer).unwrap()).unwrap();
            let expected: Vec<f32> = x.iter().map(|&x| clean(f(x))).collect();
            same(&format!("{kind:?}"), &got, &expected);
        }
        let others: [(Special, fn(f32) -> f32); 3] = [
            (Special::Erfc, math::erfc),
            (Special::Sinpi, math::sinpi),
            (Special::Cospi, math::cospi),
        ];
        for (kind, f) in others {
            let got = device.download(&special(device, kind, &buffer).unwrap()).unwrap();
            let expected: Vec<f32> = x.iter().map(|&x| clean(f(x))).collect();
            same(&format!("{kind:?}"), &got, &expected);
        }
        let got = device.download(&affine(device, &buffer, 0.1, -0.7).unwrap()).unwrap();
        let expected: Vec<f32> = x.iter().map(|&x| clean(x * 0.1 - 0.7)).collect();
        same("affine", &got, &expected);
    });
}

#[test]
fn f64_functions_have_the_bits_of_the_cpu() {
    on_device(|device| {
        let x: Vec<f64> = inputs().into_iter().map(|x| f64::from(x) * 1.1).collect();
        let buffer = device.upload(&x).unwrap();
        let functions: [(UnaryKind, fn(f64) -> f64); 4] = [
            (UnaryKind::Neg, |x| -x),
            (UnaryKind::Sqrt, f64::sqrt),
            (UnaryKind::Reciprocal, |x| 1.0 / x),
            (UnaryKind::Square, |x| x * x),
        ];
        for (kind, f) in functions {
            let got = device.download(&unary(device, kind, &buffer).unwrap()).unwrap();
            let expected: Vec<f64> =
                x.iter().map(|&x| samebits_numerics::nan::canonical(f(x))).collect();
            same64(&format!("{kind:?}"), &got, &expected);
        }
        assert!(special(device, Special::Erfc, &buffer).is_err());
    });
}

#[test]
fn pairs_broadcast() {
    under_schedules(|device| {
        let mut source = Source::new(2);
        let (a, b) = (source.broken(6 * 40), source.broken(40));
        let (a_dev, b_dev) = (device.upload(&a).unwrap(), device.upload(&b).unwrap());
        let functions: [(BinaryKind, fn(f32, f32) -> f32); 10] = [
            (BinaryKind::Add, |a, b| a + b),
            (BinaryKind::Sub, |a, b| a - b),
            (BinaryKind::Mul, |a, b| a * b),
            (BinaryKind::Div, |a, b| a / b),
            (BinaryKind::Maximum, samebits_numerics::extrema::max2),
            (BinaryKind::Minimum, samebits_numerics::extrema::min2),
            (BinaryKind::Weigh, |a, b| if b == 0.0 { a.clamp(-1.0, 1.0) * b } else { a * b }),
            (BinaryKind::ReluGrad, |a, b| match b.partial_cmp(&0.0) {
                Some(Ordering::Greater) => a,
                Some(_) => 0.0,
                None => b,
            }),
            (BinaryKind::TanhGrad, |a, b| a * (1.0 - b * b)),
            (BinaryKind::SigmoidGrad, |a, b| a * ((1.0 - b) * b)),
        ];
        for (kind, f) in functions {
            let pairing = Pairing::Strided {
                shape: &[6, 40],
                a: View { strides: &[40, 1], offset: 0 },
                b: View { strides: &[0, 1], offset: 0 },
            };
            let got = binary(device, kind, &a_dev, &b_dev, pairing).unwrap();
            let expected: Vec<f32> = (0..240).map(|i| clean(f(a[i], b[i % 40]))).collect();
            same(&format!("{kind:?}"), &device.download(&got).unwrap(), &expected);
            let got = binary(device, kind, &a_dev, &a_dev, Pairing::Dense(240)).unwrap();
            let expected: Vec<f32> = (0..240).map(|i| clean(f(a[i], a[i]))).collect();
            same(&format!("{kind:?} dense"), &device.download(&got).unwrap(), &expected);
        }
        let comparisons: [(CompareKind, fn(&f32, &f32) -> bool); 6] = [
            (CompareKind::Eq, |a, b| a == b),
            (CompareKind::Ne, |a, b| a != b),
            (CompareKind::Lt, |a, b| a < b),
            (CompareKind::Le, |a, b| a <= b),
            (CompareKind::Gt, |a, b| a > b),
            (CompareKind::Ge, |a, b| a >= b),
        ];
        for (kind, f) in comparisons {
            let pairing = Pairing::Strided {
                shape: &[240],
                a: View { strides: &[1], offset: 0 },
                b: View { strides: &[-1], offset: 239 },
            };
            let got = compare(device, kind, &a_dev, &a_dev, pairing).unwrap();
            let expected: Vec<u8> = (0..240).map(|i| u8::from(f(&a[i], &a[239 - i]))).collect();
            assert_eq!(device.download(&got).unwrap(), expected, "{kind:?}");
        }
        let outside = Pairing::Strided {
            shape: &[241],
            a: View { strides: &[1], offset: 0 },
            b: View { strides: &[0], offset: 0 },
        };
        assert!(binary(device, BinaryKind::Add, &a_dev, &b_dev, outside).is_err());
    });
}

#[test]
fn powers_have_the_bits_of_the_cpu() {
    let special = [
        0.0,
        1.0,
        2.0,
        0.5,
        3.0,
        149.0,
        150.0,
        1.5,
        1e-40,
        1e30,
        5e-324,
        1e-310,
        f64::INFINITY,
        f64::NAN,
    ];
    let special = special.iter().flat_map(|&x| [x, -x]);
    let mut source = Source::new(21);
    let mut pairs: Vec<(f64, f64)> =
        special.clone().flat_map(|a| special.clone().map(move |b| (a, b))).collect();
    // Midway between two f32: squares of odd numbers of 13 bits, and powers with such roots.
    for i in 0..200 {
        let odd = f64::from(4097 + 2 * i);
        pairs.extend([(odd, 2.0), (odd * odd, 0.5), (f64::from(i), 4.0), (f64::from(i * i), 1.5)]);
    }
    let (a, b) = (source.broken(2000), source.wild(2000));
    pairs.extend(a.iter().zip(&b).map(|(&a, &b)| (a.into(), b.into())));
    // Neither 0 nor infinite.
    let (a, b) = (source.plain(3000), source.plain(3000));
    pairs.extend(a.iter().zip(&b).map(|(&a, &b)| ((a.abs() * 3.0).into(), (b * 50.0).into())));
    let (a, b): (Vec<f64>, Vec<f64>) = pairs.into_iter().unzip();
    let narrow = |x: &[f64]| -> Vec<f32> { x.iter().map(|&x| x as f32).collect() };
    let (a32, b32) = (narrow(&a), narrow(&b));
    on_device(|device| {
        let dense = Pairing::Dense(a.len());
        let (x, y) = (device.upload(&a32).unwrap(), device.upload(&b32).unwrap());
        let got =
            device.download(&binary(device, BinaryKind::Pow, &x, &y, dense).unwrap()).unwrap();
        let expected: Vec<f32> =
            a32.iter().zip(&b32).map(|(&a, &b)| clean(math::pow(a, b))).collect();
        same("pow f32", &got, &expected);
        let (x, y) = (device.upload(&a).unwrap(), device.upload(&b).unwrap());
        let got =
            device.download(&binary(device, BinaryKind::Pow, &x, &y, dense).unwrap()).unwrap();
        let expected: Vec<f64> = a.iter().zip(&b).map(|(&a, &b)| math::f64::pow(a, b)).collect();
        same64("pow f64", &got, &expected);
    });
}

#[test]
fn views_and_choices_keep_bits() {
    on_device(|device| {
        let x = Source::new(3).broken(24);
        let buffer = device.upload(&x).unwrap();
        // The transpose of rows 1.. of a 4 x 6 matrix.
        let view = View { strides: &[1, 6], offset: 6 };
        let got = device.download(&copy(device, &buffer, &[6, 3], view).unwrap()).unwrap();
        let expected: Vec<f32> = (0..18).map(|i| x[6 + i / 3 + i % 3 * 6]).collect();
        same("copy", &got, &expected);
        let bytes: Vec<u8> = (0..24).collect();
        let byte_buffer = device.upload(&bytes).unwrap();
        let view = View { strides: &[-1], offset: 23 };
        let got = device.download(&copy(device, &byte_buffer, &[24], view).unwrap()).unwrap();
        assert_eq!(got, (0..24).rev().collect::<Vec<u8>>());
        let outside = View { strides: &[2], offset: 0 };
        assert!(copy(device, &buffer, &[13], outside).is_err());

        let y = Source::new(4).broken(24);
        let other = device.upload(&y).unwrap();
        let mask: Vec<u8> = (0..24).map(|i| i % 3).collect();
        let condition = device.upload(&mask).unwrap();
        let got = device.download(&select(device, &condition, &buffer, &other).unwrap()).unwrap();
        let expected: Vec<f32> = (0..24).map(|i| if mask[i] != 0 { x[i] } else { y[i] }).collect();
        same("select", &got, &expected);

        assert_eq!(device.download(&fill(device, 5, 2.5f32).unwrap()).unwrap(), [2.5; 5]);
        assert_eq!(device.download(&fill(device, 5, -7i64).unwrap()).unwrap(), [-7; 5]);
        assert_eq!(device.download(&fill(device, 5, 9u8).unwrap()).unwrap(), [9; 5]);
        assert_eq!(device.download(&fill(device, 5, 0x1234u16).unwrap()).unwrap(), [0x1234; 5]);
    });
}

/// Copies a view, of `len` elements in memory, and compares it with its definition.
fn copied<T: samebits_cuda_kernels::Word + PartialEq + std::fmt::Debug>(
    device: &samebits_cuda_kernels::Device,
    len: usize,
    (shape, strides, offset): (&[usize], &[isize], usize),
    make: impl Fn(usize) -> T,
) {
    let x: Vec<T> = (0..len).map(make).collect();
    let view = View { strides, offset };
    let out = copy(device, &device.upload(&x).unwrap(), shape, view).unwrap();
    let place = |mut i: usize| {
        let mut at = offset as isize;
        for (&size, &stride) in shape.iter().zip(strides).rev() {
            at += (i % size) as isize * stride;
            i /= size;
        }
        x[at as usize]
    };
    let expected: Vec<T> = (0..shape.iter().product()).map(place).collect();
    assert_eq!(device.download(&out).unwrap(), expected, "{shape:?} {strides:?}");
}

#[test]
fn transposing_copies_are_their_definition() {
    // Whole squares, parts of them, and dimensions before, between and around the two; repeated and
    // backward ones, and sides too short for squares.
    let views: [(&[usize], &[isize], usize); 10] = [
        (&[64, 32], &[1, 64], 0),
        (&[33, 95], &[1, 33], 0),
        (&[16, 70], &[1, 21], 5),
        (&[15, 70], &[1, 15], 0),
        (&[3, 40, 50], &[2000, 1, 40], 0),
        (&[40, 3, 50], &[1, 2000, 40], 7),
        (&[2, 40, 3, 50], &[0, 1, 2000, 40], 0),
        (&[2, 17, 40, 3, 50], &[40, 6000, 1, 2000, 80], 0),
        (&[40, 50], &[1, -40], 1960),
        (&[40, 50], &[1, 0], 3),
    ];
    on_device(|device| {
        for view in views {
            let (shape, strides, offset) = view;
            let reach = shape.iter().zip(strides).map(|(&n, &s)| (n as isize - 1) * s.max(0));
            let len = offset + reach.sum::<isize>() as usize + 1;
            copied(device, len, view, |i| (i * 7) as u8);
            copied(device, len, view, |i| (i * 7) as u16);
            copied(device, len, view, |i| f32::from_bits(i as u32));
            copied(device, len, view, |i| f64::from_bits(i as u64));
        }
    });
}

/// Concatenates an empty tensor and two of `[3, width]`.
fn joined<T: samebits_cuda_kernels::Word + PartialEq + std::fmt::Debug>(
    device: &samebits_cuda_kernels::Device,
    make: impl Fn(u8) -> T,
) {
    let widths = [40, 0, 67];
    let parts = widths.map(|width| (0..3 * width).map(|i| make(i as u8)).collect::<Vec<T>>());
    let expected: Vec<T> = (0..3)
        .flat_map(|row| {
            parts.iter().zip(widths).flat_map(move |(x, width)| &x[row * width..][..width])
        })
        .copied()
        .collect();
    let buffers = parts.map(|part| device.upload(&part).unwrap());
    let inputs = buffers.each_ref();
    let got = device.download(&cat(device, &inputs, 3, &widths).unwrap()).unwrap();
    assert_eq!(got, expected);
    assert!(cat(device, &inputs, 4, &widths).is_err());
    assert!(cat(device, &inputs[..2], 3, &widths).is_err());
}

#[test]
fn joined_tensors_keep_bits() {
    under_schedules(|device| {
        joined(device, |i| i);
        joined(device, |i| i64::from(i) << 40);
        // As bits, because a NaN does not equal itself.
        joined(device, |i| 0x7f80_0000 | u32::from(i));
        joined(device, |i| f64::from(i) - 100.0);
    });
}

#[test]
fn functions_of_f64_are_those_of_the_cpu() {
    use math::f64 as cpu;
    let functions: [(UnaryKind, fn(f64) -> f64); 14] = [
        (UnaryKind::Exp, cpu::exp),
        (UnaryKind::Exp2, cpu::exp2),
        (UnaryKind::Expm1, cpu::expm1),
        (UnaryKind::Log, cpu::log),
        (UnaryKind::Log2, cpu::log2),
        (UnaryKind::Log10, cpu::log10),
        (UnaryKind::Log1p, cpu::log1p),
        (UnaryKind::Sqrt, cpu::sqrt),
        (UnaryKind::Rsqrt, cpu::rsqrt),
        (UnaryKind::Sin, cpu::sin),
        (UnaryKind::Cos, cpu::cos),
        (UnaryKind::Erf, cpu::erf),
        (UnaryKind::Tanh, cpu::tanh),
        (UnaryKind::Sigmoid, cpu::sigmoid),
    ];
    // Every exponent with arbitrary digits and both signs; multiples of pi/4 and of 1/4; near 1.
    let mut source = Source::new(9);
    let mut x: Vec<f64> = (0..2048u64)
        .map(|e| {
            f64::from_bits(e << 52 | u64::from(source.next()) << 20 | u64::from(source.next()))
        })
        .collect();
    for i in 0..400 {
        let i = f64::from(i);
        x.extend([
            i * std::f64::consts::FRAC_PI_4,
            i * 0.25,
            1.0 + i * f64::EPSILON,
            i * 2.0 - 400.0,
        ]);
    }
    x.extend([0.0, f64::INFINITY, f64::NAN, f64::MIN_POSITIVE, 5e-324, f64::MAX]);
    let x: Vec<f64> = x.iter().flat_map(|&x| [x, -x]).collect();
    on_device(|device| {
        let buffer = device.upload(&x).unwrap();
        for (kind, function) in functions {
            let got = device.download(&unary(device, kind, &buffer).unwrap()).unwrap();
            let expected: Vec<f64> = x.iter().map(|&x| function(x)).collect();
            same64(&format!("{kind:?}"), &got, &expected);
        }
        let others: [(Special, fn(f64) -> f64); 2] =
            [(Special::Sinpi, cpu::sinpi), (Special::Cospi, cpu::cospi)];
        for (kind, function) in others {
            let got = device.download(&special(device, kind, &buffer).unwrap()).unwrap();
            let expected: Vec<f64> = x.iter().map(|&x| function(x)).collect();
            same64(&format!("{kind:?}"), &got, &expected);
        }
        let dense = Pairing::Dense(x.len());
        assert!(binary(device, BinaryKind::FloorDivide, &buffer, &buffer, dense).is_err());
    });
}

#[test]
fn casts_round_and_saturate_as_rust_does() {
    on_device(|device| {
        let mut x = inputs();
        x.extend([9.2e18, -9.3e18, 9223372036854775808.0, -9223372036854775808.0, 0.99, -0.99]);
        let buffer = device.upload(&x).unwrap();
        let integers: Buffer<i64> = cast(device, &buffer).unwrap();
        let expected: Vec<i64> = x.iter().map(|&x| x as i64).collect();
        assert_eq!(device.download(&integers).unwrap(), expected);
        let wide = cast::<f32, f64>(device, &buffer).unwrap();
        let expected: Vec<f64> =
            x.iter().map(|&x| samebits_numerics::nan::canonical(f64::from(x))).collect();
        same64("f64", &device.download(&wide).unwrap(), &expected);
        let scaled: Vec<f64> = expected.iter().map(|x| x * 1.0000000001).collect();
        let narrow = cast::<f64, f32>(device, &device.upload(&scaled).unwrap()).unwrap();
        let expected: Vec<f32> = scaled.iter().map(|&x| clean(x as f32)).collect();
        same("f32", &device.download(&narrow).unwrap(), &expected);
        let whole: Vec<i64> =
            (0..200).map(|i| (i64::MAX >> (i % 63)) * (1 - 2 * (i % 2))).collect();
        let floats = cast::<i64, f32>(device, &device.upload(&whole).unwrap()).unwrap();
        let expected: Vec<f32> = whole.iter().map(|&x| x as f32).collect();
        same("i64", &device.download(&floats).unwrap(), &expected);
        let bytes = cast::<i64, u8>(device, &device.upload(&whole).unwrap()).unwrap();
        let expected: Vec<u8> = whole.iter().map(|&x| x as u8).collect();
        assert_eq!(device.download(&bytes).unwrap(), expected);
        let truth = truth(device, &buffer).unwrap();
        let expected: Vec<u8> = x.iter().map(|&x| u8::from(x != 0.0)).collect();
        assert_eq!(device.download(&truth).unwrap(), expected);
    });
}

/// Compares casts to a narrow type and back with those of the host.
fn narrowed<T>(device: &Device, floats: &[f64], integers: &[i64])
where
    T: Narrow<Wide: Scalar> + Scalar,
{
    let check = |found: Buffer<T>, expected: Vec<T>| {
        let wide = device.download(&widen(device, &found).unwrap()).unwrap();
        let found = device.download(&found).unwrap();
        let bytes = |x: &[T]| bytemuck::cast_slice::<T, u8>(x).to_vec();
        assert_eq!(bytes(&found), bytes(&expected), "{}", T::DTYPE);
        let expected: Vec<T::Wide> = expected.into_iter().map(|x| Scalar::of(x.exact())).collect();
        let bytes = |x: &[T::Wide]| bytemuck::cast_slice::<T::Wide, u8>(x).to_vec();
        assert_eq!(bytes(&wide), bytes(&expected), "{}", T::DTYPE);
    };
    let of_floats = narrow(device, &device.upload(floats).unwrap()).unwrap();
    check(of_floats, floats.iter().map(|&x| T::of(Exact::Float(x))).collect());
    let of_integers = narrow(device, &device.upload(integers).unwrap()).unwrap();
    check(of_integers, integers.iter().map(|&x| T::of(Exact::Integer(x))).collect());
}

#[test]
fn narrow_types_are_cast_as_on_the_host() {
    // Numbers of the narrow types, the ties between them, and the neighbours of both.
    let halves = (0..=u16::MAX).step_by(7);
    let numbers = halves.flat_map(|bits| {
        let (low, high) = (bits, bits.saturating_add(1));
        let [a, b] = [low, high].map(|bits| f16::from_bits(bits).to_f64());
        let [c, d] = [low, high].map(|bits| bf16::from_bits(bits).to_f64());
        [a, c, (a + b) / 2.0, c / 2.0 + d / 2.0]
    });
    let mut floats: Vec<f64> = numbers.flat_map(|x| [x.next_down(), x, x.next_up()]).collect();
    floats.extend([-0.0, f64::MIN_POSITIVE, -f64::MAX, 0.999, -0.999, 2147483647.5, -2147483648.5]);
    floats.extend([4294967295.0, 4294967295.5, 4294967296.0, -1.0, -0.5]);
    let shifted = |i: i64| ((i64::MAX >> (i % 63)) * (1 - 2 * (i % 2))).wrapping_add(i / 126);
    let mut integers: Vec<i64> = (0..800).map(shifted).collect();
    // Ties of bf16 that f64 cannot distinguish from their neighbours.
    integers.extend([(1 << 62) + (1 << 54), (1 << 62) + (1 << 54) + 1, i64::MIN, i64::MIN + 1]);
    on_device(|device| {
        narrowed::<i32>(device, &floats, &integers);
        narrowed::<u32>(device, &floats, &integers);
        narrowed::<f16>(device, &floats, &integers);
        narrowed::<bf16>(device, &floats, &integers);
    });
}

#[test]
fn empty_tensors_are_fine() {
    on_device(|device| {
        let x = device.upload::<f32>(&[]).unwrap();
        let view = View { strides: &[1, 1], offset: 0 };
        assert!(elementwise::copy(device, &x, &[0, 3], view).is_ok());
        let pairing = Pairing::Dense(0);
        assert!(binary(device, BinaryKind::Add, &x, &x, pairing).is_ok());
    });
}

/// The limits of the type and their neighbours, near 0 and in between.
const INTEGERS: [i64; 13] = [
    i64::MIN,
    i64::MIN + 1,
    -(1 << 40) + 3,
    -7,
    -2,
    -1,
    0,
    1,
    2,
    7,
    1 << 40,
    i64::MAX - 1,
    i64::MAX,
];

/// Returns the quotient rounded down, in a type that holds it.
fn floored(a: i128, b: i128) -> i128 {
    let (quotient, rest) = (a / b, a % b);
    if rest != 0 && (rest < 0) != (b < 0) { quotient - 1 } else { quotient }
}

#[test]
fn integers_wrap_around() {
    let unary: [(UnaryKind, fn(i128) -> i128); 4] = [
        (UnaryKind::Neg, |x| -x),
        (UnaryKind::Abs, i128::abs),
        (UnaryKind::Relu, |x| x.max(0)),
        (UnaryKind::Square, |x| x * x),
    ];
    let binary: [(BinaryKind, fn(i128, i128) -> i128); 8] = [
        (BinaryKind::Add, |a, b| a + b),
        (BinaryKind::Sub, |a, b| a - b),
        (BinaryKind::Mul, |a, b| a * b),
        (BinaryKind::Maximum, i128::max),
        (BinaryKind::Minimum, i128::min),
        (BinaryKind::FloorDivide, floored),
        (BinaryKind::Remainder, |a, b| a - b * floored(a, b)),
        (BinaryKind::Pow, |a, b| (0..b).fold(1, |power, _| i128::from((power * a) as i64))),
    ];
    under_schedules(|device| {
        let x = device.upload(&INTEGERS).unwrap();
        for (kind, f) in unary {
            let got = device.download(&integer::unary(device, kind, &x).unwrap()).unwrap();
            assert_eq!(got, INTEGERS.map(|x| f(x.into()) as i64), "{kind:?}");
        }
        let n = INTEGERS.len();
        for (kind, f) in binary {
            // Every pair that has a result.
            let fits = |&b: &i64| match kind {
                BinaryKind::Pow => (0..130).contains(&b),
                _ => b != 0 || !integer::is_partial(kind),
            };
            let right: Vec<i64> = INTEGERS.into_iter().filter(fits).collect();
            let m = right.len();
            let b = device.upload(&right).unwrap();
            integer::check(device, kind, &b).unwrap();
            let pairing = Pairing::Strided {
                shape: &[n, m],
                a: View { strides: &[1, 0], offset: 0 },
                b: View { strides: &[0, 1], offset: 0 },
            };
            let got = integer::binary(device, kind, &x, &b, pairing).unwrap();
            let got = device.download(&got).unwrap();
            let expected: Vec<i64> =
                (0..n * m).map(|i| f(INTEGERS[i / m].into(), right[i % m].into()) as i64).collect();
            assert_eq!(got, expected, "{kind:?}");
        }
    });
}

#[test]
fn operands_without_a_result_are_reported() {
    on_device(|device| {
        let b = device.upload(&[3i64, 0, -5, 0]).unwrap();
        for (kind, op, what, value) in [
            (BinaryKind::FloorDivide, "floor_divide", "divisor", 0),
            (BinaryKind::Remainder, "remainder", "divisor", 0),
            (BinaryKind::Pow, "pow", "exponent", -5),
        ] {
            integer::check(device, kind, &b).unwrap();
            integer::binary(device, kind, &b, &b, Pairing::Dense(4)).unwrap();
            let expected = CudaError::Operand { op, what, value };
            assert_eq!(expected.to_string(), format!("{op}: {what} {value} of integers"));
            assert_eq!(device.synchronize(), Err(expected));
            assert_eq!(device.synchronize(), Ok(()));
        }
    });
}
