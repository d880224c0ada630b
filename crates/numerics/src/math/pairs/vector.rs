//! Vectors of f32.

use core::arch::x86_64::*;

use super::table::{Table, lookup};

/// A vector register of f32.
///
/// # Safety
///
/// Every method requires a CPU with the instructions of the implementing type. The implementations
/// are `#[inline(always)]`, so that they compile to single instructions inside a function with the
/// matching `#[target_feature]`.
pub(in super::super) unsafe trait Vector: Copy {
    /// The number of elements.
    const LANES: usize;
    /// A truth value for each element.
    type Mask: Copy;
    /// Integers of 32 bits.
    type Bits: Copy;

    /// Reads `LANES` elements; `from` must be valid for that many reads.
    unsafe fn load(from: *const f32) -> Self;
    /// Writes `LANES` elements; `to` must be valid for that many writes.
    unsafe fn store(self, to: *mut f32);
    /// Returns a vector with `x` in every lane.
    unsafe fn splat(x: f32) -> Self;
    /// Returns the sum.
    unsafe fn add(self, other: Self) -> Self;
    /// Returns the difference.
    unsafe fn sub(self, other: Self) -> Self;
    /// Returns the product.
    unsafe fn mul(self, other: Self) -> Self;
    /// Returns the quotient.
    unsafe fn div(self, other: Self) -> Self;
    /// Returns `self * b + c`, rounded once.
    unsafe fn fma(self, b: Self, c: Self) -> Self;
    /// Returns `c - self * b`, rounded once.
    unsafe fn fma_negated(self, b: Self, c: Self) -> Self;
    /// Returns the reciprocal square root of a positive normal number within 1.5 * 2^-12.
    unsafe fn near_rsqrt(self) -> Self;
    /// Returns the magnitude.
    unsafe fn abs(self) -> Self;
    /// Returns minus the magnitude.
    unsafe fn negative(self) -> Self;
    /// Returns the smaller one, or `other` if one is NaN.
    unsafe fn min(self, other: Self) -> Self;
    /// Returns the larger one, or `other` if one is NaN.
    unsafe fn max(self, other: Self) -> Self;
    /// Returns `self * b - c`, rounded once.
    unsafe fn fms(self, b: Self, c: Self) -> Self;
    /// Returns the magnitude of `self` with the sign of `other`; `self` has no sign bit or the same.
    unsafe fn with_sign(self, other: Self) -> Self;
    /// Returns the bits.
    unsafe fn bits(self) -> Self::Bits;
    /// Returns element `i` of `table` where the low bits are `i`; `table` has `LANES` elements.
    unsafe fn lookup(bits: Self::Bits, table: &[f32]) -> Self;
    /// Returns the bits without the low ones of [`lookup`](Vector::lookup), as a change of the exponent.
    unsafe fn to_exponent(bits: Self::Bits) -> Self::Bits;
    /// Adds to the bits.
    unsafe fn add_bits(self, bits: Self::Bits) -> Self;
    /// Returns the difference of bits.
    unsafe fn sub_bits(a: Self::Bits, b: Self::Bits) -> Self::Bits;
    /// Returns bits with `x` in every lane.
    unsafe fn splat_bits(x: i32) -> Self::Bits;
    /// Returns the bits that both have.
    unsafe fn and_bits(a: Self::Bits, b: Self::Bits) -> Self::Bits;
    /// Returns the vector of these bits.
    unsafe fn from_bits(bits: Self::Bits) -> Self;
    /// Returns the exponent of bits, with its sign, as numbers.
    unsafe fn exponent(bits: Self::Bits) -> Self;
    /// Returns element `i` of the table, where the five bits above bit 18 are `i`.
    unsafe fn lookup_interval(bits: Self::Bits, table: &Table) -> Self;
    /// Tells where both are equal.
    unsafe fn is_equal(self, other: Self) -> Self::Mask;
    /// Tells where `self <= other`.
    unsafe fn is_at_most(self, other: Self) -> Self::Mask;
    /// Tells where the sign bit is set.
    unsafe fn is_negative(self) -> Self::Mask;
    /// Returns `yes` where the mask holds, else `no`.
    unsafe fn select(mask: Self::Mask, yes: Self, no: Self) -> Self;
    /// Tells where both masks hold.
    unsafe fn both(a: Self::Mask, b: Self::Mask) -> Self::Mask;
    /// Tells where one of the masks holds.
    unsafe fn either(a: Self::Mask, b: Self::Mask) -> Self::Mask;
    /// Returns a bit for each lane.
    unsafe fn to_bits(mask: Self::Mask) -> u32;
}

