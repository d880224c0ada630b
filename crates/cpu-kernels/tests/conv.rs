//! Convolutions: bits against the written order, whatever the machine.

use samebits_cpu_kernels::conv::{Convolution, Error, Params, TransposedConvolution, WEIGHT_BLOCK};
use samebits_cpu_kernels::matmul::{K_BLOCK, Real};
use samebits_numerics::simd::{self, Level};
use std::sync::Mutex;

/// The level is a property of the process, so tests that change it take turns.
static LEVEL: Mutex<()> = Mutex::new(());

/// Runs `check` at every level and with several thread counts.
fn on_every_machine(mut check: impl FnMut(&str) + Send) {
    let _turn = LEVEL.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    for level in Level::ALL {
        let level = simd::limit(level);
        for threads in [1, 2, 3, 7] {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| check(&format!("{} with {threads} threads", level.name())));
        }
    }
    simd::limit(simd::supported());
}

/// A convolution between an `input` and an `output` side, all spatial sizes of rank 3.
#[derive(Clone, Debug)]
struct Case {
    dimensions: usize,
    batch: usize,
    groups: usize,
    inputs: usize,
    outputs: usize,
    input: [usize; 3],
    output: [usize; 3],
    kernel: [usize; 3],
    stride: [usize; 3],
    padding: [usize; 3],
    dilation: [usize; 3],
}

fn volume(dims: [usize; 3]) -> usize {
    dims[0] * dims[1] * dims[2]
}

fn positions(dims: [usize; 3]) -> impl Iterator<Item = [usize; 3]> {
    (0..volume(dims)).map(move |i| [i / dims[2] / dims[1], i / dims[2] % dims[1], i % dims[2]])
}

/// A chain of fma cut into blocks, the steps counted by the caller.
struct Chain<T> {
    block: usize,
    current: usize,
    partial: T,
    total: Option<T>,
}

impl<T: Real> Chain<T> {
    fn new(block: usize) -> Chain<T> {
        Chain { block, current: 0, partial: T::default(), total: None }
    }
    fn close(&mut self, to: usize) {
        while self.current < to {
            self.total = Some(match self.total {
                None => self.partial,
                Some(total) => total.plus(self.partial),
            });
            self.partial = T::default();
            self.current += 1;
        }
    }
    fn step(&mut self, k: usize, a: T, b: T) {
        self.close(k / self.block);
        self.partial = a.fma(b, self.partial);
    }
    fn finish(mut self, steps: usize) -> T {
        self.close(steps.div_ceil(self.block));
        self.total.unwrap_or_default().canonical()
    }
}

impl Case {
    /// Where a tap of an output position reads.
    fn source(&self, output: [usize; 3], tap: [usize; 3]) -> Option<usize> {
        let mut at = 0;
        for d in 0..3 {
            let x = output[d] * self.stride[d] + tap[d] * self.dilation[d];
            let x = x.checked_sub(self.padding[d]).filter(|&x| x < self.input[d])?;
            at = at * self.input[d] + x;
        }
        Some(at)
    }

    fn lengths(&self) -> (usize, usize, usize) {
        (
            self.batch * self.groups * self.inputs * volume(self.input),
            self.groups * self.outputs * self.inputs * volume(self.kernel),
            self.batch * self.groups * self.outputs * volume(self.output),
        )
    }

    fn forward<T: Real>(&self, input: &[T], weight: &[T], bias: Option<&[T]>) -> Vec<T> {
        let taps = volume(self.kernel);
        let mut out = Vec::new();
        for n in 0..self.batch {
            for o in 0..self.groups * self.outputs {
                let group = o / self.outputs;
                for at in positions(self.output) {
                    let mut chain = Chain::new(K_BLOCK);
                    for c in 0..self.inputs {
                        let channel = (n * self.groups + group) * self.inputs + c;
                        for (t, tap) in positions(self.kernel).enumerate() {
                            let k = c * taps + t;
                            if let Some(x) = self.source(at, tap) {
                                let w = weight[o * self.inputs * taps + k];
                                chain.step(k, w, input[channel * volume(self.input) + x]);
                            }
                        }
                    }
                    let sum = chain.finish(self.inputs * taps);
                    out.push(bias.map_or(sum, |bias| sum.plus(bias[o]).canonical()));
                }
            }
        }
        out
    }

