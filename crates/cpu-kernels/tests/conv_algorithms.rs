//! Every algorithm of every pass, forced: canonical ones have the contract's bits, the others stay
//! within their bound.

use samebits_cpu_kernels::conv::{self, ConvParams, Convolution};
use samebits_cpu_kernels::conv_algorithms::{Algorithm, ConvPass};
use samebits_rng::Generator;
use test_support::at_every_level;

// Unit tests in the library would need a second compilation of it, which takes minutes.
#[path = "../src/conv_algorithms/zeros.rs"]
mod zeros;

const PASSES: [ConvPass; 3] = [ConvPass::Forward, ConvPass::InputGrad, ConvPass::WeightGrad];

struct Case {
    input: Vec<usize>,
    weight: Vec<usize>,
    params: ConvParams,
}

fn case(input: &[usize], weight: &[usize], two: [[usize; 2]; 3], groups: usize) -> Case {
    let rank = input.len() - 2;
    let [stride, padding, dilation] = two.map(|v| match rank {
        1 => vec![v[1]],
        2 => v.to_vec(),
        _ => vec![1.min(v[0]), v[0], v[1]],
    });
    Case {
        input: input.to_vec(),
        weight: weight.to_vec(),
        params: ConvParams { stride, padding, dilation, groups },
    }
}

fn cases() -> Vec<Case> {
    vec![
        // Padding of 0, 1 and 2; sizes that fill no tile; several images.
        case(&[2, 3, 9, 11], &[5, 3, 3, 3], [[1, 1], [1, 1], [1, 1]], 1),
        case(&[1, 40, 17, 35], &[9, 40, 3, 3], [[1, 1], [0, 0], [1, 1]], 1),
        case(&[3, 4, 6, 5], &[8, 4, 3, 3], [[1, 1], [2, 2], [1, 1]], 1),
        case(&[1, 33, 14, 14], &[16, 33, 3, 3], [[1, 1], [1, 1], [1, 1]], 1),
        // Strides, dilations, other kernels.
        case(&[2, 3, 23, 37], &[8, 3, 7, 7], [[2, 2], [3, 3], [1, 1]], 1),
        case(&[1, 6, 12, 40], &[4, 6, 3, 5], [[1, 2], [1, 2], [2, 1]], 1),
        case(&[2, 5, 10, 9], &[7, 5, 2, 4], [[1, 1], [1, 3], [3, 2]], 1),
        case(&[2, 70, 8, 8], &[12, 70, 1, 1], [[1, 1], [0, 0], [1, 1]], 1),
        case(&[2, 8, 9, 9], &[12, 8, 1, 1], [[2, 2], [0, 0], [1, 1]], 1),
        case(&[1, 2, 5, 5], &[3, 2, 1, 1], [[1, 1], [2, 2], [1, 1]], 1),
        // Groups and depthwise.
        case(&[2, 6, 11, 10], &[8, 3, 3, 3], [[1, 1], [1, 1], [1, 1]], 2),
        case(&[2, 70, 12, 19], &[70, 1, 3, 3], [[1, 1], [1, 1], [1, 1]], 70),
        case(&[2, 5, 40, 41], &[5, 1, 3, 3], [[2, 2], [1, 1], [1, 1]], 5),
        case(&[3, 20, 10, 45], &[20, 1, 3, 5], [[1, 1], [1, 2], [1, 1]], 20),
        case(&[1, 3, 5, 90], &[3, 1, 2, 4], [[1, 1], [2, 3], [1, 2]], 3),
        case(&[1, 4, 9, 9], &[8, 1, 5, 5], [[1, 1], [2, 2], [1, 1]], 4),
        // Channels that fill lanes, or do not; groups that begin again within them.
        case(&[3, 20, 7, 9], &[20, 1, 2, 4], [[3, 3], [1, 1], [1, 1]], 20),
        case(&[9, 5, 8], &[5, 1, 4], [[1, 3], [0, 2], [1, 1]], 5),
        case(&[2, 31, 14, 8], &[31, 1, 7, 4], [[2, 2], [1, 1], [1, 1]], 31),
        case(&[2, 32, 10, 34], &[32, 1, 5, 7], [[1, 1], [0, 0], [1, 1]], 32),
        case(&[1, 40, 12, 9], &[40, 1, 3, 3], [[3, 2], [2, 3], [2, 2]], 40),
        case(&[4, 3, 3, 5, 6], &[3, 1, 2, 3, 2], [[1, 2], [1, 1], [1, 1]], 3),
        // One and three dimensions.
        case(&[2, 3, 70], &[4, 3, 5], [[1, 1], [0, 2], [1, 1]], 1),
        case(&[1, 4, 50], &[6, 4, 3], [[1, 3], [0, 1], [1, 2]], 1),
        case(&[1, 2, 5, 6, 7], &[3, 2, 3, 3, 3], [[1, 1], [1, 1], [1, 1]], 1),
        case(&[1, 3, 6, 9, 8], &[3, 1, 2, 3, 3], [[1, 2], [1, 1], [1, 1]], 3),
        // A kernel as large as the padded input.
        case(&[1, 1, 2, 2], &[1, 1, 4, 4], [[1, 1], [1, 1], [1, 1]], 1),
    ]
}