macro_rules! vector {
    (
        $type:ty, $lanes:literal, $load:ident, $store:ident, $splat:ident, $add:ident, $sub:ident,
        $mul:ident, $div:ident, $min:ident, $fma:ident, $fma_negated:ident, $bits_of:ident, $of_bits:ident,
        $splat_bits:ident, $and:ident, $or:ident, $add_bits:ident, $max:ident, $fms:ident,
        $sub_bits:ident, $to_float:ident, $shift:ident, { $($others:item)* }
    ) => {
        // SAFETY: each method is a few instructions of the type; the caller guarantees that the CPU
        // has them.
        unsafe impl Vector for $type {
            const LANES: usize = $lanes;
            $($others)*
            #[inline(always)]
            unsafe fn load(from: *const f32) -> Self {
                // SAFETY: as for the trait.
                unsafe { $load(from) }
            }
            #[inline(always)]
            unsafe fn store(self, to: *mut f32) {
                // SAFETY: as for the trait.
                unsafe { $store(to, self) }
            }
            #[inline(always)]
            unsafe fn splat(x: f32) -> Self {
                // SAFETY: as for the trait.
                unsafe { $splat(x) }
            }
            #[inline(always)]
            unsafe fn add(self, other: Self) -> Self {
                // SAFETY: as for the trait.
                unsafe { $add(self, other) }
            }
            #[inline(always)]
            unsafe fn sub(self, other: Self) -> Self {
                // SAFETY: as for the trait.
                unsafe { $sub(self, other) }
            }
            #[inline(always)]
            unsafe fn mul(self, other: Self) -> Self {
                // SAFETY: as for the trait.
                unsafe { $mul(self, other) }
            }
            #[inline(always)]
            unsafe fn div(self, other: Self) -> Self {
                // SAFETY: as for the trait.
                unsafe { $div(self, other) }
            }
            #[inline(always)]
            unsafe fn fma(self, b: Self, c: Self) -> Self {
                // SAFETY: as for the trait.
                unsafe { $fma(self, b, c) }
            }
            #[inline(always)]
            unsafe fn fma_negated(self, b: Self, c: Self) -> Self {
                // SAFETY: as for the trait.
                unsafe { $fma_negated(self, b, c) }
            }
            #[inline(always)]
            unsafe fn abs(self) -> Self {
                // SAFETY: as for the trait.
                unsafe { $of_bits($and($bits_of(self), $splat_bits(i32::MAX))) }
            }
            #[inline(always)]
            unsafe fn negative(self) -> Self {
                // SAFETY: as for the trait.
                unsafe { $of_bits($or($bits_of(self), $splat_bits(i32::MIN))) }
            }
            #[inline(always)]
            unsafe fn min(self, other: Self) -> Self {
                // SAFETY: as for the trait.
                unsafe { $min(self, other) }
            }
            #[inline(always)]
            unsafe fn max(self, other: Self) -> Self {
                // SAFETY: as for the trait.
                unsafe { $max(self, other) }
            }
            #[inline(always)]
            unsafe fn fms(self, b: Self, c: Self) -> Self {
                // SAFETY: as for the trait.
                unsafe { $fms(self, b, c) }
            }
            #[inline(always)]
            unsafe fn sub_bits(a: Self::Bits, b: Self::Bits) -> Self::Bits {
                // SAFETY: as for the trait.
                unsafe { $sub_bits(a, b) }
            }
            #[inline(always)]
            unsafe fn splat_bits(x: i32) -> Self::Bits {
                // SAFETY: as for the trait.
                unsafe { $splat_bits(x) }
            }
            #[inline(always)]
            unsafe fn and_bits(a: Self::Bits, b: Self::Bits) -> Self::Bits {
                // SAFETY: as for the trait.
                unsafe { $and(a, b) }
            }
            #[inline(always)]
            unsafe fn from_bits(bits: Self::Bits) -> Self {
                // SAFETY: as for the trait.
                unsafe { $of_bits(bits) }
            }
            #[inline(always)]
            unsafe fn exponent(bits: Self::Bits) -> Self {
                // SAFETY: as for the trait.
                unsafe { $to_float($shift::<23>(bits)) }
            }
            #[inline(always)]
            unsafe fn with_sign(self, other: Self) -> Self {
                // SAFETY: as for the trait.
                unsafe {
                    let sign = $and($bits_of(other), $splat_bits(i32::MIN));
                    $of_bits($or($bits_of(self), sign))
                }
            }
            #[inline(always)]
            unsafe fn bits(self) -> Self::Bits {
                // SAFETY: as for the trait.
                unsafe { $bits_of(self) }
            }
            #[inline(always)]
            unsafe fn add_bits(self, bits: Self::Bits) -> Self {
                // SAFETY: as for the trait.
                unsafe { $of_bits($add_bits($bits_of(self), bits)) }
            }
        }
    };
}

