// Exact sums of segments: the sources of each output, grouped by a counting sort.
//
// A thread that owns an output adds at most SB_PIECE sources. Longer segments are left to two more
// kernels: one whose threads own a piece each and add its sum to an accumulator in memory, and one that
// rounds the accumulators. Sums are exact, so the cuts change no bit.
#pragma once

#include "exact.cuh"

#define SB_PIECE 256u

// The long segments, in the order in which threads came by. `cursor` holds their number in its upper
// half and that of all their pieces in the lower one; long segment s is row rows[s], and its pieces are
// numbered from firsts[s] on.
__device__ __forceinline__ void sb_long_note(u64* cursor, u32* rows, u32* firsts, u32 row,
                                             u32 count) {
    u64 before = atomicAdd(cursor, 1ull << 32 | (u64)((count - 1) / SB_PIECE + 1));
    rows[before >> 32] = row;
    firsts[before >> 32] = (u32)before;
}

// A piece of a long segment: its sources are positions[begin..end].
struct SbPiece {
    u32 slot;
    u32 row;
    u32 begin;
    u32 end;
};

// Finds a piece by its number; false if there are fewer.
__device__ __forceinline__ bool sb_piece(SbPiece* piece, u64 number, const u64* cursor,
                                         const u32* rows, const u32* firsts, const u32* ends,
                                         const u32* counts) {
    if (number >= (u32)*cursor) return false;
    u32 low = 0;
    for (u32 high = (u32)(*cursor >> 32); high - low > 1;) {
        u32 middle = low + (high - low) / 2;
        if (firsts[middle] <= number) {
            low = middle;
        } else {
            high = middle;
        }
    }
    u32 count = counts[rows[low]];
    u32 from = ((u32)number - firsts[low]) * SB_PIECE;
    piece->slot = low;
    piece->row = rows[low];
    piece->begin = ends[piece->row] - count + from;
    piece->end = piece->begin + (count - from < SB_PIECE ? count - from : SB_PIECE);
    return true;
}

// Adds value(positions[at]) for each `at` in begin..end. Four are loaded before the first is added.
template <typename F>
__device__ __forceinline__ void sb_sum_segment(SbSum* sum, const u32* positions, u32 begin, u32 end,
                                               F value) {
    u32 at = begin;
    for (; end - at >= 4; at += 4) {
        float four[4];
#pragma unroll
        for (int j = 0; j < 4; ++j) four[j] = value(positions[at + j]);
#pragma unroll
        for (int j = 0; j < 4; ++j) sb_sum_add(sum, four[j]);
    }
    for (; at < end; ++at) sb_sum_add(sum, value(positions[at]));
}

// Adds a sum to an accumulator that other threads add to at the same time.
__device__ __forceinline__ void sb_sum_deposit(SbSum* sum, u64* acc) {
    if (sum->flags != 0) atomicOr(acc + SB_LIMBS, (u64)sum->flags);
    sb_sum_spill(sum);
    // Carries go up first, so that 2^31 sums fit.
    i64 carry = 0;
    for (int i = 0; i < SB_LIMBS; ++i) {
        i64 value = sum->limbs[i] + carry;
        carry = i + 1 < SB_LIMBS ? value >> 32 : 0;
        if (i + 1 < SB_LIMBS) value &= 0xffffffffll;
        if (value != 0) atomicAdd(acc + i, (u64)value);
    }
}
