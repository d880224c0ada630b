// Reductions along one dimension of [outer, n, inner]: sums and products over the fixed tree,
// moments, norms, logarithms of sums, extrema with the first index winning.

#include "pow.cuh"
#include "normal.cuh"
#include "declared/reduce.cuh"

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
SB_SUM_BLOCKS(sum_magnitudes_blocks_f32, float, sb_abs64(v))
SB_SUM_BLOCKS(sum_magnitudes_blocks_f64, double, sb_abs64(v))
SB_SUM_BLOCKS(count_nonzero_blocks_f32, float, v == 0.0 ? 0.0 : 1.0)
SB_SUM_BLOCKS(count_nonzero_blocks_f64, double, v == 0.0 ? 0.0 : 1.0)

#define SB_SUM_POWERS(NAME, T)                                                          \
    extern "C" __global__ void NAME(double* out, const T* in, SbReduce p, double exponent) { \
        u64 warp = sb_thread() / 32;                                                    \
        if (warp >= p.outer * p.blocks * p.inner) return;                               \
        u64 block = warp / p.inner % p.blocks;                                          \
        const T* x = in + warp / p.inner / p.blocks * p.n * p.inner + warp % p.inner;   \
        u64 inner = p.inner;                                                            \
        double partial = sb_tree_block<1>(block * SB_TREE_BLOCK, p.n, [=](u64 i) {      \
            return sb_pow(sb_abs64((double)x[i * inner]), exponent);                    \
        });                                                                             \
        if ((threadIdx.x & 31u) == 0) out[warp] = partial;                              \
    }

// level: Portable - the tree of the contract, one warp per block
SB_SUM_POWERS(sum_powers_blocks_f32, float)
SB_SUM_POWERS(sum_powers_blocks_f64, double)

__device__ __forceinline__ double sb_square(double x) { return x * x; }

// Terms of an element `v` and of its reduced row's number `r`.
#define SB_SUM_TERMS(NAME, T, R, AHEAD, TERM)                                           \
    extern "C" __global__ void NAME(double* out, const T* in, const R* rows, SbReduce p) { \
        u64 warp = sb_thread() / 32;                                                    \
        if (warp >= p.outer * p.blocks * p.inner) return;                               \
        u64 column = warp % p.inner;                                                    \
        u64 block = warp / p.inner % p.blocks;                                          \
        u64 slab = warp / p.inner / p.blocks;                                           \
        const T* x = in + slab * p.n * p.inner + column;                                \
        double r = (double)rows[slab * p.inner + column];                               \
        u64 inner = p.inner;                                                            \
        double partial = sb_tree_block<AHEAD>(block * SB_TREE_BLOCK, p.n, [=](u64 i) {  \
            double v = (double)x[i * inner];                                            \
            return TERM;                                                                \
        });                                                                             \
        if ((threadIdx.x & 31u) == 0) out[warp] = partial;                              \
    }

// level: Portable - the tree of the contract, one warp per block
SB_SUM_TERMS(sum_deviations_blocks_f32, float, double, 8, sb_square(v - r))
SB_SUM_TERMS(sum_deviations_blocks_f64, double, double, 8, sb_square(v - r))
SB_SUM_TERMS(sum_exp_blocks_f32, float, float, 2, sb_exp(v - r))
SB_SUM_TERMS(sum_exp_blocks_f64, double, double, 1, sb_exp(v - r))

// Powers of the magnitudes divided by their reduced row's number.
#define SB_SUM_SCALED_POWERS(NAME, T)                                                   \
    extern "C" __global__ void NAME(double* out, const T* in, const double* rows, SbReduce p, \
                                    double exponent) {                                  \
        u64 warp = sb_thread() / 32;                                                    \
        if (warp >= p.outer * p.blocks * p.inner) return;                               \
        u64 column = warp % p.inner;                                                    \
        u64 block = warp / p.inner % p.blocks;                                          \
        u64 slab = warp / p.inner / p.blocks;                                           \
        const T* x = in + slab * p.n * p.inner + column;                                \
        double r = rows[slab * p.inner + column];                                       \
        u64 inner = p.inner;                                                            \
        auto ratio = [=](u64 i) { return sb_abs64((double)x[i * inner]) / r; };         \
        u64 first = block * SB_TREE_BLOCK;                                              \
        double partial =                                                                \
            exponent == 2.0                                                             \
                ? sb_tree_block(first, p.n, [=](u64 i) { return sb_square(ratio(i)); }) \
                : sb_tree_block<1>(first, p.n,                                          \
                                   [=](u64 i) { return sb_pow(ratio(i), exponent); });  \
        if ((threadIdx.x & 31u) == 0) out[warp] = partial;                              \
    }

