// Batch, layer and root mean square normalisation. Statistics run in f64 over the fixed tree, in the logical order
// of their terms, and are rounded to f32 once. A row is normalised as fma(x, scale, -mean) * rstd:
// mean and rstd are those of the elements times `scale`, which is 1 for ordinary numbers.

#include "math64.cuh"
#include "planes.cuh"
#include "normal.cuh"
#include "declared/norm.cuh"

// The place of term t of a channel: samples one after the other.
__device__ __forceinline__ u64 sb_term(const SbBatch& p, u64 channel, u64 t) {
    u64 sample = t / p.spatial;
    return (sample * p.channels + channel) * p.spatial + (t - sample * p.spatial);
}

// What a warp does of [channels, blocks]: the block of the tree of a channel.
struct SbChannelBlock {
    u64 channel;
    u64 first;
    u64 terms;
};

__device__ __forceinline__ SbChannelBlock sb_channel_block(const SbBatch& p, u64 blocks) {
    u64 warp = sb_thread() / 32;
    return {warp / blocks, warp % blocks * SB_TREE_BLOCK, p.n * p.spatial};
}

// The tree over the blocks of a channel, by one warp. Every lane gets the result.
__device__ __forceinline__ double sb_channel_sum(const double* partials, u64 row, u64 blocks) {
    return sb_tree(blocks, [=](u64 i) { return partials[row * blocks + i]; });
}

#define SB_CHANNEL_SUMS(NAME, T)                                                        \
    extern "C" __global__ void NAME(double* out, const T* in, SbBatch p, u64 blocks) {  \
        SbChannelBlock b = sb_channel_block(p, blocks);                                 \
        if (b.channel >= p.channels) return;                                            \
        double partial = sb_tree_block(b.first, b.terms, [=](u64 t) {                   \
            return (double)in[sb_term(p, b.channel, t)];                                \
        });                                                                             \
        if ((threadIdx.x & 31u) == 0) out[sb_thread() / 32] = partial;                  \
    }

// level: Portable - the tree of the contract, one warp per block
SB_CHANNEL_SUMS(channel_sums_f32, float)
SB_CHANNEL_SUMS(channel_sums_f64, double)

// The sums of the blocks of each row, divided in f64.
// level: Portable - the tree of the contract, one warp per row
extern "C" __global__ void channel_means(double* out, const double* partials, u64 rows, u64 blocks,
                                         double count) {
    u64 row = sb_thread() / 32;
    if (row >= rows) return;
    double sum = sb_channel_sum(partials, row, blocks);
    if ((threadIdx.x & 31u) == 0) out[row] = sum / count;
}

#define SB_CHANNEL_SQUARES(NAME, T)                                                     \
    extern "C" __global__ void NAME(double* out, const T* in, const double* mean,       \
                                    SbBatch p, u64 blocks) {                            \
        SbChannelBlock b = sb_channel_block(p, blocks);                                 \
        if (b.channel >= p.channels) return;                                            \
        double m = mean[b.channel];                                                     \
        double partial = sb_tree_block(b.first, b.terms, [=](u64 t) {                   \
            double deviation = (double)in[sb_term(p, b.channel, t)] - m;                \
            return deviation * deviation;                                               \
        });                                                                             \
        if ((threadIdx.x & 31u) == 0) out[sb_thread() / 32] = partial;                  \
    }

// level: Portable - the tree of the contract, one warp per block
SB_CHANNEL_SQUARES(channel_squares_f32, float)
SB_CHANNEL_SQUARES(channel_squares_f64, double)

// Mean, biased variance and 1 / sqrt(variance + eps) of each channel, from the unrounded mean and
// the blocks of the squares; and what elements meet.
#define SB_BATCH_STATISTICS(NAME, T)                                                    \
    extern "C" __global__ void NAME(T* mean, T* variance, T* rstd, T* scaled, const T* in, \
                                    const double* means, const double* squares, SbBatch p, \
                                    u64 blocks, double eps) {                           \
        u64 channel = sb_thread() / 32;                                                 \
        if (channel >= p.channels) return;                                              \
        u64 terms = p.n * p.spatial;                                                    \
        double v = sb_channel_sum(squares, channel, blocks) / (double)terms;            \
        SbNormal found =                                                                \
            sb_mended<T>(sb_normal(means[channel], v, eps, 1.0), terms, eps,            \
                         [=](u64 t) { return in[sb_term(p, channel, t)]; });            \
        if ((threadIdx.x & 31u) != 0) return;                                           \
        mean[channel] = sb_clean((T)(found.mean / found.scale));                        \
        variance[channel] = sb_clean((T)(found.variance / found.scale / found.scale));  \
        rstd[channel] = sb_clean((T)(found.rstd * found.scale));                        \
        sb_put_scaled(scaled, channel, sb_scaled<T>(found));                            \
    }

