// Elementary functions of f64: samebits_numerics::math::f64, operation by operation. Not correctly
// rounded, but the same sequence of basic operations on every device, hence the same bits.
#pragma once

#include "math.cuh"

// A sum or product and what its rounding lost.
struct SbTwo {
    double high;
    double low;
};

__device__ __forceinline__ double sb_nan_if(bool condition, double y) {
    return condition ? sb_nan64() : y;
}

// For |a| >= |b| or a = 0.
__device__ __forceinline__ SbTwo sb_ordered_sum(double a, double b) {
    double sum = a + b;
    return {sum, b - (sum - a)};
}

__device__ __forceinline__ SbTwo sb_two_sum(double a, double b) {
    double sum = a + b;
    double of_b = sum - a;
    return {sum, (a - (sum - of_b)) + (b - of_b)};
}

__device__ __forceinline__ SbTwo sb_two_product(double a, double b) {
    double product = a * b;
    return {product, __fma_rn(a, b, -product)};
}

// x times 2^k for an integer k of at most 2100 in magnitude, in two factors.
__device__ __forceinline__ double sb_scale_wide(double x, double k) {
    double half = __fma_rn(k, 0.5, SB_ROUND);
    double rest = (k - (half - SB_ROUND)) + SB_ROUND;
    return x * sb_scale(1.0, half) * sb_scale(1.0, rest);
}

__device__ __forceinline__ double sb_ln2_hi() { return sb_double(0x3fe62e42fefa2000ull); }
__device__ __forceinline__ double sb_ln2_lo() { return sb_double(0x3d69ef35793c7673ull); }
__device__ __forceinline__ double sb_infinity64() { return sb_double(0x7ff0000000000000ull); }
__device__ __forceinline__ bool sb_finite(double x) {
    return (sb_bits(x) & 0x7ff0000000000000ull) != 0x7ff0000000000000ull;
}

// ---- Exponentials -------------------------------------------------------------------------

// e^(r + r_low) - 1 for |r| <= ln(2)/2.
__device__ __forceinline__ SbTwo sb_expm1_near(double r, double r_low) {
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
    double p = sb_horner(r, c);
    double tail = __fma_rn(r * r, p, __fma_rn(r, r_low, r_low));
    return sb_ordered_sum(r, tail);
}

// k, and e^x = 2^k (1 + high + low), for |x| <= 800.
__device__ __forceinline__ double sb_exp_parts(double x, SbTwo* rest) {
    const double log2_e = sb_double(0x3ff71547652b82feull);
    double k = __fma_rn(x, log2_e, SB_ROUND) - SB_ROUND;
    double t = __fma_rn(-k, sb_ln2_hi(), x);
    double r = __fma_rn(-k, sb_ln2_lo(), t);
    double r_low = __fma_rn(-k, sb_ln2_lo(), t - r) + 0.0;
    *rest = sb_expm1_near(r, r_low);
    return k;
}

// e^x - 1 for -60 <= x <= 600.
__device__ __forceinline__ SbTwo sb_expm1_parts(double x) {
    SbTwo rest;
    double k = sb_exp_parts(x, &rest);
    double s = sb_scale(1.0, k + SB_ROUND);
    double a = s - 1.0;
    double b = s * rest.high;
    double a_lost = (s - a) - 1.0;
    SbTwo total = sb_two_sum(a, b);
    return {total.high, __fma_rn(s, rest.low, total.low + a_lost)};
}

// (n + n_low) / (d + d_low).
__device__ __forceinline__ double sb_quotient(double n, double n_low, double d, double d_low) {
    double q = n / d;
    double rest = __fma_rn(-q, d, n) + (n_low - q * d_low);
    return q + rest / d;
}

__device__ __forceinline__ double sb_exp(double x) {
    SbTwo rest;
    double k = sb_exp_parts(sb_clamp(x, -800.0, 800.0), &rest);
    SbTwo one = sb_ordered_sum(1.0, rest.high);
    return sb_nan_if(x != x, sb_scale_wide(one.high + (one.low + rest.low), k));
}

