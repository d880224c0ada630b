// Normalisation of groups of channels. A group of a sample is a row, whose elements are consecutive.

#include "planes.cuh"
#include "normal.cuh"
#include "declared/group_norm.cuh"

// (h + 0) * weight + bias, each operation rounded. The samples are the planes.
template <typename T>
__device__ __forceinline__ void sb_group_normalize(T* out, const T* in, const T* scaled,
                                                   const T* weight, const T* bias,
                                                   const SbGroups& p) {
    u64 sample = p.groups * p.channels * p.spatial;
    sb_in_planes(p.n, sample, [&](auto count, u64 first, u64 i) {
        const int N = decltype(count)::value;
        u64 c = i / p.spatial;
        u64 row = first * p.groups + c / p.channels;
        u64 start = first * sample + i;
        T w = p.weighted != 0 ? weight[c] : (T)1;
        T b = p.biased != 0 ? bias[c] : (T)-0.0;
        T x[N];
        sb_load_planes(x, in + start, sample);
#pragma unroll
        for (int k = 0; k < N; ++k) {
            T h = sb_normalised(sb_scaled_at(scaled, row + k * p.groups), x[k]);
            x[k] = (h + (T)0) * w + b;
        }
        sb_store_planes(out + start, x, sample);
    });
}

// level: Portable - one thread owns one output
extern "C" __global__ void group_normalize_f32(float* out, const float* in, const float* scaled,
                                               const float* weight, const float* bias, SbGroups p) {
    sb_group_normalize<float>(out, in, scaled, weight, bias, p);
}

// level: Portable - one thread owns one output
extern "C" __global__ void group_normalize_f64(double* out, const double* in, const double* scaled,
                                               const double* weight, const double* bias,
                                               SbGroups p) {
    sb_group_normalize<double>(out, in, scaled, weight, bias, p);
}

template <typename T>
struct SbWeightedTerm {
    T grad;
    T x;
    T weight;
};

// Sums of g and of g * h per block of a row, with g the gradient times the weight, h what x is
// normalised to and the product in f64; `partials` is [rows, 2, blocks]. The first block of a row
// writes what elements meet.
#define SB_GROUP_NORM_BLOCKS(NAME, T)                                                   \
    extern "C" __global__ void NAME(double* partials, T* scaled, const T* grad, const T* in, \
                                    const T* weight, const T* mean, const T* rstd, SbGroups p, \
                                    u64 blocks, double eps) {                           \
        u64 warp = sb_thread() / 32;                                                    \
        u64 row = warp / blocks;                                                        \
        u64 first = warp % blocks * SB_TREE_BLOCK;                                      \
        if (row >= p.n * p.groups) return;                                              \
        u64 terms = p.channels * p.spatial;                                             \
        const T* x = in + row * terms;                                                  \
        const T* g = grad + row * terms;                                                \
        const T* w = weight + row % p.groups * p.channels;                              \
        SbScaled<T> by = sb_scaled<T>(                                                  \
            sb_known<T>(mean[row], rstd[row], terms, eps, [=](u64 t) { return x[t]; })); \
        SbTerms<2> sums = sb_tree_blocks<2>(                                            \
            first, terms,                                                               \
            [=](u64 t) {                                                                \
                T weight = p.weighted != 0 ? w[t / p.spatial] : (T)1;                   \
                return SbWeightedTerm<T>{g[t], x[t], weight};                           \
            },                                                                          \
            [=](const SbWeightedTerm<T>& t) {                                           \
                double g = (double)(t.grad * t.weight);                                 \
                return SbTerms<2>{{g, g * (double)sb_normalised(by, t.x)}};             \
            });                                                                         \
        if ((threadIdx.x & 31u) != 0) return;                                           \
        if (first == 0) sb_put_scaled(scaled, row, by);                                 \
        u64 at = 2 * row * blocks + first / SB_TREE_BLOCK;                              \
        partials[at] = sums.of[0];                                                      \
        partials[at + blocks] = sums.of[1];                                             \
    }

// level: Portable - the tree of the contract, one warp per block
SB_GROUP_NORM_BLOCKS(group_norm_blocks_f32, float)
SB_GROUP_NORM_BLOCKS(group_norm_blocks_f64, double)

// Both means of each row, rounded: `means` is [rows, 2].
#define SB_GROUP_NORM_MEANS(NAME, T)                                                    \
    extern "C" __global__ void NAME(T* means, const double* partials, u64 rows, u64 blocks, \
                                    u64 width) {                                        \
        u64 sum = sb_thread() / 32;                                                     \
        if (sum >= 2 * rows) return;                                                    \
        const double* of = partials + sum * blocks;                                     \
        double found = sb_tree(blocks, [=](u64 i) { return of[i]; });                   \
        if ((threadIdx.x & 31u) == 0) means[sum] = (T)(found / (double)width);          \
    }

// level: Portable - the tree of the contract, one warp per sum
SB_GROUP_NORM_MEANS(group_norm_means_f32, float)
SB_GROUP_NORM_MEANS(group_norm_means_f64, double)

// The gradient of the input; if there is a weight, also the gradient times (h + 0).
template <typename T>
__device__ __forceinline__ void sb_group_norm_input_grad(T* out, T* products, const T* grad,
                                                         const T* in, const T* scaled,
                                                         const T* weight, const T* means,
                                                         const SbGroups& p) {
    u64 sample = p.groups * p.channels * p.spatial;
    sb_in_planes(p.n, sample, [&](auto count, u64 first, u64 i) {
        const int N = decltype(count)::value;
        u64 c = i / p.spatial;
        u64 start = first * sample + i;
        T w = p.weighted != 0 ? weight[c] : (T)1;
        T x[N], g[N];
        sb_load_planes(x, in + start, sample);
        sb_load_planes(g, grad + start, sample);
#pragma unroll
        for (int k = 0; k < N; ++k) {
            u64 row = (first + k) * p.groups + c / p.channels;
            SbScaled<T> by = sb_scaled_at(scaled, row);
            T h = sb_normalised(by, x[k]);
            x[k] = g[k] * (h + (T)0);
            g[k] = sb_norm_grad(g[k] * w, h, means[2 * row], means[2 * row + 1], by.rstd, by.scale);
        }
        sb_store_planes(out + start, g, sample);
        if (p.weighted != 0) sb_store_planes(products + start, x, sample);
    });
}

// level: Portable - one thread owns one output
extern "C" __global__ void group_norm_input_grad_f32(float* out, float* products,
                                                     const float* grad, const float* in,
                                                     const float* scaled, const float* weight,
                                                     const float* means, SbGroups p) {
    sb_group_norm_input_grad<float>(out, products, grad, in, scaled, weight, means, p);
}

// level: Portable - one thread owns one output
extern "C" __global__ void group_norm_input_grad_f64(double* out, double* products,
                                                     const double* grad, const double* in,
                                                     const double* scaled, const double* weight,
                                                     const double* means, SbGroups p) {
    sb_group_norm_input_grad<double>(out, products, grad, in, scaled, weight, means, p);
}