// level: Portable - the tree of the contract, one warp per channel
SB_BATCH_STATISTICS(batch_statistics_f32, float)
SB_BATCH_STATISTICS(batch_statistics_f64, double)

// What elements meet, of given statistics.
template <typename T>
__device__ __forceinline__ void sb_given_statistics(T* scaled, const T* mean, const T* variance,
                                                    u64 n, double eps) {
    u64 i = sb_thread();
    if (i >= n) return;
    T rstd = sb_clean((T)(1.0 / __dsqrt_rn((double)variance[i] + eps)));
    sb_put_scaled(scaled, i, SbScaled<T>{mean[i], rstd, (T)1});
}

// level: Portable - one thread owns one output
extern "C" __global__ void given_statistics_f32(float* scaled, const float* mean,
                                                const float* variance, u64 n, double eps) {
    sb_given_statistics<float>(scaled, mean, variance, n, eps);
}

// level: Portable - one thread owns one output
extern "C" __global__ void given_statistics_f64(double* scaled, const double* mean,
                                                const double* variance, u64 n, double eps) {
    sb_given_statistics<double>(scaled, mean, variance, n, eps);
}

// fma(fma(x, scale, -mean) * rstd, weight, bias). The samples are the planes.
template <typename T>
__device__ __forceinline__ void sb_batch_normalize(T* out, const T* in, const T* scaled,
                                                   const T* weight, const T* bias,
                                                   const SbBatch& p) {
    u64 sample = p.channels * p.spatial;
    sb_in_planes(p.n, sample, [&](auto count, u64 first, u64 i) {
        const int N = decltype(count)::value;
        u64 c = i / p.spatial;
        u64 start = first * sample + i;
        SbScaled<T> by = sb_scaled_at(scaled, c);
        T w = weight[c];
        T b = bias[c];
        T x[N];
        sb_load_planes(x, in + start, sample);
#pragma unroll
        for (int k = 0; k < N; ++k) x[k] = sb_fma(sb_normalised(by, x[k]), w, b);
        sb_store_planes(out + start, x, sample);
    });
}

// level: Portable - one thread owns one output
extern "C" __global__ void batch_normalize_f32(float* out, const float* in, const float* scaled,
                                               const float* weight, const float* bias, SbBatch p) {
    sb_batch_normalize<float>(out, in, scaled, weight, bias, p);
}

// level: Portable - one thread owns one output
extern "C" __global__ void batch_normalize_f64(double* out, const double* in, const double* scaled,
                                               const double* weight, const double* bias,
                                               SbBatch p) {
    sb_batch_normalize<double>(out, in, scaled, weight, bias, p);
}

template <typename T>
struct SbGradTerm {
    T grad;
    T x;
};

// Sums of g and of g * h per block of a channel, with h what x is normalised to and the product in
// f64; `partials` is [channels, 2, blocks]. The first block of a channel writes what elements meet.
#define SB_BATCH_NORM_BLOCKS(NAME, T)                                                   \
    extern "C" __global__ void NAME(double* partials, T* scaled, const T* grad, const T* in, \
                                    const T* mean, const T* rstd, SbBatch p, u64 blocks, \
                                    double eps) {                                       \
        SbChannelBlock b = sb_channel_block(p, blocks);                                 \
        if (b.channel >= p.channels) return;                                            \
        SbScaled<T> by = sb_scaled<T>(                                                  \
            sb_known<T>(mean[b.channel], rstd[b.channel], b.terms, eps,                 \
                        [=](u64 t) { return in[sb_term(p, b.channel, t)]; }));          \
        SbTerms<2> sums = sb_tree_blocks<2>(                                            \
            b.first, b.terms,                                                           \
            [=](u64 t) {                                                                \
                u64 i = sb_term(p, b.channel, t);                                       \
                return SbGradTerm<T>{grad[i], in[i]};                                   \
            },                                                                          \
            [=](const SbGradTerm<T>& t) {                                               \
                double g = (double)t.grad;                                              \
                return SbTerms<2>{{g, g * (double)sb_normalised(by, t.x)}};             \
            });                                                                         \
        if ((threadIdx.x & 31u) != 0) return;                                           \
        if (b.first == 0) sb_put_scaled(scaled, b.channel, by);                         \
        u64 at = 2 * b.channel * blocks + b.first / SB_TREE_BLOCK;                      \
        partials[at] = sums.of[0];                                                      \
        partials[at + blocks] = sums.of[1];                                             \
    }