__device__ __forceinline__ double sb_exp2(double x) {
    const double ln2 = sb_double(0x3fe62e42fefa39efull);
    double t = sb_clamp(x, -1200.0, 1200.0);
    double k = (t + SB_ROUND) - SB_ROUND;
    double r = t - k;
    double high = r * ln2;
    double low = __fma_rn(r, ln2, -high) + r * 2.3190468138462996e-17;
    SbTwo rest = sb_expm1_near(high, low);
    SbTwo one = sb_ordered_sum(1.0, rest.high);
    return sb_nan_if(x != x, sb_scale_wide(one.high + (one.low + rest.low), k));
}

__device__ __forceinline__ double sb_expm1(double x) {
    SbTwo parts = sb_expm1_parts(sb_clamp(x, -60.0, 600.0));
    double y = x > 600.0 ? sb_exp(x) : parts.high + parts.low;
    return sb_nan_if(x != x, x == 0.0 ? x : y);
}

__device__ __forceinline__ double sb_sigmoid(double x) {
    double a = sb_abs64(x);
    SbTwo rest;
    double k = sb_exp_parts(-(a > 60.0 ? 60.0 : a), &rest);
    SbTwo one = sb_ordered_sum(1.0, rest.high);
    double s = sb_scale(1.0, k + SB_ROUND);
    double e = s * one.high;
    double e_low = s * (one.low + rest.low);
    SbTwo d = sb_ordered_sum(1.0, e);
    double n = x < 0.0 ? e : 1.0;
    double n_low = x < 0.0 ? e_low : 0.0;
    double y = sb_quotient(n, n_low, d.high, d.low + e_low);
    return sb_nan_if(x != x, x < -40.0 ? sb_exp(x) : y);
}

__device__ __forceinline__ double sb_tanh(double x) {
    double a = sb_abs64(x);
    SbTwo t = sb_expm1_parts(2.0 * (a > 20.0 ? 20.0 : a));
    SbTwo d = sb_two_sum(2.0, t.high);
    double y = sb_quotient(t.high, t.low, d.high, d.low + t.low);
    return sb_nan_if(x != x, sb_copysign64(y, x));
}

// ---- Logarithms ---------------------------------------------------------------------------

// log(1 + f + f_low) for sqrt(1/2) - 1 <= f <= sqrt(2) - 1.
__device__ __forceinline__ SbTwo sb_log_near_one(double f, double f_low) {
    SbTwo square = sb_two_product(f, f);
    double half = 0.5 * square.high;
    double half_low = 0.5 * square.low;
    double s = f / (2.0 + f);
    double z = s * s;
    double p = sb_atanh_tail(z);
    SbTwo high = sb_ordered_sum(f, -half);
    double tail = __fma_rn(s, __fma_rn(z, p, half),
                           __fma_rn(f_low, __fma_rn(f, f - 1.0, 1.0), -half_low));
    return sb_ordered_sum(high.high, high.low + tail);
}

// k ln 2 + log(1 + f + f_low).
__device__ __forceinline__ SbTwo sb_log_parts(double k, double f, double f_low) {
    SbTwo a = sb_log_near_one(f, f_low);
    SbTwo high = sb_ordered_sum(k * sb_ln2_hi(), a.high);
    return {high.high, high.low + __fma_rn(k, sb_ln2_lo(), a.low)};
}

// sb_split for subnormal numbers too.
__device__ __forceinline__ double sb_split_any(double x, double* m) {
    bool tiny = x < sb_double(0x0010000000000000ull);
    double k = sb_split(x * (tiny ? 18014398509481984.0 : 1.0), m);
    return k - (tiny ? 54.0 : 0.0);
}

// The IEEE results of zero, infinity, NaN and negative inputs.
__device__ __forceinline__ double sb_log_finish(double x, double y) {
    double result = x == sb_infinity64() ? x : y;
    if (x == 0.0) result = -sb_infinity64();
    return sb_nan_if(x != x || x < 0.0, result);
}

