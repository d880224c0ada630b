// Exact sums of f64: the GPU half of ExactSum64 of samebits_numerics::exact, which rounds them.
//
// The sum is a fixed-point integer in units of 2^-1074, the smallest positive f64. Limb i weighs
// 2^(32 i) but holds 64 bits, so that 2^31 addends fit before carries must be passed on. An addend of
// 53 bits touches at most three limbs: three integer atomics, in any order.
#pragma once

#include "exact.cuh"
#include "math64.cuh"

#define SB_LIMBS64 69
// Words of an accumulator: the limbs, then flags.
#define SB_ACC64 70

// Adds x to an accumulator that other threads add to at the same time.
__device__ __noinline__ void sb_exact64_atomic_add(u64* acc, double x) {
    u64 bits = (u64)__double_as_longlong(x);
    u32 exponent = (u32)(bits >> 52) & 2047u;
    u64 significand = bits & 0xfffffffffffffull;
    if (exponent == 2047u) {
        u32 infinity = bits >> 63 ? SB_NEG_INF : SB_POS_INF;
        atomicOr(acc + SB_LIMBS64, (u64)(significand != 0 ? SB_SAW_NAN : infinity));
        return;
    }
    if (exponent != 0) significand |= 1ull << 52;
    u32 shift = exponent != 0 ? exponent - 1 : 0;
    u32 limb = shift >> 5;
    u32 off = shift & 31u;
    u64 low = significand << off;
    u64 high = off == 0 ? 0 : significand >> (64 - off);
    i64 sign = bits >> 63 ? -1 : 1;
    u64 pieces[3] = {low & 0xffffffffull, low >> 32, high};
#pragma unroll
    for (u32 k = 0; k < 3; ++k) {
        if (pieces[k] != 0) atomicAdd(acc + limb + k, (u64)(sign * (i64)pieces[k]));
    }
}

// Adds x to the exact sum of one thread, an unevaluated sum of two numbers. If these do not hold it, `acc`
// takes x.
__device__ __forceinline__ void sb_exact64_add(SbTwo* sum, double x, u64* acc) {
    SbTwo high = sb_two_sum(sum->high, x);
    SbTwo low = sb_two_sum(sum->low, high.low);
    // NaN also where a number is not finite.
    if (low.low != 0.0) {
        sb_exact64_atomic_add(acc, x);
        return;
    }
    *sum = {high.high, low.high};
}

// Adds the accumulator of a block to that of the launch, after a barrier. Carries move up by one limb, so
// that each block adds less than 2^33 to a limb.
__device__ __forceinline__ void sb_exact64_join(u64* acc, const u64* part) {
    for (u32 k = threadIdx.x; k < SB_LIMBS64; k += blockDim.x) {
        i64 value = (i64)(k + 1 < SB_LIMBS64 ? part[k] & 0xffffffffull : part[k]);
        if (k > 0) value += (i64)part[k - 1] >> 32;
        if (value != 0) atomicAdd(acc + k, (u64)value);
    }
    if (threadIdx.x == 0 && part[SB_LIMBS64] != 0) atomicOr(acc + SB_LIMBS64, part[SB_LIMBS64]);
}
