// Conversions between halves, which are their bits here, and wider floats.
#pragma once

#include "samebits.cuh"

__device__ __forceinline__ float sb_of_f16(unsigned short x) {
    u32 field = x >> 10 & 31;
    u32 mantissa = x & 1023;
    if (field == 31 && mantissa != 0) return sb_nan();
    u32 sign = (u32)(x & 0x8000) << 16;
    if (field == 31) return __uint_as_float(sign | 0x7f800000u);
    // A subnormal one counts units of 2^-24, exactly.
    if (field == 0) return __uint_as_float(sign | __float_as_uint((float)mantissa * 0x1p-24f));
    return __uint_as_float(sign | (field + 112) << 23 | mantissa << 13);
}

// The bits of the float with so many bits of exponent and mantissa that is nearest to x, ties to
// even; NaN becomes the canonical one.
template <int EXPONENT, int MANTISSA>
__device__ __forceinline__ unsigned short sb_narrowed(double x) {
    const u64 infinity = ((1ull << EXPONENT) - 1) << MANTISSA;
    if (x != x) return (unsigned short)(infinity | 1ull << (MANTISSA - 1));
    u64 bits = (u64)__double_as_longlong(x);
    u64 sign = bits >> 63 << 15;
    bits &= ~(1ull << 63);
    // The exponent field that a normal number of this value has in the narrow type.
    i64 field = (i64)(bits >> 52) - 1023 + ((1 << (EXPONENT - 1)) - 1);
    u64 mantissa = bits & ((1ull << 52) - 1);
    u64 number = (u64)field << 52 | mantissa;
    i64 dropped = 52 - MANTISSA;
    if (field <= 0) {
        // A subnormal one: from 2^-2 of its unit on nothing is left.
        number = 1ull << 52 | mantissa;
        dropped += 1 - field;
        if (dropped > 63) dropped = 63;
    }
    u64 kept = number >> dropped;
    u64 rest = number & ((1ull << dropped) - 1);
    u64 half = 1ull << (dropped - 1);
    // A carry out of the mantissa goes into the exponent.
    if (rest > half || (rest == half && (kept & 1) == 1)) kept += 1;
    return (unsigned short)(sign | (kept < infinity ? kept : infinity));
}

__device__ __forceinline__ float sb_of_bf16(unsigned short x) {
    return sb_canonical(__uint_as_float((u32)x << 16));
}