__device__ __forceinline__ double sb_log(double x) {
    double m;
    double k = sb_split_any(x, &m);
    SbTwo y = sb_log_parts(k, m - 1.0, 0.0);
    return sb_log_finish(x, y.high + y.low);
}

__device__ __forceinline__ double sb_log2(double x) {
    const double log2_e = sb_double(0x3ff71547652b82feull);
    double m;
    double k = sb_split_any(x, &m);
    SbTwo f = sb_log_near_one(m - 1.0, 0.0);
    SbTwo a = sb_two_product(f.high, log2_e);
    double rest = __fma_rn(f.high, 2.0355273740931033e-17, __fma_rn(f.low, log2_e, a.low));
    SbTwo high = sb_ordered_sum(k, a.high);
    return sb_log_finish(x, high.high + (high.low + rest));
}

__device__ __forceinline__ double sb_log10(double x) {
    const double log10_e = sb_double(0x3fdbcb7b1526e50eull);
    const double log10_2_hi = sb_double(0x3fd34413509f6000ull);
    const double log10_2_lo = sb_double(0x3d59fef311f12b36ull);
    double m;
    double k = sb_split_any(x, &m);
    SbTwo f = sb_log_near_one(m - 1.0, 0.0);
    SbTwo a = sb_two_product(f.high, log10_e);
    double rest = __fma_rn(f.high, 1.098319650216765e-17, __fma_rn(f.low, log10_e, a.low));
    SbTwo high = sb_ordered_sum(k * log10_2_hi, a.high);
    return sb_log_finish(x, high.high + (high.low + __fma_rn(k, log10_2_lo, rest)));
}

__device__ __forceinline__ double sb_log1p(double x) {
    double bounded = x < sb_infinity64() ? x : 1.0;
    double m;
    double k = sb_split(1.0 + bounded, &m);
    bool large = k > 60.0;
    double biased = (1023.0 + 4503599627370496.0) - (large ? 60.0 : k);
    double s = sb_double(sb_bits(biased) << 52);
    SbTwo f = sb_two_sum(bounded * s, s - 1.0);
    if (large) f = {m - 1.0, 0.0};
    SbTwo parts = sb_log_parts(k, f.high, f.low);
    double y = sb_log_finish(1.0 + bounded, parts.high + parts.low);
    if (x == -1.0) y = -sb_infinity64();
    if (x == sb_infinity64()) y = x;
    return sb_nan_if(x != x || x < -1.0, x == 0.0 ? x : y);
}

// ---- Roots --------------------------------------------------------------------------------

__device__ __forceinline__ double sb_sqrt(double x) { return sb_canonical64(__dsqrt_rn(x)); }

__device__ __forceinline__ double sb_rsqrt(double x) {
    bool tiny = x < 1e-200;
    bool huge = x > 1e200;
    // Powers of two: 2^108 and 2^-108, 2^54 and 2^-54.
    double up = tiny ? sb_double(1131ull << 52) : huge ? sb_double(915ull << 52) : 1.0;
    double root_up = tiny ? sb_double(1077ull << 52) : huge ? sb_double(969ull << 52) : 1.0;
    double z = x * up;
    double y = 1.0 / __dsqrt_rn(z);
    double square = y * y;
    double square_low = __fma_rn(y, y, -square);
    double e = __fma_rn(-z, square, 1.0) - z * square_low;
    y = __fma_rn(0.5 * y, e, y) * root_up;
    if (x == sb_infinity64()) y = 0.0;
    if (x == 0.0) y = sb_copysign64(sb_infinity64(), x);
    return sb_nan_if(x != x || x < 0.0, y);
}

// ---- The error function -------------------------------------------------------------------

// erf(a) for 0 <= a <= 0.9.
__device__ __forceinline__ double sb_erf_small64(double a) {
    const double c[] = {1.533545961316588e-17,  -0.37612638903183737,   0.11283791670954062,
                        -0.026866170644865364,  0.005223977622125264,   -0.0008548326782817625,
                        0.00012055321988891369, -1.492532062325262e-05, 1.6455512398400903e-06,
                        -1.6278141292711546e-07, 1.4059559470243347e-08, -8.511539849574628e-10};
    const double two_by_root_pi = sb_double(0x3ff20dd750429b6dull);
    double u = a * a;
    return __fma_rn(a, two_by_root_pi, a * sb_horner(u, c));
}

