// Batch and layer normalisation. Statistics run in f64 over the fixed tree, in the logical order
// of their terms, and are rounded to f32 once. A row is normalised as fma(x, scale, -mean) * rstd:
// mean and rstd are those of the elements times `scale`, which is 1 for ordinary numbers.

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

// fma(-h, mean of gh, g - mean of g) * factor * scale.
template <typename T>
__device__ __forceinline__ T sb_norm_grad(T g, T h, T mean_grad, T mean_dot, T factor, T scale) {
    return sb_clean(sb_fma(-h, mean_dot, g - mean_grad) * factor * scale);
}

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
