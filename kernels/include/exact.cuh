// Exact sums of f32, rounded once: the GPU half of samebits_numerics::exact.
//
// The sum is a fixed-point integer in units of 2^-149, the smallest positive f32. Limb i weighs
// 2^(32 i) but holds 64 bits, so that 2^31 addends fit before carries must be passed on. An
// addend of 24 bits touches at most two limbs: two integer atomics, in any order.
#pragma once

#include "samebits.cuh"

#define SB_LIMBS 9
// Words of an accumulator in global memory: the limbs, then flags.
#define SB_ACC 10

#define SB_POS_INF 1u
#define SB_NEG_INF 2u
#define SB_SAW_NAN 4u

// A finite addend taken apart.
struct SbPieces {
    u32 limb;
    i64 low;
    i64 high;
};

__device__ __forceinline__ u32 sb_special_flag(float x) {
    u32 bits = __float_as_uint(x);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return SB_SAW_NAN;
    return bits >> 31 ? SB_NEG_INF : SB_POS_INF;
}

__device__ __forceinline__ bool sb_is_finite(float x) {
    return (__float_as_uint(x) & 0x7f800000u) != 0x7f800000u;
}

__device__ __forceinline__ SbPieces sb_pieces(float x) {
    u32 bits = __float_as_uint(x);
    u32 exponent = (bits >> 23) & 255u;
    u32 significand = bits & 0x7fffffu;
    if (exponent != 0) significand |= 0x800000u;
    u32 shift = exponent != 0 ? exponent - 1 : 0;
    u64 spread = (u64)significand << (shift & 31u);
    i64 sign = (bits >> 31) ? -1 : 1;
    SbPieces pieces;
    pieces.limb = shift >> 5;
    pieces.low = sign * (i64)(spread & 0xffffffffull);
    pieces.high = sign * (i64)(spread >> 32);
    return pieces;
}

// Adds x to an accumulator that other threads add to at the same time.
__device__ __forceinline__ void sb_exact_atomic_add(u64* acc, float x) {
    if (!sb_is_finite(x)) {
        atomicOr(acc + SB_LIMBS, (u64)sb_special_flag(x));
        return;
    }
    SbPieces p = sb_pieces(x);
    if (p.low != 0) atomicAdd(acc + p.limb, (u64)p.low);
    if (p.high != 0) atomicAdd(acc + p.limb + 1, (u64)p.high);
}

// Rounds limbs, whose upper halves may hold carries, to the nearest f32, ties to even.
__device__ __forceinline__ float sb_exact_round(const i64* limbs, u32 flags) {
    if (flags != 0) {
        if (flags == SB_POS_INF) return __uint_as_float(0x7f800000u);
        if (flags == SB_NEG_INF) return __uint_as_float(0xff800000u);
        return sb_nan();
    }
    u32 digit[SB_LIMBS + 1];
    i64 carry = 0;
#pragma unroll
    for (int i = 0; i < SB_LIMBS - 1; ++i) {
        i64 value = limbs[i] + carry;
        digit[i] = (u32)value;
        carry = value >> 32;
    }
    i64 top = limbs[SB_LIMBS - 1] + carry;
    digit[SB_LIMBS - 1] = (u32)top;
    digit[SB_LIMBS] = (u32)(top >> 32);
    u32 sign = top < 0 ? 0x80000000u : 0u;
    if (sign != 0) {
        u64 borrow = 1;
#pragma unroll
        for (int i = 0; i <= SB_LIMBS; ++i) {
            u64 value = (u64)(~digit[i]) + borrow;
            digit[i] = (u32)value;
            borrow = value >> 32;
        }
    }
    // The highest digit that is not zero, the one below it, and whether anything is below both.
    int at = -1;
    u32 high = 0;
    u32 low = 0;
    u32 sticky = 0;
#pragma unroll
    for (int i = SB_LIMBS; i >= 0; --i) {
        if (at < 0) {
            if (digit[i] != 0) {
                at = i;
                high = digit[i];
            }
        } else if (i == at - 1) {
            low = digit[i];
        } else {
            sticky |= digit[i];
        }
    }
    if (at < 0) return 0.0f;
    u64 window = at == 0 ? (u64)high : ((u64)high << 32 | (u64)low);
    // Below 2^24 units a float's bit pattern is the number itself.
    if (window < (1ull << 24)) return __uint_as_float(sign | (u32)window);
    u32 drop = 40u - (u32)__clzll((i64)window);
    u32 shift = drop + (at == 0 ? 0u : 32u * (u32)(at - 1));
    u32 significand = (u32)(window >> drop);
    bool half = (window >> (drop - 1)) & 1ull;
    bool below = sticky != 0 || (window & ((1ull << (drop - 1)) - 1ull)) != 0;
    if (shift > 253u) return __uint_as_float(sign | 0x7f800000u);
    // Adding the significand carries its leading bit into the exponent, and rounding up carries
    // on from there, into infinity if need be.
    u32 bits = (shift << 23) + significand;
    if (half && (below || (significand & 1u))) bits += 1;
    return __uint_as_float(sign | bits);
}