// 1 - erf(a) for 0.9 <= a <= 6.
__device__ __forceinline__ SbTwo sb_erf_complement(double a) {
    const double c[] = {1.4902673823377988,  3.418659215540264,   4.877789237773892,
                        1.9686884169310903,  -6.245857174161646,  -6.669467808125274,
                        13.864344053324315,  15.760259654687893,  -47.31184522802421,
                        -22.607541971097696, 194.54737085338866,  -193.3291725118749,
                        -201.65087669235834, 440.71811101628754};
    SbTwo square = sb_two_product(a, a);
    SbTwo parts;
    double k = sb_exp_parts(-square.high, &parts);
    SbTwo one = sb_ordered_sum(1.0, parts.high);
    double s = sb_scale(1.0, k + SB_ROUND);
    double e = s * one.high;
    double e_low = s * (one.low + parts.low - square.low * one.high);
    SbTwo d = sb_two_sum(2.0, a);
    double w = 1.0 / d.high;
    double v = w - 0.22;
    double v_low = w * __fma_rn(-w, d.low, __fma_rn(-w, d.high, 1.0));
    SbTwo p = sb_ordered_sum(0.20747772292310704, v * sb_horner(v, c));
    double p_low = __fma_rn(v_low, __fma_rn(v, 6.8, 1.5), p.low);
    SbTwo t = sb_two_product(e, p.high);
    return {t.high, __fma_rn(e, p_low, __fma_rn(e_low, p.high, t.low))};
}

__device__ __forceinline__ double sb_erf(double x) {
    double a = sb_abs64(x);
    a = a > 6.0 ? 6.0 : a;
    SbTwo tail = sb_erf_complement(a);
    SbTwo large = sb_ordered_sum(1.0, -tail.high);
    double y = a < 0.9 ? sb_erf_small64(a) : large.high + (large.low - tail.low);
    return sb_nan_if(x != x, sb_copysign64(y, x));
}

// ---- Trigonometry -------------------------------------------------------------------------

// The binary digits of 2 / pi after the point, behind 64 zeros.
static __constant__ u64 sb_two_by_pi[20] = {
    0ull,
    0xa2f9836e4e441529ull,
    0xfc2757d1f534ddc0ull,
    0xdb6295993c439041ull,
    0xfe5163abdebbc561ull,
    0xb7246e3a424dd2e0ull,
    0x06492eea09d1921cull,
    0xfe1deb1cb129a73eull,
    0xe88235f52ebb4484ull,
    0xe99c7026b45f7e41ull,
    0x3991d639835339f4ull,
    0x9c845f8bbdf9283bull,
    0x1ff897ffde05980full,
    0xef2f118b5a0a6d1full,
    0x6d367ecf27cb09b7ull,
    0x4f463f669e5fea2dull,
    0x7527bac7ebe5f17bull,
    0x3d0739f78a5292eaull,
    0x6bfb5fb11f8d5d08ull,
    0x56033046fc7b6babull};

// A signed number of 128 bits.
struct SbWide {
    u64 high;
    u64 low;
};

__device__ __forceinline__ SbWide sb_negated(SbWide x) {
    u64 low = ~x.low + 1;
    return {~x.high + (low == 0 ? 1ull : 0ull), low};
}

// Rounded to nearest even, as a Rust `as` does.
__device__ __forceinline__ double sb_wide_to_f64(SbWide x) {
    bool negative = (x.high >> 63) != 0;
    if (negative) x = sb_negated(x);
    if ((x.high | x.low) == 0) return 0.0;
    u32 shift = 0;
    // The highest bit moves to the top, at most 127 places.
    if (x.high == 0) {
        x = {x.low, 0ull};
        shift = 64;
    }
    u32 zeros = (u32)__clzll((i64)x.high);
    if (zeros != 0) x = {x.high << zeros | x.low >> (64 - zeros), x.low << zeros};
    shift += zeros;
    // What is below 64 bits only matters as more or less than a tie.
    double y = __ull2double_rn(x.high | (x.low != 0 ? 1ull : 0ull));
    y = y * sb_double((u64)(1023 + 64 - shift) << 52);
    return negative ? -y : y;
}