// level: Portable - the tree of the contract, one warp per block
SB_BATCH_NORM_BLOCKS(batch_norm_blocks_f32, float)
SB_BATCH_NORM_BLOCKS(batch_norm_blocks_f64, double)

// Both sums of each channel: `sums` is [channels, 2], unrounded.
#define SB_BATCH_NORM_SUMS(NAME, T)                                                     \
    extern "C" __global__ void NAME(double* sums, T* weight_grad, T* bias_grad,         \
                                    const double* partials, u64 channels, u64 blocks) { \
        u64 channel = sb_thread() / 32;                                                 \
        if (channel >= channels) return;                                                \
        double sum = sb_channel_sum(partials, 2 * channel, blocks);                     \
        double dot = sb_channel_sum(partials, 2 * channel + 1, blocks);                 \
        if ((threadIdx.x & 31u) != 0) return;                                           \
        sums[2 * channel] = sum;                                                        \
        sums[2 * channel + 1] = dot;                                                    \
        weight_grad[channel] = sb_clean((T)dot);                                        \
        bias_grad[channel] = sb_clean((T)sum);                                          \
    }

// level: Portable - the tree of the contract, one warp per channel
SB_BATCH_NORM_SUMS(batch_norm_sums_f32, float)
SB_BATCH_NORM_SUMS(batch_norm_sums_f64, double)

template <typename T>
__device__ __forceinline__ void sb_batch_norm_input_grad(T* out, const T* grad, const T* in,
                                                         const T* scaled, const T* weight,
                                                         const double* sums, const SbBatch& p) {
    u64 sample = p.channels * p.spatial;
    sb_in_planes(p.n, sample, [&](auto count, u64 first, u64 i) {
        const int N = decltype(count)::value;
        u64 c = i / p.spatial;
        u64 start = first * sample + i;
        double terms = (double)(p.n * p.spatial);
        T mean_grad = (T)(sums[2 * c] / terms);
        T mean_dot = (T)(sums[2 * c + 1] / terms);
        SbScaled<T> by = sb_scaled_at(scaled, c);
        T factor = weight[c] * by.rstd;
        T x[N], g[N];
        sb_load_planes(x, in + start, sample);
        sb_load_planes(g, grad + start, sample);
#pragma unroll
        for (int k = 0; k < N; ++k)
            g[k] = sb_norm_grad(g[k], sb_normalised(by, x[k]), mean_grad, mean_dot, factor,
                                by.scale);
        sb_store_planes(out + start, g, sample);
    });
}

// level: Portable - one thread owns one output
extern "C" __global__ void batch_norm_input_grad_f32(float* out, const float* grad, const float* in,
                                                     const float* scaled, const float* weight,
                                                     const double* sums, SbBatch p) {
    sb_batch_norm_input_grad<float>(out, grad, in, scaled, weight, sums, p);
}

// level: Portable - one thread owns one output
extern "C" __global__ void batch_norm_input_grad_f64(double* out, const double* grad,
                                                     const double* in, const double* scaled,
                                                     const double* weight, const double* sums,
                                                     SbBatch p) {
    sb_batch_norm_input_grad<double>(out, grad, in, scaled, weight, sums, p);
}

// ---- Layer normalisation -----------------------------------------------------------------