fn uniform(count: usize, stream: u64) -> Vec<f32> {
    let mut values = vec![0.0; count];
    let mut generator = Generator::new(7).with_stream(stream);
    generator.fill_uniform_f32(&mut values, -1.0, 1.0).unwrap();
    values
}

fn product(shape: &[usize]) -> usize {
    shape.iter().product()
}

/// The data of a case: input, weights, bias and output gradient.
struct Data {
    input: Vec<f32>,
    weight: Vec<f32>,
    bias: Vec<f32>,
    gradient: Vec<f32>,
}

impl Data {
    fn new(case: &Case, plan: &Convolution) -> Data {
        Data {
            input: uniform(product(&case.input), 1),
            weight: uniform(product(&case.weight), 2),
            bias: uniform(case.weight[0], 3),
            gradient: uniform(product(&plan.output_shape()), 4),
        }
    }

    fn all(&mut self) -> [&mut Vec<f32>; 3] {
        [&mut self.input, &mut self.weight, &mut self.gradient]
    }
}

fn run(
    plan: &Convolution,
    case: &Case,
    data: &Data,
    algorithm: Algorithm,
    pass: ConvPass,
) -> Vec<f32> {
    // Old content of the output must not show.
    let fresh = |shape: &[usize]| vec![f32::NAN; product(shape)];
    match pass {
        ConvPass::Forward => {
            let mut out = fresh(&plan.output_shape());
            let bias = Some(&data.bias[..]);
            algorithm.forward(plan, &data.input, &data.weight, bias, &mut out).unwrap();
            out
        }
        ConvPass::InputGrad => {
            let mut out = fresh(&case.input);
            algorithm.input_grad(plan, &data.gradient, &data.weight, &mut out).unwrap();
            out
        }
        ConvPass::WeightGrad => {
            let mut out = fresh(&case.weight);
            algorithm.weight_grad(plan, &data.input, &data.gradient, &mut out).unwrap();
            out
        }
    }
}

fn contract(case: &Case, data: &Data, pass: ConvPass) -> Vec<f32> {
    let conv = Convolution::new("conv", &case.input, &case.weight, &case.params).unwrap();
    match pass {
        ConvPass::Forward => {
            let mut out = vec![0.0; product(&conv.output_shape())];
            conv::forward(&conv, &data.input, &data.weight, Some(&data.bias), &mut out).unwrap();
            out
        }
        ConvPass::InputGrad => {
            let mut out = vec![0.0; product(&case.input)];
            conv::input_grad(&conv, &data.gradient, &data.weight, &mut out).unwrap();
            out
        }
        ConvPass::WeightGrad => {
            let mut out = vec![0.0; product(&case.weight)];
            conv::weight_grad(&conv, &data.input, &data.gradient, &mut out).unwrap();
            out
        }
    }
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|v| v.to_bits()).collect()
}