// level: Portable - the tree of the contract, one warp per block
SB_SUM_SCALED_POWERS(sum_scaled_powers_blocks_f32, float)
SB_SUM_SCALED_POWERS(sum_scaled_powers_blocks_f64, double)

// What the magnitudes of a row are divided by before they are raised to a power, by the magnitude that
// counts most: 1 if its power is far within the range of f64; else the magnitude, of which squares,
// whose roots are exact, take the power of two below.
#define SB_NORM_SCALES(NAME, T)                                                         \
    extern "C" __global__ void NAME(double* out, const T* in, u64 n, double exponent) { \
        u64 i = sb_thread();                                                            \
        if (i >= n) return;                                                             \
        double most = (double)in[i];                                                    \
        double power = exponent == 2.0 ? most * most : sb_pow(most, exponent);          \
        bool inside = power >= 0x1p-900 && power <= 0x1p900;                            \
        double scale = most;                                                            \
        if (exponent == 2.0) {                                                          \
            u64 bits = (u64)__double_as_longlong(most) & 0x7ff0000000000000ull;         \
            scale = bits == 0 ? 0x1p-1022 : __longlong_as_double((i64)bits);            \
        }                                                                               \
        out[i] = inside || most == 0.0 || !sb_finite(most) ? 1.0 : scale;               \
    }

// level: Portable - one thread owns one output
SB_NORM_SCALES(norm_scales_f32, float)
SB_NORM_SCALES(norm_scales_f64, double)

// The tree with * in the place of + and 1 in that of 0.
#define SB_PRODUCT_BLOCKS(NAME, T)                                                      \
    extern "C" __global__ void NAME(double* out, const T* in, SbReduce p) {             \
        u64 warp = sb_thread() / 32;                                                    \
        if (warp >= p.outer * p.blocks * p.inner) return;                               \
        u64 block = warp / p.inner % p.blocks;                                          \
        const T* x = in + warp / p.inner / p.blocks * p.n * p.inner + warp % p.inner;   \
        u64 first = block * SB_TREE_BLOCK;                                              \
        u64 end = p.n - first < SB_TREE_BLOCK ? p.n : first + SB_TREE_BLOCK;            \
        double lane = 1.0;                                                              \
        for (u64 i = first + (threadIdx.x & 31u); i < end; i += 32)                     \
            lane = lane * (double)x[i * p.inner];                                       \
        for (u32 w = 16; w >= 1; w /= 2) lane = lane * sb_shuffle_down(lane, w);        \
        if ((threadIdx.x & 31u) == 0) out[warp] = lane;                                 \
    }

// level: Portable - the tree of the contract, one warp per block
SB_PRODUCT_BLOCKS(product_blocks_f32, float)
SB_PRODUCT_BLOCKS(product_blocks_f64, double)

// How integers are joined; each is the same in any order. Sums and products wrap around.

__device__ __forceinline__ i64 sb_join(u32 kind, i64 a, i64 b) {
    if (kind == SB_INTEGERS_SUM) return (i64)((u64)a + (u64)b);
    if (kind == SB_INTEGERS_PRODUCT) return (i64)((u64)a * (u64)b);
    return (kind == SB_INTEGERS_LARGEST) == (a > b) ? a : b;
}

// One warp per block of 4096; `out` is [outer, blocks, inner]. Lanes begin with `first`, which
// changes nothing: 0, 1, the least or the greatest integer.
// level: Portable - integers
extern "C" __global__ void integer_blocks(i64* out, const i64* in, SbReduce p, u32 kind,
                                          i64 first) {
    u64 warp = sb_thread() / 32;
    if (warp >= p.outer * p.blocks * p.inner) return;
    u64 block = warp / p.inner % p.blocks;
    const i64* x = in + warp / p.inner / p.blocks * p.n * p.inner + warp % p.inner;
    u64 begin = block * SB_TREE_BLOCK;
    u64 end = p.n - begin < SB_TREE_BLOCK ? p.n : begin + SB_TREE_BLOCK;
    i64 lane = first;
    for (u64 i = begin + (threadIdx.x & 31u); i < end; i += 32)
        lane = sb_join(kind, lane, x[i * p.inner]);
    for (u32 w = 16; w >= 1; w /= 2) lane = sb_join(kind, lane, sb_shuffle_down(lane, w));
    if ((threadIdx.x & 31u) == 0) out[warp] = lane;
}

