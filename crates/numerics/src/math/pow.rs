//! The power function.
//!
//! Two steps, after Ziv (*Fast evaluation of elementary mathematical functions with correctly
//! rounded last bit*, ACM TOMS 17, 1991). The first is an f64 evaluation without branches, whose
//! error bound tells if it decides the rounding. For about one input in 100 000 it does not; then
//! [`decide`] uses double-double arithmetic and, for true ties, integers.

#[cfg(not(feature = "std"))]
use crate::Ieee as _;

use super::dd::Dd;
use super::exp::clamp;
use super::fma::{ROUND, fma, horner, nan_if, scale, select};
use super::log::log2_parts;
use crate::simd::{self, Level};

/// Returns x^y.
///
/// This function branches for the inputs that need more precision, so a loop over it does not
/// vectorise; [`slice::pow`](super::slice::pow) does.
///
/// # Determinism
///
/// Correctly rounded, unless x^y lies within 2^-90 (relatively) of the midpoint of two f32 without
/// being that midpoint. Error bounds prove this. It is not proved that no such x^y exists; but
/// fewer than 2^60 pairs (x, y) have a finite result other than 1, so about 2^-4 of them are
/// expected by chance. Special values are those of C's `pow` (Annex F).
///
/// # Examples
///
/// ```
/// use samebits_numerics::math;
///
/// assert_eq!(math::pow(2.0, -2.0), 0.25);
/// assert_eq!(math::pow(-8.0, 3.0), -512.0);
/// assert_eq!(math::pow(f32::NAN, 0.0), 1.0);
/// assert!(math::pow(-8.0, 0.5).is_nan());
/// ```
#[inline(always)]
pub fn pow(x: f32, y: f32) -> f32 {
    let (value, decided) = pow_fast(x, y);
    if decided { value } else { decide(x, y) }
}

/// Computes [`pow`](super::pow()) of each pair of elements.
///
/// # Shapes
///
/// The slices have equal lengths.
///
/// # Determinism
///
/// Equal in bits to [`pow`](super::pow()), at every SIMD level.
///
/// # Panics
///
/// If the slices differ in length.
pub fn pow_slice(x: &[f32], y: &[f32], output: &mut [f32]) {
    pow_slice_at(simd::level(), x, Exponents::Each(y), output);
}

/// Computes [`pow`](super::pow()) of each element of `x` and one `y`.
///
/// # Shapes
///
/// The slices have equal lengths.
///
/// # Determinism
///
/// Equal in bits to [`pow`](super::pow()), at every SIMD level.
///
/// # Panics
///
/// If the slices differ in length.
pub fn pow_slice_scalar(x: &[f32], y: f32, output: &mut [f32]) {
    pow_slice_at(simd::level(), x, Exponents::One(y), output);
}

/// The exponents of [`pow_slice_at`].
#[derive(Clone, Copy, Debug)]
pub enum Exponents<'a> {
    /// One exponent per element.
    Each(&'a [f32]),
    /// One exponent for all elements.
    One(f32),
}

/// Computes the slice functions at `level`, or at the best level of this machine if that is lower.
///
/// # Panics
///
/// If the slices differ in length.
#[doc(hidden)]
pub fn pow_slice_at(level: Level, x: &[f32], y: Exponents<'_>, output: &mut [f32]) {
    let lengths = match y {
        Exponents::Each(y) => x.len() == y.len() && x.len() == output.len(),
        Exponents::One(_) => x.len() == output.len(),
    };
    assert!(lengths, "math::pow: inputs and output must be equally long");
    simd::dispatch_at(level, PowSlice { x, y, output });
}

struct PowSlice<'a> {
    x: &'a [f32],
    y: Exponents<'a>,
    output: &'a mut [f32],
}

impl simd::Kernel for PowSlice<'_> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        const CHUNK: usize = 64;
        let chunks = self.output.chunks_mut(CHUNK).zip(self.x.chunks(CHUNK));
        match self.y {
            Exponents::Each(y) => {
                for ((output, x), y) in chunks.zip(y.chunks(CHUNK)) {
                    let y = &y[..output.len()];
                    pow_chunk(x, |i| y[i], output);
                }
            }
            Exponents::One(y) => {
                for (output, x) in chunks {
                    pow_chunk(x, |_| y, output);
                }
            }
        }
    }
}

/// Makes a pass without branches, then a pass with branches if an element is undecided.
#[inline(always)]
fn pow_chunk(x: &[f32], y: impl Fn(usize) -> f32, output: &mut [f32]) {
    let x = &x[..output.len()];
    let mut undecided = 0;
    for i in 0..output.len() {
        let (value, decided) = pow_fast(x[i], y(i));
        output[i] = value;
        undecided |= !decided as u32;
    }
    if undecided != 0 {
        pow_each(x, y, output);
    }
}

#[cold]
#[inline(never)]
fn pow_each(x: &[f32], y: impl Fn(usize) -> f32, output: &mut [f32]) {
    for i in 0..output.len() {
        output[i] = pow(x[i], y(i));
    }
}