template <typename T>
__device__ __forceinline__ void sb_layer_norm(T* out, T* mean, T* rstd, const T* in,
                                              const T* weight, const T* bias, u64 rows, u64 width,
                                              double eps) {
    u64 row = sb_thread() / 32;
    if (row >= rows) return;
    const T* x = in + row * width;
    double count = (double)width;
    double m = sb_tree(width, [=](u64 i) { return (double)x[i]; }) / count;
    double v = sb_tree(width, [=](u64 i) {
        double deviation = (double)x[i] - m;
        return deviation * deviation;
    }) / count;
    SbNormal found =
        sb_mended<T>(sb_normal(m, v, eps, 1.0), width, eps, [=](u64 i) { return x[i]; });
    SbScaled<T> by = sb_scaled<T>(found);
    u32 me = threadIdx.x & 31u;
    if (me == 0) {
        mean[row] = sb_clean((T)(found.mean / found.scale));
        rstd[row] = sb_clean((T)(found.rstd * found.scale));
    }
    for (u64 i = me; i < width; i += 32) {
        out[row * width + i] = sb_clean(sb_fma(sb_normalised(by, x[i]), weight[i], bias[i]));
    }
}

// level: Portable - one warp owns one row
extern "C" __global__ void layer_norm_f32(float* out, float* mean, float* rstd, const float* in,
                                          const float* weight, const float* bias, u64 rows,
                                          u64 width, double eps) {
    sb_layer_norm<float>(out, mean, rstd, in, weight, bias, rows, width, eps);
}

// level: Portable - one warp owns one row
extern "C" __global__ void layer_norm_f64(double* out, double* mean, double* rstd, const double* in,
                                          const double* weight, const double* bias, u64 rows,
                                          u64 width, double eps) {
    sb_layer_norm<double>(out, mean, rstd, in, weight, bias, rows, width, eps);
}

// Also writes what the elements of each row meet.
template <typename T>
__device__ __forceinline__ void sb_layer_norm_input_grad(T* out, T* scaled, const T* grad,
                                                         const T* in, const T* weight,
                                                         const T* mean, const T* rstd, u64 rows,
                                                         u64 width, double eps) {
    u64 row = sb_thread() / 32;
    if (row >= rows) return;
    const T* x = in + row * width;
    const T* g = grad + row * width;
    SbScaled<T> by = sb_scaled<T>(
        sb_known<T>(mean[row], rstd[row], width, eps, [=](u64 i) { return x[i]; }));
    double sum = sb_tree(width, [=](u64 i) { return (double)(g[i] * weight[i]); });
    double dot = sb_tree(width, [=](u64 i) {
        return (double)(g[i] * weight[i]) * (double)sb_normalised(by, x[i]);
    });
    T mean_grad = (T)(sum / (double)width);
    T mean_dot = (T)(dot / (double)width);
    u32 me = threadIdx.x & 31u;
    if (me == 0) sb_put_scaled(scaled, row, by);
    for (u64 i = me; i < width; i += 32) {
        out[row * width + i] = sb_norm_grad(g[i] * weight[i], sb_normalised(by, x[i]), mean_grad,
                                            mean_dot, by.rstd, by.scale);
    }
}

// level: Portable - one warp owns one row
extern "C" __global__ void layer_norm_input_grad_f32(float* out, float* scaled, const float* grad,
                                                     const float* in, const float* weight,
                                                     const float* mean, const float* rstd, u64 rows,
                                                     u64 width, double eps) {
    sb_layer_norm_input_grad<float>(out, scaled, grad, in, weight, mean, rstd, rows, width, eps);
}

// level: Portable - one warp owns one row
extern "C" __global__ void layer_norm_input_grad_f64(double* out, double* scaled,
                                                     const double* grad, const double* in,
                                                     const double* weight, const double* mean,
                                                     const double* rstd, u64 rows, u64 width,
                                                     double eps) {
    sb_layer_norm_input_grad<double>(out, scaled, grad, in, weight, mean, rstd, rows, width, eps);
}

// Sums of g * h and of g down blocks of rows; `partials` is [2, blocks, width].
#define SB_LAYER_NORM_COLUMNS(NAME, T)                                                  \
    extern "C" __global__ void NAME(double* partials, const T* grad, const T* in,       \
                                    const T* scaled, u64 rows, u64 width, u64 blocks) { \
        __shared__ SbColumns<2> shared;                                                 \
        u64 per_block = (width + SB_COLUMNS - 1) / SB_COLUMNS;                          \
        u64 block = blockIdx.x / per_block;                                             \
        u64 column = blockIdx.x % per_block * SB_COLUMNS + threadIdx.x;                 \
        bool inside = column < width;                                                   \
        SbTerms<2> sums =                                                               \
            sb_column_block<2>(shared, block * SB_TREE_BLOCK, rows, inside, [=](u64 row) { \
                double g = (double)grad[row * width + column];                          \
                T h = sb_normalised(sb_scaled_at(scaled, row), in[row * width + column]); \
                return SbTerms<2>{{g * (double)h, g}};                                  \
            });                                                                         \
        if (threadIdx.y != 0 || !inside) return;                                        \
        partials[block * width + column] = sums.of[0];                                  \
        partials[(blocks + block) * width + column] = sums.of[1];                       \
    }