// An integer below 2^128 in magnitude, saturated as a Rust `as` does.
__device__ __forceinline__ SbWide sb_f64_to_wide(double x) {
    if (x == 0.0) return {0ull, 0ull};
    u64 bits = sb_bits(x);
    int exponent = (int)((bits >> 52) & 0x7ff) - 1075;
    u64 digits = (bits & 0x000fffffffffffffull) | 0x0010000000000000ull;
    if (exponent > 74) {
        return x < 0.0 ? SbWide{1ull << 63, 0ull} : SbWide{~0ull >> 1, ~0ull};
    }
    SbWide y;
    if (exponent >= 64) {
        y = {digits << (exponent - 64), 0ull};
    } else if (exponent > 0) {
        y = {digits >> (64 - exponent), digits << exponent};
    } else {
        y = {0ull, digits >> -exponent};
    }
    return x < 0.0 ? sb_negated(y) : y;
}

// x = n pi / 2 + high + low, in which n is right modulo 4, for |x| >= 2^18.
__device__ __noinline__ u64 sb_reduce_far(double x, double* high_out, double* low_out) {
    const double half_pi = sb_double(0x3ff921fb54442d18ull);
    const double half_pi_lo = sb_double(0x3c91a62633145c07ull);
    u64 significand = (sb_bits(x) & 0x000fffffffffffffull) | 0x0010000000000000ull;
    int exponent = (int)((sb_bits(x) >> 52) & 0x7ff) - 1075;
    u32 start = (u32)(exponent + 62);
    u64 word[3];
    for (u32 i = 0; i < 3; ++i) {
        u32 index = start / 64 + i;
        u32 shift = start % 64;
        u64 next = shift == 0 ? 0ull : sb_two_by_pi[index + 1] >> (64 - shift);
        word[i] = sb_two_by_pi[index] << shift | next;
    }
    u64 low = significand * word[2];
    u64 middle = significand * word[1];
    u64 carry = __umul64hi(significand, word[2]);
    u64 middle_high = __umul64hi(significand, word[1]);
    middle += carry;
    if (middle < carry) middle_high += 1;
    u64 high = significand * word[0] + middle_high;
    u64 n = (high + (1ull << 61)) >> 62;
    SbWide fraction = {high << 2 | middle >> 62, middle << 2 | low >> 62};
    double first = sb_wide_to_f64(fraction);
    SbWide taken = sb_negated(sb_f64_to_wide(first));
    u64 rest_low = fraction.low + taken.low;
    u64 rest_high = fraction.high + taken.high + (rest_low < taken.low ? 1ull : 0ull);
    double second = sb_wide_to_f64({rest_high, rest_low});
    const double unit = sb_double((u64)(1023 - 128) << 52);
    first = first * unit;
    second = second * unit;
    SbTwo r = sb_two_product(first, half_pi);
    SbTwo sum = sb_ordered_sum(r.high,
                               r.low + __fma_rn(first, half_pi_lo, second * half_pi));
    bool negative = x < 0.0;
    *high_out = negative ? -sum.high : sum.high;
    *low_out = negative ? -sum.low : sum.low;
    return negative ? ~n + 1 : n;
}

__device__ __forceinline__ u64 sb_reduce_near(double x, double* high_out, double* low_out) {
    const double two_by_pi = sb_double(0x3fe45f306dc9c883ull);
    const double head = 0.5 * sb_double(0x400921fb54400000ull);
    const double middle = 0.5 * sb_double(0x3de0b4611a626331ull);
    const double tail = 0.5 * 7.0431197303664e-27;
    double n = __fma_rn(x, two_by_pi, SB_ROUND);
    double k = n - SB_ROUND;
    double t = __fma_rn(-k, head, x);
    SbTwo p = sb_two_product(k, middle);
    SbTwo r = sb_two_sum(t, -p.high);
    SbTwo sum = sb_ordered_sum(r.high, __fma_rn(-k, tail, r.low - p.low));
    *high_out = sum.high;
    *low_out = sum.low;
    return sb_bits(n);
}

