// Statistics of rows whose sums or squares leave the range: samebits_numerics::reduce::Normal.
#pragma once

#include "reduce.cuh"

// Neither infinite nor NaN.
__device__ __forceinline__ bool sb_within(double x) { return x - x == 0.0; }

// Statistics of a row times `scale`.
struct SbNormal {
    double mean;
    double variance;
    double rstd;
    double scale;
};

__device__ __forceinline__ SbNormal sb_normal(double mean, double variance, double eps,
                                              double scale) {
    return {mean, variance, 1.0 / __dsqrt_rn(variance + eps), scale};
}

// The power of two that a row is multiplied with, by its mean and the reciprocal of its standard
// deviation.
template <typename T>
__device__ __forceinline__ double sb_normal_scale(double mean, double rstd) {
    bool wide = sizeof(T) == 8;
    if (rstd < (wide ? 0x1p-450 : 0x1p-50)) return wide ? 0x1p-600 : 0x1p-90;
    bool tiny = rstd > (wide ? 0x1p450 : 0x1p50) && mean < 1.0 && mean > -1.0;
    return tiny ? (wide ? 0x1p600 : 0x1p90) : 1.0;
}

// The mean of n elements x(i) times `scale`, by one warp.
template <typename Element>
__device__ __noinline__ double sb_scaled_mean(u64 n, double scale, Element x) {
    return sb_tree<1>(n, [=](u64 i) { return (double)x(i) * scale; }) / (double)n;
}

template <typename Element>
__device__ __noinline__ SbNormal sb_normal_about(double mean, u64 n, double eps, double scale,
                                                 Element x) {
    double squares = sb_tree<1>(n, [=](u64 i) {
        double deviation = (double)x(i) * scale - mean;
        return deviation * deviation;
    });
    return sb_normal(mean, squares / (double)n, eps * scale * scale, scale);
}

// The mean of n elements whose sum leaves the range, at most the largest number.
template <typename Element>
__device__ __forceinline__ double sb_finite_mean(u64 n, Element x) {
    double mean = sb_scaled_mean(n, 0x1p-64, x);
    if (!sb_within(mean)) return mean;
    mean = mean * 0x1p64;
    if (sb_within(mean)) return mean;
    return mean < 0.0 ? -0x1.fffffffffffffp1023 : 0x1.fffffffffffffp1023;
}

// The statistics again, if those of the unscaled row left the range. `x(i)` are the n elements of a
// row of one warp.
template <typename T, typename Element>
__device__ __forceinline__ SbNormal sb_mended(SbNormal plain, u64 n, double eps, Element x) {
    bool wide = sizeof(T) == 8;
    double high = wide ? 0x1p450 : 0x1p50;
    if (plain.rstd >= 1.0 / high && plain.rstd <= high) return plain;
    if (!sb_within(plain.mean)) {
        plain = sb_normal_about(sb_finite_mean(n, x), n, eps, 1.0, x);
    }
    double scale = sb_normal_scale<T>(plain.mean, plain.rstd);
    if (scale == 1.0) return plain;
    return sb_normal_about(sb_scaled_mean(n, scale, x), n, eps, scale, x);
}

// The same of which mean and rstd, rounded, are known.
template <typename T, typename Element>
__device__ __forceinline__ SbNormal sb_known(T mean, T rstd, u64 n, double eps, Element x) {
    double scale = sb_normal_scale<T>((double)mean, (double)rstd);
    if (scale == 1.0) return {(double)mean, 0.0, (double)rstd, 1.0};
    return sb_normal_about(sb_scaled_mean(n, scale, x), n, eps, scale, x);
}

// The statistics rounded to the type of the elements, as elements meet them: [rows, 3].
template <typename T>
struct SbScaled {
    T mean;
    T rstd;
    T scale;
};

template <typename T>
__device__ __forceinline__ SbScaled<T> sb_scaled(const SbNormal& normal) {
    return {sb_clean((T)normal.mean), sb_clean((T)normal.rstd), (T)normal.scale};
}

template <typename T>
__device__ __forceinline__ SbScaled<T> sb_scaled_at(const T* scaled, u64 row) {
    return {scaled[3 * row], scaled[3 * row + 1], scaled[3 * row + 2]};
}

template <typename T>
__device__ __forceinline__ void sb_put_scaled(T* out, u64 row, const SbScaled<T>& scaled) {
    out[3 * row] = scaled.mean;
    out[3 * row + 1] = scaled.rstd;
    out[3 * row + 2] = scaled.scale;
}

template <typename T>
__device__ __forceinline__ T sb_normalised(const SbScaled<T>& by, T x) {
    return sb_fma(x, by.scale, -by.mean) * by.rstd;
}

// fma(-h, mean of gh, g - mean of g) * factor * scale.
template <typename T>
__device__ __forceinline__ T sb_norm_grad(T g, T h, T mean_grad, T mean_dot, T factor, T scale) {
    return sb_clean(sb_fma(-h, mean_dot, g - mean_grad) * factor * scale);
}