/// Returns x^y, and true if it is certain to be correctly rounded.
#[inline(always)]
pub(super) fn pow_fast(x: f32, y: f32) -> (f32, bool) {
    let (a, b) = (x.abs() as f64, y as f64);
    let (l, l_low) = log2_parts(a);
    let l = select(a == 0.0, f64::NEG_INFINITY, select(a == f64::INFINITY, f64::INFINITY, l));
    // 1 to any power, even an infinite one, and any base to the power of 0.
    let one = (a == 1.0) | (b == 0.0);
    let (power, l, l_low) = (select(one, 0.0, b), select(one, 0.0, l), select(one, 0.0, l_low));
    let t = power * l;
    // Beyond these bounds the result rounds to 0 or infinity, as it does at the bounds.
    let bounded = clamp(t, -160.0, 130.0);
    let t_low = select(t == bounded, fma(power, l, -t) + power * l_low, 0.0);
    let k = bounded + ROUND;
    let r = (bounded - (k - ROUND)) + t_low;
    let p = horner!(r;
        2.3190468138462996e-17,
        0.24022650695910133,
        0.05550410866482169,
        0.009618129107593566,
        0.0013333558146387465,
        0.00015403530457843548,
        1.5252733861614901e-05,
        1.3215434915317494e-06,
        1.0178048446254541e-07,
        7.073845666736494e-09,
        4.457131502751815e-10
    );
    let v = scale(1.0 + fma(r, core::f64::consts::LN_2, r * p), k);
    // log2(a) is within 2^-51 of its value; with |b l| < 160 this is 2^-43.6 in the exponent and
    // 2^-44.1 in the result. All other errors are below 2^-51.
    const ERROR: f64 = 1.0 / (1u64 << 43) as f64;
    let (below, above) = (fma(v, -ERROR, v) as f32, fma(v, ERROR, v) as f32);

    let (integer, odd) = parity(b);
    let magnitude = v as f32;
    let value = if odd & x.is_sign_negative() { -magnitude } else { magnitude };
    let one = (x == 1.0) | (y == 0.0);
    let undefined = (x < 0.0) & (x != f32::NEG_INFINITY) & !integer;
    let nan = (x.is_nan() | y.is_nan() | undefined) & !one;
    (nan_if(nan, value), nan | (below.to_bits() == above.to_bits()))
}

/// Returns x^y for inputs that [`pow_fast`] could not decide.
#[cold]
#[inline(never)]
pub(super) fn decide(x: f32, y: f32) -> f32 {
    let (a, b) = (x.abs() as f64, y as f64);
    // The logarithm is within 2^-99, and |b log a| < 2^7, so `v` is within 2^-91.
    let v = Dd::log(a).mul(Dd::new(b)).exp();
    const ERROR: f64 = 1.0 / (1u128 << 90) as f64;
    let (below, above) = (v.round(-ERROR), v.round(ERROR));
    let magnitude = if below == above {
        below
    } else if is_power(v.high, a, b) {
        // A tie: an f64 holds it exactly, and the conversion rounds it to even.
        v.high as f32
    } else {
        v.round(0.0)
    };
    if parity(b).1 & x.is_sign_negative() { -magnitude } else { magnitude }
}

/// Returns true if m = a^b exactly, for an `m` of at most 25 bits and f32 `a` and `b`.
///
/// Let b = n / 2^i in lowest terms. If `a` is not a power of two, a^b has a finite binary expansion
/// only if n > 0 and `a` is a 2^i-th power, say of c. The odd parts of c^n and c^(2^i) have at most
/// 25 and 24 bits, so n < 16 and i < 4.
fn is_power(m: f64, a: f64, b: f64) -> bool {
    let (exponent, significand) = super::log::split(a);
    if significand == 1.0 {
        // The only power of two that is midway between two f32.
        return exponent * b == -150.0 && m == f64::from_bits((1023 - 150) << 52);
    }
    let (mut c, mut n) = (a, b);
    while n != n.trunc() {
        let root = c.sqrt();
        if root * root != c || n.abs() > 16.0 {
            return false;
        }
        (c, n) = (root, 2.0 * n);
    }
    if !(1.0..=16.0).contains(&n) {
        return false;
    }
    let mut power = 1.0;
    for _ in 0..n as u32 {
        let product = Dd::product(power, c);
        if product.low != 0.0 {
            return false;
        }
        power = product.high;
    }
    power == m
}

/// Returns two truth values: `b` is an integer, and `b` is an odd integer. Infinities count as
/// even.
#[inline(always)]
fn parity(b: f64) -> (bool, bool) {
    // From 2^24 on, all f32 are even.
    let c = select(b.abs() < 16777216.0, b, 0.0);
    let half = 0.5 * c;
    let integer = (c + ROUND) - ROUND == c;
    (integer, integer & ((half + ROUND) - ROUND != half))
}
