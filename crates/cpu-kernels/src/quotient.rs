//! Quotients by a divisor that is known in advance, rounded once, without a division for each.
//!
//! With the reciprocal, rounded, and what that lost, `x * (reciprocal + lost)` is within one unit in the
//! last place of the quotient. Its exact residual times the reciprocal then gives the rounded quotient
//! (P. Markstein, *Computation of elementary functions on the IBM RISC System/6000 processor*, IBM
//! Journal of Research and Development 34(1), 1990; N. Brisebarre, J.-M. Muller and S. K. Raina,
//! *Accelerating correctly rounded floating-point division when the divisor is known in advance*, IEEE
//! Transactions on Computers 53(8), 2004). It takes four instructions instead of one that takes as long
//! as ten.

use samebits_numerics::simd::{self, Level};

use crate::Float;

/// Returns true if a fused multiplication and addition is one instruction.
pub(crate) fn is_fused() -> bool {
    simd::level() != Level::Portable
}

/// Returns the reciprocal, rounded, and what that lost, rounded.
#[inline(always)]
pub(crate) fn reciprocal<T: Float>(divisor: T) -> [T; 2] {
    let reciprocal = T::ONE / divisor;
    [reciprocal, (-divisor).mul_add(reciprocal, T::ONE) / divisor]
}

/// Returns true if no step of [`quotient`] leaves the normal numbers; `x` is not negative.
#[inline(always)]
pub(crate) fn is_plain<T: Float>(x: T, divisor: T) -> bool {
    // Above 2^-102 or 2^-967 the residual is a multiple of the least number.
    let (least, most) = match T::WIDE {
        true => (f64::from_bits((1023 - 900) << 52), (1u64 << 36) as f64),
        false => (f64::from_bits((1023 - 90) << 52), (1u64 << 30) as f64),
    };
    let x_fits = (x >= T::from_f64(least)) & (x <= T::ONE) | (x == T::ZERO);
    x_fits & (divisor >= T::ONE) & (divisor <= T::from_f64(most))
}

/// Returns `x / divisor`, where both are [`is_plain`].
#[inline(always)]
pub(crate) fn quotient<T: Float>(x: T, divisor: T, [reciprocal, lost]: [T; 2]) -> T {
    let near = x.mul_add(reciprocal, x * lost);
    (-divisor).mul_add(near, x).mul_add(reciprocal, near)
}

/// Divides elements from 0 to 1 by a divisor.
#[inline(always)]
pub(crate) fn divide_each<T: Float>(elements: &mut [T], divisor: T) {
    const SOME: usize = 256;
    let (fused, inverse) = (is_fused(), reciprocal(divisor));
    for elements in elements.chunks_mut(SOME) {
        if fused && elements.iter().fold(true, |all, &x| all & is_plain(x, divisor)) {
            for x in elements {
                *x = quotient(*x, divisor, inverse);
            }
        } else {
            for x in elements {
                *x = (*x / divisor).canonical();
            }
        }
    }
}

/// Computes [`reciprocal`] of each divisor.
#[inline(always)]
pub(crate) fn reciprocals<T: Float>(divisors: &[T], [all, lost]: [&mut [T]; 2]) {
    for ((to, lost), &divisor) in all.iter_mut().zip(lost).zip(divisors) {
        [*to, *lost] = reciprocal(divisor);
    }
}

/// Divides each element, from 0 to 1, by its divisor, with the [`reciprocals`] of all.
#[inline(always)]
pub(crate) fn divide_by_each<T: Float>(
    fused: bool,
    elements: &mut [T],
    [divisors, reciprocals, lost]: [&[T]; 3],
) {
    let both = elements.iter().zip(divisors);
    if fused && both.fold(true, |all, (&x, &divisor)| all & is_plain(x, divisor)) {
        let inverses = reciprocals.iter().zip(lost);
        let divisors = divisors.iter().zip(inverses);
        for (x, (&divisor, (&reciprocal, &lost))) in elements.iter_mut().zip(divisors) {
            *x = quotient(*x, divisor, [reciprocal, lost]);
        }
    } else {
        for (x, &divisor) in elements.iter_mut().zip(divisors) {
            *x = (*x / divisor).canonical();
        }
    }
}
