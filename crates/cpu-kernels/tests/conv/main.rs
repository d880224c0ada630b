//! Convolutions: bits against the written order, on any machine.

#[path = "../invariance/mod.rs"]
mod invariance;
mod oracle;

use invariance::{on_every_machine, on_threads};
use oracle::{Case, Xorshift};
use samebits_cpu_kernels::conv::{self, ConvParams, Convolution, WEIGHT_BLOCK};
use samebits_cpu_kernels::matmul::{K_BLOCK, Real};
trait Sample: Real {
    /// Draws from an f32, exactly or by scaling f32's special values to the type's.
    fn draw(rng: &mut Xorshift, kind: Kind) -> Self;
    fn bits(self) -> u64;
}

/// The kind of values to draw.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Ordinary,
    /// Zeros, and numbers so small that products underflow to zeros of both signs.
    Underflow,
    /// Infinities and NaN among zeros and ordinary numbers.
    Special,
}

macro_rules! sample {
    ($elem:ty, $tiny:expr, $least:expr) => {
        impl Sample for $elem {
            fn draw(rng: &mut Xorshift, kind: Kind) -> $elem {
                let ordinary = (rng.next() >> 40) as $elem / 8388608.0 - 1.0;
                match (kind, rng.below(20)) {
                    (Kind::Ordinary, _) => ordinary,
                    (Kind::Underflow, 0..5) => 0.0,
                    (Kind::Underflow, 5) => -0.0,
                    (Kind::Underflow, 6) => ordinary,
                    (Kind::Underflow, 7) => $least,
                    (Kind::Underflow, _) => $tiny * ordinary,
                    (Kind::Special, 0) => <$elem>::INFINITY * ordinary.signum(),
                    (Kind::Special, 1) => <$elem>::NAN,
                    (Kind::Special, 2..6) => 0.0,
                    (Kind::Special, 6) => -0.0,
                    (Kind::Special, _) => ordinary,
                }
            }
            fn bits(self) -> u64 {
                u64::from(self.to_bits())
            }
        }
    };
}
sample!(f32, 1e-23, f32::from_bits(1));
sample!(f64, 1e-162, f64::from_bits(1));

#[track_caller]
fn assert_bits<T: Sample>(got: &[T], want: &[T], what: &str) {
    assert_eq!(got.len(), want.len(), "{what}");
    for (i, (g, w)) in got.iter().zip(want).enumerate() {
        assert!(g.bits() == w.bits(), "{what}: element {i}: {g:?} instead of {w:?}");
    }
}

/// The inputs of a case with the oracle's results.
struct Expected<T> {
    case: Case,
    input: Vec<T>,
    weight: Vec<T>,
    gradient: Vec<T>,
    output_bias: Vec<T>,
    forward: Vec<T>,
    data: Vec<T>,
    weights: Vec<T>,
}

impl<T: Sample> Expected<T> {
    fn new(case: Case, rng: &mut Xorshift, kinds: [Kind; 3]) -> Self {
        let (inputs, weights, outputs) = case.lengths();
        let mut draw =
            |count: usize, kind| -> Vec<T> { (0..count).map(|_| T::draw(rng, kind)).collect() };
        let input = draw(inputs, kinds[0]);
        let weight = draw(weights, kinds[1]);
        let gradient = draw(outputs, kinds[2]);
        let output_bias = draw(case.groups * case.outputs, kinds[0]);
        Expected {
            forward: case.forward(&input, &weight, Some(&output_bias)),
            data: case.input_gradient(&gradient, &weight),
            weights: case.weight_gradient(&input, &gradient),
            case,
            input,
            weight,
            gradient,
            output_bias,
        }
    }

    fn check(&self, machine: &str) {
        let Expected { case, input, weight, gradient, .. } = self;
        let conv = case.convolution();
        let stale = T::draw(&mut Xorshift(3), Kind::Ordinary);
        let what = |pass: &str| format!("{pass} of {case:?} at {machine}");

        let mut out = vec![stale; gradient.len()];
        conv::forward(&conv, input, weight, Some(&self.output_bias), &mut out).unwrap();
        assert_bits(&out, &self.forward, &what("forward"));

        let mut out = vec![stale; input.len()];
        conv::input_grad(&conv, gradient, weight, &mut out).unwrap();
        assert_bits(&out, &self.data, &what("input gradient"));

        let mut out = vec![stale; weight.len()];
        conv::weight_grad(&conv, input, gradient, &mut out).unwrap();
        assert_bits(&out, &self.weights, &what("weight gradient"));
    }
}

