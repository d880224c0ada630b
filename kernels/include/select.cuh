// Selection by rank without sorting: a block finds the key of a rank digit by digit, from the
// highest one down, by counting the digits of the keys that share those found so far.
#pragma once

#include "samebits.cuh"
#include "declared/sort.cuh"

#define SB_DIGIT 11u
#define SB_DIGITS 2048u
// The counts of a line's digits, and behind them that of its NaNs.
#define SB_LINE_BINS 2049u
#define SB_SELECT_THREADS 256u
#define SB_SELECT_WARPS 8u
// Elements of a block, if a line has several.
#define SB_SELECT_PART 8192ull

// Keys that ascend as the values do: NaN above all, equal zeros alike.
__device__ __forceinline__ u32 sb_key(float x) {
    u32 bits = __float_as_uint(x + 0.0f);
    return x != x ? ~0u : bits ^ ((u32)((i32)bits >> 31) | 0x80000000u);
}
__device__ __forceinline__ u64 sb_key(double x) {
    i64 bits = __double_as_longlong(x + 0.0);
    return x != x ? ~0ull : (u64)bits ^ ((u64)(bits >> 63) | 0x8000000000000000ull);
}
__device__ __forceinline__ u64 sb_key(i64 x) { return (u64)x ^ 0x8000000000000000ull; }

__device__ __forceinline__ u32 sb_least(u32 a, u32 b) { return a < b ? a : b; }
__device__ __forceinline__ u64 sb_least(u64 a, u64 b) { return a < b ? a : b; }

// The sum of what the threads of this block before this one hold.
__device__ __forceinline__ u32 sb_sum_before(u32 mine, u32* warps) {
    u32 sum = mine;
#pragma unroll
    for (u32 by = 1; by < 32; by *= 2) {
        u32 lower = __shfl_up_sync(0xffffffffu, sum, by);
        if ((threadIdx.x & 31u) >= by) sum += lower;
    }
    if ((threadIdx.x & 31u) == 31u) warps[threadIdx.x / 32] = sum;
    __syncthreads();
    u32 before = sum - mine;
    for (u32 w = 0; w < threadIdx.x / 32; ++w) before += warps[w];
    return before;
}

#define SB_FIRST 0u
#define SB_ONE 1u
#define SB_MEDIAN 2u
#define SB_NANMEDIAN 3u

// Elements of one line.
template <typename T>
struct SbLine {
    const T* in;
    u64 first;
    u64 end;
};

template <typename K>
__device__ __forceinline__ SbChosen sb_unchosen(const SbSelect& p) {
    return {0, p.mode == SB_FIRST ? p.k - 1 : p.k, (u32)sizeof(K) * 8, 0};
}

// Counts the next digit of this block's keys that begin as `chosen` says.
template <typename T, typename K>
__device__ __forceinline__ void sb_count_digits(u32* bins, const SbLine<T>& line,
                                                const SbChosen& chosen, const SbSelect& p) {
    const u32 AHEAD = 4;
    u32 above = chosen.shift;
    bool all = above == (u32)sizeof(K) * 8;
    u32 shift = above > SB_DIGIT ? above - SB_DIGIT : 0;
    K mask = ((K)1 << (above - shift)) - 1;
    K prefix = (K)chosen.prefix;
    K flip = p.descending ? ~(K)0 : 0;
    bool nans = all && p.mode >= SB_MEDIAN;
#pragma unroll 1
    for (u64 i = line.first + threadIdx.x; i < line.end; i += AHEAD * SB_SELECT_THREADS) {
        T x[AHEAD];
#pragma unroll
        for (u32 k = 0; k < AHEAD; ++k) {
            u64 at = i + k * SB_SELECT_THREADS;
            x[k] = line.in[at < line.end ? at : i];
        }
#pragma unroll
        for (u32 k = 0; k < AHEAD; ++k) {
            if (i + k * SB_SELECT_THREADS >= line.end) break;
            K key = sb_key(x[k]);
            if (nans && key == ~(K)0) atomicAdd(bins + SB_DIGITS, 1u);
            key ^= flip;
            if (all || key >> above == prefix) atomicAdd(bins + (u32)(key >> shift & mask), 1u);
        }
    }
}

// The place of a median among the sorted elements, NaNs last: the first NaN if it counts and there
// is any, otherwise the lower middle of the numbers.
__device__ __forceinline__ u64 sb_median_place(const SbSelect& p, u64 nans) {
    u64 numbers = p.n - nans;
    if (p.mode == SB_MEDIAN && nans > 0) return numbers;
    return numbers > 0 ? (numbers - 1) / 2 : 0;
}

