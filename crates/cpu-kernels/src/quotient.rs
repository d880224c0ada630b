//! Quotients by a divisor that is known in advance, rounded once, without a division for each.
//!
//! With the reciprocal, rounded, and what that lost, `x * (reciprocal + lost)` is within one unit in the
//! last place of the quotient. Its exact residual times the reciprocal then gives the rounded quotient
//! (P. Markstein, *Computation of elementary functions on the IBM RISC System/6000 processor*, IBM
//! Journal of Research and Development 34(1), 1990; N. Brisebarre, J.-M. Muller and S. K. Raina,
//! *Accelerating correctly rounded floating-point division when the divisor is known in advance*, IEEE
//! Transactions on Computers 53(8), 2004). It takes four instructions instead of one that takes as long
//! as ten.

use samebits_numerics::simd::{self, Kernel, Level};

use crate::Float;

/// Returns true if a fused multiplication and addition is one instruction.
fn is_fused() -> bool {
    simd::level() != Level::Portable
}

/// Returns the reciprocal, rounded, and what that lost, rounded.
#[inline(always)]
fn reciprocal<T: Float>(divisor: T) -> [T; 2] {
    let reciprocal = T::ONE / divisor;
    [reciprocal, (-divisor).mul_add(reciprocal, T::ONE) / divisor]
}

/// Returns true if no step of [`quotient`] leaves the normal numbers; `x` is from 0 to 1, or NaN.
#[inline(always)]
fn is_plain<T: Float>(x: T) -> bool {
    // Above 2^-102 or 2^-967 the residual is a multiple of the least number.
    let least = if T::WIDE { (1023 - 900) << 52 } else { (1023 - 90) << 52 };
    (x >= T::from_f64(f64::from_bits(least))) | (x == T::ZERO)
}

/// Returns true for divisors of which [`quotient`] is the nearest number.
#[inline(always)]
fn is_plain_divisor<T: Float>(divisor: T) -> bool {
    let most = if T::WIDE { 1u64 << 36 } else { 1 << 30 };
    (divisor >= T::ONE) & (divisor <= T::from_f64(most as f64))
}

/// Returns `x / divisor`, where both are plain.
#[inline(always)]
fn quotient<T: Float>(x: T, divisor: T, [reciprocal, lost]: [T; 2]) -> T {
    let near = x.mul_add(reciprocal, x * lost);
    (-divisor).mul_add(near, x).mul_add(reciprocal, near)
}

/// Divides elements from 0 to 1 by a divisor.
#[inline(always)]
pub(crate) fn divide_each<T: Float>(elements: &mut [T], divisor: T) {
    const SOME: usize = 256;
    let (fused, inverse) = (is_fused(), reciprocal(divisor));
    for elements in elements.chunks_mut(SOME) {
        let mut are_plain = fused & is_plain_divisor(divisor);
        for &x in &*elements {
            are_plain &= is_plain(x);
        }
        if are_plain {
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

/// Computes the reciprocal of each divisor, and what its rounding lost.
pub(crate) fn reciprocals<T: Float>(divisors: &[T], [all, lost]: [&mut [T]; 2]) {
    simd::dispatch(Reciprocals { divisors, all, lost });
}

struct Reciprocals<'a, T> {
    divisors: &'a [T],
    all: &'a mut [T],
    lost: &'a mut [T],
}

impl<T: Float> Kernel for Reciprocals<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        for ((all, lost), &divisor) in self.all.iter_mut().zip(self.lost).zip(self.divisors) {
            [*all, *lost] = reciprocal(divisor);
        }
    }
}

/// Divisors, and their [`reciprocals`].
pub(crate) struct Divisors<T, const N: usize> {
    all: [T; N],
    inverses: [[T; N]; 2],
    are_plain: bool,
}

impl<T: Float, const N: usize> Divisors<T, N> {
    #[inline(always)]
    pub(crate) fn new(all: [T; N]) -> Divisors<T, N> {
        let mut inverses = [[T::ZERO; N]; 2];
        let mut are_plain = is_fused();
        for i in 0..N {
            [inverses[0][i], inverses[1][i]] = reciprocal(all[i]);
            are_plain &= is_plain_divisor(all[i]);
        }
        Divisors { all, inverses, are_plain }
    }

    /// Divides each element, from 0 to 1, by its divisor.
    #[inline(always)]
    pub(crate) fn divide(&self, elements: &mut [T; N]) {
        let mut are_plain = self.are_plain;
        for x in &*elements {
            are_plain &= is_plain(*x);
        }
        let [reciprocals, lost] = &self.inverses;
        if are_plain {
            for i in 0..N {
                elements[i] = quotient(elements[i], self.all[i], [reciprocals[i], lost[i]]);
            }
        } else {
            for i in 0..N {
                elements[i] = (elements[i] / self.all[i]).canonical();
            }
        }
    }
}

/// Divides each element, from 0 to 1, by its divisor, with the [`reciprocals`] of all.
///
/// A kernel, since what is not inlined into one has no fused instruction.
pub(crate) struct DivideByEach<'a, T> {
    pub(crate) elements: &'a mut [T],
    pub(crate) divisors: &'a [T],
    pub(crate) reciprocals: [&'a [T]; 2],
}

impl<T: Float> Kernel for DivideByEach<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let DivideByEach { elements, divisors, reciprocals: [reciprocals, lost] } = self;
        let n = elements.len();
        let (divisors, reciprocals, lost) = (&divisors[..n], &reciprocals[..n], &lost[..n]);
        let mut are_plain = is_fused();
        for i in 0..n {
            are_plain &= is_plain(elements[i]) & is_plain_divisor(divisors[i]);
        }
        if are_plain {
            for i in 0..n {
                elements[i] = quotient(elements[i], divisors[i], [reciprocals[i], lost[i]]);
            }
        } else {
            for i in 0..n {
                elements[i] = (elements[i] / divisors[i]).canonical();
            }
        }
    }
}
