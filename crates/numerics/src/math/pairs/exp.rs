//! The exponential and the logistic function on slices with AVX2: eight elements at a time as sums of two f32, instead of four
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
/// From -SIGMOID_LIMIT to SIGMOID_LIMIT the tail of the logistic function is a normal f32.
const SIGMOID_LIMIT: f32 = 64.0;
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
    let [(first, first_certain), (second, second_certain)] = vectors.map(|x| exp_nearest(x));
    *y = bytemuck::must_cast([first, second]);
    if !all(_mm256_and_ps(first_certain, second_certain)) {
        let (x, _) = x.as_chunks();
        let (y, _) = y.as_chunks_mut();
        for ((x, y), certain) in x.iter().zip(y).zip([first_certain, second_certain]) {
            if !all(certain) {
                exp_again(x, certain, y);
            }
        }
    }
}

/// Computes [`sigmoid`](super::sigmoid) of each element, as many as both slices have.
///
/// # Panics
///
/// If this machine does not have AVX2 and FMA.
pub(super) fn sigmoid_each(input: &[f32], output: &mut [f32]) {
    assert!(simd::supported() >= Level::Avx2);
    // SAFETY: the level contains AVX2 and FMA.
    unsafe { sigmoid_blocks(input, output) }
}

#[target_feature(enable = "avx2,fma")]
fn sigmoid_blocks(input: &[f32], output: &mut [f32]) {
    in_blocks!(sigmoid_block, SIGMOID_BLOCK, input, output);
}

/// Each half of the chain of operations runs over four vectors: the whole is too long for the
/// processor to reach the next vector.
const SIGMOID_BLOCK: usize = 4 * LANES;

