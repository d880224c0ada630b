//! The f64 functions against CORE-MATH: at most one place from the correctly rounded value, exact
//! special values, and the same bits at every SIMD level.

use samebits_numerics::math::f64 as ours;
use samebits_numerics::simd::{self, Level};

use crate::{oracle, random};

struct Function {
    name: &'static str,
    map_at: fn(Level, &[f64], &mut [f64]),
    truth: fn(f64) -> f64,
}

/// The loop over a slice that a kernel would contain.
struct Map<'a, F>(F, &'a [f64], &'a mut [f64]);

impl<F: Fn(f64) -> f64> simd::Kernel for Map<'_, F> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        for (y, &x) in self.2.iter_mut().zip(self.1) {
            *y = (self.0)(x);
        }
    }
}

macro_rules! functions {
    ($($name:ident $truth:expr;)*) => {
        [$(Function {
            name: stringify!($name),
            map_at: |level, input, output| {
                simd::dispatch_at(level, Map(#[inline(always)] |x| ours::$name(x), input, output));
            },
            truth: $truth,
        }),*]
    };
}

fn functions() -> impl IntoIterator<Item = Function> {
    functions! {
        exp core_math::exp;
        exp2 core_math::exp2;
        expm1 core_math::expm1;
        log core_math::log;
        log2 core_math::log2;
        log10 core_math::log10;
        log1p core_math::log1p;
        sin core_math::sin;
        cos core_math::cos;
        sinpi core_math::sinpi;
        cospi core_math::cospi;
        tanh core_math::tanh;
        erf core_math::erf;
        rsqrt core_math::rsqrt;
        sqrt f64::sqrt;
    }
}

const SPECIAL: [f64; 20] = [
    0.0,
    1.0,
    2.0,
    0.5,
    1.5,
    10.0,
    37.0,
    5e-324,
    f64::MIN_POSITIVE,
    f64::MAX,
    f64::INFINITY,
    f64::NAN,
    709.782712893384,
    745.1332191019411,
    745.1332191019412,
    1024.0,
    1074.0,
    262144.0,
    9007199254740993.0,
    4503599627370497.5,
];

fn sample() -> Vec<f64> {
    let mut inputs: Vec<f64> = SPECIAL.into_iter().flat_map(|x| [x, -x]).collect();
    let mut state = 5;
    let mut wide = || u64::from(random(&mut state)) << 32 | u64::from(random(&mut state));
    for exponent in 0..2048u64 {
        for _ in 0..4 {
            inputs.push(f64::from_bits(wide() >> 12 | exponent << 52));
            inputs.push(f64::from_bits(wide() >> 12 | exponent << 52 | 1 << 63));
        }
    }
    for _ in 0..40_000 {
        let unit = (wide() >> 11) as f64 / 9007199254740992.0;
        inputs.extend([
            unit,
            2.0 * unit - 1.0,
            0.5 + unit,
            16.0 * unit - 8.0,
            800.0 * unit - 400.0,
        ]);
    }
    inputs
}

/// Returns the distance in places; zero and infinity compare by value, any NaN as the canonical
/// one.
fn distance(y: f64, want: f64) -> u64 {
    if want.is_nan() {
        return if y.to_bits() == 0x7ff8_0000_0000_0000 { 0 } else { u64::MAX };
    }
    if want == 0.0 && y.to_bits() != want.to_bits() && want.to_bits() ^ y.to_bits() != 1 {
        return u64::MAX;
    }
    y.to_bits().abs_diff(want.to_bits())
}

#[test]
fn within_one_place_of_the_correctly_rounded_value() {
    let x = sample();
    for function in functions() {
        let mut y = vec![0.0; x.len()];
        (function.map_at)(simd::supported(), &x, &mut y);
        let mut different = 0;
        for i in 0..x.len() {
            let want = (function.truth)(x[i]);
            let off = distance(y[i], want);
            assert!(off <= 1, "{}({:e}) = {:e}, not {want:e}", function.name, x[i], y[i]);
            different += off;
        }
        // A function that is usually one place off would somewhere have an error above one ulp.
        assert!(different < x.len() as u64 / 12, "{}: {different}", function.name);
    }
}

#[test]
fn every_level_gives_the_same_bits() {
    let x = sample();
    for function in functions() {
        let results = Level::ALL.map(|level| {
            let mut y = vec![0.0; x.len()];
            (function.map_at)(level, &x, &mut y);
            y.into_iter().map(f64::to_bits).collect::<Vec<u64>>()
        });
        assert!(results[0] == results[1] && results[1] == results[2], "{}", function.name);
    }
}

/// A function of slices.
struct OfSlice<'a, F>(F, &'a [f64], &'a mut [f64]);

impl<F: Fn(&[f64], &mut [f64])> simd::Kernel for OfSlice<'_, F> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        self.0(self.1, self.2);
    }
}