// level: Portable - the tree of the contract, its lanes in the threads of a column
SB_LAYER_NORM_COLUMNS(layer_norm_columns_f32, float)
SB_LAYER_NORM_COLUMNS(layer_norm_columns_f64, double)

#define SB_LAYER_NORM_WEIGHT_GRAD(NAME, T)                                              \
    extern "C" __global__ void NAME(T* weight_grad, T* bias_grad, const double* sums,   \
                                    u64 width) {                                        \
        u64 column = sb_thread();                                                       \
        if (column >= width) return;                                                    \
        weight_grad[column] = sb_clean((T)sums[column]);                                \
        bias_grad[column] = sb_clean((T)sums[width + column]);                          \
    }

// level: Portable - one thread owns one output
SB_LAYER_NORM_WEIGHT_GRAD(layer_norm_weight_grad_f32, float)
SB_LAYER_NORM_WEIGHT_GRAD(layer_norm_weight_grad_f64, double)

// ---- Root mean square normalisation ------------------------------------------------------

// The elements of a row that a lane of its warp keeps.
template <typename T>
constexpr int SB_RMS_HELD = 128 / (int)sizeof(T);

// The larger of two numbers, the first if the second is NaN.
template <typename T>
__device__ __forceinline__ T sb_larger(T a, T b) {
    return b > a ? b : a;
}

template <typename T>
__device__ __forceinline__ T sb_magnitude(T x) {
    return x < (T)0 ? -x : x;
}

// 2 to the power of -log.
__device__ __forceinline__ float sb_rms_power(float, i32 log) {
    return __uint_as_float((u32)(127 - log) << 23);
}
__device__ __forceinline__ double sb_rms_power(double, i32 log) {
    return __longlong_as_double((i64)(1023 - log) << 52);
}

// The power of two that a row is multiplied with, by its largest magnitude or a larger number.
template <typename T>
__device__ __noinline__ T sb_rms_factor(T size) {
    T reach = sizeof(T) == 8 ? (T)800 : (T)100;
    T log = sb_log2(size);
    log = log > reach ? reach : log < -reach ? -reach : log;
    i32 whole = (i32)log;
    if ((T)whole > log) whole -= 1;
    return sb_rms_power(log, whole);
}

// The same from the largest magnitude of each lane of a warp.
template <typename T>
__device__ __forceinline__ T sb_rms_row_factor(T most, double eps) {
#pragma unroll
    for (u32 w = 16; w >= 1; w /= 2) most = sb_larger(most, sb_shuffle_down(most, w));
    return sb_rms_factor(sb_larger((T)__dsqrt_rn(eps), sb_shuffle_first(most)));
}

template <typename T>
__device__ __forceinline__ T sb_rms_rstd(double sum, u64 width, double eps, T factor) {
    return sb_clean(sb_rsqrt((T)(sum / (double)width) + (T)eps * factor * factor));
}

template <typename T>
__device__ __forceinline__ void sb_rms_norm(T* out, T* factor, T* rstd, const T* in,
                                            const T* weight, u32 weighted, u64 rows, u64 width,
                                            double eps) {
    const int HELD = SB_RMS_HELD<T>;
    u64 row = sb_thread() / 32;
    if (row >= rows) return;
    const T* x = in + row * width;
    u32 me = threadIdx.x & 31u;
    T most = (T)0;
    T f, r;
    if (width <= 32 * HELD) {
        T held[HELD];
#pragma unroll
        for (int k = 0; k < HELD; ++k) {
            held[k] = (T)0;
            if (me + 32 * k < width) held[k] = x[me + 32 * k];
        }
#pragma unroll
        for (int k = 0; k < HELD; ++k) most = sb_larger(most, sb_magnitude(held[k]));
        f = sb_rms_row_factor(most, eps);
        double lane = 0.0;
        // An element beyond the row adds +0.
#pragma unroll
        for (int k = 0; k < HELD; ++k) {
            held[k] = held[k] * f;
            if (32 * k < width) lane = lane + (double)(held[k] * held[k]);
        }
        r = sb_rms_rstd(sb_lanes(lane), width, eps, f);
#pragma unroll
        for (int k = 0; k < HELD; ++k) {
            u64 i = me + 32 * k;
            if (i >= width) continue;
            T y = held[k] * r;
            out[row * width + i] = sb_clean(weighted ? y * weight[i] : y);
        }
    } else {
        for (u64 i = me; i < width; i += 32) most = sb_larger(most, sb_magnitude(x[i]));
        f = sb_rms_row_factor(most, eps);
        double sum = sb_tree(width, [=](u64 i) {
            T s = x[i] * f;
            return (double)(s * s);
        });
        r = sb_rms_rstd(sum, width, eps, f);
        for (u64 i = me; i < width; i += 32) {
            T y = x[i] * f * r;
            out[row * width + i] = sb_clean(weighted ? y * weight[i] : y);
        }
    }
    if (me == 0) {
        factor[row] = f;
        rstd[row] = r;
    }
}

