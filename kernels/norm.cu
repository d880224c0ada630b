// Batch and layer normalisation. Statistics run in f64 over the fixed tree, in the logical order
// of their terms, and are rounded to f32 once.

#include "reduce.cuh"
#include "declared/norm.cuh"

// The place of term t of a channel: samples one after the other.
__device__ __forceinline__ u64 sb_term(const SbBatch& p, u64 channel, u64 t) {
    u64 sample = t / p.spatial;
    return (sample * p.channels + channel) * p.spatial + (t - sample * p.spatial);
}

// Mean, biased variance and 1 / sqrt(variance + eps) of each channel.
template <typename T>
__device__ __forceinline__ void sb_batch_statistics(T* mean, T* variance, T* rstd, const T* in,
                                                    SbBatch p, double eps) {
    u64 channel = sb_thread() / 32;
    if (channel >= p.channels) return;
    u64 terms = p.n * p.spatial;
    double count = (double)terms;
    double m = sb_tree(terms, [=](u64 t) { return (double)in[sb_term(p, channel, t)]; }) / count;
    double v = sb_tree(terms, [=](u64 t) {
        double deviation = (double)in[sb_term(p, channel, t)] - m;
        return deviation * deviation;
    }) / count;
    if ((threadIdx.x & 31u) != 0) return;
    mean[channel] = sb_clean((T)m);
    variance[channel] = sb_clean((T)v);
    rstd[channel] = sb_clean((T)(1.0 / __dsqrt_rn(v + eps)));
}

// level: Portable - one warp owns one channel
extern "C" __global__ void batch_statistics_f32(float* mean, float* variance, float* rstd,
                                                const float* in, SbBatch p, double eps) {
    sb_batch_statistics<float>(mean, variance, rstd, in, p, eps);
}

// level: Portable - one warp owns one channel
extern "C" __global__ void batch_statistics_f64(double* mean, double* variance, double* rstd,
                                                const double* in, SbBatch p, double eps) {
    sb_batch_statistics<double>(mean, variance, rstd, in, p, eps);
}

template <typename T>
__device__ __forceinline__ void sb_rstd(T* out, const T* variance, u64 n, double eps) {
    u64 i = sb_thread();
    if (i < n) out[i] = sb_clean((T)(1.0 / __dsqrt_rn((double)variance[i] + eps)));
}

// level: Portable - one thread owns one output
extern "C" __global__ void rstd_f32(float* out, const float* variance, u64 n, double eps) {
    sb_rstd<float>(out, variance, n, eps);
}

// level: Portable - one thread owns one output
extern "C" __global__ void rstd_f64(double* out, const double* variance, u64 n, double eps) {
    sb_rstd<double>(out, variance, n, eps);
}

// fma((x - mean) * rstd, weight, bias).
template <typename T>
__device__ __forceinline__ void sb_batch_normalize(T* out, const T* in, const T* mean,
                                                   const T* rstd, const T* weight, const T* bias,
                                                   SbBatch p) {
    u64 i = sb_thread();
    if (i >= p.n * p.channels * p.spatial) return;
    u64 c = i / p.spatial % p.channels;
    out[i] = sb_clean(sb_fma((in[i] - mean[c]) * rstd[c], weight[c], bias[c]));
}

// level: Portable - one thread owns one output
extern "C" __global__ void batch_normalize_f32(float* out, const float* in, const float* mean,
                                               const float* rstd, const float* weight,
                                               const float* bias, SbBatch p) {
    sb_batch_normalize<float>(out, in, mean, rstd, weight, bias, p);
}

// level: Portable - one thread owns one output
extern "C" __global__ void batch_normalize_f64(double* out, const double* in, const double* mean,
                                               const double* rstd, const double* weight,
                                               const double* bias, SbBatch p) {
    sb_batch_normalize<double>(out, in, mean, rstd, weight, bias, p);
}

// Sums of g and of g * h per channel, with h = (x - mean) * rstd and the product in f64;
// `sums` is [channels, 2], unrounded.
template <typename T>
__device__ __forceinline__ void sb_batch_norm_sums(double* sums, T* weight_grad, T* bias_grad,
                                                   const T* grad, const T* in, const T* mean,
                                                   const T* rstd, SbBatch p) {
    u64 channel = sb_thread() / 32;
    if (channel >= p.channels) return;
    u64 terms = p.n * p.spatial;
    T m = mean[channel];
    T r = rstd[channel];
    double sum = sb_tree(terms, [=](u64 t) { return (double)grad[sb_term(p, channel, t)]; });
    double dot = sb_tree(terms, [=](u64 t) {
        u64 i = sb_term(p, channel, t);
        return (double)grad[i] * (double)((in[i] - m) * r);
    });
    if ((threadIdx.x & 31u) != 0) return;
    sums[2 * channel] = sum;
    sums[2 * channel + 1] = dot;
    weight_grad[channel] = sb_clean((T)dot);
    bias_grad[channel] = sb_clean((T)sum);
}

// level: Portable - one warp owns one channel
extern "C" __global__ void batch_norm_sums_f32(double* sums, float* weight_grad, float* bias_grad,
                                               const float* grad, const float* in,
                                               const float* mean, const float* rstd, SbBatch p) {
    sb_batch_norm_sums<float>(sums, weight_grad, bias_grad, grad, in, mean, rstd, p);
}

// level: Portable - one warp owns one channel
extern "C" __global__ void batch_norm_sums_f64(double* sums, double* weight_grad, double* bias_grad,
                                               const double* grad, const double* in,
                                               const double* mean, const double* rstd, SbBatch p) {
    sb_batch_norm_sums<double>(sums, weight_grad, bias_grad, grad, in, mean, rstd, p);
}

