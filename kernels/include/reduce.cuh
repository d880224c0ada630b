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

// One block of the tree: terms first..min(first + 4096, n). Every lane gets the partial. `AHEAD`
// terms are read before the first of them is added; dear ones are better taken one by one.
template <int AHEAD = 8, typename Term>
__device__ __forceinline__ double sb_tree_block(u64 first, u64 n, Term term) {
    u64 end = n - first < SB_TREE_BLOCK ? n : first + SB_TREE_BLOCK;
    double lane = 0.0;
    u64 i = first + (threadIdx.x & 31u);
#pragma unroll 1
    for (; AHEAD > 1 && i + 32 * (AHEAD - 1) < end; i += 32 * AHEAD) {
        double terms[AHEAD];
#pragma unroll
        for (int k = 0; k < AHEAD; ++k) terms[k] = term(i + 32 * k);
#pragma unroll
        for (int k = 0; k < AHEAD; ++k) lane = lane + terms[k];
    }
#pragma unroll 1
    for (; i < end; i += 32) lane = lane + term(i);
    return sb_lanes(lane);
}

// Terms of several sums.
template <int SUMS>
struct SbTerms {
    double of[SUMS];
};

template <int SUMS>
__device__ __forceinline__ void sb_add_terms(SbTerms<SUMS>* sums, const SbTerms<SUMS>& terms) {
#pragma unroll
    for (int s = 0; s < SUMS; ++s) sums->of[s] = sums->of[s] + terms.of[s];
}

// A block of the tree for several sums at once. `terms` makes their terms of what `load(i)` reads; eight
// rounds are read before the first is added.
template <int SUMS, typename Load, typename Terms>
__device__ __forceinline__ SbTerms<SUMS> sb_tree_blocks(u64 first, u64 n, Load load, Terms terms) {
    const int AHEAD = 8;
    u64 end = n - first < SB_TREE_BLOCK ? n : first + SB_TREE_BLOCK;
    SbTerms<SUMS> lane = {};
    u64 i = first + (threadIdx.x & 31u);
#pragma unroll 1
    for (; i + 32 * (AHEAD - 1) < end; i += 32 * AHEAD) {
        decltype(load(i)) read[AHEAD];
#pragma unroll
        for (int k = 0; k < AHEAD; ++k) read[k] = load(i + 32 * k);
#pragma unroll
        for (int k = 0; k < AHEAD; ++k) sb_add_terms(&lane, terms(read[k]));
    }
#pragma unroll 1
    for (; i < end; i += 32) sb_add_terms(&lane, terms(load(i)));
#pragma unroll
    for (int s = 0; s < SUMS; ++s) lane.of[s] = sb_lanes(lane.of[s]);
    return lane;
}

// A block of up to 4096 terms by one thread, where terms of the next thread lie beside its own: the 32
// lanes one after the other, in the order in which halves that are added follow each other.
template <typename Term>
__device__ __forceinline__ double sb_tree_column(u64 n, Term term) {
    double halves[5];
    double lane = 0.0;
#pragma unroll 1
    for (u32 k = 0; k < 32; ++k) {
        lane = 0.0;
#pragma unroll 1
        for (u64 i = __brev(k) >> 27; i < n; i += 32) lane = lane + term(i);
#pragma unroll
        for (int level = 0; level < 5; ++level) {
            if ((k >> level & 1u) == 0) {
                halves[level] = lane;
                break;
            }
            lane = halves[level] + lane;
        }
    }
    return lane;
}

