// Arithmetic of i64, which wraps around: in u64, because a signed overflow is undefined.
#pragma once

#include "samebits.cuh"

__device__ __forceinline__ i64 sb_wrapped(u64 x) { return (i64)x; }

// The absolute value: that of the least integer fits, too.
__device__ __forceinline__ u64 sb_size(i64 x) { return x < 0 ? 0 - (u64)x : (u64)x; }

// Rounded down. A division by 0 is noted by another kernel; here it gives 0.
__device__ __forceinline__ u64 sb_floor_divide(i64 a, i64 b) {
    if (b == 0) return 0;
    u64 quotient = sb_size(a) / sb_size(b);
    if ((a < 0) == (b < 0)) return quotient;
    return 0 - (quotient * sb_size(b) == sb_size(a) ? quotient : quotient + 1);
}

// What sb_floor_divide leaves.
__device__ __forceinline__ u64 sb_remainder(i64 a, i64 b) {
    return (u64)a - sb_floor_divide(a, b) * (u64)b;
}

// By squaring, for exponents that are not negative.
__device__ __forceinline__ u64 sb_power(i64 base, i64 exponent) {
    u64 power = 1;
    u64 square = (u64)base;
    for (i64 rest = exponent; rest > 0; rest >>= 1) {
        if ((rest & 1) == 1) power *= square;
        square *= square;
    }
    return power;
}
