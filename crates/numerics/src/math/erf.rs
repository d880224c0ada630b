//! The error function.

use crate::simd::Aligned;

use super::exp::{expm1_reduced, reduce};
use super::fma::{add_odd, fma, horner, nan_if, scale, select};

/// Returns the error function.
///
/// Below 2: x times a minimax polynomial in x^2. Above: 1 - exp(-x^2) E(x), with E a minimax
/// polynomial in 1 / (x + 2), the kind of variable used by Shepherd and Laframboise (*Chebyshev
/// approximation of (1 + 2x) exp(x^2) erfc x*, Math. Comp. 36, 1981).
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

/// Returns the error function, before rounding to f32.
#[inline(always)]
pub(super) fn erf_wide(x: f64) -> f64 {
    let a = x.abs();
    // erf(4) rounds to 1.
    let a = select(a > 4.0, 4.0, a);
    select(a < LIMIT, erf_small(a), erf_large(a)).copysign(x)
}

/// Computes [`erf`] of each element.
///
/// Elements above the limit cost twice as much and are rare in normally distributed data, so they
/// are collected and computed side by side. Each step runs over a block of elements, so that
/// their chains of operations overlap; the chain of a whole function is too long for the processor
/// to reach the next element.
#[inline(always)]
pub(super) fn erf_each(input: &[f32], output: &mut [f32]) {
    const BLOCK: usize = 64;
    const GROUP: usize = 8;
    let (mut around, mut wide) = (Aligned([0.0; BLOCK]), Aligned([0.0; BLOCK]));
    let mut large = [0u8; BLOCK];
    for (y, x) in output.chunks_mut(BLOCK).zip(input.chunks(BLOCK)) {
        for (a, &x) in around.iter_mut().zip(x) {
            let x = x.abs();
            *a = (if x > 4.0 { 4.0 } else { x }) as f64;
        }
        for (wide, &a) in wide.iter_mut().zip(&*around) {
            *wide = start_small(a * a);
        }
        for (wide, &a) in wide.iter_mut().zip(&*around) {
            *wide = finish_small(a, *wide);
        }
        let mut count = 0;
        for (number, x) in x.chunks(GROUP).enumerate() {
            let is_large = |x: f32| x.abs() >= LIMIT as f32;
            if x.iter().fold(false, |any, &x| any | is_large(x)) {
                for (place, &x) in (number * GROUP..).zip(x) {
                    large[count] = place as u8;
                    count += usize::from(is_large(x));
                }
            }
        }
        for places in large[..count].chunks(GROUP) {
            let mut values = [LIMIT; GROUP];
            for (value, &place) in values.iter_mut().zip(places) {
                *value = around[usize::from(place)];
            }
            for value in &mut values {
                *value = erf_large(*value);
            }
            for (value, &place) in values.iter().zip(places) {
                wide[usize::from(place)] = *value;
            }
        }
        for (y, &wide) in y.iter_mut().zip(&*wide) {
            *y = wide as f32;
        }
        for (y, &x) in y.iter_mut().zip(x) {
            *y = nan_if(x.is_nan(), y.copysign(x));
        }
    }
}

/// The boundary between the two formulas for the error function.
pub(super) const LIMIT: f64 = 2.0;

/// Returns erf(a) for 0 <= a <= [`LIMIT`]. Minimax error 2^-58.5 of the function, whose linear
/// factor 2 / sqrt(pi) is in two f64.
#[inline(always)]
pub(super) fn erf_small(a: f64) -> f64 {
    finish_small(a, start_small(a * a))
}

/// Evaluates the upper half of Horner's rule for [`erf_small`]. The compiler interleaves several
/// elements in a loop over either half, but not in a loop over the whole: its constants need all
/// registers.
#[inline(always)]
fn start_small(u: f64) -> f64 {
    horner!(u;
        -1.6365243678963086e-07,
        1.4803315448870204e-08,
        -1.2271451281087405e-09,
        9.350637108762445e-11,
        -6.503257303322382e-12,
        4.0080691688898854e-13,
        -2.0399057593128444e-14,
        7.446756479672544e-16,
        -1.4175761361989867e-17
    )
}

/// Evaluates the lower half.
#[inline(always)]
fn finish_small(a: f64, upper: f64) -> f64 {
    let u = a * a;
    let p = horner!(u;
        1.533545961316588e-17,
        -0.37612638903183726,
        0.11283791670954312,
        -0.026866170645041664,
        0.005223977624935513,
        -0.0008548327006153572,
        0.00012055332591611716,
        -1.492564420352567e-05,
        1.64620438757225e-06,
        upper
    );
    fma(a, core::f64::consts::FRAC_2_SQRT_PI, a * p)
}

/// Returns erf(a) for 0.9 <= a <= 4.
#[inline(always)]
fn erf_large(a: f64) -> f64 {
    add_odd(1.0, -erfc_large(a))
}

/// Returns 1 - erf(a) for 0.9 <= a <= 4. Minimax error 2^-59 absolute.
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

/// Returns 1 - erf(x), accurate even if it is small.
///
/// Computed as [`erf`], with a polynomial in 1 / (x + 3) that is accurate down to the last
/// subnormal.
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

/// Returns 1 - erf(x), before rounding to f32.
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