#[inline]
#[target_feature(enable = "avx2,fma")]
fn sigmoid_block(x: &[f32; SIGMOID_BLOCK], y: &mut [f32; SIGMOID_BLOCK]) {
    let vectors: [__m256; 4] = bytemuck::must_cast(*x);
    let falling = vectors.map(|x| falling_exp(x));
    let mut results = [_mm256_setzero_ps(); 4];
    let mut certain = [_mm256_setzero_ps(); 4];
    for i in 0..4 {
        (results[i], certain[i]) = sigmoid_nearest(vectors[i], &falling[i]);
    }
    *y = bytemuck::must_cast(results);
    let [a, b, c, d] = certain;
    if !all(_mm256_and_ps(_mm256_and_ps(a, b), _mm256_and_ps(c, d))) {
        let (x, _) = x.as_chunks::<LANES>();
        let (y, _) = y.as_chunks_mut::<LANES>();
        for ((x, y), certain) in x.iter().zip(y).zip(certain) {
            if !all(certain) {
                sigmoid_again(x, y);
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

/// The exponential as (head + tail) 2^(exponent / 2^23), with the sum in about 1 to 2.
struct Pair {
    head: __m256,
    /// At most 2^-9 in magnitude.
    tail: __m256,
    /// More than the error of the sum.
    bound: __m256,
    exponent: __m256i,
}

/// Returns e^x, for x from -[`LIMIT`] to [`LIMIT`].
#[inline]
#[target_feature(enable = "avx2,fma")]
fn exp_pair(x: __m256) -> Pair {
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

    // The other bits of k are the exponent; those of ROUND leave at the top.
    let exponent = _mm256_slli_epi32::<23>(_mm256_srli_epi32::<3>(bits));
    Pair { head, tail, bound: bound(square), exponent }
}

/// Returns `head + tail`, where both ends of its error round to it, and where that is so and the
/// magnitude of `x` is at most `limit`.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn rounded(head: __m256, tail: __m256, bound: __m256, x: __m256, limit: f32) -> (__m256, __m256) {
    let above = _mm256_add_ps(head, _mm256_add_ps(tail, bound));
    let below = _mm256_add_ps(head, _mm256_sub_ps(tail, bound));
    let is_certain = _mm256_cmp_ps::<_CMP_EQ_OQ>(above, below);
    let magnitude = _mm256_andnot_ps(_mm256_set1_ps(-0.0), x);
    let is_normal = _mm256_cmp_ps::<_CMP_LE_OQ>(magnitude, _mm256_set1_ps(limit));
    (above, _mm256_and_ps(is_certain, is_normal))
}

#[inline]
#[target_feature(enable = "avx2,fma")]
fn exp_nearest(x: __m256) -> (__m256, __m256) {
    let Pair { head, tail, bound, exponent } = exp_pair(x);
    let (y, certain) = rounded(head, tail, bound, x, LIMIT);
    let y = _mm256_add_epi32(_mm256_castps_si256(y), exponent);
    (_mm256_castsi256_ps(y), certain)
}

/// The exponential of -|x|: head, tail and more than their relative error.
struct Falling {
    e: __m256,
    e_tail: __m256,
    bound: __m256,
}

#[inline]
#[target_feature(enable = "avx2,fma")]
fn falling_exp(x: __m256) -> Falling {
    let Pair { head, tail, bound, exponent } = exp_pair(_mm256_or_ps(x, _mm256_set1_ps(-0.0)));
    let power = _mm256_add_epi32(_mm256_castps_si256(_mm256_set1_ps(1.0)), exponent);
    let power = _mm256_castsi256_ps(power);
    let sum = _mm256_add_ps(head, tail);
    let lost = _mm256_sub_ps(tail, _mm256_sub_ps(sum, head));
    // The sum is above 16/17.
    let bound = _mm256_mul_ps(bound, _mm256_set1_ps(1.0625));
    Falling { e: _mm256_mul_ps(sum, power), e_tail: _mm256_mul_ps(lost, power), bound }
}

/// Computes e^x / (1 + e^x) for negative x and 1 / (1 + e^-x) for others, as a quotient of pairs.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn sigmoid_nearest(x: __m256, &Falling { e, e_tail, bound }: &Falling) -> (__m256, __m256) {
    let one = _mm256_set1_ps(1.0);
    // 1 + e, and what its rounding lost, which is exact.
    let divisor = _mm256_add_ps(one, e);
    let divisor_tail = _mm256_add_ps(_mm256_sub_ps(e, _mm256_sub_ps(divisor, one)), e_tail);
    // The sign of x chooses.
    let dividend = _mm256_blendv_ps(one, e, x);
    let dividend_tail = _mm256_and_ps(e_tail, _mm256_castsi256_ps(signs(x)));
    let inverse = _mm256_div_ps(one, divisor);
    let quotient = _mm256_mul_ps(dividend, inverse);
    // What is left of the dividend.
    let left = _mm256_fnmadd_ps(quotient, divisor, dividend);
    let left = _mm256_fnmadd_ps(quotient, divisor_tail, _mm256_add_ps(left, dividend_tail));
    let tail = _mm256_mul_ps(left, inverse);
    // An error of e changes the result by s (1 - s) times its relative size.
    let slope = _mm256_fnmadd_ps(quotient, quotient, quotient);
    let bound = _mm256_fmadd_ps(slope, bound, _mm256_mul_ps(quotient, _mm256_set1_ps(4e-14)));
    rounded(quotient, tail, bound, x, SIGMOID_LIMIT)
}

/// Returns all bits set in the elements whose sign is set.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn signs(x: __m256) -> __m256i {
    _mm256_srai_epi32::<31>(_mm256_castps_si256(x))
}

/// Returns more than the error of e^r in [`exp_pair`], given r^2: what the f32 of the parts beyond r
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
fn exp_again(elements: &[f32; LANES], is_certain: __m256, out: &mut [f32; LANES]) {
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

/// Computes a vector of which not all elements are certain.
#[cold]
#[inline(never)]
#[target_feature(enable = "avx2,fma")]
fn sigmoid_again(elements: &[f32; LANES], out: &mut [f32; LANES]) {
    *out = elements.map(super::sigmoid);
}