// Finds the digit that the rank falls into. `chosen` and `bins` are the block's.
template <typename K>
__device__ __forceinline__ void sb_choose(SbChosen* chosen, const u32* bins, const SbSelect& p) {
    const u32 EACH = SB_DIGITS / SB_SELECT_THREADS;
    __shared__ u32 warps[SB_SELECT_WARPS];
    u32 above = chosen->shift;
    u64 rank = chosen->rank;
    if (above == (u32)sizeof(K) * 8 && p.mode >= SB_MEDIAN) {
        rank = sb_median_place(p, bins[SB_DIGITS]);
    }
    u32 bin = threadIdx.x * EACH;
    u32 mine = 0;
#pragma unroll
    for (u32 k = 0; k < EACH; ++k) mine += bins[bin + k];
    u32 before = sb_sum_before(mine, warps);
    if (rank >= before && rank - before < mine) {
        u32 left = (u32)(rank - before);
        while (left >= bins[bin]) left -= bins[bin++];
        u32 shift = above > SB_DIGIT ? above - SB_DIGIT : 0;
        bool whole = bins[bin] == 1 || (p.mode == SB_FIRST && left + 1 == bins[bin]);
        *chosen = {chosen->prefix << (above - shift) | bin, left, shift, shift == 0 || whole};
    }
    __syncthreads();
}

// Writes the positions of this block's elements that belong to the first `k`, or of the one that
// is wanted, in ascending order; `less` and `equal` are numbers of those before the block.
template <typename T, typename K>
__device__ __forceinline__ void sb_write_picks(u32* picks, const SbLine<T>& line,
                                               const SbChosen& chosen, const SbSelect& p, u64 less,
                                               u64 equal) {
    const u32 ROWS = 4;
    __shared__ u32 found[2 * SB_SELECT_WARPS];
    u32 warp = threadIdx.x / 32;
    u32 below = (1u << (threadIdx.x & 31u)) - 1;
    K prefix = (K)chosen.prefix;
    K flip = p.descending ? ~(K)0 : 0;
    u64 rank = chosen.rank;
#pragma unroll 1
    for (u64 start = line.first; start < line.end; start += ROWS * SB_SELECT_THREADS) {
        u64 first = start + warp * (ROWS * 32) + (threadIdx.x & 31u);
        T x[ROWS];
#pragma unroll
        for (u32 k = 0; k < ROWS; ++k) {
            u64 at = first + k * 32;
            x[k] = line.in[at < line.end ? at : start];
        }
        u32 is_less[ROWS];
        u32 is_equal[ROWS];
        u32 lesses = 0;
        u32 equals = 0;
#pragma unroll
        for (u32 k = 0; k < ROWS; ++k) {
            bool there = first + k * 32 < line.end;
            K key = (sb_key(x[k]) ^ flip) >> chosen.shift;
            is_less[k] = __ballot_sync(0xffffffffu, there && key < prefix);
            is_equal[k] = __ballot_sync(0xffffffffu, there && key == prefix);
            lesses += __popc(is_less[k]);
            equals += __popc(is_equal[k]);
        }
        if ((threadIdx.x & 31u) == 0) {
            found[2 * warp] = lesses;
            found[2 * warp + 1] = equals;
        }
        __syncthreads();
        u64 l = less;
        u64 e = equal;
        for (u32 w = 0; w < SB_SELECT_WARPS; ++w) {
            l += w < warp ? found[2 * w] : 0;
            e += w < warp ? found[2 * w + 1] : 0;
            less += found[2 * w];
            equal += found[2 * w + 1];
        }
        u32 bit = below + 1;
        for (u32 k = 0; lesses + equals > 0 && k < ROWS; ++k) {
            u64 l_here = l + __popc(is_less[k] & below);
            u64 e_here = e + __popc(is_equal[k] & below);
            bool wanted = (is_equal[k] & bit) != 0 && e_here <= rank;
            u32 at = (u32)(first + k * 32);
            if (p.mode == SB_FIRST) {
                bool any = wanted || (is_less[k] & bit) != 0;
                if (any) picks[l_here + sb_least(e_here, rank + 1)] = at;
            } else if (wanted && e_here == rank) {
                picks[0] = at;
            }
            l += __popc(is_less[k]);
            e += __popc(is_equal[k]);
        }
        __syncthreads();
        if (equal > rank && (p.mode != SB_FIRST || less + rank + 1 == p.k)) break;
    }
}

// One block for each line.
template <typename T, typename K>
__device__ __forceinline__ void sb_select_line(u32* picks, const T* in, const SbSelect& p) {
    __shared__ u32 bins[SB_LINE_BINS];
    __shared__ SbChosen chosen;
    SbLine<T> line = {in + (u64)blockIdx.x * p.n, 0, p.n};
    if (threadIdx.x == 0) chosen = sb_unchosen<K>(p);
    do {
        for (u32 b = threadIdx.x; b < SB_LINE_BINS; b += SB_SELECT_THREADS) bins[b] = 0;
        __syncthreads();
        sb_count_digits<T, K>(bins, line, chosen, p);
        __syncthreads();
        sb_choose<K>(&chosen, bins, p);
    } while (!chosen.done);
    u64 kept = p.mode == SB_FIRST ? p.k : 1;
    sb_write_picks<T, K>(picks + blockIdx.x * kept, line, chosen, p, 0, 0);
}

