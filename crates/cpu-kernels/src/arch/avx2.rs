//! AVX2 registers with FMA.

use super::register_tile::{add_row, register_tiles};
use super::vector::{Partial, Vector};
use std::arch::x86_64::*;

#[derive(Clone, Copy)]
pub(super) struct F32x8(__m256);

#[derive(Clone, Copy)]
pub(super) struct F64x4(__m256d);

// SAFETY: each method is one AVX or FMA operation on registers, or a load or store; the trait
// requires the caller to pass valid pointers.
unsafe impl Vector for F32x8 {
    type Elem = f32;
    const LANES: usize = 8;

    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: the caller has AVX.
        Self(unsafe { _mm256_setzero_ps() })
    }
    #[inline(always)]
    unsafe fn splat(x: f32) -> Self {
        // SAFETY: the caller has AVX.
        Self(unsafe { _mm256_set1_ps(x) })
    }
    #[inline(always)]
    unsafe fn prefetch(at: *const f32) {
        // SAFETY: a prefetch affects only the cache.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) }
    }
    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: the caller has AVX and `from` is valid for 8 reads.
        Self(unsafe { _mm256_loadu_ps(from) })
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: the caller has AVX and `to` is valid for 8 writes.
        unsafe { _mm256_storeu_ps(to, self.0) }
    }
    #[inline(always)]
    unsafe fn add_product(self, a: Self, b: Self) -> Self {
        // SAFETY: the caller has FMA.
        Self(unsafe { _mm256_fmadd_ps(a.0, b.0, self.0) })
    }
    #[inline(always)]
    unsafe fn mul(self, other: Self) -> Self {
        // SAFETY: the caller has AVX.
        Self(unsafe { _mm256_mul_ps(self.0, other.0) })
    }
    #[inline(always)]
    unsafe fn div(self, other: Self) -> Self {
        // SAFETY: the caller has AVX.
        Self(unsafe { _mm256_div_ps(self.0, other.0) })
    }
    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        // SAFETY: the caller has AVX.
        Self(unsafe { _mm256_add_ps(self.0, other.0) })
    }
    #[inline(always)]
    unsafe fn canonical(self) -> Self {
        // SAFETY: the caller has AVX.
        unsafe {
            let nan = _mm256_cmp_ps::<_CMP_UNORD_Q>(self.0, self.0);
            Self(_mm256_blendv_ps(self.0, _mm256_set1_ps(f32::from_bits(0x7fc0_0000)), nan))
        }
    }
}

// SAFETY: as for `F32x8`.
unsafe impl Vector for F64x4 {
    type Elem = f64;
    const LANES: usize = 4;

    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: the caller has AVX.
        Self(unsafe { _mm256_setzero_pd() })
    }
    #[inline(always)]
    unsafe fn splat(x: f64) -> Self {
        // SAFETY: the caller has AVX.
        Self(unsafe { _mm256_set1_pd(x) })
    }
    #[inline(always)]
    unsafe fn prefetch(at: *const f64) {
        // SAFETY: a prefetch affects only the cache.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) }
    }
    #[inline(always)]
    unsafe fn load(from: *const f64) -> Self {
        // SAFETY: the caller has AVX and `from` is valid for 4 reads.
        Self(unsafe { _mm256_loadu_pd(from) })
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut f64) {
        // SAFETY: the caller has AVX and `to` is valid for 4 writes.
        unsafe { _mm256_storeu_pd(to, self.0) }
    }
    #[inline(always)]
    unsafe fn add_product(self, a: Self, b: Self) -> Self {
        // SAFETY: the caller has FMA.
        Self(unsafe { _mm256_fmadd_pd(a.0, b.0, self.0) })
    }
    #[inline(always)]
    unsafe fn mul(self, other: Self) -> Self {
        // SAFETY: the caller has AVX.
        Self(unsafe { _mm256_mul_pd(self.0, other.0) })
    }
    #[inline(always)]
    unsafe fn div(self, other: Self) -> Self {
        // SAFETY: the caller has AVX.
        Self(unsafe { _mm256_div_pd(self.0, other.0) })
    }
    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        // SAFETY: the caller has AVX.
        Self(unsafe { _mm256_add_pd(self.0, other.0) })
    }
    #[inline(always)]
    unsafe fn canonical(self) -> Self {
        // SAFETY: the caller has AVX.
        unsafe {
            let nan = _mm256_cmp_pd::<_CMP_UNORD_Q>(self.0, self.0);
            let quiet = _mm256_set1_pd(f64::from_bits(0x7ff8_0000_0000_0000));
            Self(_mm256_blendv_pd(self.0, quiet, nan))
        }
    }
}

// SAFETY: each method is a few AVX operations; the trait requires the caller to pass pointers that are
// valid for the lanes of the mask, and masked lanes are not accessed.
unsafe impl Partial for F64x4 {
    #[inline(always)]
    unsafe fn load_some(from: *const f64, first: usize, end: usize) -> Self {
        // SAFETY: the caller has AVX2 and guarantees the lanes of the mask.
        Self(unsafe { _mm256_maskload_pd(from, mask(first, end)) })
    }
    #[inline(always)]
    unsafe fn store_some(self, to: *mut f64, first: usize, end: usize) {
        // SAFETY: the caller has AVX2 and guarantees the lanes of the mask.
        unsafe { _mm256_maskstore_pd(to, mask(first, end), self.0) }
    }
}

/// Returns the mask of the lanes from `first` up to `end`.
///
/// # Safety
///
/// The CPU must have AVX2.
#[inline(always)]
unsafe fn mask(first: usize, end: usize) -> __m256i {
    // SAFETY: the caller has AVX2.
    unsafe {
        let lanes = _mm256_set_epi64x(3, 2, 1, 0);
        let before = _mm256_cmpgt_epi64(_mm256_set1_epi64x(first as i64), lanes);
        let inside = _mm256_cmpgt_epi64(_mm256_set1_epi64x(end as i64), lanes);
        _mm256_andnot_si256(before, inside)
    }
}

// 6 x 2 accumulators, two vectors of B and one broadcast of A use 15 of the 16 registers.
register_tiles!(f32_tiles, F32x8, add_row, "avx2,fma";
    1: [1, 2, 3, 4, 5, 6];
    2: [1, 2, 3, 4, 5, 6];
    4: [1, 2, 3]);
register_tiles!(f64_tiles, F64x4, add_row, "avx2,fma";
    1: [1, 2, 3, 4, 5, 6];
    2: [1, 2, 3, 4, 5, 6];
    4: [1, 2, 3]);
