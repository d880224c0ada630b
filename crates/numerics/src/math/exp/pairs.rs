//! The exponential on slices with AVX2: eight elements at a time as sums of two f32, instead of four
//! as f64.
//!
//! The argument is reduced to x = k ln(2)/8 + r, |r| <= ln(2)/16, and 2^(k/8) comes from a table of
//! eight. Sums, products and the table are pairs of f32, a head and a tail, where it matters (T. J. Dekker, *A
//! floating-point technique for extending the available precision*, Numerische Mathematik 18, 1971).
//! The result before rounding errs by at most [`bound`]: if adding and subtracting the bound round to
//! the same f32, it is the correctly rounded one (A. Ziv, *Fast evaluation of elementary mathematical
//! functions with correctly rounded last bit*, ACM TOMS 17(3), 1991). About one vector in forty is
//! computed again in f64.

use core::arch::x86_64::*;

use crate::math::blocks::in_blocks;
use crate::simd::{self, Level};

/// The number of f32 in a vector.
const LANES: usize = 8;

/// 8 / ln 2.
const SCALE: f32 = f32::from_bits(0x4138_aa3b);
/// ln(2) / 8, rounded.
const STEP: f32 = f32::from_bits(0x3db1_7218);
/// ln(2) / 8 - STEP, rounded.
const STEP_TAIL: f32 = f32::from_bits(0xaf82_e308);
/// The constant 1.5 * 2^23: adding it rounds an f32 to an integer, which it leaves in the low bits.
const ROUND: f32 = 12_582_912.0;
/// From -LIMIT to LIMIT the exponential is a normal f32.
const LIMIT: f32 = 87.0;
/// Below, it rounds to 0.
const VANISHED: f32 = -104.0;

/// The powers 2^(i/8), rounded.
const POWERS: [f32; LANES] = from_bits([
    0x3f80_0000,
    0x3f8b_95c2,
    0x3f98_37f0,
    0x3fa5_fed7,
    0x3fb5_04f3,
    0x3fc5_672a,
    0x3fd7_44fd,
    0x3fea_c0c7,
]);
/// What the roundings of POWERS lost.
const TAILS: [f32; LANES] = from_bits([
    0x0000_0000,
    0xb260_aba1,
    0x3323_1b71,
    0xb32c_9d5e,
    0x32cf_e77a,
    0x320a_a837,
    0xb2d4_a58a,
    0xb241_16de,
]);

const fn from_bits(bits: [u32; LANES]) -> [f32; LANES] {
    let mut floats = [0.0; LANES];
    let mut i = 0;
    while i < LANES {
        floats[i] = f32::from_bits(bits[i]);
        i += 1;
    }
    floats
}

/// Computes [`exp`](super::exp) of each element, as many as both slices have.
///
/// # Panics
///
/// If this machine does not have AVX2 and FMA.
pub(super) fn exp_each(input: &[f32], output: &mut [f32]) {
    assert!(simd::supported() >= Level::Avx2);
    // SAFETY: the level contains AVX2 and FMA.
    unsafe { exp_blocks(input, output) }
}

#[target_feature(enable = "avx2,fma")]
fn exp_blocks(input: &[f32], output: &mut [f32]) {
    in_blocks!(exp_block, BLOCK, input, output);
}

/// Two vectors overlap and share a branch.
const BLOCK: usize = 2 * LANES;

#[inline]
#[target_feature(enable = "avx2,fma")]
fn exp_block(x: &[f32; BLOCK], y: &mut [f32; BLOCK]) {
    let vectors: [__m256; 2] = bytemuck::must_cast(*x);
    let [(first, first_certain), (second, second_certain)] = vectors.map(|x| nearest(x));
    *y = bytemuck::must_cast([first, second]);
    if !all(_mm256_and_ps(first_certain, second_certain)) {
        let (x, _) = x.as_chunks();
        let (y, _) = y.as_chunks_mut();
        for ((x, y), certain) in x.iter().zip(y).zip([first_certain, second_certain]) {
            if !all(certain) {
                again(x, certain, y);
            }
        }
    }
}

