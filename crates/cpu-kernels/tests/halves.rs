//! Halves: conversions against the crate `half`, and products against those of the widened operands,
//! rounded afterwards, in bits and in memory.

mod invariance;

use invariance::{Random, everywhere, on_threads};
use samebits_cpu_kernels::install;
use samebits_tensor_core::buffer::set_cache_limit;
use samebits_tensor_core::ops::{Binary, BinaryKind, Cast, HalfMatmul, Matmul};
use samebits_tensor_core::scalar::cast;
use samebits_tensor_core::{DType, Tensor, bf16, dispatch, f16};
use test_support::allocations::{Counting, peak};

#[global_allocator]
static COUNTING: Counting = Counting;

const HALVES: [DType; 2] = [DType::BF16, DType::F16];

fn to(x: &Tensor, to: DType) -> Tensor {
    dispatch(&Cast { x: x.clone(), to }).unwrap()
}

fn bits(x: &[f32]) -> Vec<u32> {
    x.iter().map(|x| x.to_bits()).collect()
}

/// The reference goes by f64 and the crate `half`.
#[test]
fn every_half_is_converted_exactly() {
    install();
    let all: Vec<u16> = (0..=u16::MAX).collect();
    let mut expected = vec![0.0; all.len()];
    let halves: Vec<bf16> = all.iter().map(|&bits| bf16::from_bits(bits)).collect();
    cast(&halves, &mut expected);
    let halves = Tensor::from_slice(&halves, &[all.len()]).unwrap();
    everywhere(|| assert_eq!(bits(&to(&halves, DType::F32).to_vec().unwrap()), bits(&expected)));
    let halves: Vec<f16> = all.iter().map(|&bits| f16::from_bits(bits)).collect();
    cast(&halves, &mut expected);
    let halves = Tensor::from_slice(&halves, &[all.len()]).unwrap();
    everywhere(|| assert_eq!(bits(&to(&halves, DType::F32).to_vec().unwrap()), bits(&expected)));
}

/// All f32 whose lower half has one of these patterns: ties, their neighbours, and others. The
/// instructions of AVX-512 BF16 fail: they flush subnormals to zero.
#[test]
fn f32_is_rounded_once() {
    install();
    let lower = [0, 1, 0x0fff, 0x1000, 0x1001, 0x7fff, 0x8000, 0x8001, 0x9abc, 0xf000, 0xffff];
    for low in lower {
        let all: Vec<f32> =
            (0..=u16::MAX).map(|high| f32::from_bits(u32::from(high) << 16 | low)).collect();
        let mut short = vec![bf16::ZERO; all.len()];
        cast(&all, &mut short);
        let mut small = vec![f16::ZERO; all.len()];
        cast(&all, &mut small);
        let x = Tensor::from_slice(&all, &[all.len()]).unwrap();
        everywhere(|| {
            let found: Vec<bf16> = to(&x, DType::BF16).to_vec().unwrap();
            let differs = |i: &usize| found[*i].to_bits() != short[*i].to_bits();
            assert_eq!((0..all.len()).find(differs), None, "bf16, {low:x}");
            let found: Vec<f16> = to(&x, DType::F16).to_vec().unwrap();
            let differs = |i: &usize| found[*i].to_bits() != small[*i].to_bits();
            assert_eq!((0..all.len()).find(differs), None, "f16, {low:x}");
        });
    }
}

/// Returns a power of two that is no subnormal.
fn power(exponent: i32) -> f32 {
    f32::from_bits(((127 + exponent) as u32) << 23)
}

/// Numbers near a power of two, some of them zero, infinite, NaN or subnormal.
fn drawn(shape: &[usize], half: DType, exponent: i32, seed: u64) -> Tensor {
    let mut random = Random(seed);
    let mut number = || {
        let ordinary = random.unit::<f32>() * power(exponent);
        match random.below(1000) {
            0 => f32::INFINITY,
            1 => f32::NAN,
            2..20 => -0.0,
            20..40 => ordinary * power(if half == DType::F16 { -10 } else { -100 }),
            _ => ordinary,
        }
    };
    let values: Vec<f32> = (0..shape.iter().product()).map(|_| number()).collect();
    to(&Tensor::from_slice(&values, shape).unwrap(), half)
}

/// The definition: operands are widened whole, and the result is rounded once.
fn defined(op: &HalfMatmul) -> Tensor {
    let [a, b] = [&op.a, &op.b].map(|x| to(x, DType::F32));
    let product = dispatch(&Matmul { a, b }).unwrap();
    let sum = match &op.bias {
        Some(bias) => {
            let (kind, b) = (BinaryKind::Add, to(bias, DType::F32));
            dispatch(&Binary { kind, a: product, b }).unwrap()
        }
        None => product,
    };
    to(&sum, op.a.dtype())
}