    fn data_gradient<T: Real>(&self, gradient: &[T], weight: &[T], bias: Option<&[T]>) -> Vec<T> {
        let taps = volume(self.kernel);
        let mut out = Vec::new();
        for n in 0..self.batch {
            for c in 0..self.groups * self.inputs {
                let group = c / self.inputs;
                // Which output each tap of each input position meets.
                let mut meets = vec![None; volume(self.input) * taps];
                for (o, at) in positions(self.output).enumerate() {
                    for (t, tap) in positions(self.kernel).enumerate() {
                        if let Some(x) = self.source(at, tap) {
                            meets[x * taps + t] = Some(o);
                        }
                    }
                }
                for x in 0..volume(self.input) {
                    let mut chain = Chain::new(K_BLOCK);
                    for o in 0..self.outputs {
                        let channel = (n * self.groups + group) * self.outputs + o;
                        for t in 0..taps {
                            if let Some(at) = meets[x * taps + t] {
                                let w = ((group * self.outputs + o) * self.inputs
                                    + c % self.inputs)
                                    * taps;
                                let g = gradient[channel * volume(self.output) + at];
                                chain.step(o * taps + t, weight[w + t], g);
                            }
                        }
                    }
                    let sum = chain.finish(self.outputs * taps);
                    out.push(bias.map_or(sum, |bias| sum.plus(bias[c]).canonical()));
                }
            }
        }
        out
    }

    fn weight_gradient<T: Real>(&self, input: &[T], gradient: &[T]) -> Vec<T> {
        let count = volume(self.output);
        let mut out = Vec::new();
        for o in 0..self.groups * self.outputs {
            let group = o / self.outputs;
            for c in 0..self.inputs {
                for tap in positions(self.kernel) {
                    let mut chain = Chain::new(WEIGHT_BLOCK);
                    for n in 0..self.batch {
                        let channel = (n * self.groups + group) * self.inputs + c;
                        let values = &input[channel * volume(self.input)..];
                        let gradient = &gradient[(n * self.groups * self.outputs + o) * count..];
                        for (i, at) in positions(self.output).enumerate() {
                            if let Some(x) = self.source(at, tap) {
                                chain.step(n * count + i, values[x], gradient[i]);
                            }
                        }
                    }
                    out.push(chain.finish(self.batch * count));
                }
            }
        }
        out
    }

    fn params(&self) -> Params {
        let last = |values: [usize; 3]| values[3 - self.dimensions..].to_vec();
        Params {
            stride: last(self.stride),
            padding: last(self.padding),
            dilation: last(self.dilation),
            groups: self.groups,
        }
    }

    fn shape(&self, outer: [usize; 2], dims: [usize; 3]) -> Vec<usize> {
        [&outer[..], &dims[3 - self.dimensions..]].concat()
    }

    fn convolution(&self) -> Convolution {
        let conv = Convolution::new(
            &self.shape([self.batch, self.groups * self.inputs], self.input),
            &self.shape([self.groups * self.outputs, self.inputs], self.kernel),
            &self.params(),
        )
        .unwrap();
        let want = self.shape([self.batch, self.groups * self.outputs], self.output);
        assert_eq!(conv.output_shape(), want);
        conv
    }

    fn transposed(&self) -> TransposedConvolution {
        let output_padding: Vec<usize> = (3 - self.dimensions..3)
            .map(|d| {
                self.input[d] + 2 * self.padding[d]
                    - (self.output[d] - 1) * self.stride[d]
                    - (self.kernel[d] - 1) * self.dilation[d]
                    - 1
            })
            .collect();
        let conv = TransposedConvolution::new(
            &self.shape([self.batch, self.groups * self.outputs], self.output),
            &self.shape([self.groups * self.outputs, self.inputs], self.kernel),
            &self.params(),
            &output_padding,
        )
        .unwrap();
        let want = self.shape([self.batch, self.groups * self.inputs], self.input);
        assert_eq!(conv.output_shape(), want);
        conv
    }

    /// Sizes from a generator, small enough for the oracle.
    fn random(rng: &mut Xorshift) -> Case {
        let dimensions = 1 + rng.below(3);
        let mut case = Case {
            dimensions,
            batch: rng.below(5),
            groups: [1, 1, 1, 2, 3][rng.below(5)],
            inputs: 1 + rng.below(4),
            outputs: 1 + rng.below(5),
            input: [1; 3],
            output: [1; 3],
            kernel: [1; 3],
            stride: [1; 3],
            padding: [0; 3],
            dilation: [1; 3],
        };
        match rng.below(6) {
            // Several blocks of channels.
            0 => case.inputs = 30 + rng.below(60),
            1 => case.outputs = 30 + rng.below(60),
            // Depthwise.
            2 => (case.groups, case.inputs, case.outputs) = (1 + rng.below(20), 1, 1),
            _ => {}
        }
        for d in 3 - dimensions..3 {
            case.kernel[d] = 1 + rng.below(4);
            case.stride[d] = 1 + rng.below(3);
            case.dilation[d] = 1 + rng.below(2);
            let reach = (case.kernel[d] - 1) * case.dilation[d] + 1;
            case.padding[d] = rng.below(reach + 1);
            let least = (reach.saturating_sub(2 * case.padding[d])).max(1);
            case.input[d] = least + rng.below([0, 40, 12, 6][dimensions]);
            case.output[d] = (case.input[d] + 2 * case.padding[d] - reach) / case.stride[d] + 1;
        }
        case
    }
}

