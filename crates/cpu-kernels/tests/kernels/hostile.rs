//! Absurd sizes, strides and parameters give a result or an error that names the operation; never a
//! panic, a crash or an endless computation.

use std::fmt::{Debug, Display};

use crate::invariance::{Random, bits};
use samebits_cpu_kernels::Float;
use samebits_cpu_kernels::conv::{self, ConvParams, Convolution};
use samebits_cpu_kernels::conv_algorithms::{Algorithm, ConvPass};
use samebits_cpu_kernels::linalg;
use samebits_cpu_kernels::matmul::{Matrix, Real, matmul, matmul_batched};

/// Numbers whose products and sums wrap around, especially to small numbers.
const NUMBERS: [usize; 18] = [
    0,
    1,
    2,
    3,
    5,
    54,
    256,
    1 << 16,
    1 << 31,
    1 << 32,
    1 << 40,
    1 << 61,
    1 << 62,
    (1 << 63) - 1,
    1 << 63,
    341_606_371_735_362_067,
    usize::MAX - 1,
    usize::MAX,
];

fn number(random: &mut Random) -> usize {
    NUMBERS[random.below(NUMBERS.len())]
}

#[test]
fn a_number_of_outputs_that_wraps_around_is_refused() {
    fn check<T: Real + Float>() {
        let one = [T::ONE];
        let a = Matrix::with_strides(&one, 54, 1, 0, 0).unwrap();
        let b = Matrix::with_strides(&one, 1, 341_606_371_735_362_067, 0, 0).unwrap();
        let error = matmul(a, b, &mut [T::ZERO; 2]).unwrap_err().to_string();
        assert!(error.starts_with("matmul: "), "{error}");
        let error = matmul_batched(a, &[0; 2], b, &[0; 2], &mut [T::ZERO; 4]).unwrap_err();
        assert!(error.to_string().starts_with("matmul: "), "{error}");
    }
    check::<f32>();
    check::<f64>();
}

/// Inner sizes are small, because the time of a product of expanded operands grows with them.
#[test]
fn products_of_hostile_matrices_are_right_or_refused() {
    fn check<T: Real + Float>(random: &mut Random) -> bool {
        let small = |random: &mut Random| random.below(4);
        let len = 1 + random.below(40);
        let data: Vec<T> = random.units(len);
        let (k, strides) = (small(random), [(); 4].map(|()| number(random)));
        let sizes =
            [(); 2].map(|()| if random.below(2) == 0 { small(random) } else { number(random) });
        let offset = if random.below(4) == 0 { number(random) } else { small(random) };
        let Ok(a) = Matrix::with_strides(&data, sizes[0], k, strides[0], strides[1]) else {
            return false;
        };
        let Ok(b) = Matrix::with_strides(&data, k, sizes[1], strides[2], strides[3]) else {
            return false;
        };
        let mut out = vec![T::ONE; sizes[0].wrapping_mul(sizes[1]).min(64)];
        if matmul_batched(a, &[offset], b, &[0], &mut out).is_err() {
            return false;
        }
        for (at, got) in out.iter().enumerate() {
            let (i, j) = (at / sizes[1], at % sizes[1]);
            let mut want = T::ZERO;
            for step in 0..k {
                let left = data[offset + i * strides[0] + step * strides[1]];
                want = left.fma(data[step * strides[2] + j * strides[3]], want);
            }
            assert_eq!(bits(&[*got]), bits(&[want]), "{sizes:?} {k} {strides:?}");
        }
        !out.is_empty()
    }
    let mut random = Random(15);
    let mut right = 0;
    for _ in 0..40_000 {
        right += usize::from(check::<f32>(&mut random)) + usize::from(check::<f64>(&mut random));
    }
    assert!(right > 1000, "{right}");
}

#[test]
fn transposing_checks_what_does_not_wrap_around() {
    fn check<T: Float>() {
        for (stride, width) in [(1 << 61, 8), (8, 1 << 61), (usize::MAX, usize::MAX)] {
            let outcome = std::panic::catch_unwind(|| {
                let from = [T::ONE; 64];
                T::transpose(&from, stride, (9, 9), &mut [T::ZERO; 64], width);
            });
            assert!(outcome.is_err(), "{stride} {width}");
        }
    }
    check::<f32>();
    check::<f64>();
}

#[test]
fn decompositions_refuse_sizes_that_wrap_around() {
    let huge = 1 << 32;
    let (x, mut a, mut b) = ([1.0f32; 4], [0.0; 4], [0.0; 4]);
    let named = |error: samebits_cpu_kernels::Error, op: &str| {
        assert!(error.to_string().starts_with(op), "{error}");
    };
    named(linalg::qr(&x, [huge, huge], 0, &mut a, &mut b).unwrap_err(), "qr: ");
    named(linalg::qr(&x, [2, 2], usize::MAX / 2 + 3, &mut a, &mut b).unwrap_err(), "qr: ");
    named(linalg::svd(&x, [huge, huge], &mut a, &mut b, &mut [0.0; 4]).unwrap_err(), "svd: ");
    named(linalg::qr_backward([&x, &x], [&x, &x], [huge, huge], &mut a).unwrap_err(), "qr: ");
}