fn equals_its_elements(
    slice: impl Fn(&[f64], &mut [f64]) + Copy,
    element: fn(f64) -> f64,
    apart: f64,
) {
    let mut x = sample();
    // Blocks with few, many and no numbers that are computed apart.
    x.extend((0..1000).map(|i| f64::from(i) / 500.0 - 1.0));
    x.extend([apart.next_down(), apart, apart.next_up(), -apart, 6.0, 6.5, -0.0]);
    x.extend((0..1000).map(|i| f64::from(i) / -500.0));
    for level in Level::ALL {
        for part in [&x[..0], &x[..1], &x[7..70], &x[..]] {
            let mut y = vec![0.0; part.len()];
            simd::dispatch_at(level, OfSlice(slice, part, &mut y));
            for (&x, y) in part.iter().zip(y) {
                assert_eq!(y.to_bits(), element(x).to_bits(), "{x:e} at {}", level.name());
            }
        }
    }
}

#[test]
fn functions_of_a_slice_are_those_of_its_elements() {
    equals_its_elements(ours::erf_each, ours::erf, 0.9);
    equals_its_elements(ours::sin_each, ours::sin, 262144.0);
    equals_its_elements(ours::cos_each, ours::cos, 262144.0);
    equals_its_elements(ours::sigmoid_each, ours::sigmoid, -40.0);
    equals_its_elements(ours::rsqrt_each, ours::rsqrt, 1e-200);
    equals_its_elements(ours::rsqrt_each, ours::rsqrt, 1e200);
}

#[test]
fn sigmoid_is_as_near_as_documented() {
    let mut largest = 0.0_f64;
    for x in sample() {
        let y = ours::sigmoid(x);
        if x.is_nan() {
            assert_eq!(y.to_bits(), 0x7ff8_0000_0000_0000);
        } else if x < -700.0 {
            // The 1 of the denominator is far below the last place.
            assert!(distance(y, core_math::exp(x)) <= 1, "{x:e}");
        } else if x > 700.0 {
            assert_eq!(y, 1.0, "{x:e}");
        } else {
            let (near, rest) = oracle::one_over_one_plus(oracle::exp(-x));
            let place = near.next_up() - near;
            let off = ((y - near) - rest).abs() / place;
            assert!(off <= 0.58, "{x:e}: {y:e} is {off} ulp off");
            largest = largest.max(off);
        }
    }
    assert!(largest > 0.57, "the largest error, {largest} ulp, is less than documented");
}

#[test]
fn pow_within_one_place() {
    let values: Vec<f64> = SPECIAL.into_iter().flat_map(|x| [x, -x]).collect();
    let mut state = 9;
    let mut unit = || f64::from(random(&mut state)) / 4294967296.0;
    let mut pairs: Vec<(f64, f64)> =
        (0..20_000).map(|_| (core_math::exp(40.0 * unit() - 20.0), 40.0 * unit() - 20.0)).collect();
    pairs.extend((0..2000).map(|_| (0.99 + 0.02 * unit(), 1e5 * unit() - 5e4)));
    for &x in &values {
        pairs.extend(values.iter().map(|&y| (x, y)));
        pairs.extend([-3.0, -2.0, -1.0, 3.0, 1.0 / 3.0].map(|y| (x, y)));
    }
    for (x, y) in pairs {
        let (got, want) = (ours::pow(x, y), core_math::pow(x, y));
        assert!(distance(got, want) <= 1, "{x:e}^{y:e} = {got:e}, not {want:e}");
    }
}

#[test]
fn log_rounded_is_rounded_correctly() {
    let mut state = 3;
    let mut word = || u64::from(random(&mut state));
    for i in 0..100_000 {
        // Near 1, below 1, and any positive normal number.
        let bits = word() << 32 | word();
        let x = match i % 3 {
            0 => 1.0 + (bits >> 12) as f64 * 1e-20,
            1 => ((bits >> 11) + 1) as f64 / 9007199254740992.0,
            _ => f64::from_bits(bits % (0x7fe << 52)).max(f64::MIN_POSITIVE),
        };
        let (got, want) = (ours::log_rounded(x), core_math::log(x));
        assert_eq!(got.to_bits(), want.to_bits(), "log {x:e} = {got:e}, not {want:e}");
    }
}
