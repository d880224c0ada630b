//! The same functions for f64, with errors below one unit in the last place.
//!
//! Correct rounding would cost several times the work for f64, so these functions promise less.
//! Each is a written algorithm of basic IEEE operations and fused multiply-add, with the same
//! sequence of operations on every device, hence the same bits. If f64 rounding would spoil the
//! last place, sums and products keep their rounding errors in a second f64. Each function states
//! the largest error that was measured.
//!
//! A NaN result is always the canonical one, 0x7ff8000000000000. Zeros, infinities and subnormals
//! follow IEEE 754 and Annex F of the C standard. All but [`pow`] and, for angles from 2^18 on,
//! [`sin`] and [`cos`] are free of branches.

mod erf;
mod exp;
mod log;
mod pow;
mod root;
mod trig;

pub use erf::{erf, erf_each};
pub use exp::{exp, exp2, expm1, sigmoid, sigmoid_each, tanh};
pub use log::{log, log_rounded, log1p, log2, log10};
pub use pow::{pow, pow_each, powi};
pub use root::{rsqrt, rsqrt_each, sqrt};
pub use trig::{cos, cos_each, cospi, sin, sin_each, sinpi};

use super::fma::{ROUND, fma, scale};

/// Returns `y`, or the canonical NaN if `condition`.
#[inline(always)]
fn nan_if(condition: bool, y: f64) -> f64 {
    f64::from_bits(if condition { 0x7ff8_0000_0000_0000 } else { y.to_bits() })
}

/// Returns (a + b rounded, its rounding error), for |a| >= |b| or a = 0.
#[inline(always)]
fn ordered_sum(a: f64, b: f64) -> (f64, f64) {
    let sum = a + b;
    (sum, b - (sum - a))
}

/// Returns (a + b rounded, its rounding error).
#[inline(always)]
fn sum(a: f64, b: f64) -> (f64, f64) {
    let sum = a + b;
    let of_b = sum - a;
    (sum, (a - (sum - of_b)) + (b - of_b))
}

/// Returns (a b rounded, its rounding error).
#[inline(always)]
fn product(a: f64, b: f64) -> (f64, f64) {
    let product = a * b;
    (product, fma(a, b, -product))
}

/// Applies `plain` to each chunk of which `is_plain` holds for all elements, else `any`, which gives the same
/// bits and takes longer.
#[inline(always)]
fn each_plain(
    input: &[f64],
    output: &mut [f64],
    is_plain: impl Fn(f64) -> bool,
    plain: impl Fn(f64) -> f64,
    any: impl Fn(f64) -> f64,
) {
    const CHUNK: usize = 128;
    for (y, x) in output.chunks_mut(CHUNK).zip(input.chunks(CHUNK)) {
        if x.iter().fold(true, |all, &x| all & is_plain(x)) {
            for (y, &x) in y.iter_mut().zip(x) {
                *y = plain(x);
            }
        } else {
            for (y, &x) in y.iter_mut().zip(x) {
                *y = any(x);
            }
        }
    }
}

/// Returns `x` times 2^k for an integer k of at most 2100 in magnitude. It uses two factors, so
/// that only the last product can round, overflow or become subnormal.
#[inline(always)]
fn scale_wide(x: f64, k: f64) -> f64 {
    let half = fma(k, 0.5, ROUND);
    let rest = (k - (half - ROUND)) + ROUND;
    x * scale(1.0, half) * scale(1.0, rest)
}