fn passes_match_the_oracle<T: Sample>(seed: u64, count: usize, kinds: &[[Kind; 3]]) {
    let mut rng = Xorshift(seed);
    let cases: Vec<_> = (0..count)
        .map(|i| Expected::<T>::new(Case::random(&mut rng), &mut rng, kinds[i % kinds.len()]))
        .collect();
    on_every_machine(|machine| {
        for expected in &cases {
            expected.check(machine);
        }
    });
}

#[test]
fn f32_passes_match_the_oracle() {
    passes_match_the_oracle::<f32>(0x51f1_5eed, 60, &[[Kind::Ordinary; 3]]);
}

#[test]
fn f64_passes_match_the_oracle() {
    passes_match_the_oracle::<f64>(0x51f2_5eed, 30, &[[Kind::Ordinary; 3]]);
}

#[test]
fn padding_is_skipped_when_products_underflow() {
    passes_match_the_oracle::<f32>(0x51f3_5eed, 60, &[[Kind::Underflow; 3]]);
    passes_match_the_oracle::<f64>(0x51f4_5eed, 20, &[[Kind::Underflow; 3]]);
}

#[test]
fn padding_is_skipped_when_values_are_infinite_or_nan() {
    use Kind::{Ordinary, Special, Underflow};
    let kinds = [
        [Ordinary, Special, Ordinary],
        [Ordinary, Underflow, Special],
        [Special, Underflow, Ordinary],
        [Special, Special, Special],
    ];
    passes_match_the_oracle::<f32>(0x51f5_5eed, 60, &kinds);
    passes_match_the_oracle::<f64>(0x51f6_5eed, 20, &kinds);
}

/// Sizes at which a pass is split into strips, channels and merged images, and at which the weight
/// gradient splits blocks or channels.
#[test]
fn larger_sizes_match_the_oracle() {
    let square =
        |batch, groups, inputs, outputs, size: usize, kernel, stride, padding: usize| Case {
            dimensions: 2,
            batch,
            groups,
            inputs,
            outputs,
            input: [1, size, size],
            output: [1; 3],
            kernel: [1, kernel, kernel],
            stride: [1, stride, stride],
            padding: [0, padding, padding],
            dilation: [1; 3],
        };
    let line = Case {
        dimensions: 1,
        input: [1, 1, 9000],
        kernel: [1, 1, 5],
        stride: [1, 1, 2],
        padding: [0, 0, 2],
        ..square(1, 1, 2, 9, 1, 1, 1, 0)
    };
    let cases = [
        square(2, 1, 3, 20, 40, 3, 1, 1),
        square(9, 1, 30, 70, 7, 3, 1, 1),
        square(5, 1, 5, 4, 43, 3, 2, 1),
        square(3, 6, 2, 2, 17, 3, 1, 1),
        square(2, 1, 70, 33, 9, 1, 1, 0),
        square(2, 1, 9, 65, 12, 1, 2, 0),
        square(33, 1, 1, 32, 8, 3, 1, 1),
        line,
    ];
    let mut rng = Xorshift(0x51f7_5eed);
    let cases: Vec<_> = cases
        .into_iter()
        .map(|mut case| {
            for d in 0..3 {
                let padded = case.input[d] + 2 * case.padding[d];
                case.output[d] = (padded - case.kernel[d]) / case.stride[d] + 1;
            }
            Expected::<f32>::new(case, &mut rng, [Kind::Ordinary; 3])
        })
        .collect();
    on_every_machine(|machine| {
        for expected in &cases {
            expected.check(machine);
        }
    });
}

/// FPRev's probe: two big numbers cancel, and the result counts the terms added after they met.
#[test]
fn the_order_of_addition_is_the_written_one() {
    let (channels, taps) = (70, 9);
    let k = channels * taps;
    let conv = Convolution::new(
        "conv",
        &[1, channels, 3, 3],
        &[1, channels, 3, 3],
        &ConvParams::padded(2, 0),
    )
    .unwrap();
    for (i, j) in [(0, 1), (3, 8), (8, 9), (0, 255), (0, 256), (255, 256), (256, 600), (300, 301)] {
        let mut input = vec![1.0f32; k];
        (input[i], input[j]) = (1e30, -1e30);
        let mut out = [0.0];
        conv::forward(&conv, &input, &vec![1.0; k], None, &mut out).unwrap();
        let (first, second) = (i / K_BLOCK, j / K_BLOCK);
        let block_end = k.min((second + 1) * K_BLOCK);
        let want = if first == second {
            first * K_BLOCK + (block_end - 1 - j) + (k - block_end)
        } else {
            k - block_end
        };
        assert_eq!(out, [want as f32], "big numbers at {i} and {j}");
    }

    let length = 3 * WEIGHT_BLOCK + 50;
    let conv =
        Convolution::new("conv", &[1, 1, length], &[1, 1, 1], &ConvParams::padded(1, 0)).unwrap();
    for (i, j) in [(0, 1), (0, 1023), (1023, 1024), (1500, 3000), (3072, 3100)] {
        let mut gradient = vec![1.0f32; length];
        (gradient[i], gradient[j]) = (1e30, -1e30);
        let mut out = [0.0];
        conv::weight_grad(&conv, &vec![1.0; length], &gradient, &mut out).unwrap();
        let (first, second) = (i / WEIGHT_BLOCK, j / WEIGHT_BLOCK);
        let block_end = length.min((second + 1) * WEIGHT_BLOCK);
        let want = if first == second {
            first * WEIGHT_BLOCK + (block_end - 1 - j) + (length - block_end)
        } else {
            length - block_end
        };
        assert_eq!(out, [want as f32], "big numbers at {i} and {j}");
    }
}