#[test]
fn products_have_the_bits_of_widened_operands() {
    install();
    let shapes: [(&[usize], &[usize]); 11] = [
        (&[37, 300], &[300, 65]),
        // Several blocks of rows, of columns, and of k.
        (&[1100, 70], &[70, 33]),
        (&[37, 1100], &[1100, 1040]),
        (&[2, 1030, 9], &[2, 9, 33]),
        // A row, a column.
        (&[1, 700], &[700, 257]),
        (&[300, 520], &[520, 1]),
        // Many small products, and more than fit at once.
        (&[9, 7, 5], &[9, 5, 6]),
        (&[3, 1, 700, 4], &[3, 1, 4, 900]),
        (&[3, 40, 33], &[1, 33, 50]),
        (&[0, 5], &[5, 4]),
        (&[5, 0], &[0, 4]),
    ];
    for half in HALVES {
        // Products of ordinary numbers, and subnormal ones.
        for exponent in [0, if half == DType::F16 { -12 } else { -66 }] {
            for (number, (a, b)) in shapes.into_iter().enumerate() {
                if exponent != 0 && a[a.len() - 2] > 1000 {
                    continue;
                }
                let columns = b[b.len() - 1];
                let flip = |x: &Tensor| x.transpose(x.rank() - 2, x.rank() - 1).unwrap();
                let mut a = drawn(a, half, exponent, 1);
                let mut b = drawn(b, half, exponent, 2);
                // Each layout has its own packing.
                if number % 2 == 0 {
                    b = flip(&flip(&b).contiguous().unwrap());
                }
                if number % 3 == 0 {
                    a = flip(&flip(&a).contiguous().unwrap());
                }
                let bias = (number % 2 == 0).then(|| drawn(&[columns], half, 2 * exponent, 3));
                let op = HalfMatmul { a, b, bias };
                let expected = on_threads(1, || defined(&op).to_bytes().unwrap());
                let found = everywhere(|| dispatch(&op).unwrap().to_bytes().unwrap());
                let shapes = [op.a.shape(), op.b.shape()];
                assert!(found == expected, "{half}, 2^{exponent}: {shapes:?}");
            }
        }
    }
}

/// Returns `x` with subnormal numbers of its type replaced by zeros.
fn flushed(x: &Tensor) -> Tensor {
    let least = power(if x.dtype() == DType::F16 { -14 } else { -126 });
    let values: Vec<f32> = to(x, DType::F32).to_vec().unwrap();
    let flush = |&x: &f32| if x.abs() < least { 0.0 } else { x };
    let values: Vec<f32> = values.iter().map(flush).collect();
    to(&Tensor::from_slice(&values, x.shape()).unwrap(), x.dtype())
}

fn sum(a: &Tensor, b: &Tensor) -> Tensor {
    let kind = BinaryKind::Add;
    dispatch(&Binary { kind, a: to(a, DType::F32), b: to(b, DType::F32) }).unwrap()
}

/// Definitions that others use give other bits with the arguments of this test: sums rounded after
/// each block of k, products rounded before the bias is added, and subnormals flushed, of arguments or
/// of results.
#[test]
fn products_by_other_definitions_show() {
    install();
    for half in HALVES {
        let (k, exponent) = (600, if half == DType::F16 { -12 } else { -66 });
        let op = |exponent| {
            let [a, b] = [(1, [37, k]), (2, [k, 65])].map(|(seed, shape)| {
                let x = drawn(&shape, half, exponent, seed);
                // Without infinities and NaN, which would hide all else.
                let values: Vec<f32> = to(&x, DType::F32).to_vec().unwrap();
                let finite = |&x: &f32| if x.is_finite() { x } else { power(exponent) };
                let values: Vec<f32> = values.iter().map(finite).collect();
                to(&Tensor::from_slice(&values, &shape).unwrap(), half)
            });
            HalfMatmul { a, b, bias: Some(flushed(&drawn(&[65], half, 0, 3))) }
        };
        let bytes = |x: &Tensor| x.to_bytes().unwrap();
        let product = |a: &Tensor, b: &Tensor| {
            dispatch(&HalfMatmul { a: a.clone(), b: b.clone(), bias: None }).unwrap()
        };
        let ordinary = op(0);
        let right = dispatch(&ordinary).unwrap();
        assert!(bytes(&right) == bytes(&defined(&ordinary)));
        let HalfMatmul { a, b, bias } = &ordinary;
        let bias = bias.as_ref().unwrap();
        let twice = to(&sum(&product(a, b), bias), half);
        assert!(bytes(&right) != bytes(&twice), "{half}: rounded before the bias");
        let blocks = (0..k).step_by(256).map(|start| {
            let length = 256.min(k - start);
            product(&a.narrow(1, start, length).unwrap(), &b.narrow(0, start, length).unwrap())
        });
        let early = blocks.reduce(|x, y| to(&sum(&x, &y), half)).unwrap();
        assert!(bytes(&product(a, b)) != bytes(&early), "{half}: rounded after each block");
        let small = op(exponent);
        let right = product(&small.a, &small.b);
        assert!(bytes(&right) != bytes(&flushed(&right)), "{half}: flushed results");
        let tiny = drawn(&[37, k], half, if half == DType::F16 { -15 } else { -126 }, 4);
        let finite = |x: &Tensor| product(x, &to(&Tensor::full(&[k, 1], 1.0, half).unwrap(), half));
        assert!(bytes(&finite(&tiny)) != bytes(&finite(&flushed(&tiny))), "{half}: arguments");
    }
}

/// The operands, the result, and everything that the product allocates, on one thread.
fn held(half: bool) -> usize {
    let shape = [2048, 2048];
    let run = || {
        set_cache_limit(0);
        peak(|| {
            let dtype = if half { DType::BF16 } else { DType::F32 };
            let [a, b] = [0.25, 3.0].map(|x| Tensor::full(&shape, x, dtype).unwrap());
            match half {
                true => dispatch(&HalfMatmul { a, b, bias: None }).unwrap(),
                false => dispatch(&Matmul { a, b }).unwrap(),
            }
        })
    };
    on_threads(1, run)
}

#[test]
fn a_product_of_halves_takes_little_more_than_half_the_memory() {
    install();
    let [half, full] = [held(true), held(false)];
    assert!(full > 3 * 2048 * 2048 * size_of::<f32>(), "{full} bytes");
    assert!(5 * half <= 3 * full, "{half} and {full} bytes");
}