// The whole tree over n terms, by one warp: four levels, 2^48 terms. Every lane gets the result. For
// a few terms; blocks of a long sum are taken by warps of their own.
template <int AHEAD = 8, typename Term>
__device__ __forceinline__ double sb_tree(u64 n, Term term) {
    u32 me = threadIdx.x & 31u;
    double lane[3] = {0.0, 0.0, 0.0};
    u64 taken[3] = {0, 0, 0};
    if (n <= SB_TREE_BLOCK) return n == 0 ? 0.0 : sb_tree_block<AHEAD>(0, n, term);
    for (u64 first = 0; first < n; first += SB_TREE_BLOCK) {
        double partial = sb_tree_block<AHEAD>(first, n, term);
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

// A block of the tree over the rows of a matrix, for 8 columns by a block of 8 x 32 threads: a thread
// holds one lane of its column, and the sectors that a warp reads are used whole. `term(i)` are the `SUMS` terms of row i in this thread's column, and `inside` says whether
// there is one. The threads of row 0 get the partials of their columns.
#define SB_COLUMNS 8
#define SB_COLUMN_THREADS 32
// The terms that a thread reads before it adds the first.
#define SB_COLUMN_AHEAD 8

template <int SUMS>
struct SbColumns {
    double lane[SUMS][32][SB_COLUMNS + 1];
};

template <int SUMS, typename Term>
__device__ __forceinline__ SbTerms<SUMS> sb_column_block(SbColumns<SUMS>& shared, u64 first, u64 n,
                                                         bool inside, Term term) {
    u32 x = threadIdx.x;
    u32 y = threadIdx.y;
    u64 end = n - first < SB_TREE_BLOCK ? n : first + SB_TREE_BLOCK;
    SbTerms<SUMS> lane;
#pragma unroll
    for (int s = 0; s < SUMS; ++s) lane.of[s] = 0.0;
    auto add = [&](const SbTerms<SUMS>& terms) {
#pragma unroll
        for (int s = 0; s < SUMS; ++s) lane.of[s] = lane.of[s] + terms.of[s];
    };
    if (inside) {
        u64 i = first + y;
#pragma unroll 1
        for (; i + 32 * (SB_COLUMN_AHEAD - 1) < end; i += 32 * SB_COLUMN_AHEAD) {
            SbTerms<SUMS> terms[SB_COLUMN_AHEAD];
#pragma unroll
            for (int k = 0; k < SB_COLUMN_AHEAD; ++k) terms[k] = term(i + 32 * k);
#pragma unroll
            for (int k = 0; k < SB_COLUMN_AHEAD; ++k) add(terms[k]);
        }
#pragma unroll 1
        for (; i < end; i += 32) add(term(i));
    }
#pragma unroll
    for (int s = 0; s < SUMS; ++s) shared.lane[s][y][x] = lane.of[s];
    __syncthreads();
    for (u32 w = 16; w >= 1; w /= 2) {
        if (y < w) {
#pragma unroll
            for (int s = 0; s < SUMS; ++s)
                shared.lane[s][y][x] = shared.lane[s][y][x] + shared.lane[s][y + w][x];
        }
        __syncthreads();
    }
    SbTerms<SUMS> partials;
#pragma unroll
    for (int s = 0; s < SUMS; ++s) partials.of[s] = shared.lane[s][0][x];
    return partials;
}

// The larger number, or NaN; of equal ones the first.
template <typename T>
__device__ __forceinline__ T sb_largest(T best, T x) {
    return x > best || x != x ? x : best;
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

// The extreme of elements i, i + STEP and so on below `end`, and its index. `place(i)` is the index of
// element i.
template <int AHEAD, int STEP, typename T, typename Element, typename Place>
__device__ __forceinline__ void sb_extreme_of_every(T* best, u64* at, u64 i, u64 end, bool minimum,
                                                    Element element, Place place) {
    *best = (T)0;
    *at = ~0ull;
#pragma unroll 1
    for (; i + STEP * (AHEAD - 1) < end; i += STEP * AHEAD) {
        T x[AHEAD];
        u64 y[AHEAD];
#pragma unroll
        for (int k = 0; k < AHEAD; ++k) {
            x[k] = element(i + STEP * k);
            y[k] = place(i + STEP * k);
        }
#pragma unroll
        for (int k = 0; k < AHEAD; ++k) {
            bool better = sb_preferred(x[k], y[k], *best, *at, minimum);
            *best = better ? x[k] : *best;
            *at = better ? y[k] : *at;
        }
    }
#pragma unroll 1
    for (; i < end; i += STEP) {
        T x = element(i);
        u64 y = place(i);
        if (sb_preferred(x, y, *best, *at, minimum)) {
            *best = x;
            *at = y;
        }
    }
}

// The extreme of elements first..end and the index of its first occurrence, by one warp. Every lane
// gets both.
template <typename T, typename Element, typename Place>
__device__ __forceinline__ T sb_extreme(u64 first, u64 end, bool minimum, u64* index,
                                        Element element, Place place) {
    T best;
    u64 at;
    sb_extreme_of_every<4, 32>(&best, &at, first + (threadIdx.x & 31u), end, minimum, element,
                               place);
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

// The same for elements 0..n, each its own place.
template <typename T, typename Element>
__device__ __forceinline__ T sb_extreme(u64 n, bool minimum, u64* index, Element element) {
    return sb_extreme<T>(0, n, minimum, index, element, [](u64 i) { return i; });
}