// fma(-h, mean of gh, g - mean of g) * scale.
template <typename T>
__device__ __forceinline__ T sb_norm_grad(T g, T h, T mean_grad, T mean_dot,
                                          T scale) {
    return sb_clean(sb_fma(-h, mean_dot, g - mean_grad) * scale);
}

template <typename T>
__device__ __forceinline__ void sb_batch_norm_input_grad(T* out, const T* grad, const T* in,
                                                         const T* mean, const T* rstd,
                                                         const T* weight, const double* sums,
                                                         SbBatch p) {
    u64 i = sb_thread();
    if (i >= p.n * p.channels * p.spatial) return;
    u64 c = i / p.spatial % p.channels;
    double count = (double)(p.n * p.spatial);
    T h = (in[i] - mean[c]) * rstd[c];
    out[i] = sb_norm_grad(grad[i], h, (T)(sums[2 * c] / count),
                          (T)(sums[2 * c + 1] / count), weight[c] * rstd[c]);
}

// level: Portable - one thread owns one output
extern "C" __global__ void batch_norm_input_grad_f32(float* out, const float* grad, const float* in,
                                                     const float* mean, const float* rstd,
                                                     const float* weight, const double* sums,
                                                     SbBatch p) {
    sb_batch_norm_input_grad<float>(out, grad, in, mean, rstd, weight, sums, p);
}

// level: Portable - one thread owns one output
extern "C" __global__ void batch_norm_input_grad_f64(double* out, const double* grad,
                                                     const double* in, const double* mean,
                                                     const double* rstd, const double* weight,
                                                     const double* sums, SbBatch p) {
    sb_batch_norm_input_grad<double>(out, grad, in, mean, rstd, weight, sums, p);
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
    T mr = sb_clean((T)m);
    T rr = sb_clean((T)(1.0 / __dsqrt_rn(v + eps)));
    u32 me = threadIdx.x & 31u;
    if (me == 0) {
        mean[row] = mr;
        rstd[row] = rr;
    }
    for (u64 i = me; i < width; i += 32) {
        out[row * width + i] = sb_clean(sb_fma((x[i] - mr) * rr, weight[i], bias[i]));
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

template <typename T>
__device__ __forceinline__ void sb_layer_norm_input_grad(T* out, const T* grad, const T* in,
                                                         const T* weight, const T* mean,
                                                         const T* rstd, u64 rows, u64 width) {
    u64 row = sb_thread() / 32;
    if (row >= rows) return;
    const T* x = in + row * width;
    const T* g = grad + row * width;
    T m = mean[row];
    T r = rstd[row];
    double sum = sb_tree(width, [=](u64 i) { return (double)(g[i] * weight[i]); });
    double dot = sb_tree(width, [=](u64 i) {
        return (double)(g[i] * weight[i]) * (double)((x[i] - m) * r);
    });
    T mean_grad = (T)(sum / (double)width);
    T mean_dot = (T)(dot / (double)width);
    for (u64 i = threadIdx.x & 31u; i < width; i += 32) {
        out[row * width + i] =
            sb_norm_grad(g[i] * weight[i], (x[i] - m) * r, mean_grad, mean_dot, r);
    }
}

// level: Portable - one warp owns one row
extern "C" __global__ void layer_norm_input_grad_f32(float* out, const float* grad, const float* in,
                                                     const float* weight, const float* mean,
                                                     const float* rstd, u64 rows, u64 width) {
    sb_layer_norm_input_grad<float>(out, grad, in, weight, mean, rstd, rows, width);
}

// level: Portable - one warp owns one row
extern "C" __global__ void layer_norm_input_grad_f64(double* out, const double* grad,
                                                     const double* in, const double* weight,
                                                     const double* mean, const double* rstd,
                                                     u64 rows, u64 width) {
    sb_layer_norm_input_grad<double>(out, grad, in, weight, mean, rstd, rows, width);
}

template <typename T>
__device__ __forceinline__ void sb_layer_norm_weight_grad(T* weight_grad, T* bias_grad,
                                                          const T* grad, const T* in, const T* mean,
                                                          const T* rstd, u64 rows, u64 width) {
    u64 column = sb_thread() / 32;
    if (column >= width) return;
    double dot = sb_tree(rows, [=](u64 row) {
        u64 i = row * width + column;
        return (double)grad[i] * (double)((in[i] - mean[row]) * rstd[row]);
    });
    double sum = sb_tree(rows, [=](u64 row) { return (double)grad[row * width + column]; });
    if ((threadIdx.x & 31u) != 0) return;
    weight_grad[column] = sb_clean((T)dot);
    bias_grad[column] = sb_clean((T)sum);
}

// level: Portable - one warp owns one column
extern "C" __global__ void layer_norm_weight_grad_f32(float* weight_grad, float* bias_grad,
                                                      const float* grad, const float* in,
                                                      const float* mean, const float* rstd,
                                                      u64 rows, u64 width) {
    sb_layer_norm_weight_grad<float>(weight_grad, bias_grad, grad, in, mean, rstd, rows, width);
}

// level: Portable - one warp owns one column
extern "C" __global__ void layer_norm_weight_grad_f64(double* weight_grad, double* bias_grad,
                                                      const double* grad, const double* in,
                                                      const double* mean, const double* rstd,
                                                      u64 rows, u64 width) {
    sb_layer_norm_weight_grad<double>(weight_grad, bias_grad, grad, in, mean, rstd, rows, width);
}