__device__ __forceinline__ u64 sb_reduce64(double x, double* high, double* low) {
    if (sb_abs64(x) < 262144.0) return sb_reduce_near(x, high, low);
    if (!sb_finite(x)) {
        *high = sb_nan64();
        *low = sb_nan64();
        return 0;
    }
    return sb_reduce_far(x, high, low);
}

// pi x = n pi / 2 + high + low, in which n is right modulo 4.
__device__ __forceinline__ u64 sb_reduce_pi(double x, double* high, double* low) {
    const double pi = sb_double(0x400921fb54442d18ull);
    const double pi_lo = sb_double(0x3ca1a62633145c07ull);
    x = sb_abs64(x) < 9007199254740992.0 ? x : 0.0;
    x = x - 2.0 * trunc(0.5 * x);
    double n = __fma_rn(2.0, x, SB_ROUND);
    double r = __fma_rn(-0.5, n - SB_ROUND, x);
    SbTwo product = sb_two_product(r, pi);
    *high = product.high;
    *low = __fma_rn(r, pi_lo, product.low);
    return sb_bits(n);
}

// sin(r + low) for |r| <= pi / 4.
__device__ __forceinline__ double sb_sine(double r, double low) {
    const double c[] = {-0.16666666666666632,  0.008333333333322413,  -0.00019841269829807832,
                        2.755731369193436e-06, -2.505075811870399e-08, 1.5896795889480606e-10};
    double u = r * r;
    return r + __fma_rn(r * u, sb_horner(u, c), __fma_rn(-0.5 * u, low, low));
}

// cos(r + low) for |r| <= pi / 4.
__device__ __forceinline__ double sb_cosine(double r, double low) {
    const double c[] = {0.0416666666666666,     -0.0013888888888874123, 2.4801587289482025e-05,
                        -2.755731435228983e-07, 2.0875723267586877e-09, -1.1359647515616824e-11};
    SbTwo u = sb_two_product(r, r);
    double p = sb_horner(u.high, c);
    SbTwo one = sb_ordered_sum(1.0, -0.5 * u.high);
    return one.high + (one.low + __fma_rn(u.high * u.high, p, __fma_rn(-r, low, -0.5 * u.low)));
}

// sin(r + low + n pi / 2).
__device__ __forceinline__ double sb_turn(u64 n, double r, double low) {
    double y = (n & 1) == 0 ? sb_sine(r, low) : sb_cosine(r, low);
    return sb_double(sb_bits(y) ^ ((n & 2) << 62));
}

__device__ __forceinline__ double sb_sin(double x) {
    double r, low;
    u64 n = sb_reduce64(x, &r, &low);
    return sb_nan_if(!sb_finite(x), x == 0.0 ? x : sb_turn(n, r, low));
}

__device__ __forceinline__ double sb_cos(double x) {
    double r, low;
    u64 n = sb_reduce64(x, &r, &low);
    return sb_nan_if(!sb_finite(x), sb_turn(n + 1, r, low));
}

__device__ __forceinline__ double sb_sinpi(double x) {
    double r, low;
    u64 n = sb_reduce_pi(x, &r, &low);
    double y = (n & 1) == 0 && r == 0.0 ? sb_copysign64(0.0, x) : sb_turn(n, r, low);
    return sb_nan_if(!sb_finite(x), y);
}

__device__ __forceinline__ double sb_cospi(double x) {
    double r, low;
    u64 n = sb_reduce_pi(x, &r, &low);
    double y = (n & 1) == 1 && r == 0.0 ? 0.0 : sb_turn(n + 1, r, low);
    return sb_nan_if(!sb_finite(x), y);
}
