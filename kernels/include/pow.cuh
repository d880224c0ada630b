// The power functions of f32 (correctly rounded) and f64: those of samebits_numerics::math,
// operation by operation. What f64 does not hold is the unevaluated sum of two, by the algorithms
// of M. Joldes, J.-M. Muller and V. Popescu, Tight and rigorous error bounds for basic building
// blocks of double-word arithmetic, 2017.
#pragma once

#include "math64.cuh"

// AccurateDWPlusDW.
__device__ __forceinline__ SbTwo sb_wide_sum(SbTwo a, SbTwo b) {
    SbTwo s = sb_two_sum(a.high, b.high);
    SbTwo t = sb_two_sum(a.low, b.low);
    SbTwo v = sb_ordered_sum(s.high, s.low + t.high);
    return sb_ordered_sum(v.high, t.low + v.low);
}

// DWTimesDW3.
__device__ __forceinline__ SbTwo sb_wide_product(SbTwo a, SbTwo b) {
    SbTwo c = sb_two_product(a.high, b.high);
    double t = a.low * b.low;
    t = __fma_rn(a.high, b.low, t);
    t = __fma_rn(a.low, b.high, t);
    return sb_ordered_sum(c.high, c.low + t);
}

// DWDivDW2.
__device__ __forceinline__ SbTwo sb_wide_quotient(SbTwo a, SbTwo b) {
    double q = a.high / b.high;
    SbTwo r = sb_wide_product(b, {q, 0.0});
    double rest = (a.high - r.high) + (a.low - r.low);
    return sb_ordered_sum(q, rest / b.high);
}

// n ln 2 for an integer |n| <= 2^12.
__device__ __forceinline__ SbTwo sb_wide_ln2(double n) {
    SbTwo tail = sb_two_product(n, sb_ln2_lo());
    double low = __fma_rn(n, sb_double(0x398f97b57a079a19ull), tail.low);
    return sb_wide_sum({n * sb_ln2_hi(), 0.0}, {tail.high, low});
}

// The natural logarithm of a positive normal x.
__device__ __noinline__ SbTwo sb_wide_log(double x) {
    double m;
    double k = sb_split(x, &m);
    SbTwo s = sb_wide_quotient(sb_two_sum(m, -1.0), sb_two_sum(m, 1.0));
    SbTwo z = sb_wide_product(s, s);
    SbTwo p = {0.0, 0.0};
    for (int i = 22; i >= 0; --i) {
        SbTwo share = sb_wide_quotient({1.0, 0.0}, {(double)(2 * i + 1), 0.0});
        p = sb_wide_sum(sb_wide_product(p, z), share);
    }
    SbTwo log_m = sb_wide_product({s.high * 2.0, s.low * 2.0}, p);
    return k == 0.0 ? log_m : sb_wide_sum(sb_wide_ln2(k), log_m);
}

// n and p with e^x = 2^n p.
__device__ __noinline__ double sb_wide_exp_parts(SbTwo x, SbTwo* parts) {
    double n = rint(x.high * sb_double(0x3ff71547652b82feull));
    SbTwo r = sb_wide_sum(x, sb_wide_ln2(-n));
    SbTwo p = {1.0, 0.0};
    for (int i = 26; i >= 1; --i) {
        SbTwo step = sb_wide_quotient(sb_wide_product(p, r), {(double)i, 0.0});
        p = sb_wide_sum(step, {1.0, 0.0});
    }
    *parts = p;
    return n;
}

__device__ __forceinline__ double sb_power_of_two(double k) {
    return sb_double((u64)(1023.0 + k) << 52);
}

// e^x for |x| < 800.
__device__ __forceinline__ double sb_wide_exp(SbTwo x) {
    SbTwo p;
    double n = sb_wide_exp_parts(x, &p);
    // In two factors, of which only the second may leave the normal numbers.
    double half = trunc(0.5 * n);
    return (p.high + p.low) * sb_power_of_two(half) * sb_power_of_two(n - half);
}

// a^y for finite a > 0 other than 1 and finite y other than 0.
__device__ __forceinline__ double sb_power(double a, double y) {
    bool tiny = a < sb_double(0x0010000000000000ull);
    SbTwo log = sb_wide_log(tiny ? a * 18014398509481984.0 : a);
    if (tiny) log = sb_wide_sum(log, sb_wide_ln2(-54.0));
    // Out of range of the product's error term, the sign of the exponent decides.
    double rough = log.high * y;
    if (rough > 720.0) return sb_infinity64();
    if (rough < -760.0) return 0.0;
    return sb_wide_exp(sb_wide_product(log, {y, 0.0}));
}

// x^y, with the special values of C's pow (Annex F).
__device__ __forceinline__ double sb_pow(double x, double y) {
    bool integer = trunc(y) == y;
    bool odd = integer && sb_abs64(y) < 9007199254740992.0 && trunc(0.5 * y) != 0.5 * y;
    if (x == 1.0 || y == 0.0) return 1.0;
    bool negative = x < 0.0;
    if (x != x || y != y || (negative && sb_finite(x) && !integer)) return sb_nan64();
    double a = sb_abs64(x);
    double magnitude;
    if (a == 1.0) {
        magnitude = 1.0;
    } else if (a == 0.0 || a == sb_infinity64() || sb_abs64(y) == sb_infinity64()) {
        magnitude = (a > 1.0) == (y > 0.0) ? sb_infinity64() : 0.0;
    } else {
        magnitude = sb_power(a, y);
    }
    return odd && (sb_bits(x) >> 63) != 0 ? -magnitude : magnitude;
}