struct Xorshift(u64);

impl Xorshift {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
    fn below(&mut self, bound: usize) -> usize {
        (self.next() >> 33) as usize % bound
    }
}

trait Sample: Real {
    /// From an f32, exactly or by scaling f32's special values to the type's.
    fn draw(rng: &mut Xorshift, kind: Kind) -> Self;
    fn bits(self) -> u64;
}

/// What values to draw.
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

/// Inputs of a case with what the oracle makes of them.
struct Expected<T> {
    case: Case,
    input: Vec<T>,
    weight: Vec<T>,
    gradient: Vec<T>,
    output_bias: Vec<T>,
    input_bias: Vec<T>,
    forward: Vec<T>,
    data: Vec<T>,
    data_biased: Vec<T>,
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
        let input_bias = draw(case.groups * case.inputs, kinds[0]);
        Expected {
            forward: case.forward(&input, &weight, Some(&output_bias)),
            data: case.data_gradient(&gradient, &weight, None),
            data_biased: case.data_gradient(&gradient, &weight, Some(&input_bias)),
            weights: case.weight_gradient(&input, &gradient),
            case,
            input,
            weight,
            gradient,
            output_bias,
            input_bias,
        }
    }

    fn check(&self, machine: &str) {
        let Expected { case, input, weight, gradient, .. } = self;
        let (conv, transposed) = (case.convolution(), case.transposed());
        let stale = T::draw(&mut Xorshift(3), Kind::Ordinary);
        let what = |pass: &str| format!("{pass} of {case:?} at {machine}");

        let mut out = vec![stale; gradient.len()];
        conv.forward(input, weight, Some(&self.output_bias), &mut out).unwrap();
        assert_bits(&out, &self.forward, &what("forward"));

        let mut out = vec![stale; input.len()];
        conv.input_gradient(gradient, weight, &mut out).unwrap();
        assert_bits(&out, &self.data, &what("input gradient"));
        transposed.forward(gradient, weight, Some(&self.input_bias), &mut out).unwrap();
        assert_bits(&out, &self.data_biased, &what("transposed forward"));

        let mut out = vec![stale; weight.len()];
        conv.weight_gradient(input, gradient, &mut out).unwrap();
        assert_bits(&out, &self.weights, &what("weight gradient"));
        out.fill(stale);
        transposed.weight_gradient(gradient, input, &mut out).unwrap();
        assert_bits(&out, &self.weights, &what("transposed weight gradient"));
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

/// Sizes at which a pass is cut into strips, channels and merged images, and at which the
/// weight gradient shares out blocks or channels.
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

/// FPRev's probe: two big numbers cancel, and the result counts what is added after they met.
#[test]
fn the_order_of_addition_is_the_written_one() {
    let (channels, taps) = (70, 9);
    let k = channels * taps;
    let conv =
        Convolution::new(&[1, channels, 3, 3], &[1, channels, 3, 3], &Params::new(2)).unwrap();
    for (i, j) in [(0, 1), (3, 8), (8, 9), (0, 255), (0, 256), (255, 256), (256, 600), (300, 301)] {
        let mut input = vec![1.0f32; k];
        (input[i], input[j]) = (1e30, -1e30);
        let mut out = [0.0];
        conv.forward(&input, &vec![1.0; k], None, &mut out).unwrap();
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
    let conv = Convolution::new(&[1, 1, length], &[1, 1, 1], &Params::new(1)).unwrap();
    for (i, j) in [(0, 1), (0, 1023), (1023, 1024), (1500, 3000), (3072, 3100)] {
        let mut gradient = vec![1.0f32; length];
        (gradient[i], gradient[j]) = (1e30, -1e30);
        let mut out = [0.0];
        conv.weight_gradient(&vec![1.0; length], &gradient, &mut out).unwrap();
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
    let conv = Convolution::new(&[8, 3, 64, 64], &[8, 3, 3, 3], &Params::new(2)).unwrap();
    let mut rng = Xorshift(17);
    let mut draw = |count: usize| -> Vec<f32> {
        (0..count).map(|_| f32::draw(&mut rng, Kind::Ordinary)).collect()
    };
    let (input, gradient) = (draw(8 * 3 * 64 * 64), draw(8 * 8 * 62 * 62));
    let mut exact = vec![0.0f64; 8 * 27];
    let wide = |values: &[f32]| values.iter().map(|&x| f64::from(x)).collect::<Vec<_>>();
    conv.weight_gradient(&wide(&input), &wide(&gradient), &mut exact).unwrap();
    let mut out = vec![0.0; 8 * 27];
    conv.weight_gradient_unordered(&input, &gradient, &mut out).unwrap();
    for (got, want) in out.iter().zip(&exact) {
        assert!((f64::from(*got) - want).abs() < 1e-2, "{got} instead of {want}");
    }
}

#[test]
fn an_empty_batch_gives_empty_outputs_and_zero_weight_gradients() {
    let conv = Convolution::new(&[0, 2, 5], &[3, 2, 2], &Params::new(1)).unwrap();
    assert_eq!(conv.output_shape(), [0, 3, 4]);
    conv.forward::<f32>(&[], &[1.0; 12], None, &mut []).unwrap();
    conv.input_gradient::<f32>(&[], &[1.0; 12], &mut []).unwrap();
    let mut out = [7.0f32; 12];
    conv.weight_gradient(&[], &[], &mut out).unwrap();
    assert!(out.iter().all(|x| x.to_bits() == 0));
    let mut out = [7.0f32; 12];
    conv.weight_gradient_unordered(&[], &[], &mut out).unwrap();
    assert_eq!(out, [0.0; 12]);
}

#[test]
fn refusals_name_both_sides() {
    let new = |input: &[usize], weight: &[usize], params: &Params| {
        Convolution::new(input, weight, params).unwrap_err()
    };
    let two = Params::new(2);
    assert_eq!(
        new(&[1, 2, 8, 8], &[4, 3, 3, 3], &two).to_string(),
        "convolution: input of shape [1, 2, 8, 8] has 2 channels, weights of shape [4, 3, 3, 3] in \
         1 groups take 3"
    );
    assert_eq!(
        new(&[1, 3, 2, 8], &[4, 3, 3, 3], &two).to_string(),
        "convolution: the kernel reaches over [3, 3] elements and the padded input has [2, 8]; pad \
         more or use a smaller kernel"
    );
    assert!(matches!(new(&[1, 3, 8], &[4, 3, 3, 3], &two), Error::Rank { what: "weights", .. }));
    assert!(matches!(new(&[3, 8], &[4, 3], &two), Error::Rank { what: "input", .. }));
    let error = new(&[1, 3, 8], &[4, 3, 3], &two);
    assert!(matches!(error, Error::ParameterCount { what: "stride", got: 2, want: 1, .. }));
    for (input, weight) in [([1, 3, 0, 8], [4, 3, 3, 3]), ([1, 0, 8, 8], [4, 0, 3, 3])] {
        assert!(matches!(new(&input, &weight, &two), Error::Zero { .. }));
    }
    let stopped = Params { stride: vec![1, 0], ..Params::new(2) };
    assert!(matches!(
        new(&[1, 3, 8, 8], &[4, 3, 3, 3], &stopped),
        Error::Zero { what: "stride", .. }
    ));
    let grouped = Params { groups: 3, ..Params::new(2) };
    let error = new(&[1, 3, 8, 8], &[4, 1, 3, 3], &grouped);
    assert!(matches!(error, Error::Groups { channels: 4, groups: 3, .. }));
    let huge = Params { padding: vec![usize::MAX / 2, 1], ..Params::new(2) };
    assert!(matches!(new(&[1, 3, 8, 8], &[4, 3, 3, 3], &huge), Error::TooLarge { .. }));
    assert!(matches!(new(&[usize::MAX / 8, 3, 8, 8], &[4, 3, 3, 3], &two), Error::TooLarge { .. }));

    let transposed = |input: &[usize], params: &Params, output_padding: &[usize]| {
        TransposedConvolution::new(input, &[3, 4, 3, 3], params, output_padding).unwrap_err()
    };
    let strided = Params { stride: vec![2, 2], ..Params::new(2) };
    let error = transposed(&[1, 3, 8, 8], &strided, &[2, 2]);
    assert!(matches!(error, Error::OutputPadding { .. }));
    let padded = Params { padding: vec![2, 2], ..Params::new(2) };
    let error = transposed(&[1, 3, 1, 1], &padded, &[0, 0]);
    assert!(matches!(error, Error::EmptyOutput { .. }), "{error}");
    let error = transposed(&[1, 3, 8, 8], &two, &[0]);
    assert!(matches!(error, Error::ParameterCount { what: "output padding", .. }));

    let conv = Convolution::new(&[1, 1, 4], &[1, 1, 3], &Params::new(1)).unwrap();
    let error = conv.forward(&[0.0f32; 4], &[0.0; 3], Some(&[0.0; 2]), &mut [0.0; 2]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "convolution: the bias has 2 elements, its shape has 1; pass a slice of 1"
    );
    let error = conv.forward(&[0.0f32; 4], &[0.0; 3], None, &mut [0.0; 3]).unwrap_err();
    assert!(matches!(error, Error::Length { what: "output", want: 2, got: 3, .. }));
}
