// Reductions along one dimension of [outer, n, inner]: sums over the fixed tree, extrema with
// the first index winning, prefix sums.

#include "reduce.cuh"

// outer x n x inner, reduced over n.
struct SbReduce {
    u64 outer;
    u64 n;
    u64 inner;
    // Blocks of the tree along n.
    u64 blocks;
};

// One warp per block of the tree; `out` is [outer, blocks, inner].
#define SB_SUM_BLOCKS(NAME, T, TERM)                                                    \
    extern "C" __global__ void NAME(double* out, const T* in, SbReduce p) {             \
        u64 warp = sb_thread() / 32;                                                    \
        if (warp >= p.outer * p.blocks * p.inner) return;                               \
        u64 column = warp % p.inner;                                                    \
        u64 block = warp / p.inner % p.blocks;                                          \
        u64 slab = warp / p.inner / p.blocks;                                           \
        const T* x = in + slab * p.n * p.inner + column;                                \
        u64 inner = p.inner;                                                            \
        double partial = sb_tree_block(block * SB_TREE_BLOCK, p.n, [=](u64 i) {         \
            double v = (double)x[i * inner];                                            \
            return TERM;                                                                \
        });                                                                             \
        if ((threadIdx.x & 31u) == 0) out[warp] = partial;                              \
    }

// level: Portable - the tree of the contract, one warp per block
SB_SUM_BLOCKS(sum_blocks_f32, float, v)
SB_SUM_BLOCKS(sum_blocks_f64, double, v)
SB_SUM_BLOCKS(sum_squares_blocks_f32, float, v * v)
SB_SUM_BLOCKS(sum_squares_blocks_f64, double, v * v)

// Columns of a matrix with n below 4096: 32 columns per block, a lane per row modulo 32, so that
// neighbouring threads read neighbouring elements.
#define SB_SUM_COLUMNS(NAME, T)                                                         \
    extern "C" __global__ void NAME(double* out, const T* in, SbReduce p) {             \
        __shared__ double lane[32][33];                                                 \
        u64 per_slab = (p.inner + 31) / 32;                                             \
        u64 slab = blockIdx.x / per_slab;                                               \
        u64 column = blockIdx.x % per_slab * 32 + threadIdx.x;                          \
        double sum = 0.0;                                                               \
        if (column < p.inner) {                                                         \
            const T* x = in + slab * p.n * p.inner + column;                            \
            for (u64 i = threadIdx.y; i < p.n; i += 32) sum = sum + (double)x[i * p.inner]; \
        }                                                                               \
        lane[threadIdx.y][threadIdx.x] = sum;                                           \
        __syncthreads();                                                                \
        for (u32 w = 16; w >= 1; w /= 2) {                                              \
            if (threadIdx.y < w)                                                        \
                lane[threadIdx.y][threadIdx.x] =                                        \
                    lane[threadIdx.y][threadIdx.x] + lane[threadIdx.y + w][threadIdx.x]; \
            __syncthreads();                                                            \
        }                                                                               \
        if (threadIdx.y == 0 && column < p.inner)                                       \
            out[slab * p.inner + column] = lane[0][threadIdx.x];                        \
    }

// level: Portable - the tree of the contract, a lane per thread row
SB_SUM_COLUMNS(sum_columns_f32, float)
SB_SUM_COLUMNS(sum_columns_f64, double)

// Divides in f64 and rounds once.
// level: Portable - one thread owns one output
extern "C" __global__ void finish_f32(float* out, const double* in, u64 n, double divisor) {
    u64 i = sb_thread();
    if (i < n) out[i] = sb_canonical((float)(in[i] / divisor));
}

// level: Portable - one thread owns one output
extern "C" __global__ void finish_f64(double* out, const double* in, u64 n, double divisor) {
    u64 i = sb_thread();
    if (i < n) out[i] = sb_canonical64(in[i] / divisor);
}

// One addition per element in the order of arrival: what a reduction with float atomics does.
// level: NotGuaranteed - float atomics
extern "C" __global__ void sum_f32_atomic(float* out, const float* in, SbReduce p) {
    u64 i = sb_thread();
    if (i >= p.outer * p.n * p.inner) return;
    u64 column = i % p.inner;
    u64 slab = i / p.inner / p.n;
    atomicAdd(out + slab * p.inner + column, in[i]);
}

// ---- Extrema -----------------------------------------------------------------------------

#define SB_EXTREME(NAME, T)                                                             \
    extern "C" __global__ void NAME(T* values, i64* indices, const T* in, SbReduce p,   \
                                    u32 minimum) {                                      \
        u64 warp = sb_thread() / 32;                                                    \
        if (warp >= p.outer * p.inner) return;                                          \
        const T* x = in + warp / p.inner * p.n * p.inner + warp % p.inner;              \
        u64 inner = p.inner;                                                            \
        u64 at;                                                                         \
        T best = sb_extreme<T>(p.n, minimum != 0, &at, [=](u64 i) { return x[i * inner]; }); \
        if ((threadIdx.x & 31u) == 0) {                                                 \
            values[warp] = sb_clean(best);                         \
            indices[warp] = (i64)at;                                                    \
        }                                                                               \
    }

// level: Portable - comparisons with a written winner, one warp per output
SB_EXTREME(extreme_f32, float)
SB_EXTREME(extreme_f64, double)
