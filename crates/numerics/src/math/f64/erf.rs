//! The error function.

use super::super::fma::{ROUND, fma, horner, scale, select};
use super::exp::parts;
use super::{nan_if, ordered_sum, product, sum};
use crate::simd::Aligned;

/// Returns the error function.
///
/// As the f32 function, [`math::erf`](crate::math::erf()), except that the two formulas meet at
/// 0.9.
///
/// # Determinism
///
/// The same bits at every level. The largest error measured is 0.88 ulp.
///
/// # Examples
///
/// ```
/// use samebits_numerics::math;
///
/// assert_eq!(math::f64::erf(6.0), 1.0);
/// ```
#[inline(always)]
pub fn erf(x: f64) -> f64 {
    let a = magnitude(x);
    nan_if(x.is_nan(), select(a < LIMIT, small(a), large(a)).copysign(x))
}

/// Computes [`erf`] of each element.
///
/// Elements above the limit cost four times as much as the others, so they are collected and computed
/// side by side. The loops vectorise with the instruction set of the kernel around them.
#[doc(hidden)]
#[inline(always)]
pub fn erf_each(input: &[f64], output: &mut [f64]) {
    const BLOCK: usize = 64;
    const VECTOR: usize = 8;
    let [mut values, mut results, mut apart] = [Aligned([LIMIT; BLOCK]); 3];
    let mut places = [0u8; BLOCK];
    for (x, y) in input.chunks(BLOCK).zip(output.chunks_mut(BLOCK)) {
        values[..x.len()].copy_from_slice(x);
        for (result, &x) in results.iter_mut().zip(&*values) {
            *result = small(magnitude(x));
        }
        let mut count = 0;
        for (place, x) in x.iter().enumerate() {
            (places[count], apart[count]) = (place as u8, magnitude(*x));
            count += usize::from(x.abs() >= LIMIT);
        }
        // Whole vectors; what remains of a loop is computed element by element.
        for value in &mut apart[..count.next_multiple_of(VECTOR)] {
            *value = large(*value);
        }
        for (value, &place) in apart.iter().zip(&places[..count]) {
            results[usize::from(place) % BLOCK] = *value;
        }
        for (result, &x) in results.iter_mut().zip(&*values) {
            *result = nan_if(x.is_nan(), result.copysign(x));
        }
        y.copy_from_slice(&results[..y.len()]);
    }
}

/// The boundary between the two formulas.
const LIMIT: f64 = 0.9;

/// Returns |x|, limited to 6, since erf(6) rounds to 1.
#[inline(always)]
fn magnitude(x: f64) -> f64 {
    select(x.abs() > 6.0, 6.0, x.abs())
}

/// Returns erf(a) for 0.9 <= a <= 6.
#[inline(always)]
fn large(a: f64) -> f64 {
    let (tail, tail_low) = complement(a);
    let (large, lost) = ordered_sum(1.0, -tail);
    large + (lost - tail_low)
}

/// Returns erf(a) for 0 <= a <= 0.9.
#[inline(always)]
fn small(a: f64) -> f64 {
    let u = a * a;
    let p = horner!(u;
        1.533545961316588e-17,
        -0.37612638903183737,
        0.11283791670954062,
        -0.026866170644865364,
        0.005223977622125264,
        -0.0008548326782817625,
        0.00012055321988891369,
        -1.492532062325262e-05,
        1.6455512398400903e-06,
        -1.6278141292711546e-07,
        1.4059559470243347e-08,
        -8.511539849574628e-10
    );
    fma(a, core::f64::consts::FRAC_2_SQRT_PI, a * p)
}

/// Returns 1 - erf(a) as a sum of two, for 0.9 <= a <= 6. Minimax error 2^-59.3 absolute.
#[inline(always)]
fn complement(a: f64) -> (f64, f64) {
    // e^(-a^2) as a sum of two. The rounding error of a^2 belongs to the exponent as well.
    let (square, lost) = product(a, a);
    let (k, high, low) = parts(-square);
    let (one, rest) = ordered_sum(1.0, high);
    let s = scale(1.0, k + ROUND);
    let (e, e_low) = (s * one, s * (rest + low - lost * one));
    // 1 / (a + 2) as a sum of two; the first difference is exact.
    let (d, d_low) = sum(2.0, a);
    let w = 1.0 / d;
    let v = w - 0.22;
    let v_low = w * fma(-w, d_low, fma(-w, d, 1.0));
    let q = horner!(v;
        1.4902673823377988,
        3.418659215540264,
        4.877789237773892,
        1.9686884169310903,
        -6.245857174161646,
        -6.669467808125274,
        13.864344053324315,
        15.760259654687893,
        -47.31184522802421,
        -22.607541971097696,
        194.54737085338866,
        -193.3291725118749,
        -201.65087669235834,
        440.71811101628754
    );
    let (p, lost) = ordered_sum(0.20747772292310704, v * q);
    // An approximation of the polynomial's derivative.
    let p_low = fma(v_low, fma(v, 6.8, 1.5), lost);
    let (t, t_low) = product(e, p);
    (t, fma(e, p_low, fma(e_low, p, t_low)))
}
