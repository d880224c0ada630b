//! The reciprocal square root: an approximation, one step of Newton's method in f32, and what the
//! exact residual adds.

use super::{Bounded, Vector, rounded};
use crate::math::fma::NAN;
use crate::math::root;

/// The reciprocal square root.
pub(in super::super) struct Rsqrt;

/// Between these, no square and no product leaves the normal f32.
const LEAST: f32 = f32::from_bits((127 - 100) << 23);
const MOST: f32 = f32::from_bits((127 + 100) << 23);

/// More than the relative error: 2^-42 is left by the residual, which is below 2^-20 for any
/// approximation within 1.5 * 2^-12.
const BOUND: f32 = f32::from_bits((127 - 40) << 23);

/// # Safety
///
/// The CPU must have the instructions of the vector.
#[inline(always)]
unsafe fn nearest<V: Vector>(x: V) -> (V, V::Mask) {
    // SAFETY: the caller guarantees the instructions.
    unsafe {
        let (half, one) = (V::splat(0.5), V::splat(1.0));
        let is_number = V::splat(0.0).is_at_most(x);
        let x = V::select(is_number, x, one);
        let near = x.near_rsqrt();
        let error = half.mul(x).mul(near).fma_negated(near, half);
        let y = near.fma(error, near);
        let square = y.mul(y);
        let lost = y.fma(y, square.negative());
        let residual = x.fma_negated(lost, x.fma_negated(square, one));
        let tail = half.mul(y).mul(residual);
        let (y, is_certain) = rounded(y, tail, y.mul(V::splat(BOUND)));
        let is_plain = V::both(V::splat(LEAST).is_at_most(x), x.is_at_most(V::splat(MOST)));
        let y = V::select(is_number, y, V::splat(f32::from_bits(NAN)));
        (y, V::both(is_certain, is_plain))
    }
}

// SAFETY: all is inlined, and the caller guarantees the instructions.
unsafe impl<V: Vector> Bounded<V, 2> for Rsqrt {
    #[inline(always)]
    unsafe fn nearest(x: [V; 2]) -> [(V, V::Mask); 2] {
        // SAFETY: as above.
        unsafe { [nearest(x[0]), nearest(x[1])] }
    }

    #[inline(always)]
    unsafe fn again(x: &[f32], y: &mut [f32]) {
        for (y, &x) in y.iter_mut().zip(x) {
            *y = root::rsqrt(x);
        }
    }
}
