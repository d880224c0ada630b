// The fixed tree of samebits_numerics::reduce: terms in f64, 32 lanes, blocks of 4096, partials
// reduced again. A warp is the 32 lanes.
#pragma once

#include "samebits.cuh"

#define SB_TREE_BLOCK 4096ull

__device__ __forceinline__ double sb_shuffle_down(double x, u32 by) {
    u64 bits = (u64)__double_as_longlong(x);
    u32 low = __shfl_down_sync(0xffffffffu, (u32)bits, by);
    u32 high = __shfl_down_sync(0xffffffffu, (u32)(bits >> 32), by);
    return __longlong_as_double((i64)((u64)high << 32 | (u64)low));
}

__device__ __forceinline__ double sb_shuffle_first(double x) {
    u64 bits = (u64)__double_as_longlong(x);
    u32 low = __shfl_sync(0xffffffffu, (u32)bits, 0);
    u32 high = __shfl_sync(0xffffffffu, (u32)(bits >> 32), 0);
    return __longlong_as_double((i64)((u64)high << 32 | (u64)low));
}

__device__ __forceinline__ i64 sb_shuffle_down(i64 x, u32 by) {
    u32 low = __shfl_down_sync(0xffffffffu, (u32)(u64)x, by);
    u32 high = __shfl_down_sync(0xffffffffu, (u32)((u64)x >> 32), by);
    return (i64)((u64)high << 32 | (u64)low);
}

__device__ __forceinline__ float sb_shuffle_down(float x, u32 by) {
    return __uint_as_float(__shfl_down_sync(0xffffffffu, __float_as_uint(x), by));
}

__device__ __forceinline__ float sb_shuffle_first(float x) {
    return __uint_as_float(__shfl_sync(0xffffffffu, __float_as_uint(x), 0));
}

// Combines the 32 lanes by halving; every lane gets the result.
__device__ __forceinline__ double sb_lanes(double lane) {
#pragma unroll
    for (u32 w = 16; w >= 1; w /= 2) {
        double other = sb_shuffle_down(lane, w);
        // Lanes beyond w hold numbers that are not used any more.
        lane = lane + other;
    }
    return sb_shuffle_first(lane);
}

// One block of the tree: terms first..min(first + 4096, n). Every lane gets the partial.
template <typename Term>
__device__ __forceinline__ double sb_tree_block(u64 first, u64 n, Term term) {
    u64 end = n - first < SB_TREE_BLOCK ? n : first + SB_TREE_BLOCK;
    double lane = 0.0;
    for (u64 i = first + (threadIdx.x & 31u); i < end; i += 32) lane = lane + term(i);
    return sb_lanes(lane);
}

// The whole tree over n terms, by one warp: four levels, 2^48 terms. Every lane gets the result.
template <typename Term>
__device__ __forceinline__ double sb_tree(u64 n, Term term) {
    u32 me = threadIdx.x & 31u;
    double lane[3] = {0.0, 0.0, 0.0};
    u64 taken[3] = {0, 0, 0};
    if (n <= SB_TREE_BLOCK) return n == 0 ? 0.0 : sb_tree_block(0, n, term);
    for (u64 first = 0; first < n; first += SB_TREE_BLOCK) {
        double partial = sb_tree_block(first, n, term);
        bool last = first + SB_TREE_BLOCK >= n;
        // A partial is the next term of the level above; a full level hands its own up. At the
        // end each level hands up what it has; a single term passes through unchanged, because
        // no partial is -0 and the other lanes add +0.
#pragma unroll
        for (int level = 0; level < 3; ++level) {
            if ((taken[level] & 31u) == me) lane[level] = lane[level] + partial;
            taken[level] += 1;
            if (taken[level] != SB_TREE_BLOCK && !last) break;
            partial = sb_lanes(lane[level]);
            lane[level] = 0.0;
            taken[level] = 0;
        }
        if (last) return partial;
    }
    return 0.0;
}

// True if `a` at index `ia` is to be preferred to `b` at `ib`: NaN before all, then the value,
// then the lower index. An index of all ones is no element.
template <typename T>
__device__ __forceinline__ bool sb_preferred(T a, u64 ia, T b, u64 ib, bool minimum) {
    if (ia == ~0ull || ib == ~0ull) return ia != ~0ull;
    bool nan_a = a != a;
    bool nan_b = b != b;
    if (nan_a || nan_b) return nan_a && (!nan_b || ia < ib);
    if (a == b) return ia < ib;
    return minimum ? a < b : a > b;
}

// The extreme of n elements and the index of its first occurrence, by one warp. Every lane gets
// both.
template <typename T, typename Element>
__device__ __forceinline__ T sb_extreme(u64 n, bool minimum, u64* index, Element element) {
    T best = (T)0;
    u64 at = ~0ull;
    for (u64 i = threadIdx.x & 31u; i < n; i += 32) {
        T x = element(i);
        if (sb_preferred(x, i, best, at, minimum)) {
            best = x;
            at = i;
        }
    }
    for (u32 w = 16; w >= 1; w /= 2) {
        T x = sb_shuffle_down(best, w);
        u32 low = __shfl_down_sync(0xffffffffu, (u32)at, w);
        u32 high = __shfl_down_sync(0xffffffffu, (u32)(at >> 32), w);
        u64 i = (u64)high << 32 | (u64)low;
        if (sb_preferred(x, i, best, at, minimum)) {
            best = x;
            at = i;
        }
    }
    u32 low = __shfl_sync(0xffffffffu, (u32)at, 0);
    u32 high = __shfl_sync(0xffffffffu, (u32)(at >> 32), 0);
    *index = (u64)high << 32 | (u64)low;
    return sb_shuffle_first(best);
}
