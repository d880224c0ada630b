//! Conversions between f32 and the 16-bit floats, on their bits, so that they vectorise.

use samebits_numerics::simd;
use samebits_tensor_core::{bf16, f16};

use crate::parallel::pieces;

/// A conversion of elements.
trait Convert<T, R>: Copy + Send + Sync {
    fn convert(self, x: T) -> R;
}

#[derive(Clone, Copy)]
struct Exact;

/// Rounding to nearest even; NaN becomes the canonical one, and so it does in exact conversions.
#[derive(Clone, Copy)]
struct Rounded;

impl Convert<bf16, f32> for Exact {
    #[inline(always)]
    fn convert(self, x: bf16) -> f32 {
        canonical(f32::from_bits(u32::from(x.to_bits()) << 16))
    }
}

impl Convert<f32, bf16> for Rounded {
    #[inline(always)]
    fn convert(self, x: f32) -> bf16 {
        let bits = x.to_bits();
        // Half of the last place that stays, less one if the rest is a tie and that place even.
        let rounded = bits.wrapping_add(0x7fff + (bits >> 16 & 1)) >> 16;
        bf16::from_bits(if x.is_nan() { 0x7fc0 } else { rounded as u16 })
    }
}

impl Convert<f16, f32> for Exact {
    #[inline(always)]
    fn convert(self, x: f16) -> f32 {
        let bits = u32::from(x.to_bits());
        let (sign, magnitude) = ((bits & 0x8000) << 16, bits & 0x7fff);
        // The exponents differ by 112; subnormals are normal in f32, which the product takes care
        // of.
        let finite = f32::from_bits(magnitude << 13) * f32::from_bits((127 + 112) << 23);
        let infinite = f32::from_bits(0x7f80_0000 | magnitude << 13);
        let found = if magnitude >= 0x7c00 { infinite } else { finite };
        canonical(f32::from_bits(found.to_bits() | sign))
    }
}

impl Convert<f32, f16> for Rounded {
    #[inline(always)]
    fn convert(self, x: f32) -> f16 {
        let bits = x.to_bits();
        let (sign, magnitude) = (bits >> 16 & 0x8000, bits & 0x7fff_ffff);
        let normal =
            magnitude.wrapping_sub(112 << 23).wrapping_add(0xfff + (magnitude >> 13 & 1)) >> 13;
        // The last place of 0.5 is the least f16, 2^-24: the sum is rounded to a multiple of it.
        let subnormal = (f32::from_bits(magnitude) + 0.5).to_bits().wrapping_sub(0.5f32.to_bits());
        let found = if magnitude < (127 - 14) << 23 { subnormal } else { normal };
        // From half a place above the largest on, numbers are rounded to infinity.
        let found = if magnitude >= 0x477f_f000 { 0x7c00 } else { found };
        f16::from_bits(if x.is_nan() { 0x7e00 } else { (found | sign) as u16 })
    }
}

/// A 16-bit float.
pub(crate) trait Half: Copy + Send + Sync + 'static {
    /// Returns the same number; a NaN becomes the canonical one.
    fn widen(self) -> f32;

    /// Rounds to nearest even; a NaN becomes the canonical one.
    fn round(x: f32) -> Self;
}

macro_rules! half {
    ($($half:ty),*) => {$(
        impl Half for $half {
            #[inline(always)]
            fn widen(self) -> f32 {
                Exact.convert(self)
            }

            #[inline(always)]
            fn round(x: f32) -> $half {
                Rounded.convert(x)
            }
        }
    )*};
}
half!(bf16, f16);

#[inline(always)]
fn canonical(x: f32) -> f32 {
    if x.is_nan() { f32::from_bits(0x7fc0_0000) } else { x }
}

struct Converted<'a, C, T, R> {
    with: C,
    from: &'a [T],
    to: &'a mut [R],
}

impl<C: Convert<T, R>, T: Copy, R> simd::Kernel for Converted<'_, C, T, R> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Converted { with, from, to } = self;
        to.iter_mut().zip(from).for_each(|(to, &x)| *to = with.convert(x));
    }
}

fn each<C: Convert<T, R>, T: Copy + Sync, R: Send>(with: C, from: &[T], to: &mut [R]) {
    pieces(to, |start, to| {
        simd::dispatch(Converted { with, from: &from[start..][..to.len()], to });
    });
}

/// Converts bf16 exactly. The slices have one length, as for all functions here.
pub(crate) fn from_bf16(from: &[bf16], to: &mut [f32]) {
    each(Exact, from, to);
}

/// Converts to bf16.
pub(crate) fn to_bf16(from: &[f32], to: &mut [bf16]) {
    each(Rounded, from, to);
}

/// Converts f16 exactly.
pub(crate) fn from_f16(from: &[f16], to: &mut [f32]) {
    each(Exact, from, to);
}

/// Converts to f16.
pub(crate) fn to_f16(from: &[f32], to: &mut [f16]) {
    each(Rounded, from, to);
}
