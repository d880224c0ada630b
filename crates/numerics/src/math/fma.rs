//! The building blocks of all functions here: fused multiply-add, Horner's rule, and the exponent
//! and sign bits of an f64. All are branch-free, so that a loop over a slice vectorises.

#[cfg(not(feature = "std"))]
use crate::Ieee as _;

/// The constant 1.5 * 2^52. Adding it to an f64 below 2^51 in magnitude rounds that to the nearest
/// integer (ties to even) and leaves the integer in the low bits of the sum.
pub(super) const ROUND: f64 = 6755399441055744.0;

/// The bits of the NaN that every function here returns.
pub(super) const NAN: u32 = 0x7fc0_0000;

/// Returns `a * b + c`, rounded once.
#[inline(always)]
pub(super) fn fma(a: f64, b: f64, c: f64) -> f64 {
    a.mul_add(b, c)
}

/// Evaluates `horner!(x; c0, c1, c2, ...)` = c0 + x (c1 + x (c2 + ...)), with one rounding per
/// step.
macro_rules! horner {
    ($x:expr; $c:expr) => { $c };
    ($x:expr; $c:expr, $($rest:expr),+) => {
        $crate::math::fma::fma(horner!($x; $($rest),+), $x, $c)
    };
}
pub(super) use horner;

/// Returns `x` times 2^k for the integer `k` that `rounded` (a sum with [`ROUND`]) holds.
///
/// The product must be a normal f64.
#[inline(always)]
pub(super) fn scale(x: f64, rounded: f64) -> f64 {
    f64::from_bits(x.to_bits().wrapping_add(rounded.to_bits() << 52))
}

/// Returns `x`, with its sign flipped if the integer that `rounded` (a sum with [`ROUND`]) holds is
/// odd.
#[inline(always)]
pub(super) fn flip_if_odd(x: f64, rounded: f64) -> f64 {
    f64::from_bits(x.to_bits() ^ (rounded.to_bits() << 63))
}

/// Returns `a` if `condition`, else `b`; both are computed.
#[inline(always)]
pub(super) fn select(condition: bool, a: f64, b: f64) -> f64 {
    if condition { a } else { b }
}

/// Returns `y`, or the canonical NaN if `condition`.
#[inline(always)]
pub(super) fn nan_if(condition: bool, y: f32) -> f32 {
    f32::from_bits(if condition { NAN } else { y.to_bits() })
}

/// Returns `high + low` rounded to odd: an inexact sum has its last bit set, so it is never midway
/// between two f32, and rounding it to f32 gives the rounded exact sum (Boldo and Melquiond,
/// *Emulation of FMA and correctly rounded sums*, IEEE TC 57(4), 2008).
///
/// |high| >= |low|, or high = 0.
#[inline(always)]
pub(super) fn add_odd(high: f64, low: f64) -> f64 {
    let sum = high + low;
    let lost = low - (sum - high);
    // Steps away from zero if the rounding error has the sign of the sum, else towards zero.
    let step = 1u64.wrapping_sub((sum.to_bits() ^ lost.to_bits()) >> 63 << 1);
    let even = sum.to_bits() & 1 == 0;
    f64::from_bits(if even & (lost != 0.0) {
        sum.to_bits().wrapping_add(step)
    } else {
        sum.to_bits()
    })
}

/// Returns `value` if `x` has the bits `at`, else `y`. It corrects one of the few inputs whose true
/// value is so near a rounding boundary that the f64 evaluation falls on the wrong side. The
/// exhaustive check found them.
#[inline(always)]
pub(super) fn except(x: f32, at: u32, value: u32, y: f32) -> f32 {
    if x.to_bits() == at { f32::from_bits(value) } else { y }
}