// ---- Several blocks for each line --------------------------------------------------------

template <typename T>
__device__ __forceinline__ SbLine<T> sb_part_of_line(const T* in, const SbSelect& p) {
    u64 first = blockIdx.x % p.parts * SB_SELECT_PART;
    return {in + blockIdx.x / p.parts * p.n, first, sb_least(first + SB_SELECT_PART, p.n)};
}

// What is known after `pass` digits, from what was known before the last of them and its counts;
// the first block of a line writes it down.
template <typename K>
__device__ __forceinline__ void sb_advance(SbChosen* chosen, SbChosen* all_chosen, u32* bins,
                                           const u32* all_bins, const SbSelect& p, u32 pass) {
    u64 line = blockIdx.x / p.parts;
    u64 before = (u64)(pass - 1) * p.lines + line;
    if (threadIdx.x == 0) *chosen = pass == 0 ? sb_unchosen<K>(p) : all_chosen[before];
    __syncthreads();
    if (pass > 0 && !chosen->done) {
        for (u32 b = threadIdx.x; b < SB_LINE_BINS; b += SB_SELECT_THREADS) {
            bins[b] = all_bins[before * SB_LINE_BINS + b];
        }
        __syncthreads();
        sb_choose<K>(chosen, bins, p);
    }
    if (threadIdx.x == 0 && blockIdx.x % p.parts == 0) all_chosen[pass * p.lines + line] = *chosen;
}

template <typename T, typename K>
__device__ __forceinline__ void sb_select_digits(u32* all_bins, SbChosen* all_chosen, const T* in,
                                                 const SbSelect& p, u32 pass) {
    __shared__ u32 bins[SB_LINE_BINS];
    __shared__ SbChosen chosen;
    sb_advance<K>(&chosen, all_chosen, bins, all_bins, p, pass);
    if (chosen.done) return;
    for (u32 b = threadIdx.x; b < SB_LINE_BINS; b += SB_SELECT_THREADS) bins[b] = 0;
    __syncthreads();
    sb_count_digits<T, K>(bins, sb_part_of_line(in, p), chosen, p);
    __syncthreads();
    u32* to = all_bins + (pass * p.lines + blockIdx.x / p.parts) * SB_LINE_BINS;
    for (u32 b = threadIdx.x; b < SB_LINE_BINS; b += SB_SELECT_THREADS) {
        if (bins[b] != 0) atomicAdd(to + b, bins[b]);
    }
}

// The numbers of elements of each part that are less than those chosen, and equal to them.
template <typename T, typename K>
__device__ __forceinline__ void sb_select_counts(u32* counts, SbChosen* all_chosen, const T* in,
                                                 const u32* all_bins, const SbSelect& p,
                                                 u32 pass) {
    __shared__ u32 bins[SB_LINE_BINS];
    __shared__ SbChosen chosen;
    __shared__ u32 sums[2];
    if (threadIdx.x < 2) sums[threadIdx.x] = 0;
    sb_advance<K>(&chosen, all_chosen, bins, all_bins, p, pass);
    SbLine<T> line = sb_part_of_line(in, p);
    K flip = p.descending ? ~(K)0 : 0;
    u32 less = 0;
    u32 equal = 0;
#pragma unroll 4
    for (u64 i = line.first + threadIdx.x; i < line.end; i += SB_SELECT_THREADS) {
        K key = (sb_key(line.in[i]) ^ flip) >> chosen.shift;
        less += key < (K)chosen.prefix ? 1 : 0;
        equal += key == (K)chosen.prefix ? 1 : 0;
    }
    __syncthreads();
    if (less != 0) atomicAdd(sums, less);
    if (equal != 0) atomicAdd(sums + 1, equal);
    __syncthreads();
    if (threadIdx.x < 2) counts[2 * (u64)blockIdx.x + threadIdx.x] = sums[threadIdx.x];
}

template <typename T, typename K>
__device__ __forceinline__ void sb_select_write(u32* picks, const T* in, const SbChosen* all_chosen,
                                                const u32* counts, const SbSelect& p, u32 pass) {
    __shared__ u32 sums[2];
    u64 line = blockIdx.x / p.parts;
    u64 part = blockIdx.x % p.parts;
    SbChosen chosen = all_chosen[pass * p.lines + line];
    if (threadIdx.x < 2) sums[threadIdx.x] = 0;
    __syncthreads();
    u32 less = 0;
    u32 equal = 0;
    for (u64 q = threadIdx.x; q < part; q += SB_SELECT_THREADS) {
        less += counts[2 * (line * p.parts + q)];
        equal += counts[2 * (line * p.parts + q) + 1];
    }
    if (less != 0) atomicAdd(sums, less);
    if (equal != 0) atomicAdd(sums + 1, equal);
    __syncthreads();
    u64 kept = p.mode == SB_FIRST ? p.k : 1;
    sb_write_picks<T, K>(picks + line * kept, sb_part_of_line(in, p), chosen, p, sums[0], sums[1]);
}
