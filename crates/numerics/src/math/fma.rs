//! What every function here is made of: fused multiply-add, Horner's rule, and the exponent and
//! sign bits of an f64, all of it branch-free so that a loop over a slice vectorises.

#[cfg(not(feature = "std"))]
use crate::Ieee as _;

/// 1.5 * 2^52: adding it to an f64 below 2^51 in magnitude rounds that to the nearest integer
/// (ties to even) and leaves the integer in the low bits of the sum.
pub(super) const ROUND: f64 = 6755399441055744.0;

/// The bits of the NaN that every function here returns.
pub(super) const NAN: u32 = 0x7fc0_0000;

/// `a * b + c`, rounded once.
#[inline(always)]
pub(super) fn fma(a: f64, b: f64, c: f64) -> f64 {
    a.mul_add(b, c)
}

/// `horner!(x; c0, c1, c2, ...)` is c0 + x (c1 + x (c2 + ...)), one rounding per step.
macro_rules! horner {
    ($x:expr; $c:expr) => { $c };
    ($x:expr; $c:expr, $($rest:expr),+) => {
        $crate::math::fma::fma(horner!($x; $($rest),+), $x, $c)
    };
}
pub(super) use horner;

/// `x` times 2^k, where `k` is the integer that `rounded` (a sum with [`ROUND`]) holds.
///
/// The product must be a normal f64.
#[inline(always)]
pub(super) fn scale(x: f64, rounded: f64) -> f64 {
    f64::from_bits(x.to_bits().wrapping_add(rounded.to_bits() << 52))
}

/// `x` with its sign flipped if the integer that `rounded` (a sum with [`ROUND`]) holds is odd.
#[inline(always)]
pub(super) fn flip_if_odd(x: f64, rounded: f64) -> f64 {
    f64::from_bits(x.to_bits() ^ (rounded.to_bits() << 63))
}

/// `a` if `condition`, else `b`: both are computed.
#[inline(always)]
pub(super) fn select(condition: bool, a: f64, b: f64) -> f64 {
    if condition { a } else { b }
}

/// `y`, or the canonical NaN if `condition`.
#[inline(always)]
pub(super) fn nan_if(condition: bool, y: f32) -> f32 {
    f32::from_bits(if condition { NAN } else { y.to_bits() })
}

/// `high + low` rounded to odd: an inexact sum has its last bit set, so that it is never midway
/// between two f32 and rounding it to f32 is as if the exact sum were rounded (Boldo and
/// Melquiond, *Emulation of FMA and correctly rounded sums*, IEEE TC 57(4), 2008).
///
/// |high| >= |low|, or high = 0.
#[inline(always)]
pub(super) fn add_odd(high: f64, low: f64) -> f64 {
    let sum = high + low;
    let lost = low - (sum - high);
    // One step away from zero if what was lost has the sign of the sum, else one towards zero.
    let step = 1u64.wrapping_sub((sum.to_bits() ^ lost.to_bits()) >> 63 << 1);
    let even = sum.to_bits() & 1 == 0;
    f64::from_bits(if even & (lost != 0.0) {
        sum.to_bits().wrapping_add(step)
    } else {
        sum.to_bits()
    })
}

/// `value` if `x` has the bits `at`, else `y`: mends one of the few inputs whose true value is
/// so near a rounding boundary that the f64 evaluation falls on its other side. The exhaustive
/// check found them.
#[inline(always)]
pub(super) fn except(x: f32, at: u32, value: u32, y: f32) -> f32 {
    if x.to_bits() == at { f32::from_bits(value) } else { y }
}