// ---- f32 ---------------------------------------------------------------------------------

// Whether an f32 is an odd integer; `integer` says whether it is one. Infinities are even.
__device__ __forceinline__ bool sb_odd(double b, bool* integer) {
    // From 2^24 on, all f32 are even.
    double c = sb_abs64(b) < 16777216.0 ? b : 0.0;
    double half = 0.5 * c;
    *integer = (c + SB_ROUND) - SB_ROUND == c;
    return *integer && (half + SB_ROUND) - SB_ROUND != half;
}

// Whether m = a^b exactly, for an m of at most 25 bits and f32 a and b.
__device__ __noinline__ bool sb_is_power(double m, double a, double b) {
    double significand;
    double exponent = sb_split(a, &significand);
    // The only power of two midway between two f32 is 2^-150.
    if (significand == 1.0) return exponent * b == -150.0 && m == sb_double(873ull << 52);
    double c = a;
    double n = b;
    while (n != trunc(n)) {
        double root = __dsqrt_rn(c);
        if (root * root != c || sb_abs64(n) > 16.0) return false;
        c = root;
        n = 2.0 * n;
    }
    if (!(n >= 1.0 && n <= 16.0)) return false;
    double power = 1.0;
    for (u32 i = 0; i < (u32)n; ++i) {
        SbTwo product = sb_two_product(power, c);
        if (product.low != 0.0) return false;
        power = product.high;
    }
    return power == m;
}

// The f32 nearest to x * (1 + relative).
__device__ __forceinline__ float sb_wide_round(SbTwo x, double relative) {
    return (float)sb_add_odd(x.high, __fma_rn(relative, x.high, x.low));
}

// a^b where f64 could not tell.
__device__ __noinline__ float sb_pow_decide(double a, double b) {
    SbTwo p;
    double n = sb_wide_exp_parts(sb_wide_product(sb_wide_log(a), {b, 0.0}), &p);
    double power = sb_power_of_two(n);
    SbTwo v = {p.high * power, p.low * power};
    const double error = sb_double((u64)(1023 - 90) << 52);
    float below = sb_wide_round(v, -error);
    if (below == sb_wide_round(v, error)) return below;
    // A tie: an f64 holds it, and the conversion takes the even neighbour.
    return sb_is_power(v.high, a, b) ? (float)v.high : sb_wide_round(v, 0.0);
}

__device__ __forceinline__ float sb_pow(float x, float y) {
    const double log2_e = sb_double(0x3ff71547652b82feull);
    const double log2_e_lo = sb_double(0x3c7777d0ffda0d24ull);
    const double ln2 = sb_double(0x3fe62e42fefa39efull);
    double a = sb_abs64((double)x);
    double b = (double)y;
    double m, rest;
    double whole = sb_split(a, &m);
    double s2 = sb_log_m(m, &rest);
    double part = __fma_rn(s2, log2_e, __fma_rn(s2, log2_e_lo, rest * log2_e));
    double l = whole + part;
    double l_low = part - (l - whole);
    l = a == 0.0 ? -sb_infinity64() : a == sb_infinity64() ? a : l;
    // 1 to any power, infinite ones too, and anything to the power of 0.
    bool one = a == 1.0 || b == 0.0;
    double power = one ? 0.0 : b;
    l = one ? 0.0 : l;
    l_low = one ? 0.0 : l_low;
    double t = power * l;
    // Outside these bounds the result rounds to 0 or infinity as it does on them.
    double bounded = sb_clamp(t, -160.0, 130.0);
    double t_low = t == bounded ? __fma_rn(power, l, -t) + power * l_low : 0.0;
    double k = bounded + SB_ROUND;
    double r = (bounded - (k - SB_ROUND)) + t_low;
    const double c[] = {2.3190468138462996e-17, 0.24022650695910133,    0.05550410866482169,
                        0.009618129107593566,   0.0013333558146387465,  0.00015403530457843548,
                        1.5252733861614901e-05, 1.3215434915317494e-06, 1.0178048446254541e-07,
                        7.073845666736494e-09,  4.457131502751815e-10};
    double v = sb_scale(1.0 + __fma_rn(r, ln2, r * sb_horner(r, c)), k);
    const double error = sb_double((u64)(1023 - 43) << 52);
    bool integer;
    bool odd = sb_odd(b, &integer);
    bool negative = (__float_as_uint(x) >> 31) != 0;
    bool undefined = x < 0.0f && a != sb_infinity64() && !integer;
    if ((x != x || y != y || undefined) && !(x == 1.0f || y == 0.0f)) return sb_nan();
    float magnitude = (float)v;
    if ((float)__fma_rn(v, -error, v) != (float)__fma_rn(v, error, v))
        magnitude = sb_pow_decide(a, b);
    return odd && negative ? -magnitude : magnitude;
}
