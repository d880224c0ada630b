//! Functions on slices with AVX2 and AVX-512: a vector of f32 at a time as sums of two f32, instead
//! of half as many elements as f64.
//!
//! Sums, products and constants are pairs of f32, a head and a tail, where it matters (T. J. Dekker,
//! *A floating-point technique for extending the available precision*, Numerische Mathematik 18,
//! 1971). Each function knows a bound of its error before the last rounding: if adding and
//! subtracting the bound round to the same f32, it is the correctly rounded one (A. Ziv, *Fast
//! evaluation of elementary mathematical functions with correctly rounded last bit*, ACM TOMS 17(3),
//! 1991). The few other elements are computed again in f64.

mod erf;
mod exp;
mod log;
mod root;
mod table;
mod vector;

use core::arch::x86_64::{__m256, __m512, _MM_HINT_T0, _mm_prefetch};

use crate::fpenv;
use crate::simd::{self, Level};
pub(super) use erf::Erf;
pub(super) use exp::{Exp, Sigmoid, Tanh};
pub(super) use log::{Log, Log1p, Log2, Log10};
pub(super) use root::Rsqrt;
use vector::Vector;

/// A function that knows a bound of its error, on `N` vectors whose chains of operations overlap.
///
/// # Safety
///
/// The methods require a CPU with the instructions of the vector. They are `#[inline(always)]`, as
/// those of [`Vector`].
pub(super) unsafe trait Bounded<V: Vector, const N: usize> {
    /// Returns the value of each element, and where it is certain.
    unsafe fn nearest(x: [V; N]) -> [(V, V::Mask); N];

    /// Returns a result of [`nearest`](Self::nearest) of which not all elements are certain, with more that
    /// are.
    #[inline(always)]
    unsafe fn completed(_x: V, found: (V, V::Mask)) -> (V, V::Mask) {
        found
    }

    /// Computes `LANES` elements without bounds.
    unsafe fn again(x: &[f32], y: &mut [f32]);
}

/// Computes a function of each element with the best vectors of `level` and of this machine; returns
/// false if there are none.
pub(super) fn map<F, const N: usize>(level: Level, input: &[f32], output: &mut [f32]) -> bool
where
    F: Bounded<__m256, N> + Bounded<__m512, N>,
{
    match level.min(simd::supported()) {
        // SAFETY: this CPU has the features of the level.
        Level::Avx512 => fpenv::ieee(|| unsafe { avx512::map::<F, N>(input, output) }),
        // SAFETY: as above.
        Level::Avx2 => fpenv::ieee(|| unsafe { avx2::map::<F, N>(input, output) }),
        Level::Portable => return false,
    }
    true
}

/// Computes a function of each element with vectors of 16, if `level` and this machine have them;
/// returns false if not.
pub(super) fn map_wide<F: Bounded<__m512, N>, const N: usize>(
    level: Level,
    input: &[f32],
    output: &mut [f32],
) -> bool {
    let is_wide = level.min(simd::supported()) == Level::Avx512;
    if is_wide {
        // SAFETY: this CPU has the features of the level.
        fpenv::ieee(|| unsafe { avx512::map::<F, N>(input, output) });
    }
    is_wide
}

macro_rules! level {
    ($module:ident, $vector:ty, $features:literal) => {
        mod $module {
            use super::*;

            /// # Safety
            ///
            /// The CPU must have the features named here.
            #[target_feature(enable = $features)]
            pub(super) unsafe fn map<F: Bounded<$vector, N>, const N: usize>(
                input: &[f32],
                output: &mut [f32],
            ) {
                // SAFETY: the caller guarantees the instructions.
                unsafe { blocks::<$vector, F, N>(input, output, again::<F, N>) }
            }

            /// # Safety
            ///
            /// As for [`map`].
            #[cold]
            #[inline(never)]
            #[target_feature(enable = $features)]
            unsafe fn again<F: Bounded<$vector, N>, const N: usize>(x: &[f32], y: &mut [f32]) {
                // SAFETY: the caller guarantees the instructions.
                unsafe { F::again(x, y) }
            }
        }
    };
}
level!(avx2, __m256, "avx2,fma");
level!(avx512, __m512, "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma");

