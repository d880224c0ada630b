//! Root mean square normalisation has the bits of its definition, a composition of public operators.

use rayon::ThreadPoolBuilder;
use samebits::functional as f;
use samebits::numerics::math;
use samebits::ops::Cast;
use samebits::tensor_core::Tensor as Value;
use samebits::{DType, Result, Tensor, dispatch};
use workspace_tests::normal_of;

/// The arguments of one call.
struct Call {
    name: String,
    x: Tensor,
    /// The number of normalised dimensions.
    dims: usize,
    weight: Option<Tensor>,
    grad: Tensor,
    eps: f64,
}

type Norm = fn(&Tensor, usize, Option<&Tensor>, f64) -> Result<Tensor>;

/// Returns the result and the gradients of the input and, if there is one, the weight. If `recorded`, the
/// gradients can be differentiated again.
fn computed(call: &Call, norm: Norm, recorded: bool) -> Result<Vec<Value>> {
    let x = call.x.clone().set_requires_grad(true)?;
    let weight = call.weight.clone().map(|w| w.set_requires_grad(true)).transpose()?;
    let y = norm(&x, call.dims, weight.as_ref(), call.eps)?;
    let gradients = y.backward_from(call.grad.clone(), recorded)?;
    let of = [Some(&x), weight.as_ref()];
    let of = of.into_iter().flatten().map(|x| gradients.of(x).unwrap().value().clone());
    Ok([y.value().clone()].into_iter().chain(of).collect())
}

fn norm(x: &Tensor, dims: usize, weight: Option<&Tensor>, eps: f64) -> Result<Tensor> {
    f::rms_norm(x, &x.shape()[x.rank() - dims..], weight, Some(eps))
}

/// The definition of `docs/book/numerics.md`; its gradient is the one recorded.
fn defined(x: &Tensor, dims: usize, weight: Option<&Tensor>, eps: f64) -> Result<Tensor> {
    let number = |value: f64| Tensor::full(&[], value, x.dtype());
    let over: Vec<usize> = (x.rank() - dims..x.rank()).collect();
    let reach = if x.dtype() == DType::F64 { 800.0 } else { 100.0 };
    let size = match x.numel() {
        // There is no largest of no numbers, and nothing to divide.
        0 => f::mean(&x.detach(), &over, true)?,
        _ => f::norm(&x.detach(), f64::INFINITY, &over, true)?,
    };
    let size = f::maximum(&size, &number(eps.sqrt())?)?;
    let log = f::clamp(&f::floor(&f::log2(&size)?)?, Some(-reach), Some(reach))?;
    let scale = f::exp2(&log)?;
    let s = f::mul(x, &f::reciprocal(&scale)?)?;
    let eps = f::div(&f::div(&number(eps)?, &scale)?, &scale)?;
    let v = f::add(&f::mean(&f::square(&s)?, &over, true)?, &eps)?;
    let y = f::mul(&s, &f::rsqrt(&v)?)?;
    weight.map_or_else(|| Ok(y.clone()), |weight| f::mul(&y, weight))
}

/// Returns 2 to the power of `exponent`.
fn power(exponent: i32) -> f64 {
    math::f64::exp2(f64::from(exponent))
}

/// Returns normal numbers times a power of two. Some become `odd`; rows that hold none of them have
/// different magnitudes.
fn numbers(shape: &[usize], dtype: DType, seed: u64, exponent: i32, odd: &[f64]) -> Tensor {
    let x: Vec<f64> = normal_of(shape, DType::F64, seed).to_vec().unwrap();
    let mut x: Vec<f64> = x.into_iter().map(|x| x * power(exponent)).collect();
    let n = x.len();
    for (i, &odd) in odd.iter().enumerate().take(n) {
        x[(seed as usize * 7919 + i * 104_729) % n] = odd;
    }
    let x = Value::from_slice(&x, shape).unwrap();
    Tensor::from(dispatch(&Cast { x, to: dtype }).unwrap())
}

/// Magnitudes around which the floor of a logarithm, or a square, changes its mind.
fn hard(dtype: DType) -> Vec<f64> {
    let (ulp, exponents): (f64, &[i32]) = match dtype {
        DType::F64 => {
            (f64::EPSILON, &[-1022, -801, -800, -799, -512, -1, 0, 1, 3, 511, 800, 801, 1023])
        }
        _ => {
            (f64::from(f32::EPSILON), &[-126, -101, -100, -99, -64, -1, 0, 1, 3, 65, 100, 101, 127])
        }
    };
    let mut all = vec![0.0, -0.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN];
    for &exponent in exponents {
        let power = power(exponent);
        all.push(power);
        // The logarithms of the first few are rounded up to the exponent.
        for below in [1.0, 2.0, 3.0, 7.0, 30.0, 44.0, 45.0, 90.0, 250.0, 260.0, 3000.0, 5000.0] {
            all.push(power * (1.0 - below * ulp / 2.0));
            all.push(-power * (1.0 + below * ulp));
        }
    }
    // Subnormal numbers.
    all.extend([power(-149), -power(-140), power(-1074), power(-1040)]);
    all
}

/// Shapes, and the numbers of normalised dimensions.
const SIZES: [(&[usize], usize); 24] = [
    (&[], 0),
    (&[1], 1),
    (&[7], 0),
    (&[7], 1),
    (&[1, 7], 1),
    (&[5, 1], 1),
    (&[3, 1, 1], 2),
    (&[9, 20, 9, 1], 1),
    (&[300, 2], 1),
    (&[40, 3, 5], 2),
    (&[70, 31], 1),
    (&[130, 32], 1),
    (&[67, 33], 1),
    (&[5000, 8], 1),
    (&[4200, 40], 1),
    (&[2, 3, 4, 5], 4),
    (&[33, 768], 1),
    (&[6, 9, 100], 2),
    (&[3, 5000], 1),
    (&[1, 40_001], 1),
    (&[3, 40_000], 1),
    (&[40_000], 1),
    (&[0, 4], 1),
    (&[4, 0], 1),
];