/// A convolution with the result of its definition.
#[derive(Debug)]
struct Case {
    input: Vec<usize>,
    weight: Vec<usize>,
    params: ConvParams,
    output: Vec<usize>,
}

impl Case {
    fn random(random: &mut Random) -> samebits_tensor_core::Result<Case> {
        let dimensions = 1 + random.below(3);
        let groups = if random.below(30) == 0 { number(random) } else { 1 + random.below(2) };
        let [mut input, mut weight] = [(); 2].map(|()| vec![1 + random.below(2)]);
        input.push(groups.wrapping_mul(1 + random.below(2)));
        weight[0] = groups.wrapping_mul(weight[0]);
        weight.push(input[1].checked_div(groups).unwrap_or(1));
        for _ in 0..dimensions {
            input.push(1 + random.below(5));
            weight.push(1 + random.below(3));
        }
        let pick = |random: &mut Random, small: usize| {
            (0..dimensions)
                .map(
                    |_| if random.below(3) == 0 { number(random) } else { small + random.below(3) },
                )
                .collect::<Vec<_>>()
        };
        let (stride, dilation) = (pick(random, 1), pick(random, 1));
        let mut padding = pick(random, 0);
        if random.below(3) == 0 {
            // Often a size at which the kernel fits and has most taps in the padding.
            padding = dilation.iter().map(|d| d.wrapping_add(random.below(2))).collect();
        }
        let params = ConvParams { stride, padding, dilation, groups };
        let output = Convolution::new("conv", &input, &weight, &params)?.output_shape();
        Ok(Case { input, weight, params, output })
    }

    /// Calls `f(input, weight, output)` with the positions of each product in ascending order.
    fn visit(&self, mut f: impl FnMut(usize, usize, usize)) {
        let groups = self.params.groups;
        let (inputs, outputs) = (self.weight[1], self.weight[0] / groups);
        for (n, g, o) in product(&[self.input[0], groups, outputs]) {
            for to in places(&self.output[2..]) {
                for c in 0..inputs {
                    for tap in places(&self.weight[2..]) {
                        let Some(from) = self.read(&to, &tap) else { continue };
                        let input = [&[n, g * inputs + c], &from[..]].concat();
                        let output = [&[n, g * outputs + o], &to[..]].concat();
                        let weight = [&[g * outputs + o, c], &tap[..]].concat();
                        f(
                            flat(&self.input, &input),
                            flat(&self.weight, &weight),
                            flat(&self.output, &output),
                        );
                    }
                }
            }
        }
    }

    fn read(&self, to: &[usize], tap: &[usize]) -> Option<Vec<usize>> {
        let at = |d: usize| -> Option<usize> {
            let at = to[d] as i128 * self.params.stride[d] as i128
                + tap[d] as i128 * self.params.dilation[d] as i128
                - self.params.padding[d] as i128;
            usize::try_from(at).ok().filter(|&at| at < self.input[2 + d])
        };
        (0..to.len()).map(at).collect()
    }
}

fn product(sizes: &[usize; 3]) -> impl Iterator<Item = (usize, usize, usize)> {
    let [a, b, c] = *sizes;
    (0..a).flat_map(move |i| (0..b).flat_map(move |j| (0..c).map(move |k| (i, j, k))))
}

fn places(sizes: &[usize]) -> Vec<Vec<usize>> {
    let mut all = vec![vec![]];
    for &size in sizes {
        let longer =
            |place: &Vec<usize>| (0..size).map(|i| [&place[..], &[i]].concat()).collect::<Vec<_>>();
        all = all.iter().flat_map(longer).collect();
    }
    all
}

fn flat(shape: &[usize], place: &[usize]) -> usize {
    shape.iter().zip(place).fold(0, |at, (&size, &i)| at * size + i)
}

fn numel(shape: &[usize]) -> usize {
    shape.iter().try_fold(1usize, |all, &size| all.checked_mul(size)).unwrap_or(usize::MAX)
}

/// Returns whether a case is small enough for the definition and for one block of the contract.
fn is_small(case: &Case) -> bool {
    numel(&case.output) <= 1000
}

#[track_caller]
fn named<R: Debug, E: Display>(result: Result<R, E>) -> Option<R> {
    result
        .map_err(|error| {
            assert!(error.to_string().starts_with("conv: "), "{error}");
        })
        .ok()
}

