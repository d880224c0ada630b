// Correctly rounded elementary functions of f32: samebits_numerics::math, operation by
// operation. Both sides evaluate in f64 by the same basic operations, so they give the same
// bits; that these are the correctly rounded ones is what the CPU's exhaustive check shows.
#pragma once

#include "samebits.cuh"

// 1.5 * 2^52: a sum with it holds the nearest integer in its low bits.
#define SB_ROUND 6755399441055744.0

__device__ __forceinline__ u64 sb_bits(double x) { return (u64)__double_as_longlong(x); }
__device__ __forceinline__ double sb_double(u64 bits) { return __longlong_as_double((i64)bits); }
__device__ __forceinline__ double sb_abs64(double x) { return sb_double(sb_bits(x) & ~(1ull << 63)); }

// x times 2^k, where `rounded` (a sum with SB_ROUND) holds k.
__device__ __forceinline__ double sb_scale(double x, double rounded) {
    return sb_double(sb_bits(x) + (sb_bits(rounded) << 52));
}

__device__ __forceinline__ double sb_flip_if_odd(double x, double rounded) {
    return sb_double(sb_bits(x) ^ (sb_bits(rounded) << 63));
}

__device__ __forceinline__ float sb_nan_if(bool condition, float y) {
    return condition ? sb_nan() : y;
}

// c[0] + x (c[1] + x (c[2] + ...)), one rounding per step.
template <int N>
__device__ __forceinline__ double sb_horner(double x, const double (&c)[N]) {
    double p = c[N - 1];
#pragma unroll
    for (int i = N - 2; i >= 0; --i) p = __fma_rn(p, x, c[i]);
    return p;
}

__device__ __forceinline__ double sb_clamp(double x, double low, double high) {
    x = x > high ? high : x;
    return x < low ? low : x;
}

// k in the low bits of `rounded`, and r = x - k ln 2.
__device__ __forceinline__ double sb_reduce_ln2(double x, double* r) {
    const double log2_e = sb_double(0x3ff71547652b82feull);
    const double ln2_hi = sb_double(0x3fe62e42fefa2000ull);
    const double ln2_lo = sb_double(0x3d69ef35793c7673ull);
    double rounded = __fma_rn(x, log2_e, SB_ROUND);
    double k = rounded - SB_ROUND;
    *r = __fma_rn(-k, ln2_lo, __fma_rn(-k, ln2_hi, x));
    return rounded;
}

__device__ __forceinline__ float sb_exp(float x) {
    double r;
    double k = sb_reduce_ln2(sb_clamp((double)x, -110.0, 90.0), &r);
    const double c[] = {0.5,
                        0.16666666666666685,
                        0.04166666666660277,
                        0.008333333333314381,
                        0.0013888888927278025,
                        0.00019841269903674532,
                        2.4801508079521782e-05,
                        2.7557227394401727e-06,
                        2.7625424800821167e-07,
                        2.5114615907973533e-08};
    double p = sb_horner(r, c);
    double y = sb_scale(1.0 + __fma_rn(r * r, p, r), k);
    return sb_nan_if(x != x, (float)y);
}

__device__ __forceinline__ double sb_expm1_reduced(double r) {
    const double c[] = {0.5,
                        0.16666666666666677,
                        0.04166666666666667,
                        0.008333333333321386,
                        0.0013888888888886042,
                        0.0001984126988681587,
                        2.480158731785479e-05,
                        2.7557243452369166e-06,
                        2.755728314290839e-07,
                        2.5109320565672487e-08,
                        2.0910808661192885e-09};
    return __fma_rn(r * r, sb_horner(r, c), r);
}

__device__ __forceinline__ float sb_sigmoid(float value) {
    double x = sb_clamp((double)value, -110.0, 40.0);
    double r;
    double k = sb_reduce_ln2(-x, &r);
    double s = sb_scale(1.0, k);
    double y = 1.0 / __fma_rn(s, sb_expm1_reduced(r), 1.0 + s);
    double step = sb_double((sb_bits(x) & (1ull << 63)) | 0x3ca0000000000000ull);
    double tiny = __fma_rn(x, 0.25, 0.5) - step;
    y = sb_abs64(x) < 3.0517578125e-05 ? tiny : y;
    return sb_nan_if(value != value, (float)y);
}