// The exact sum of one thread. Addends gather in a double as long as that is exact, which it is
// for numbers of similar magnitude; what does not fit goes to the limbs.
struct SbSum {
    double running;
    u32 flags;
    bool spilled;
    i64 limbs[SB_LIMBS];
};

__device__ __forceinline__ void sb_sum_start(SbSum* sum) {
    sum->running = 0.0;
    sum->flags = 0;
    sum->spilled = false;
}

// Moves the double to the limbs. It is a multiple of 2^-149 below 2^192.
__device__ __noinline__ void sb_sum_spill(SbSum* sum) {
    if (!sum->spilled) {
        for (int i = 0; i < SB_LIMBS; ++i) sum->limbs[i] = 0;
        sum->spilled = true;
    }
    u64 bits = (u64)__double_as_longlong(sum->running);
    sum->running = 0.0;
    u32 exponent = (u32)(bits >> 52) & 2047u;
    // Multiples of 2^-149 are normal doubles, or zero.
    if (exponent == 0) return;
    u64 significand = (bits & 0xfffffffffffffull) | (1ull << 52);
    // Units of 2^-149: significand * 2^(exponent - 1075 + 149).
    i32 shift = (i32)exponent - 926;
    if (shift < 0) {
        significand >>= -shift;
        shift = 0;
    }
    i64 sign = (bits >> 63) ? -1 : 1;
    u32 limb = (u32)shift >> 5;
    u32 off = (u32)shift & 31u;
    u64 low = significand << off;
    u64 high = off == 0 ? 0 : significand >> (64 - off);
    sum->limbs[limb] += sign * (i64)(low & 0xffffffffull);
    if (limb + 1 < SB_LIMBS) sum->limbs[limb + 1] += sign * (i64)(low >> 32);
    if (limb + 2 < SB_LIMBS) sum->limbs[limb + 2] += sign * (i64)high;
}

__device__ __forceinline__ void sb_sum_add(SbSum* sum, float x) {
    if (!sb_is_finite(x)) {
        sum->flags |= sb_special_flag(x);
        return;
    }
    double addend = (double)x;
    // Knuth's two-sum: `error` is exactly what the addition rounded away.
    double total = sum->running + addend;
    double shadow = total - sum->running;
    double error = (sum->running - (total - shadow)) + (addend - shadow);
    if (error != 0.0) {
        sb_sum_spill(sum);
        total = addend;
    }
    sum->running = total;
}

__device__ __forceinline__ float sb_sum_round(SbSum* sum) {
    if (!sum->spilled && sum->flags == 0) {
        // One exact double: its conversion is the one rounding. Adding +0 makes -0 into +0.
        return (float)(sum->running + 0.0);
    }
    sb_sum_spill(sum);
    return sb_exact_round(sum->limbs, sum->flags);
}