/// Calls `f` with every compatible case, algorithm and pass.
fn every(mut f: impl FnMut(&Convolution, &Case, Algorithm, ConvPass)) {
    for case in cases() {
        let plan = &Convolution::new("conv", &case.input, &case.weight, &case.params).unwrap();
        for algorithm in Algorithm::ALL {
            for pass in PASSES {
                if algorithm.applies(plan, pass) {
                    f(plan, &case, algorithm, pass);
                }
            }
        }
    }
}

fn expect_bits(case: &Case, data: &Data, plan: &Convolution, algorithm: Algorithm, pass: ConvPass) {
    let (want, got) = (contract(case, data, pass), run(plan, case, data, algorithm, pass));
    if bits(&want) == bits(&got) {
        return;
    }
    let at = (0..want.len()).find(|&i| want[i].to_bits() != got[i].to_bits()).unwrap();
    panic!(
        "{} {pass:?} of {:?} by {:?} {:?}: element {at} is {:?}, not {:?}",
        algorithm.name(),
        case.input,
        case.weight,
        case.params,
        got[at],
        want[at]
    );
}

#[test]
fn every_canonical_algorithm_has_the_bits_of_the_contract() {
    let mut forced = 0;
    every(|plan, case, algorithm, pass| {
        if algorithm.is_canonical(pass) {
            expect_bits(case, &Data::new(case, plan), plan, algorithm, pass);
            forced += 1;
        }
    });
    assert!(forced > 100, "{forced}");
}

/// Data for which multiplying by zero differs from skipping: products that underflow to −0, zeros
/// of both signs, infinities and NaNs among the weights and elsewhere.
#[test]
fn canonical_means_canonical_on_awkward_data_too() {
    every(|plan, case, algorithm, pass| {
        if !algorithm.is_canonical(pass) {
            return;
        }
        let mut tiny = Data::new(case, plan);
        for values in tiny.all() {
            for (i, value) in values.iter_mut().enumerate() {
                *value *= if i % 3 == 0 { -1e-30 } else { 1e-25 };
            }
        }
        tiny.bias.fill(-0.0);
        let mut zeros = Data::new(case, plan);
        for values in zeros.all() {
            for (i, value) in values.iter_mut().enumerate() {
                if i % 4 != 0 {
                    *value = if i % 3 == 0 { -0.0 } else { 0.0 };
                }
            }
        }
        zeros.bias.fill(-0.0);
        let mut wild = Data::new(case, plan);
        for values in wild.all() {
            let count = values.len();
            values[count / 2] = f32::INFINITY;
            values[count / 3] = f32::NAN;
            values[0] = f32::NEG_INFINITY;
        }
        for data in [tiny, zeros, wild] {
            expect_bits(case, &data, plan, algorithm, pass);
        }
    });
}

#[test]
fn every_bounded_algorithm_keeps_to_its_bound() {
    let mut worst: Vec<(Algorithm, f64)> = Vec::new();
    every(|plan, case, algorithm, pass| {
        if algorithm.is_canonical(pass) {
            return;
        }
        let data = Data::new(case, plan);
        let (want, got) = (contract(case, &data, pass), run(plan, case, &data, algorithm, pass));
        let taps = product(&case.weight[2..]);
        let terms = match pass {
            ConvPass::Forward => case.weight[1] * taps,
            ConvPass::InputGrad => case.weight[0] / case.params.groups * taps,
            ConvPass::WeightGrad => data.gradient.len() / case.weight[0],
        };
        // The factors are below 1.
        let bound = algorithm.tolerance(pass) * terms as f64;
        assert!(bound > 0.0);
        for (i, (want, got)) in want.iter().zip(&got).enumerate() {
            let error = (f64::from(*want) - f64::from(*got)).abs();
            // A NaN is not below the bound.
            assert!(
                error <= bound,
                "{} {pass:?} of {:?} by {:?}: element {i} is {got}, not {want}",
                algorithm.name(),
                case.input,
                case.weight
            );
            match worst.iter_mut().find(|(a, _)| *a == algorithm) {
                Some((_, most)) => *most = most.max(error / bound),
                None => worst.push((algorithm, error / bound)),
            }
        }
    });
    assert_eq!(worst.len(), 4, "{worst:?}");
    for (algorithm, share) in worst {
        assert!(
            share > 1e-3,
            "the bound of {} is so wide that it says nothing: {share}",
            algorithm.name()
        );
    }
}