#[test]
fn unordered_weight_gradients_are_close_but_not_the_same_everywhere() {
    let conv = Convolution::new("conv", &[8, 3, 64, 64], &[8, 3, 3, 3], &ConvParams::padded(2, 0))
        .unwrap();
    let mut rng = Xorshift(17);
    let mut draw = |count: usize| -> Vec<f32> {
        (0..count).map(|_| f32::draw(&mut rng, Kind::Ordinary)).collect()
    };
    let (input, gradient) = (draw(8 * 3 * 64 * 64), draw(8 * 8 * 62 * 62));
    let mut exact = vec![0.0f64; 8 * 27];
    let wide = |values: &[f32]| values.iter().map(|&x| f64::from(x)).collect::<Vec<_>>();
    conv::weight_grad(&conv, &wide(&input), &wide(&gradient), &mut exact).unwrap();
    let mut ordered = vec![0.0; 8 * 27];
    conv::weight_grad(&conv, &input, &gradient, &mut ordered).unwrap();
    let mut others = 0;
    for _ in 0..1000 {
        let out = on_threads(7, || {
            let mut out = vec![0.0; 8 * 27];
            conv::weight_grad_unordered(&conv, &input, &gradient, &mut out).unwrap();
            out
        });
        for (got, want) in out.iter().zip(&exact) {
            assert!((f64::from(*got) - want).abs() < 1e-2, "{got} instead of {want}");
        }
        others += usize::from(out != ordered);
        if others > 0 {
            return;
        }
    }
    panic!("threads finished in order a thousand times, or the sums are in order");
}

#[test]
fn an_empty_batch_gives_empty_outputs_and_zero_weight_gradients() {
    let conv = Convolution::new("conv", &[0, 2, 5], &[3, 2, 2], &ConvParams::padded(1, 0)).unwrap();
    assert_eq!(conv.output_shape(), [0, 3, 4]);
    conv::forward::<f32>(&conv, &[], &[1.0; 12], None, &mut []).unwrap();
    conv::input_grad::<f32>(&conv, &[], &[1.0; 12], &mut []).unwrap();
    let mut out = [7.0f32; 12];
    conv::weight_grad(&conv, &[], &[], &mut out).unwrap();
    assert!(out.iter().all(|x| x.to_bits() == 0));
    let mut out = [7.0f32; 12];
    conv::weight_grad_unordered(&conv, &[], &[], &mut out).unwrap();
    assert_eq!(out, [0.0; 12]);
}

#[test]
fn refusals_name_both_sides() {
    let conv = Convolution::new("conv", &[1, 1, 4], &[1, 1, 3], &ConvParams::padded(1, 0)).unwrap();
    let run = |bias: Option<&[f32]>, out: &mut [f32]| {
        conv::forward(&conv, &[0.0f32; 4], &[0.0; 3], bias, out).unwrap_err().to_string()
    };
    let got = run(Some(&[0.0; 2]), &mut [0.0; 2]);
    assert_eq!(got, "conv: bias must have 1 elements, got 2");
    assert_eq!(run(None, &mut [0.0; 3]), "conv: out must have 2 elements, got 3");
    let error = conv::input_grad(&conv, &[0.0f32; 3], &[0.0; 3], &mut [0.0; 4]).unwrap_err();
    assert_eq!(error.to_string(), "conv: grad must have 2 elements, got 3");
    let error = conv::weight_grad(&conv, &[0.0f32; 4], &[0.0; 2], &mut [0.0; 4]).unwrap_err();
    assert_eq!(error.to_string(), "conv: grad_weight must have 3 elements, got 4");
}
