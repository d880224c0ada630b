//! The independent truth about each f32 function, and the comparison with it. The tests use
//! samples; `cargo xtask verify-math` uses all inputs.

use samebits_numerics::math::{self, UnaryF32};
use samebits_numerics::simd::Level;

/// A function and its oracle.
pub(crate) struct Function {
    pub(crate) name: &'static str,
    /// The code that kernels run: the slice function at a given level.
    pub(crate) map_at: fn(Level, &[f32], &mut [f32]),
    /// The scalar function.
    pub(crate) eval: fn(f32) -> f32,
    /// The correctly rounded value; any NaN stands for NaN.
    pub(crate) truth: fn(f32) -> f32,
}

/// An input for which a function is wrong.
#[derive(Debug, PartialEq)]
pub(crate) struct Mismatch {
    pub(crate) input: u32,
    pub(crate) got: u32,
    pub(crate) want: u32,
}

impl Function {
    pub(crate) fn new<F: UnaryF32 + Default>(_: F, truth: fn(f32) -> f32) -> Function {
        Function {
            name: F::NAME,
            map_at: |level, input, output| F::default().map_at(level, input, output),
            eval: |x| F::default().eval(x),
            truth,
        }
    }

    /// Compares the slice function with the truth for `inputs`.
    pub(crate) fn check(&self, level: Level, inputs: &[f32]) -> Vec<Mismatch> {
        let mut output = vec![0.0; inputs.len()];
        (self.map_at)(level, inputs, &mut output);
        let mut mismatches = Vec::new();
        for (&x, &y) in inputs.iter().zip(&output) {
            let (got, want) = (y.to_bits(), bits((self.truth)(x)));
            if got != want {
                mismatches.push(Mismatch { input: x.to_bits(), got, want });
            }
        }
        mismatches
    }
}

/// Returns every function of one f32, with CORE-MATH as the oracle if it has the function.
pub(crate) fn functions() -> Vec<Function> {
    vec![
        Function::new(math::Exp, core_math::expf),
        Function::new(math::Exp2, core_math::exp2f),
        Function::new(math::Expm1, core_math::expm1f),
        Function::new(math::Log, core_math::logf),
        Function::new(math::Log2, core_math::log2f),
        Function::new(math::Log10, core_math::log10f),
        Function::new(math::Log1p, core_math::log1pf),
        Function::new(math::Sin, core_math::sinf),
        Function::new(math::Cos, core_math::cosf),
        Function::new(math::Tan, core_math::tanf),
        Function::new(math::Sinpi, core_math::sinpif),
        Function::new(math::Cospi, core_math::cospif),
        Function::new(math::Asin, core_math::asinf),
        Function::new(math::Acos, core_math::acosf),
        Function::new(math::Atan, core_math::atanf),
        Function::new(math::Sinh, core_math::sinhf),
        Function::new(math::Cosh, core_math::coshf),
        Function::new(math::Sigmoid, sigmoid),
        Function::new(math::Tanh, core_math::tanhf),
        Function::new(math::Erf, core_math::erff),
        Function::new(math::Erfc, core_math::erfcf),
        Function::new(math::Sqrt, f32::sqrt),
        Function::new(math::Rsqrt, core_math::rsqrtf),
        Function::new(math::Cbrt, core_math::cbrtf),
    ]
}

/// Returns the bits of `y`; any NaN gives the canonical one.
pub(crate) fn bits(y: f32) -> u32 {
    if y.is_nan() { 0x7fc0_0000 } else { y.to_bits() }
}

/// Computes the logistic function, which CORE-MATH lacks.
///
/// Computes 1 / (1 + e^-x) in double-double arithmetic, as an interval: if both ends round to the
/// same f32, that is the value. The exponential is first CORE-MATH's, correctly rounded to f64. If
/// the interval contains a rounding boundary, the series below is used, within 2^-94.
///
/// # Panics
///
/// If the second interval contains a rounding boundary, too. It does so for no f32.
pub(crate) fn sigmoid(x: f32) -> f32 {
    if x.is_nan() {
        return x;
    }
    if x.abs() > 120.0 {
        return if x > 0.0 { 1.0 } else { 0.0 };
    }
    let x = f64::from(x);
    let (below, above) = logistic((core_math::exp(-x), 0.0), 1.1 / (1u64 << 53) as f64);
    if below == above {
        return below;
    }
    let (below, above) = logistic(exp(-x), 1.0 / (1u128 << 93) as f64);
    assert_eq!(below, above, "sigmoid({x:e}) is undecided");
    below
}

/// A sum of two numbers, the second within the last place of the first.
pub(crate) type Pair = (f64, f64);

/// Computes 1 / (1 + e), within 2^-98 of it.
pub(crate) fn one_over_one_plus(e: Pair) -> Pair {
    div((1.0, 0.0), add((1.0, 0.0), e))
}

/// Computes 1 / (1 + e) times 1 -+ error, rounded.
fn logistic(e: Pair, error: f64) -> (f32, f32) {
    let value = one_over_one_plus(e);
    let margin = value.0 * error;
    (round((value.0, value.1 - margin)), round((value.0, value.1 + margin)))
}

/// Computes e^x for |x| <= 700, within 2^-94 of it.
pub(crate) fn exp(x: f64) -> Pair {
    // ln 2 in 40, 53 and 53 bits.
    const LN_2: [u64; 3] = [0x3fe6_2e42_fefa_2000, 0x3d69_ef35_793c_7673, 0x398f_97b5_7a07_9a19];
    let [high, middle, low] = LN_2.map(f64::from_bits);
    let k = (x * std::f64::consts::LOG2_E).round();
    let r = add((x - k * high, 0.0), mul((-k, 0.0), (middle, low)));
    let mut term = (1.0, 0.0);
    let mut sum = (1.0, 0.0);
    for i in 1..32 {
        term = div(mul(term, r), (f64::from(i), 0.0));
        sum = add(sum, term);
    }
    let power = f64::from_bits(((1023.0 + k) as u64) << 52);
    (sum.0 * power, sum.1 * power)
}

fn two_sum(a: f64, b: f64) -> Pair {
    let s = a + b;
    let t = s - a;
    (s, (a - (s - t)) + (b - t))
}

fn two_product(a: f64, b: f64) -> Pair {
    let p = a * b;
    (p, a.mul_add(b, -p))
}

fn add(a: Pair, b: Pair) -> Pair {
    let (s, t) = (two_sum(a.0, b.0), two_sum(a.1, b.1));
    let v = two_sum(s.0, s.1 + t.0);
    two_sum(v.0, v.1 + t.1)
}

fn mul(a: Pair, b: Pair) -> Pair {
    let p = two_product(a.0, b.0);
    two_sum(p.0, p.1 + (a.0 * b.1 + a.1 * b.0))
}

fn div(a: Pair, b: Pair) -> Pair {
    let first = a.0 / b.0;
    let rest = add(a, mul(b, (-first, 0.0)));
    let second = rest.0 / b.0;
    let rest = add(rest, mul(b, (-second, 0.0)));
    let sum = two_sum(first, second);
    two_sum(sum.0, sum.1 + rest.0 / b.0)
}

/// Returns the f32 nearest to a pair. The sum is first rounded to odd in f64, which keeps it off
/// midpoints.
fn round(a: Pair) -> f32 {
    let (sum, lost) = two_sum(a.0, a.1);
    let mut bits = sum.to_bits();
    if lost != 0.0 && bits & 1 == 0 {
        // All values here are positive.
        bits = if lost > 0.0 { bits + 1 } else { bits - 1 };
    }
    f64::from_bits(bits) as f32
}
