// Resizing by interpolation. Both directions are the same computation: each element is a
// weighted sum of a few others, its taps. The host computes the tables (positions in f64,
// weights rounded to f32), so that every device has the same ones.

#include "planes.cuh"
#include "declared/interpolate.cuh"

// From +0, taps in ascending place (row-major), each by one fma with (w_d * w_h) * w_w.
template <typename T>
__device__ __forceinline__ void sb_tap_sum(T* to, const T* from, const u32* starts,
                                           const u32* places, const T* weights, const SbTaps& p) {
    u64 plane = sb_volume(p.to);
    u64 step = sb_volume(p.from);
    sb_in_planes(p.planes, plane, [&](auto count, u64 first, u64 i) {
        const int N = decltype(count)::value;
        u32 at[3], begin[3], end[3];
        sb_coordinates(i, p.to, at);
        for (int d = 0; d < 3; ++d) {
            begin[d] = starts[p.base[d] + at[d]];
            end[d] = starts[p.base[d] + at[d] + 1];
        }
        const T* x = from + first * step;
        T sum[N] = {};
        for (u32 d = begin[0]; d < end[0]; ++d) {
            for (u32 h = begin[1]; h < end[1]; ++h) {
                const T* line = x + ((u64)places[d] * p.from[1] + places[h]) * p.from[2];
                T outer = weights[d] * weights[h];
                for (u32 w = begin[2]; w < end[2]; ++w) {
                    sb_fma_planes(sum, line + places[w], step, outer * weights[w]);
                }
            }
        }
        sb_store_planes(to + first * plane + i, sum, plane);
    });
}

// level: Portable - one thread owns one element and adds in a written order
extern "C" __global__ void tap_sum_f32(float* to, const float* from, const u32* starts,
                                       const u32* places, const float* weights, SbTaps p) {
    sb_tap_sum<float>(to, from, starts, places, weights, p);
}

// level: Portable - one thread owns one element and adds in a written order
extern "C" __global__ void tap_sum_f64(double* to, const double* from, const u32* starts,
                                       const u32* places, const double* weights, SbTaps p) {
    sb_tap_sum<double>(to, from, starts, places, weights, p);
}

// The gradient from the forward tables: each output adds to its taps in the order of arrival.
// level: NotGuaranteed - float atomics
extern "C" __global__ void tap_scatter_f32_atomic(float* grad_in, const float* grad,
                                                  const u32* starts, const u32* places,
                                                  const float* weights, SbTaps p) {
    u64 i = sb_thread();
    u64 plane = sb_volume(p.to);
    if (i >= p.planes * plane) return;
    u64 at = i % plane;
    const u32* row_w = starts + p.base[2] + at % p.to[2];
    const u32* row_h = starts + p.base[1] + at / p.to[2] % p.to[1];
    const u32* row_d = starts + p.base[0] + at / p.to[2] / p.to[1];
    float* x = grad_in + i / plane * sb_volume(p.from);
    for (u32 d = row_d[0]; d < row_d[1]; ++d) {
        for (u32 h = row_h[0]; h < row_h[1]; ++h) {
            float* line = x + ((u64)places[d] * p.from[1] + places[h]) * p.from[2];
            float outer = weights[d] * weights[h];
            for (u32 w = row_w[0]; w < row_w[1]; ++w) {
                atomicAdd(line + places[w], grad[i] * (outer * weights[w]));
            }
        }
    }
}
