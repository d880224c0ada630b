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
    select(a < 0.9, erf_small(a), erf_large(a)).copysign(x)
}

/// [`erf`] of each element.
///
/// Those above 0.9, which cost three times as much and are few where numbers are normal, are brought
/// together. Each step goes over a block of elements, whose chains of operations then overlap; that
/// of a whole function is so long that the processor sees little of the next one.
#[inline(always)]
pub(super) fn erf_each(input: &[f32], output: &mut [f32]) {
    const BLOCK: usize = 64;
    for (y, x) in output.chunks_mut(BLOCK).zip(input.chunks(BLOCK)) {
        let (mut wide, mut large, mut places) = ([0.0; BLOCK], [0.0; BLOCK], [0; BLOCK]);
        let mut count = 0;
        for (wide, &x) in wide.iter_mut().zip(x) {
            let a = (x as f64).abs();
            *wide = select(a > 4.0, 4.0, a);
        }
        for (j, &a) in wide[..x.len()].iter().enumerate() {
            (places[count], large[count]) = (j, a);
            count += usize::from(a >= 0.9);
        }
        for a in &mut wide {
            *a = erf_small(*a);
        }
        // Whole vectors: what is beyond the count is not used.
        for a in &mut large[..count.next_multiple_of(8)] {
            *a = erf_large(*a);
        }
        for (&place, &value) in places[..count].iter().zip(&large) {
            wide[place] = value;
        }
        for ((y, &x), &wide) in y.iter_mut().zip(x).zip(&wide) {
            *y = nan_if(x.is_nan(), wide.copysign(x as f64) as f32);
        }
    }
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
    fma(a, core::f64::consts::FRAC_2_SQRT_PI, a * p)
}

/// erf(a) for 0.9 <= a <= 4.
#[inline(always)]
fn erf_large(a: f64) -> f64 {
    add_odd(1.0, -erfc_large(a))
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

/// 1 - erf(x), accurate also where it is small.
///
/// As [`erf`], with a polynomial in 1 / (x + 3) that is good to the last subnormal.
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
/// assert_eq!(math::erfc(0.0), 1.0);
/// assert_eq!(math::erfc(f32::NEG_INFINITY), 2.0);
/// assert_eq!(math::erfc(f32::INFINITY), 0.0);
/// ```
#[inline(always)]
pub fn erfc(x: f32) -> f32 {
    nan_if(x.is_nan(), erfc_wide(x as f64) as f32)
}

/// 1 - erf(x) before the rounding to f32.
#[inline(always)]
pub(super) fn erfc_wide(x: f64) -> f64 {
    let a = x.abs();
    // erfc(10.1) rounds to 0, and erfc(-10.1) to 2.
    let a = select(a > 10.1, 10.1, a);
    let (k, r) = reduce(-(a * a));
    let e = scale(1.0 + expm1_reduced(r), k);
    let v = 1.0 / (a + 3.0) - 0.15;
    // Minimax error 2^-60 relative.
    let tail = e * horner!(v;
        0.14869064425042725,
        1.6880493004020471,
        7.366736944990545,
        26.741085448695262,
        77.9292831202973,
        168.85662646750822,
        214.73245493719168,
        -70.9895406799383,
        -890.1843984839614,
        -1014.4038120240477,
        2743.0823639444748,
        7391.802796547618,
        -9265.642349736247,
        -44971.4880736039,
        44285.81335289868,
        276906.5076686532,
        -340872.5399195887,
        -1563332.7747060915,
        3114666.7218669937,
        1652639.3512346637
    );
    let large = add_odd(select(x < 0.0, 2.0, 0.0), select(x < 0.0, -tail, tail));
    let small = erf_small(a);
    select(a < 0.9, add_odd(1.0, select(x < 0.0, small, -small)), large)
}