__device__ __forceinline__ float sb_tanh(float value) {
    double x = (double)value;
    double a = sb_abs64(x);
    double r;
    double k = sb_reduce_ln2(2.0 * (a > 20.0 ? 20.0 : a), &r);
    double s = sb_scale(1.0, k);
    double t = __fma_rn(s, sb_expm1_reduced(r), s - 1.0);
    double y = t / (t + 2.0);
    y = sb_double((sb_bits(y) & ~(1ull << 63)) | (sb_bits(x) & (1ull << 63)));
    return sb_nan_if(value != value, (float)y);
}

__device__ __forceinline__ float sb_log(float value) {
    const double ln2_hi = sb_double(0x3fe62e42fefa2000ull);
    const double ln2_lo = sb_double(0x3d69ef35793c7673ull);
    const u64 half_sqrt = 0x3fe6a09e667f3bcdull;
    const u64 one = 0x3ff0000000000000ull;
    u64 bits = sb_bits((double)value);
    u64 biased = (bits + (one - half_sqrt)) >> 52;
    double m = sb_double(bits - (biased << 52) + one);
    double k = sb_double(0x4330000000000000ull | biased) - 4503599627371519.0;
    double s = (m - 1.0) / (m + 1.0);
    double z = s * s;
    const double c[] = {0.6666666666666734,  0.3999999999941653,  0.2857142874206991,
                        0.22222198599483725, 0.18183563195905386, 0.15314074804554312,
                        0.14795744705550054};
    double rest = s * z * sb_horner(z, c);
    double y = __fma_rn(k, ln2_hi, 2.0 * s + __fma_rn(k, ln2_lo, rest));
    float result = __float_as_uint(value) == 0x7f800000u ? value : (float)y;
    if (value == 0.0f) result = __uint_as_float(0xff800000u);
    return sb_nan_if(!(value >= 0.0f), result);
}

__device__ __forceinline__ float sb_sqrt(float x) { return sb_nan_if(!(x >= 0.0f), __fsqrt_rn(x)); }

// sin(pi r) for |r| <= 1/2.
__device__ __forceinline__ double sb_sin_pi_r(double r) {
    const double pi = sb_double(0x400921fb54442d18ull);
    double u = r * r;
    const double c[] = {sb_double(0x3ca1a62633145c07ull), -5.167712780049969,
                        2.550164039877268,                -0.5992645293176785,
                        0.08214588655079139,              -0.0073704302995635605,
                        0.0004662987787461239,            -2.1900813737160557e-05,
                        7.669866412801172e-07};
    return __fma_rn(r, pi, r * sb_horner(u, c));
}

__device__ __forceinline__ double sb_even_if_huge(double x) {
    return sb_abs64(x) < 16777216.0 ? x : 0.0;
}

__device__ __forceinline__ bool sb_finite(float x) {
    return (__float_as_uint(x) & 0x7f800000u) != 0x7f800000u;
}

__device__ __forceinline__ float sb_sinpi(float value) {
    double x = sb_even_if_huge((double)value);
    double n = x + SB_ROUND;
    double r = x - (n - SB_ROUND);
    double y = sb_flip_if_odd(sb_sin_pi_r(r), n);
    float zero = __uint_as_float(__float_as_uint(value) & 0x80000000u);
    return sb_nan_if(!sb_finite(value), r == 0.0 ? zero : (float)y);
}

__device__ __forceinline__ float sb_cospi(float value) {
    double x = sb_even_if_huge((double)value) + 0.5;
    double n = x + SB_ROUND;
    double r = x - (n - SB_ROUND);
    double y = sb_flip_if_odd(sb_sin_pi_r(r), n);
    return sb_nan_if(!sb_finite(value), r == 0.0 ? 0.0f : (float)y);
}