vector!(
    __m256,
    8,
    _mm256_loadu_ps,
    _mm256_storeu_ps,
    _mm256_set1_ps,
    _mm256_add_ps,
    _mm256_sub_ps,
    _mm256_mul_ps,
    _mm256_div_ps,
    _mm256_min_ps,
    _mm256_fmadd_ps,
    _mm256_fnmadd_ps,
    _mm256_castps_si256,
    _mm256_castsi256_ps,
    _mm256_set1_epi32,
    _mm256_and_si256,
    _mm256_or_si256,
    _mm256_add_epi32,
    _mm256_max_ps,
    _mm256_fmsub_ps,
    _mm256_sub_epi32,
    _mm256_cvtepi32_ps,
    _mm256_srai_epi32,
    {
        type Mask = __m256;
        type Bits = __m256i;
        #[inline(always)]
        unsafe fn lookup_interval(bits: Self::Bits, table: &Table) -> Self {
            // SAFETY: the table has four vectors; else as for the trait.
            unsafe {
                let (interval, table) = (_mm256_srli_epi32::<18>(bits), table.as_ptr());
                let mut parts = [_mm256_setzero_ps(); 4];
                for (i, part) in parts.iter_mut().enumerate() {
                    *part = _mm256_permutevar8x32_ps(_mm256_load_ps(table.add(8 * i)), interval);
                }
                // Bits 3 and 4 as signs.
                let bit_3 = _mm256_castsi256_ps(_mm256_slli_epi32::<10>(bits));
                let bit_4 = _mm256_castsi256_ps(_mm256_slli_epi32::<9>(bits));
                let low = _mm256_blendv_ps(parts[0], parts[1], bit_3);
                let high = _mm256_blendv_ps(parts[2], parts[3], bit_3);
                _mm256_blendv_ps(low, high, bit_4)
            }
        }
        #[inline(always)]
        unsafe fn near_rsqrt(self) -> Self {
            // SAFETY: as for the trait.
            unsafe { _mm256_rsqrt_ps(self) }
        }
        #[inline(always)]
        unsafe fn lookup(bits: Self::Bits, table: &[f32]) -> Self {
            assert_eq!(table.len(), Self::LANES);
            // SAFETY: as for the trait, and the table has an element for each lane.
            unsafe { _mm256_permutevar8x32_ps(_mm256_loadu_ps(table.as_ptr()), bits) }
        }
        #[inline(always)]
        unsafe fn to_exponent(bits: Self::Bits) -> Self::Bits {
            // SAFETY: as for the trait.
            unsafe { _mm256_slli_epi32::<23>(_mm256_srli_epi32::<3>(bits)) }
        }
        #[inline(always)]
        unsafe fn is_equal(self, other: Self) -> Self::Mask {
            // SAFETY: as for the trait.
            unsafe { _mm256_cmp_ps::<_CMP_EQ_OQ>(self, other) }
        }
        #[inline(always)]
        unsafe fn is_at_most(self, other: Self) -> Self::Mask {
            // SAFETY: as for the trait.
            unsafe { _mm256_cmp_ps::<_CMP_LE_OQ>(self, other) }
        }
        #[inline(always)]
        unsafe fn is_negative(self) -> Self::Mask {
            // SAFETY: as for the trait.
            unsafe { _mm256_castsi256_ps(_mm256_srai_epi32::<31>(_mm256_castps_si256(self))) }
        }
        #[inline(always)]
        unsafe fn select(mask: Self::Mask, yes: Self, no: Self) -> Self {
            // SAFETY: as for the trait.
            unsafe { _mm256_blendv_ps(no, yes, mask) }
        }
        #[inline(always)]
        unsafe fn both(a: Self::Mask, b: Self::Mask) -> Self::Mask {
            // SAFETY: as for the trait.
            unsafe { _mm256_and_ps(a, b) }
        }
        #[inline(always)]
        unsafe fn either(a: Self::Mask, b: Self::Mask) -> Self::Mask {
            // SAFETY: as for the trait.
            unsafe { _mm256_or_ps(a, b) }
        }
        #[inline(always)]
        unsafe fn to_bits(mask: Self::Mask) -> u32 {
            // SAFETY: as for the trait.
            unsafe { _mm256_movemask_ps(mask) as u32 }
        }
    }
);

