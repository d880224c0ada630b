//! AVX-512 registers.

use super::register_tile::{add_row, register_tiles};
use super::vector::{Partial, Vector};
use std::arch::asm;
use std::arch::x86_64::*;

#[derive(Clone, Copy)]
pub(super) struct F32x16(__m512);

#[derive(Clone, Copy)]
pub(super) struct F64x8(__m512d);

// SAFETY: each method is one AVX-512F operation on registers, or a load or store; the trait
// requires the caller to pass valid pointers.
unsafe impl Vector for F32x16 {
    type Elem = f32;
    const LANES: usize = 16;

    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: the caller has AVX-512F.
        Self(unsafe { _mm512_setzero_ps() })
    }
    #[inline(always)]
    unsafe fn splat(x: f32) -> Self {
        // SAFETY: the caller has AVX-512F.
        Self(unsafe { _mm512_set1_ps(x) })
    }
    #[inline(always)]
    unsafe fn prefetch(at: *const f32) {
        // SAFETY: a prefetch affects only the cache.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) }
    }
    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: the caller has AVX-512F and `from` is valid for 16 reads.
        Self(unsafe { _mm512_loadu_ps(from) })
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: the caller has AVX-512F and `to` is valid for 16 writes.
        unsafe { _mm512_storeu_ps(to, self.0) }
    }
    #[inline(always)]
    unsafe fn add_product(self, a: Self, b: Self) -> Self {
        // SAFETY: the caller has AVX-512F.
        Self(unsafe { _mm512_fmadd_ps(a.0, b.0, self.0) })
    }
    #[inline(always)]
    unsafe fn mul(self, other: Self) -> Self {
        // SAFETY: the caller has AVX-512F.
        Self(unsafe { _mm512_mul_ps(self.0, other.0) })
    }
    #[inline(always)]
    unsafe fn div(self, other: Self) -> Self {
        // SAFETY: the caller has AVX-512F.
        Self(unsafe { _mm512_div_ps(self.0, other.0) })
    }
    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        // SAFETY: the caller has AVX-512F.
        Self(unsafe { _mm512_add_ps(self.0, other.0) })
    }
    #[inline(always)]
    unsafe fn canonical(self) -> Self {
        // SAFETY: the caller has AVX-512F.
        unsafe {
            let nan = _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(self.0, self.0);
            Self(_mm512_mask_blend_ps(nan, self.0, _mm512_set1_ps(f32::from_bits(0x7fc0_0000))))
        }
    }
}

// SAFETY: as for `F32x16`.
unsafe impl Vector for F64x8 {
    type Elem = f64;
    const LANES: usize = 8;

    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: the caller has AVX-512F.
        Self(unsafe { _mm512_setzero_pd() })
    }
    #[inline(always)]
    unsafe fn splat(x: f64) -> Self {
        // SAFETY: the caller has AVX-512F.
        Self(unsafe { _mm512_set1_pd(x) })
    }
    #[inline(always)]
    unsafe fn prefetch(at: *const f64) {
        // SAFETY: a prefetch affects only the cache.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) }
    }
    #[inline(always)]
    unsafe fn load(from: *const f64) -> Self {
        // SAFETY: the caller has AVX-512F and `from` is valid for 8 reads.
        Self(unsafe { _mm512_loadu_pd(from) })
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut f64) {
        // SAFETY: the caller has AVX-512F and `to` is valid for 8 writes.
        unsafe { _mm512_storeu_pd(to, self.0) }
    }
    #[inline(always)]
    unsafe fn add_product(self, a: Self, b: Self) -> Self {
        // SAFETY: the caller has AVX-512F.
        Self(unsafe { _mm512_fmadd_pd(a.0, b.0, self.0) })
    }
    #[inline(always)]
    unsafe fn mul(self, other: Self) -> Self {
        // SAFETY: the caller has AVX-512F.
        Self(unsafe { _mm512_mul_pd(self.0, other.0) })
    }
    #[inline(always)]
    unsafe fn div(self, other: Self) -> Self {
        // SAFETY: the caller has AVX-512F.
        Self(unsafe { _mm512_div_pd(self.0, other.0) })
    }
    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        // SAFETY: the caller has AVX-512F.
        Self(unsafe { _mm512_add_pd(self.0, other.0) })
    }
    #[inline(always)]
    unsafe fn canonical(self) -> Self {
        // SAFETY: the caller has AVX-512F.
        unsafe {
            let nan = _mm512_cmp_pd_mask::<_CMP_UNORD_Q>(self.0, self.0);
            let quiet = _mm512_set1_pd(f64::from_bits(0x7ff8_0000_0000_0000));
            Self(_mm512_mask_blend_pd(nan, self.0, quiet))
        }
    }
}

