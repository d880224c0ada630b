//! The error function.

use super::exp::{expm1_reduced, reduce};
use super::fma::{add_odd, fma, horner, nan_if, scale, select};

/// The error function.
///
/// Below 0.9, x times a minimax polynomial in x^2; above, 1 - exp(-x^2) E(x), where E is a
/// minimax polynomial in 1 / (x + 2), the kind of variable that Shepherd and Laframboise use
/// (*Chebyshev approximation of (1 + 2x) exp(x^2) erfc x*, Math. Comp. 36, 1981).
///
/// # Determinism
///
/// Correctly rounded for every input.
///
/// # Examples
///
/// ```
/// use samebits_numerics::math;
///
/// assert_eq!(math::erf(4.0), 1.0);
/// assert_eq!(math::erf(-0.0).to_bits(), (-0.0f32).to_bits());
/// ```
#[inline(always)]
pub fn erf(x: f32) -> f32 {
    nan_if(x.is_nan(), erf_wide(x as f64) as f32)
}

/// The error function before the rounding to f32.
#[inline(always)]
pub(super) fn erf_wide(x: f64) -> f64 {
    let a = x.abs();
    // erf(4) rounds to 1.
    let a = select(a > 4.0, 4.0, a);
    select(a < 0.9, erf_small(a), add_odd(1.0, -erfc_large(a))).copysign(x)
}

/// erf(a) for 0 <= a <= 0.9. Minimax error 2^-58.6 of the linear term, whose factor
/// 2 / sqrt(pi) is in two f64.
#[inline(always)]
fn erf_small(a: f64) -> f64 {
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
    fma(a, std::f64::consts::FRAC_2_SQRT_PI, a * p)
}

/// 1 - erf(a) for 0.9 <= a <= 4. Minimax error 2^-59 absolute.
#[inline(always)]
fn erfc_large(a: f64) -> f64 {
    let (k, r) = reduce(-(a * a));
    let e = scale(1.0 + expm1_reduced(r), k);
    let v = 1.0 / (a + 2.0) - 0.25;
    let p = horner!(v;
        0.25539567631050575,
        1.708743389655836,
        3.866531107879139,
        5.054629185004306,
        0.955620456688858,
        -7.1654008465715435,
        -3.4698996098511112,
        16.088747646647196,
        2.85433337038039,
        -45.71949807077468,
        29.050169416682454,
        115.65441987980056,
        -258.6160672034656,
        155.78028085119342
    );
    e * p
}