fn calls(dtype: DType) -> Vec<Call> {
    let mut calls = Vec::new();
    let hard = hard(dtype);
    let far = if dtype == DType::F64 { 700 } else { 90 };
    for (number, &(shape, dims)) in SIZES.iter().enumerate() {
        for kind in 0..10 {
            let eps = [1e-5, 0.0, 1e-6, 1e-30, 1e-5, 2.0, f64::INFINITY, -0.0, 1e300, 1e-5][kind];
            let exponent = [0, 0, 12, -far, far, -12, 0, 0, far, -3][kind];
            // Of hard numbers there are a few or, in short rows, many.
            let count = [0, 1, 2, 0, 0, 3, 0, hard.len(), 2, 0][kind];
            let odd: Vec<f64> =
                (0..count).map(|i| hard[(7 * kind + number + i) % hard.len()]).collect();
            let seed = (number * 10 + kind) as u64;
            let make = |shape: &[usize], which: usize| {
                let odd = if which == seed as usize % 2 { &odd[..] } else { &[] };
                let exponent = if which == 0 { exponent } else { 0 };
                numbers(shape, dtype, 3 * seed + which as u64, exponent, odd)
            };
            let rank = shape.len();
            let mut x = make(shape, 0);
            if kind == 9 && rank > 0 && shape[0] > 1 {
                // Rows that repeat the first one, without memory of their own.
                x = f::expand(&f::narrow(&x, 0, 0, 1).unwrap(), shape).unwrap();
            } else if kind >= 4 && rank >= 2 {
                // A view whose rows have a stride.
                let mut other = shape.to_vec();
                other.swap(0, rank - 1);
                x = f::transpose(&make(&other, 0), 0, rank as i64 - 1).unwrap();
            }
            let row = &shape[rank - dims..];
            let weight = (kind % 3 != 1).then(|| make(if kind == 8 { &[] } else { row }, 2));
            let grad = make(shape, 1);
            let name = format!("{shape:?} over {dims}, {dtype}, kind {kind}");
            calls.push(Call { name, x, dims, weight, grad, eps });
        }
    }
    // Every hard number is a row.
    let n = hard.len();
    let x = Value::from_slice(&hard, &[n, 1]).unwrap();
    let x = Tensor::from(dispatch(&Cast { x, to: dtype }).unwrap());
    for (width, eps) in [(1, 0.0), (3, 0.0), (40, 0.0), (3, 1e-20)] {
        let x = f::expand(&x, &[n, width]).unwrap();
        let grad = numbers(&[n, width], dtype, 5, 0, &[]);
        let name = format!("hard rows of {width}, {dtype}");
        calls.push(Call { name, x, dims: 1, weight: None, grad, eps });
    }
    calls
}

/// One function, because the SIMD level applies to the process.
#[test]
fn rms_norm_has_the_bits_of_its_definition() {
    for dtype in [DType::F32, DType::F64] {
        let calls = calls(dtype);
        let expected: Vec<_> =
            calls.iter().map(|call| computed(call, defined, false).unwrap()).collect();
        let check = |setting: &str, recorded: bool| {
            for (call, expected) in calls.iter().zip(&expected) {
                let found = computed(call, norm, recorded).unwrap();
                assert_eq!(found.len(), expected.len());
                let names = ["result", "input", "weight"];
                for ((found, expected), what) in found.iter().zip(expected).zip(names) {
                    let same = samebits::rerun::same_bits(found, expected).unwrap();
                    assert!(same, "{}, {setting}: {what}\n{found:?}\n{expected:?}", call.name);
                }
            }
        };
        check("recorded", true);
        for threads in [1, 3] {
            let pool = ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| check(&format!("{threads} threads"), false));
        }
        test_support::at_every_level(|level| check(level.name(), false));
    }
}

/// The second derivative of a call whose gradient is computed by one kernel is that of the definition.
#[test]
fn second_derivatives_of_rms_norm_are_those_of_its_definition() {
    for (dtype, weighted) in [(DType::F64, true), (DType::F64, false), (DType::F32, true)] {
        let twice = |norm: Norm| -> Result<Vec<Vec<f64>>> {
            let x = numbers(&[4, 2, 5], dtype, 1, 0, &[]).set_requires_grad(true)?;
            let w = numbers(&[2, 5], dtype, 2, 0, &[]).set_requires_grad(true)?;
            let g = numbers(&[4, 2, 5], dtype, 3, 0, &[]).set_requires_grad(true)?;
            let y = norm(&x, 2, weighted.then_some(&w), 1e-3)?;
            let first = y.backward_from(g.clone(), true)?;
            let of = |x: &Tensor| first.of(x).unwrap().clone();
            let mut total = f::square(&of(&x))?.sum_all()?;
            if weighted {
                total = f::add(&total, &f::square(&of(&w))?.sum_all()?)?;
            }
            let second = total.backward()?;
            let of = [Some(&x), Some(&g), weighted.then_some(&w)].into_iter().flatten();
            of.map(|x| second.of(x).unwrap().to_dtype(DType::F64)?.to_vec::<f64>()).collect()
        };
        let (found, expected) = (twice(norm).unwrap(), twice(defined).unwrap());
        let bound = if dtype == DType::F64 { 1e-12 } else { 1e-4 };
        for (a, b) in found.iter().flatten().zip(expected.iter().flatten()) {
            assert!((a - b).abs() <= bound * (1.0 + b.abs()), "{a} and not {b}");
        }
    }
}