// The same in some columns, of fewer rows, so that there are enough blocks.
#define SB_COLUMN_PART 512ull
// level: Portable - integers
extern "C" __global__ void integer_columns(i64* out, const i64* in, SbReduce p, u32 kind,
                                           i64 first) {
    __shared__ i64 joined[SB_COLUMN_THREADS][SB_COLUMNS];
    u64 per_block = (p.inner + SB_COLUMNS - 1) / SB_COLUMNS;
    u64 row = blockIdx.x / per_block;
    u64 begin = row % p.blocks * SB_COLUMN_PART;
    u64 end = p.n - begin < SB_COLUMN_PART ? p.n : begin + SB_COLUMN_PART;
    u64 column = blockIdx.x % per_block * SB_COLUMNS + threadIdx.x;
    bool inside = column < p.inner;
    const i64* x = in + row / p.blocks * p.n * p.inner + column;
    i64 lane = first;
    if (inside) {
#pragma unroll 8
        for (u64 i = begin + threadIdx.y; i < end; i += SB_COLUMN_THREADS)
            lane = sb_join(kind, lane, x[i * p.inner]);
    }
    joined[threadIdx.y][threadIdx.x] = lane;
    __syncthreads();
    if (threadIdx.y != 0 || !inside) return;
    for (u32 k = 1; k < SB_COLUMN_THREADS; ++k) lane = sb_join(kind, lane, joined[k][threadIdx.x]);
    out[row * p.inner + column] = lane;
}

// A block of the tree in some columns; `out` is [outer, blocks, inner]. `R` is what `TERM` takes of the
// column besides the element `v`.
#define SB_COLUMN_SUM(T, TERM, R)                                                       \
    __shared__ SbColumns<1> shared;                                                     \
    u64 per_block = (p.inner + SB_COLUMNS - 1) / SB_COLUMNS;                            \
    u64 row = blockIdx.x / per_block;                                                   \
    u64 first = row % p.blocks * SB_TREE_BLOCK;                                         \
    u64 column = blockIdx.x % per_block * SB_COLUMNS + threadIdx.x;                     \
    bool inside = column < p.inner;                                                     \
    u64 slab = row / p.blocks;                                                          \
    const T* x = in + slab * p.n * p.inner + column;                                    \
    u64 inner = p.inner;                                                                \
    R;                                                                                  \
    SbTerms<1> sum = sb_column_block<1>(shared, first, p.n, inside, [=](u64 i) {        \
        double v = (double)x[i * inner];                                                \
        return SbTerms<1>{{TERM}};                                                      \
    });                                                                                 \
    if (threadIdx.y == 0 && inside) out[row * p.inner + column] = sum.of[0];

#define SB_SUM_COLUMNS(NAME, T, TERM)                                                   \
    extern "C" __global__ void NAME(double* out, const T* in, SbReduce p) {             \
        SB_COLUMN_SUM(T, TERM, )                                                        \
    }

// level: Portable - the tree of the contract, its lanes in the threads of a column
SB_SUM_COLUMNS(sum_columns_f32, float, v)
SB_SUM_COLUMNS(sum_columns_f64, double, v)
SB_SUM_COLUMNS(sum_squares_columns_f32, float, v * v)
SB_SUM_COLUMNS(sum_squares_columns_f64, double, v * v)
SB_SUM_COLUMNS(sum_magnitudes_columns_f32, float, sb_abs64(v))
SB_SUM_COLUMNS(sum_magnitudes_columns_f64, double, sb_abs64(v))

#define SB_SUM_COLUMN_DEVIATIONS(NAME, T)                                               \
    extern "C" __global__ void NAME(double* out, const T* in, const double* rows,       \
                                    SbReduce p) {                                       \
        SB_COLUMN_SUM(T, sb_square(v - r),                                              \
                      double r = inside ? rows[slab * inner + column] : 0.0)            \
    }

// level: Portable - the tree of the contract, its lanes in the threads of a column
SB_SUM_COLUMN_DEVIATIONS(sum_deviations_columns_f32, float)
SB_SUM_COLUMN_DEVIATIONS(sum_deviations_columns_f64, double)

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

// Means that are not finite because their sums left the range, by one warp per output.
// level: Portable - the tree of the contract, one warp per row
extern "C" __global__ void mended_means(double* means, const double* in, SbReduce p) {
    u64 warp = sb_thread() / 32;
    if (warp >= p.outer * p.inner || sb_within(means[warp])) return;
    const double* x = in + warp / p.inner * p.n * p.inner + warp % p.inner;
    u64 inner = p.inner;
    double mean = sb_finite_mean(p.n, [=](u64 i) { return x[i * inner]; });
    __syncwarp(); // Every thread has read the old mean.
    if ((threadIdx.x & 31u) == 0) means[warp] = sb_canonical64(mean);
}