/// Tells if a comparison held for all elements.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn all(comparison: __m256) -> bool {
    _mm256_movemask_ps(comparison) == (1 << LANES) - 1
}

/// Returns e^x and in which elements it is certainly correctly rounded.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn nearest(x: __m256) -> (__m256, __m256) {
    let rounded = _mm256_fmadd_ps(x, _mm256_set1_ps(SCALE), _mm256_set1_ps(ROUND));
    let k = _mm256_sub_ps(rounded, _mm256_set1_ps(ROUND));
    // x - k STEP is a multiple of 2^-28, or k = 0, so it is exact.
    let r_head = _mm256_fnmadd_ps(k, _mm256_set1_ps(STEP), x);
    let r_tail = _mm256_mul_ps(k, _mm256_set1_ps(-STEP_TAIL));
    let r = _mm256_add_ps(r_head, r_tail);

    // e^r - 1 - r by Taylor's series, whose next term is below 2^-36.
    let square = _mm256_mul_ps(r, r);
    let mut p = _mm256_set1_ps(1.0 / 120.0);
    for coefficient in [1.0 / 24.0, 1.0 / 6.0, 0.5] {
        p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(coefficient));
    }
    let beyond = _mm256_fmadd_ps(square, p, r_tail);

    // The permutation reads the low three bits of k: the position in the table.
    let bits = _mm256_castps_si256(rounded);
    let power = _mm256_permutevar8x32_ps(bytemuck::must_cast(POWERS), bits);
    let power_tail = _mm256_permutevar8x32_ps(bytemuck::must_cast(TAILS), bits);

    // (power + power_tail) (1 + r_head + beyond), without power_tail * beyond. What the rounding of
    // head lost is exact.
    let head = _mm256_fmadd_ps(power, r_head, power);
    let lost = _mm256_fmadd_ps(power, r_head, _mm256_sub_ps(power, head));
    let tail = _mm256_fmadd_ps(power_tail, r, power_tail);
    let tail = _mm256_fmadd_ps(power, beyond, _mm256_add_ps(lost, tail));

    let bound = bound(square);
    let above = _mm256_add_ps(head, _mm256_add_ps(tail, bound));
    let below = _mm256_add_ps(head, _mm256_sub_ps(tail, bound));
    let is_certain = _mm256_cmp_ps::<_CMP_EQ_OQ>(above, below);
    let magnitude = _mm256_andnot_ps(_mm256_set1_ps(-0.0), x);
    let is_normal = _mm256_cmp_ps::<_CMP_LE_OQ>(magnitude, _mm256_set1_ps(LIMIT));

    // The other bits of k are the exponent; those of ROUND leave at the top.
    let exponent = _mm256_slli_epi32::<23>(_mm256_srli_epi32::<3>(bits));
    let y = _mm256_add_epi32(_mm256_castps_si256(above), exponent);
    (_mm256_castsi256_ps(y), _mm256_and_ps(is_certain, is_normal))
}

/// Returns more than the error of e^r in [`nearest`], given r^2: what the f32 of the parts beyond r
/// can be off, found by trying all inputs.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn bound(square: __m256) -> __m256 {
    _mm256_fmadd_ps(square, _mm256_set1_ps(2.4e-7), _mm256_set1_ps(5e-11))
}

/// Computes a vector of which not all elements are certain.
#[cold]
#[inline(never)]
#[target_feature(enable = "avx2,fma")]
fn again(elements: &[f32; LANES], is_certain: __m256, out: &mut [f32; LANES]) {
    let x: __m256 = bytemuck::must_cast(*elements);
    // Masks of attention are minus infinity.
    let is_zero = _mm256_cmp_ps::<_CMP_LT_OQ>(x, _mm256_set1_ps(VANISHED));
    if all(_mm256_or_ps(is_certain, is_zero)) {
        let y: __m256 = bytemuck::must_cast(*out);
        *out = bytemuck::must_cast(_mm256_andnot_ps(is_zero, y));
    } else {
        super::exp_block(elements, out);
    }
}