// level: Portable - one warp owns one row
extern "C" __global__ void rms_norm_f32(float* out, float* factor, float* rstd, const float* in,
                                        const float* weight, u32 weighted, u64 rows, u64 width,
                                        double eps) {
    sb_rms_norm<float>(out, factor, rstd, in, weight, weighted, rows, width, eps);
}

// level: Portable - one warp owns one row
extern "C" __global__ void rms_norm_f64(double* out, double* factor, double* rstd, const double* in,
                                        const double* weight, u32 weighted, u64 rows, u64 width,
                                        double eps) {
    sb_rms_norm<double>(out, factor, rstd, in, weight, weighted, rows, width, eps);
}

// (g * rstd + share * (s * 2)) * factor, with s = x * factor.
template <typename T>
__device__ __forceinline__ T sb_rms_grad(T g, T s, T rstd, T share, T factor) {
    return sb_clean((g * rstd + share * (s * (T)2)) * factor);
}

// What each element of a row gets through the mean of squares, from the sum of g * s.
template <typename T>
__device__ __forceinline__ T sb_rms_share(T dot, u64 width, T rstd) {
    return dot * (rstd * rstd * rstd * (T)-0.5) * (T)(1.0 / (double)width);
}

template <typename T>
__device__ __forceinline__ void sb_rms_norm_input_grad(T* out, const T* grad, const T* in,
                                                       const T* weight, u32 weighted,
                                                       const T* factor, const T* rstd, u64 rows,
                                                       u64 width) {
    const int HELD = SB_RMS_HELD<T>;
    u64 row = sb_thread() / 32;
    if (row >= rows) return;
    const T* x = in + row * width;
    const T* g = grad + row * width;
    T f = factor[row];
    T r = rstd[row];
    u32 me = threadIdx.x & 31u;
    if (width == 1) {
        // Without a sum, which would lose the sign of a zero.
        if (me != 0) return;
        T of = weighted ? g[0] * weight[0] : g[0];
        out[row] = sb_rms_grad(of, x[0] * f, r, sb_rms_share(of * (x[0] * f), width, r), f);
    } else if (width <= 32 * HELD) {
        T s[HELD], of[HELD];
#pragma unroll
        for (int k = 0; k < HELD; ++k) {
            u64 i = me + 32 * k;
            s[k] = (T)0;
            of[k] = (T)0;
            if (i >= width) continue;
            s[k] = x[i];
            of[k] = g[i];
        }
        double lane = 0.0;
        // An element beyond the row adds +0.
#pragma unroll
        for (int k = 0; k < HELD; ++k) {
            u64 i = me + 32 * k;
            if (weighted && i < width) of[k] = of[k] * weight[i];
            s[k] = s[k] * f;
            if (32 * k < width) lane = lane + (double)(of[k] * s[k]);
        }
        T share = sb_rms_share((T)sb_lanes(lane), width, r);
#pragma unroll
        for (int k = 0; k < HELD; ++k) {
            u64 i = me + 32 * k;
            if (i < width) out[row * width + i] = sb_rms_grad(of[k], s[k], r, share, f);
        }
    } else {
        double sum = sb_tree(width, [=](u64 i) {
            T of = weighted ? g[i] * weight[i] : g[i];
            return (double)(of * (x[i] * f));
        });
        T share = sb_rms_share((T)sum, width, r);
        for (u64 i = me; i < width; i += 32) {
            T of = weighted ? g[i] * weight[i] : g[i];
            out[row * width + i] = sb_rms_grad(of, x[i] * f, r, share, f);
        }
    }
}