// SAFETY: each method is a few AVX-512F operations; the trait requires the caller to pass pointers that
// are valid for the lanes of the mask, and masked lanes are not accessed.
unsafe impl Partial for F64x8 {
    #[inline(always)]
    unsafe fn load_some(from: *const f64, first: usize, end: usize) -> Self {
        // SAFETY: the caller has AVX-512F and guarantees the lanes of the mask.
        Self(unsafe { _mm512_maskz_loadu_pd(mask(first, end), from) })
    }
    #[inline(always)]
    unsafe fn store_some(self, to: *mut f64, first: usize, end: usize) {
        // SAFETY: the caller has AVX-512F and guarantees the lanes of the mask.
        unsafe { _mm512_mask_storeu_pd(to, mask(first, end), self.0) }
    }
}

/// Returns the mask of the lanes from `first` up to `end`.
#[inline(always)]
fn mask(first: usize, end: usize) -> u8 {
    (((1u32 << end) - 1) >> first << first) as u8
}

/// Defines an [`add_row`] that the compiler cannot split. Otherwise LLVM first loads the rows of a
/// whole step, and the sums of a large tile no longer fit into the registers.
macro_rules! add_row_in_place {
    ($name:ident, $vector:ident, $register:ty, $elem:ty, $broadcast:literal, $fma:literal) => {
        /// # Safety
        ///
        /// The CPU must have AVX-512F, and `from` must be valid for a read.
        #[target_feature(enable = "avx512f")]
        #[inline]
        unsafe fn $name<const C: usize>(
            sums: &mut [$vector; C],
            b: &[$vector; C],
            from: *const $elem,
        ) {
            if C == 2 {
                // Uses the type, which gives the register its name in the assembly.
                let _broadcast: $register;
                // SAFETY: AVX-512F operations on registers, and one read of `from`. They set
                // exception flags of MXCSR, so the block does not claim to preserve flags.
                unsafe {
                    asm!(
                        concat!($broadcast, " {x}, [{from}]"),
                        concat!($fma, " {sum0}, {x}, {b0}"),
                        concat!($fma, " {sum1}, {x}, {b1}"),
                        x = out(zmm_reg) _broadcast,
                        sum0 = inout(zmm_reg) sums[0].0,
                        sum1 = inout(zmm_reg) sums[1].0,
                        b0 = in(zmm_reg) b[0].0,
                        b1 = in(zmm_reg) b[1].0,
                        from = in(reg) from,
                        options(readonly, nostack)
                    );
                }
            } else {
                // SAFETY: the caller has AVX-512F and guarantees that `from` is valid.
                unsafe { add_row(sums, b, from) }
            }
        }
    };
}
add_row_in_place!(add_row_f32, F32x16, __m512, f32, "vbroadcastss", "vfmadd231ps");
add_row_in_place!(add_row_f64, F64x8, __m512d, f64, "vbroadcastsd", "vfmadd231pd");

// 14 x 2 accumulators, two vectors of B and one broadcast of A use 31 of the 32 registers.
register_tiles!(f32_tiles, F32x16, add_row_f32, "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma";
    1: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14];
    2: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14];
    4: [1, 2, 3, 4, 5, 6];
    8: [1, 2, 3]);
register_tiles!(f64_tiles, F64x8, add_row_f64, "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma";
    1: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14];
    2: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14];
    4: [1, 2, 3, 4, 5, 6];
    8: [1, 2, 3]);