#[test]
fn threads_change_no_bit_of_any_algorithm() {
    let pools: Vec<_> = [1, 2, 3, 7]
        .map(|n| rayon::ThreadPoolBuilder::new().num_threads(n).build().unwrap())
        .into();
    every(|plan, case, algorithm, pass| {
        let data = Data::new(case, plan);
        let results: Vec<_> = pools
            .iter()
            .map(|pool| bits(&pool.install(|| run(plan, case, &data, algorithm, pass))))
            .collect();
        assert!(results.iter().all(|r| *r == results[0]), "{} {pass:?}", algorithm.name());
    });
}

/// Everything that promises `Portable`, including Winograd, although no choice at that level uses
/// it.
#[test]
fn the_instruction_set_changes_no_bit_of_what_is_portable() {
    let mut lowest = Vec::new();
    at_every_level(|level| {
        let mut all = Vec::new();
        every(|plan, case, algorithm, pass| {
            if algorithm != Algorithm::Fft {
                let data = Data::new(case, plan);
                all.push((algorithm, pass, bits(&run(plan, case, &data, algorithm, pass))));
            }
        });
        if lowest.is_empty() {
            lowest = all;
            return;
        }
        for (a, b) in lowest.iter().zip(&all) {
            assert!(a == b, "{} {:?} at {}", a.0.name(), a.1, level.name());
        }
    });
}

#[test]
fn what_does_not_apply_is_said_before_it_runs() {
    let case = case(&[1, 2, 9, 9], &[2, 2, 3, 3], [[2, 2], [1, 1], [1, 1]], 1);
    let plan = &Convolution::new("conv", &case.input, &case.weight, &case.params).unwrap();
    let applies = |pass| {
        Algorithm::ALL.into_iter().filter(move |&a| a.applies(plan, pass)).map(Algorithm::name)
    };
    assert!(applies(ConvPass::Forward).eq(["implicit-gemm", "im2col"]));
    assert!(applies(ConvPass::InputGrad).eq(["implicit-gemm", "im2col"]));
    assert!(applies(ConvPass::WeightGrad).eq(["implicit-gemm", "im2col"]));
    let error = Algorithm::Fft.forward(plan, &[0.0; 162], &[0.0; 36], None, &mut [0.0; 50]);
    let message = error.unwrap_err().to_string();
    assert!(message.starts_with("conv: fft does not apply to forward of ConvSizes"), "{message}");
    let error = Algorithm::Im2col.forward(plan, &[0.0; 3], &[0.0; 36], None, &mut [0.0; 50]);
    assert!(error.unwrap_err().to_string().contains("input must have 162 elements, got 3"));
}

#[test]
fn small_factors_and_infinite_weights_are_not_harmless() {
    let harmless = |weights: &[f32], source: &[f32]| {
        zeros::zeros_are_harmless(zeros::Extent::of(weights), zeros::Extent::of(source))
    };
    assert!(harmless(&[1.0, 0.0, -2.0], &[0.5, 0.0]));
    assert!(!harmless(&[1.0, f32::INFINITY], &[0.5]));
    assert!(!harmless(&[1.0, f32::NAN], &[0.5]));
    assert!(harmless(&[1.0], &[f32::NAN]));
    assert!(!harmless(&[1e-20], &[-1e-20]));
    assert!(harmless(&[], &[]));
    let both = zeros::Extent::of(&[1.0]).with(zeros::Extent::of(&[-1e-20]));
    assert!(!zeros::zeros_are_harmless(both, both));
}

#[test]
fn units_are_those_of_the_format() {
    assert_eq!(zeros::unit(1.0f32.to_bits()), -23);
    assert_eq!(zeros::unit(f32::MIN_POSITIVE.to_bits()), -149);
    assert_eq!(zeros::unit(1), -149);
    assert_eq!(zeros::unit(f32::MAX.to_bits()), 104);
}