// A block of 512 threads fits the registers.
#define SB_RMS_NORM_INPUT_GRAD(NAME, T)                                                 \
    extern "C" __launch_bounds__(512) __global__ void NAME(                             \
        T* out, const T* grad, const T* in, const T* weight, u32 weighted, const T* factor, \
        const T* rstd, u64 rows, u64 width) {                                           \
        sb_rms_norm_input_grad<T>(out, grad, in, weight, weighted, factor, rstd, rows, width); \
    }

// level: Portable - one warp owns one row
SB_RMS_NORM_INPUT_GRAD(rms_norm_input_grad_f32, float)
SB_RMS_NORM_INPUT_GRAD(rms_norm_input_grad_f64, double)

// Sums of grad * (s * rstd) down the rows of each lane of the tree of a column: [blocks, lanes, width].
// `start` is +0, or -0 for an only row that is not summed.
#define SB_RMS_NORM_LANES(NAME, T)                                                      \
    extern "C" __global__ void NAME(double* out, const T* grad, const T* in,            \
                                    const T* factor, const T* rstd, u64 rows, u64 width, \
                                    double start) {                                     \
        const int AHEAD = 8;                                                            \
        u64 groups = (width + SB_COLUMNS - 1) / SB_COLUMNS;                             \
        u64 column = blockIdx.x % groups * SB_COLUMNS + threadIdx.x;                    \
        u64 number = blockIdx.x / groups * SB_COLUMN_THREADS + threadIdx.y;             \
        u64 block = number / 32 * SB_TREE_BLOCK;                                        \
        u64 i = block + number % 32;                                                    \
        if (column >= width || i >= rows) return;                                       \
        u64 end = rows - block < SB_TREE_BLOCK ? rows : block + SB_TREE_BLOCK;          \
        auto term = [=](u64 row) {                                                      \
            u64 at = row * width + column;                                              \
            return grad[at] * (in[at] * factor[row] * rstd[row]);                       \
        };                                                                              \
        double sum = start;                                                             \
        for (; i + 32 * (AHEAD - 1) < end; i += 32 * AHEAD) {                           \
            T terms[AHEAD];                                                             \
            _Pragma("unroll") for (int k = 0; k < AHEAD; ++k) terms[k] = term(i + 32 * k); \
            _Pragma("unroll") for (int k = 0; k < AHEAD; ++k) sum = sum + (double)terms[k]; \
        }                                                                               \
        for (; i < end; i += 32) sum = sum + (double)term(i);                           \
        out[number * width + column] = sum;                                             \
    }

// level: Portable - one thread adds the terms of a lane of the tree in order
SB_RMS_NORM_LANES(rms_norm_lanes_f32, float)
SB_RMS_NORM_LANES(rms_norm_lanes_f64, double)

// Halves the lanes of each block of a column's tree: [blocks, width].
// level: Portable - one thread halves the lanes of one block
extern "C" __global__ void rms_norm_halves(double* out, const double* lanes, u64 rows, u64 width,
                                           u64 blocks) {
    u64 at = sb_thread();
    if (at >= blocks * width) return;
    u64 block = at / width;
    u64 column = at - block * width;
    double lane[32];
#pragma unroll
    for (int l = 0; l < 32; ++l) {
        lane[l] = 0.0;
        if (block * SB_TREE_BLOCK + l < rows) lane[l] = lanes[(block * 32 + l) * width + column];
    }
#pragma unroll
    for (int w = 16; w >= 1; w /= 2) {
#pragma unroll
        for (int l = 0; l < w; ++l) lane[l] = lane[l] + lane[l + w];
    }
    out[at] = lane[0];
}

#define SB_RMS_NORM_WEIGHT_GRAD(NAME, T)                                                \
    extern "C" __global__ void NAME(T* out, const double* sums, u64 width) {            \
        u64 column = sb_thread();                                                       \
        if (column < width) out[column] = sb_clean((T)sums[column]);                    \
    }

// level: Portable - one thread owns one output
SB_RMS_NORM_WEIGHT_GRAD(rms_norm_weight_grad_f32, float)
SB_RMS_NORM_WEIGHT_GRAD(rms_norm_weight_grad_f64, double)