// Variances of which the sum of squares left the range.
// level: Portable - the tree of the contract, one warp per row
extern "C" __global__ void mended_variances(double* variances, const double* squares,
                                            const double* means, const double* in, SbReduce p,
                                            double divisor) {
    u64 warp = sb_thread() / 32;
    if (warp >= p.outer * p.inner || sb_within(squares[warp])) return;
    const double* x = in + warp / p.inner * p.n * p.inner + warp % p.inner;
    u64 inner = p.inner;
    double scale = sb_normal_scale<double>(means[warp], 0.0);
    double mean = means[warp] * scale;
    double scaled = sb_tree<1>(p.n, [=](u64 i) {
        double deviation = x[i * inner] * scale - mean;
        return deviation * deviation;
    });
    double variance = scaled / divisor / scale / scale;
    if ((threadIdx.x & 31u) == 0) variances[warp] = sb_canonical64(variance);
}

// Roots of sums. `kind`: 0 none, 1 the square root, 2 the power.
#define SB_ROOTS(NAME, T)                                                               \
    extern "C" __global__ void NAME(T* out, const double* in, u64 n, u32 kind,          \
                                    double exponent) {                                  \
        u64 i = sb_thread();                                                            \
        if (i >= n) return;                                                             \
        double sum = in[i];                                                             \
        out[i] = sb_clean((T)(kind == 0 ? sum                                           \
                              : kind == 1 ? sb_sqrt(sum)                                \
                                          : sb_pow(sum, exponent)));                    \
    }

// level: Portable - one thread owns one output
SB_ROOTS(roots_f32, float)
SB_ROOTS(roots_f64, double)

// The largest element plus the logarithm of the sum of what is left of the exponentials.
#define SB_LOGSUMEXP(NAME, T)                                                           \
    extern "C" __global__ void NAME(T* out, const double* sums, const T* largest, u64 n) { \
        u64 i = sb_thread();                                                            \
        if (i >= n) return;                                                             \
        double m = (double)largest[i];                                                  \
        out[i] = sb_clean((T)(sb_finite(m) ? m + sb_log(sums[i]) : m));                 \
    }

// level: Portable - one thread owns one output
SB_LOGSUMEXP(logsumexp_finish_f32, float)
SB_LOGSUMEXP(logsumexp_finish_f64, double)

// Sums of a few elements, added in the order of arrival: what a reduction with float atomics does. A
// warp takes 2048 of a row whose elements lie side by side, a thread 2 of a column.
// level: NotGuaranteed - float atomics
extern "C" __global__ void sum_f32_atomic(float* out, const float* in, SbReduce p) {
    u32 lanes = p.inner == 1 ? 32 : 1;
    u64 taken = p.inner == 1 ? 2048 : 2;
    u64 t = sb_thread();
    u64 part = t / lanes;
    if (part >= p.outer * p.blocks * p.inner) return;
    u64 column = part % p.inner;
    u64 slab = part / p.inner / p.blocks;
    u64 first = part / p.inner % p.blocks * taken;
    u64 end = p.n - first < taken ? p.n : first + taken;
    const float* x = in + slab * p.n * p.inner + column;
    float sum = 0.0f;
    for (u64 i = first + t % lanes; i < end; i += lanes) sum += x[i * p.inner];
    for (u32 by = lanes / 2; by > 0; by /= 2) sum += sb_shuffle_down(sum, by);
    if (t % lanes == 0) atomicAdd(out + slab * p.inner + column, sum);
}

// ---- Extrema -----------------------------------------------------------------------------

// One warp per block of 4096; `values` and `indices` are [outer, blocks, inner].
#define SB_EXTREME_BLOCKS(NAME, T)                                                      \
    extern "C" __global__ void NAME(T* values, i64* indices, const T* in, SbReduce p,   \
                                    u32 minimum) {                                      \
        u64 warp = sb_thread() / 32;                                                    \
        if (warp >= p.outer * p.blocks * p.inner) return;                               \
        u64 first = warp / p.inner % p.blocks * SB_TREE_BLOCK;                          \
        u64 end = p.n - first < SB_TREE_BLOCK ? p.n : first + SB_TREE_BLOCK;            \
        const T* x = in + warp / p.inner / p.blocks * p.n * p.inner + warp % p.inner;   \
        u64 inner = p.inner;                                                            \
        u64 at;                                                                         \
        T best = sb_extreme<T>(first, end, minimum != 0, &at,                           \
                               [=](u64 i) { return x[i * inner]; }, [](u64 i) { return i; }); \
        if ((threadIdx.x & 31u) == 0) {                                                 \
            values[warp] = sb_clean(best);                                              \
            indices[warp] = (i64)at;                                                    \
        }                                                                               \
    }