#[test]
fn convolutions_with_hostile_parameters_are_right_or_refused() {
    let mut random = Random(16);
    let mut right = 0;
    for _ in 0..3000 {
        let Some(case) = named(Case::random(&mut random)) else { continue };
        if !is_small(&case) {
            continue;
        }
        let input: Vec<f64> = random.units(numel(&case.input));
        let weight: Vec<f64> = random.units(numel(&case.weight));
        let gradient: Vec<f64> = random.units(numel(&case.output));
        let mut wants =
            [vec![0.0; gradient.len()], vec![0.0; input.len()], vec![0.0; weight.len()]];
        case.visit(|i, w, o| {
            wants[0][o] += input[i] * weight[w];
            wants[1][i] += gradient[o] * weight[w];
            wants[2][w] += gradient[o] * input[i];
        });
        let conv = Convolution::new("conv", &case.input, &case.weight, &case.params).unwrap();
        let stale = wants.each_ref().map(|want| vec![f64::NAN; want.len()]);
        let [mut output, mut to_input, mut to_weight] = stale;
        conv::forward(&conv, &input, &weight, None, &mut output).unwrap();
        conv::input_grad(&conv, &gradient, &weight, &mut to_input).unwrap();
        conv::weight_grad(&conv, &input, &gradient, &mut to_weight).unwrap();
        let canonical = [output, to_input, to_weight];
        for (got, want) in canonical.iter().zip(&wants) {
            for (got, want) in got.iter().zip(want) {
                assert!((got - want).abs() < 1e-12, "{got} instead of {want}: {case:?}");
            }
        }
        algorithms_agree(&case, [&input, &weight, &gradient], &wants);
        right += 1;
    }
    assert!(right > 1000, "{right}");
}

fn algorithms_agree(case: &Case, values: [&Vec<f64>; 3], wants: &[Vec<f64>; 3]) {
    let [input, weight, gradient] = values.map(|x| x.iter().map(|&x| x as f32).collect::<Vec<_>>());
    let plan = &Convolution::new("conv", &case.input, &case.weight, &case.params).unwrap();
    let passes = [ConvPass::Forward, ConvPass::InputGrad, ConvPass::WeightGrad];
    for algorithm in Algorithm::ALL {
        for (pass, want) in passes.into_iter().zip(wants) {
            if !algorithm.applies(plan, pass) {
                continue;
            }
            assert!(algorithm.estimate(plan, pass) >= 0.0);
            if algorithm.workspace(plan, pass) > 1 << 30 {
                continue;
            }
            let mut out = vec![f32::NAN; want.len()];
            let done = match pass {
                ConvPass::Forward => algorithm.forward(plan, &input, &weight, None, &mut out),
                ConvPass::InputGrad => algorithm.input_grad(plan, &gradient, &weight, &mut out),
                ConvPass::WeightGrad => algorithm.weight_grad(plan, &input, &gradient, &mut out),
            };
            done.unwrap_or_else(|error| panic!("{error}: {algorithm:?} {pass:?} {case:?}"));
            for (got, want) in out.iter().zip(want) {
                assert!(
                    (f64::from(*got) - want).abs() < 1e-2,
                    "{got} instead of {want}: {algorithm:?} {pass:?} {case:?}"
                );
            }
        }
    }
}

/// Padding takes no memory.
#[test]
fn a_kernel_that_meets_little_but_padding_costs_little() {
    for far in [1 << 20, 1 << 40, 1 << 56] {
        let params = ConvParams {
            padding: vec![far; 2],
            dilation: vec![far; 2],
            ..ConvParams::padded(2, 0)
        };
        let (input, weight) = ([1, 1, 4, 4], [1, 1, 3, 3]);
        let values: Vec<f32> = (1..=16).map(|x| x as f32).collect();
        let conv = Convolution::new("conv", &input, &weight, &params).unwrap();
        assert_eq!(conv.output_shape(), input);
        let mut kernel = [9.0; 9];
        kernel[4] = 2.0;
        let double: Vec<f32> = values.iter().map(|x| 2.0 * x).collect();
        let mut out = [0.0; 16];
        conv::forward(&conv, &values, &kernel, None, &mut out).unwrap();
        assert_eq!(out[..], double);
        conv::input_grad(&conv, &values, &kernel, &mut out).unwrap();
        assert_eq!(out[..], double);
        let mut out = [f32::NAN; 9];
        conv::weight_grad(&conv, &values, &[1.0; 16], &mut out).unwrap();
        assert_eq!(out, [0.0, 0.0, 0.0, 0.0, 136.0, 0.0, 0.0, 0.0, 0.0]);
        let plan = &Convolution::new("conv", &input, &weight, &params).unwrap();
        let mut out = [0.0; 16];
        Algorithm::Im2col.forward(plan, &values, &kernel, None, &mut out).unwrap();
        assert_eq!(out[..], double);
        if far > 1 << 30 {
            let error = Algorithm::Fft.forward(plan, &values, &kernel, None, &mut [0.0; 16]);
            let error = error.unwrap_err().to_string();
            assert!(error.contains("memory"), "{error}");
        }
    }
}
