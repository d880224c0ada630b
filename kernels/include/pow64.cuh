// The power function of f64: samebits_numerics::math::f64::pow, operation by operation, in
// numbers that are the unevaluated sum of two f64. The algorithms are those of M. Joldes,
// J.-M. Muller and V. Popescu, Tight and rigorous error bounds for basic building blocks of
// double-word arithmetic, 2017.
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

// e^x for |x| < 800.
__device__ __noinline__ double sb_wide_exp(SbTwo x) {
    double n = rint(x.high * sb_double(0x3ff71547652b82feull));
    SbTwo r = sb_wide_sum(x, sb_wide_ln2(-n));
    SbTwo p = {1.0, 0.0};
    for (int i = 26; i >= 1; --i) {
        SbTwo step = sb_wide_quotient(sb_wide_product(p, r), {(double)i, 0.0});
        p = sb_wide_sum(step, {1.0, 0.0});
    }
    // In two factors, of which only the second may leave the normal numbers.
    double half = trunc(0.5 * n);
    double first = sb_double((u64)(1023.0 + half) << 52);
    double second = sb_double((u64)(1023.0 + (n - half)) << 52);
    return (p.high + p.low) * first * second;
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