vector!(
    __m512,
    16,
    _mm512_loadu_ps,
    _mm512_storeu_ps,
    _mm512_set1_ps,
    _mm512_add_ps,
    _mm512_sub_ps,
    _mm512_mul_ps,
    _mm512_div_ps,
    _mm512_min_ps,
    _mm512_fmadd_ps,
    _mm512_fnmadd_ps,
    _mm512_castps_si512,
    _mm512_castsi512_ps,
    _mm512_set1_epi32,
    _mm512_and_si512,
    _mm512_or_si512,
    _mm512_add_epi32,
    _mm512_max_ps,
    _mm512_fmsub_ps,
    _mm512_sub_epi32,
    _mm512_cvtepi32_ps,
    _mm512_srai_epi32,
    {
        type Mask = __mmask16;
        type Bits = __m512i;
        #[inline(always)]
        unsafe fn lookup_interval(bits: Self::Bits, table: &Table) -> Self {
            // SAFETY: as for the trait.
            unsafe { lookup(_mm512_srli_epi32::<18>(bits), table) }
        }
        #[inline(always)]
        unsafe fn near_rsqrt(self) -> Self {
            // SAFETY: as for the trait.
            unsafe { _mm512_rsqrt14_ps(self) }
        }
        #[inline(always)]
        unsafe fn lookup(bits: Self::Bits, table: &[f32]) -> Self {
            assert_eq!(table.len(), Self::LANES);
            // SAFETY: as for the trait, and the table has an element for each lane.
            unsafe { _mm512_permutexvar_ps(bits, _mm512_loadu_ps(table.as_ptr())) }
        }
        #[inline(always)]
        unsafe fn to_exponent(bits: Self::Bits) -> Self::Bits {
            // SAFETY: as for the trait.
            unsafe { _mm512_slli_epi32::<23>(_mm512_srli_epi32::<4>(bits)) }
        }
        #[inline(always)]
        unsafe fn is_equal(self, other: Self) -> Self::Mask {
            // SAFETY: as for the trait.
            unsafe { _mm512_cmp_ps_mask::<_CMP_EQ_OQ>(self, other) }
        }
        #[inline(always)]
        unsafe fn is_at_most(self, other: Self) -> Self::Mask {
            // SAFETY: as for the trait.
            unsafe { _mm512_cmp_ps_mask::<_CMP_LE_OQ>(self, other) }
        }
        #[inline(always)]
        unsafe fn is_negative(self) -> Self::Mask {
            // SAFETY: as for the trait.
            unsafe { _mm512_movepi32_mask(_mm512_castps_si512(self)) }
        }
        #[inline(always)]
        unsafe fn select(mask: Self::Mask, yes: Self, no: Self) -> Self {
            // SAFETY: as for the trait.
            unsafe { _mm512_mask_blend_ps(mask, no, yes) }
        }
        #[inline(always)]
        unsafe fn both(a: Self::Mask, b: Self::Mask) -> Self::Mask {
            a & b
        }
        #[inline(always)]
        unsafe fn either(a: Self::Mask, b: Self::Mask) -> Self::Mask {
            a | b
        }
        #[inline(always)]
        unsafe fn to_bits(mask: Self::Mask) -> u32 {
            mask.into()
        }
    }
);