/// The most elements that are computed together.
const MOST: usize = 64;

/// Computes as many elements as both slices have.
///
/// # Safety
///
/// The CPU must have the instructions of the vector.
#[inline(always)]
unsafe fn blocks<V: Vector, F: Bounded<V, N>, const N: usize>(
    input: &[f32],
    output: &mut [f32],
    again: unsafe fn(&[f32], &mut [f32]),
) {
    const { assert!(N * V::LANES <= MOST) };
    let size = N * V::LANES;
    let mut blocks = input.chunks_exact(size);
    let mut outs = output.chunks_exact_mut(size);
    for (x, y) in (&mut blocks).zip(&mut outs) {
        prefetch(x);
        prefetch(y);
        // SAFETY: the caller guarantees the instructions.
        unsafe { block::<V, F, N>(x, y, again) }
    }
    let (rest, out) = (blocks.remainder(), outs.into_remainder());
    if !rest.is_empty() {
        let (mut x, mut y) = ([1.0; MOST], [0.0; MOST]);
        x[..rest.len()].copy_from_slice(rest);
        // SAFETY: the caller guarantees the instructions.
        unsafe { block::<V, F, N>(&x[..size], &mut y[..size], again) }
        out.copy_from_slice(&y[..rest.len()]);
    }
}

/// Prefetches as many elements 2 KiB after these: the processor's own prefetching ends at pages, and
/// the instructions of so many elements do not fit the window in which it reorders.
#[inline(always)]
fn prefetch(elements: &[f32]) {
    const LINE: usize = 64 / size_of::<f32>();
    for line in (0..elements.len()).step_by(LINE) {
        let ahead = elements.as_ptr().wrapping_add(512 + line);
        // SAFETY: SSE is part of x86-64, and a prefetch neither faults nor changes anything.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(ahead.cast()) };
    }
}

/// Computes `N` vectors.
///
/// # Safety
///
/// The CPU must have the instructions of the vector.
///
/// # Panics
///
/// If a slice does not have `N` vectors.
#[inline(always)]
unsafe fn block<V: Vector, F: Bounded<V, N>, const N: usize>(
    x: &[f32],
    y: &mut [f32],
    again: unsafe fn(&[f32], &mut [f32]),
) {
    assert!(x.len() == N * V::LANES && y.len() == N * V::LANES);
    // SAFETY: the slices have `N` vectors, and the caller guarantees the instructions.
    unsafe {
        // No closures: they would be compiled without the instructions of the vector.
        let mut vectors = [V::load(x.as_ptr()); N];
        for (i, vector) in vectors.iter_mut().enumerate() {
            *vector = V::load(x.as_ptr().add(i * V::LANES));
        }
        let found = F::nearest(vectors);
        let mut certain = found[0].1;
        for (i, (value, is_certain)) in found.into_iter().enumerate() {
            value.store(y.as_mut_ptr().add(i * V::LANES));
            certain = V::both(certain, is_certain);
        }
        let all = u32::MAX >> (32 - V::LANES);
        if V::to_bits(certain) != all {
            let slices = x.chunks_exact(V::LANES).zip(y.chunks_exact_mut(V::LANES));
            for ((x, y), (vector, found)) in slices.zip(vectors.into_iter().zip(found)) {
                let (value, is_certain) = F::completed(vector, found);
                value.store(y.as_mut_ptr());
                if V::to_bits(is_certain) != all {
                    again(x, y);
                }
            }
        }
    }
}

/// Returns `head + tail`, and where both ends of its error round to the same.
///
/// # Safety
///
/// The CPU must have the instructions of the vector.
#[inline(always)]
unsafe fn rounded<V: Vector>(head: V, tail: V, bound: V) -> (V, V::Mask) {
    // SAFETY: the caller guarantees the instructions.
    unsafe {
        let above = head.add(tail.add(bound));
        let below = head.add(tail.sub(bound));
        (above, above.is_equal(below))
    }
}

/// Returns the numbers with these bits.
const fn from_bits<const N: usize>(bits: [u32; N]) -> [f32; N] {
    let mut floats = [0.0; N];
    let mut i = 0;
    while i < N {
        floats[i] = f32::from_bits(bits[i]);
        i += 1;
    }
    floats
}
