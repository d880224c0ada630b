//! The reciprocal square root with AVX-512: an approximation, one step of Newton's method in f32, and
//! what the exact residual adds.

use core::arch::x86_64::*;

use super::{Bounded, Vector, rounded};
use crate::math::fma::NAN;
use crate::math::root;

/// The reciprocal square root.
pub(in super::super) struct Rsqrt;

/// Between these, no square and no product leaves the normal f32.
const LEAST: f32 = f32::from_bits((127 - 100) << 23);
const MOST: f32 = f32::from_bits((127 + 100) << 23);

/// More than the relative error: 2^-44 is left by the residual, which is below 2^-21 for any
/// approximation within 2^-14.
const BOUND: f32 = f32::from_bits((127 - 40) << 23);

/// # Safety
///
/// The CPU must have AVX-512.
#[inline(always)]
unsafe fn nearest(x: __m512) -> (__m512, __mmask16) {
    // SAFETY: the caller guarantees the instructions.
    unsafe {
        let (half, one) = (__m512::splat(0.5), __m512::splat(1.0));
        let near = _mm512_rsqrt14_ps(x);
        let error = half.mul(x).mul(near).fma_negated(near, half);
        let y = near.fma(error, near);
        let square = y.mul(y);
        let lost = _mm512_fmsub_ps(y, y, square);
        let residual = x.fma_negated(lost, x.fma_negated(square, one));
        let tail = half.mul(y).mul(residual);
        let (y, is_certain) = rounded(y, tail, y.mul(__m512::splat(BOUND)));

        let is_plain = _mm512_cmp_ps_mask::<_CMP_GE_OQ>(x, __m512::splat(LEAST))
            & _mm512_cmp_ps_mask::<_CMP_LE_OQ>(x, __m512::splat(MOST));
        let is_nan = _mm512_cmp_ps_mask::<_CMP_NGE_UQ>(x, _mm512_setzero_ps());
        let y = __m512::select(is_nan, __m512::splat(f32::from_bits(NAN)), y);
        (y, is_nan | is_certain & is_plain)
    }
}

// SAFETY: all is inlined, and the caller guarantees the instructions.
unsafe impl Bounded<__m512, 2> for Rsqrt {
    #[inline(always)]
    unsafe fn nearest(x: [__m512; 2]) -> [(__m512, __mmask16); 2] {
        // SAFETY: as above.
        unsafe { [nearest(x[0]), nearest(x[1])] }
    }

    #[inline(always)]
    unsafe fn again(x: &[f32], _certain: u32, y: &mut [f32]) {
        for (y, &x) in y.iter_mut().zip(x) {
            *y = root::rsqrt(x);
        }
    }
}