// level: Portable - comparisons with a written winner, one warp per block
SB_EXTREME_BLOCKS(extreme_blocks_f32, float)
SB_EXTREME_BLOCKS(extreme_blocks_f64, double)

// The same in some columns, of fewer rows.
#define SB_EXTREME_COLUMNS(NAME, T)                                                     \
    extern "C" __global__ void NAME(T* values, i64* indices, const T* in, SbReduce p,   \
                                    u32 minimum) {                                      \
        __shared__ T value[SB_COLUMN_THREADS][SB_COLUMNS];                              \
        __shared__ u64 place[SB_COLUMN_THREADS][SB_COLUMNS];                            \
        u64 per_block = (p.inner + SB_COLUMNS - 1) / SB_COLUMNS;                        \
        u64 row = blockIdx.x / per_block;                                               \
        u64 first = row % p.blocks * SB_COLUMN_PART;                                    \
        u64 end = p.n - first < SB_COLUMN_PART ? p.n : first + SB_COLUMN_PART;          \
        u64 column = blockIdx.x % per_block * SB_COLUMNS + threadIdx.x;                 \
        bool inside = column < p.inner;                                                 \
        const T* x = in + row / p.blocks * p.n * p.inner + column;                      \
        u64 inner = p.inner;                                                            \
        T best;                                                                         \
        u64 at;                                                                         \
        sb_extreme_of_every<8, SB_COLUMN_THREADS>(                                      \
            &best, &at, first + threadIdx.y, inside ? end : 0, minimum != 0,            \
            [=](u64 i) { return x[i * inner]; }, [](u64 i) { return i; });              \
        value[threadIdx.y][threadIdx.x] = best;                                         \
        place[threadIdx.y][threadIdx.x] = at;                                           \
        __syncthreads();                                                                \
        if (threadIdx.y != 0 || !inside) return;                                        \
        for (u32 k = 1; k < SB_COLUMN_THREADS; ++k) {                                   \
            T other = value[k][threadIdx.x];                                            \
            u64 from = place[k][threadIdx.x];                                           \
            bool better = sb_preferred(other, from, best, at, minimum != 0);            \
            best = better ? other : best;                                               \
            at = better ? from : at;                                                    \
        }                                                                               \
        values[row * p.inner + column] = sb_clean(best);                                \
        indices[row * p.inner + column] = (i64)at;                                      \
    }

// level: Portable - comparisons with a written winner, the threads of a column in turn
SB_EXTREME_COLUMNS(extreme_columns_f32, float)
SB_EXTREME_COLUMNS(extreme_columns_f64, double)

// The same for extrema that were found before, where `at` says; blocks are short here, because a few
// warps wait for them.
#define SB_FOUND_BLOCK 256ull
#define SB_EXTREME_FOUND(NAME, T)                                                       \
    extern "C" __global__ void NAME(T* values, i64* indices, const T* in, const i64* at, \
                                    SbReduce p, u32 minimum) {                          \
        u64 warp = sb_thread() / 32;                                                    \
        if (warp >= p.outer * p.blocks * p.inner) return;                               \
        u64 first = warp / p.inner % p.blocks * SB_FOUND_BLOCK;                         \
        u64 end = p.n - first < SB_FOUND_BLOCK ? p.n : first + SB_FOUND_BLOCK;          \
        u64 line = warp / p.inner / p.blocks * p.n * p.inner + warp % p.inner;          \
        u64 inner = p.inner;                                                            \
        u64 found;                                                                      \
        T best = sb_extreme<T>(first, end, minimum != 0, &found,                        \
                               [=](u64 i) { return in[line + i * inner]; },             \
                               [=](u64 i) { return (u64)at[line + i * inner]; });       \
        if ((threadIdx.x & 31u) == 0) {                                                 \
            values[warp] = best;                                                        \
            indices[warp] = (i64)found;                                                 \
        }                                                                               \
    }

// level: Portable - comparisons with a written winner, one warp per block
SB_EXTREME_FOUND(extreme_found_f32, float)
SB_EXTREME_FOUND(extreme_found_f64, double)
