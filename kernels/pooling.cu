// Pooling over windows of one to three dimensions (missing ones have size 1), forward and
// backward.
//
// A maximum is the first largest element of its window in row-major order, NaN before all. An
// average adds its window in row-major order in f64 from +0, divides in f64 and rounds once.
// A gradient element takes the outputs whose windows cover it in ascending output index, each by
// one fma from +0: one thread owns it and knows those windows in closed form. A thread does so for
// the same place of several planes. The atomic forms have one thread per output and add in the order
// of arrival.

#include "planes.cuh"
#include "declared/pooling.cuh"

// The input position of a tap, or false if it is in the padding.
__device__ __forceinline__ bool sb_tap(const SbPool& p, int d, u32 o, u32 tap, u32* at) {
    i64 place = (i64)o * p.stride[d] + (i64)tap * p.dilation[d] - (i64)p.padding[d];
    *at = (u32)place;
    return place >= 0 && place < (i64)p.input[d];
}

// The outputs of dimension d whose window reaches over input position i, dilated or not.
__device__ __forceinline__ void sb_covering(const SbPool& p, int d, u32 i, u32* first, u32* end) {
    u64 padded = (u64)i + p.padding[d];
    u64 span = (u64)(p.kernel[d] - 1) * p.dilation[d] + 1;
    u64 from = padded + 1 > span ? (padded + 1 - span + p.stride[d] - 1) / p.stride[d] : 0;
    u64 to = padded / p.stride[d] + 1;
    if (to > p.output[d]) to = p.output[d];
    *first = (u32)from;
    *end = (u32)to;
}

// ---- Maximum -----------------------------------------------------------------------------

// Whether x goes before the best so far.
template <typename T>
__device__ __forceinline__ bool sb_replaces(T old, T x) {
    return x > old || (x != x && old == old);
}

// The best element so far of a window in each of N planes.
template <typename T, int N>
struct SbBest {
    T value[N];
    i64 place[N];
};

template <typename T, int N>
__device__ __forceinline__ void sb_best_start(SbBest<T, N>* best) {
#pragma unroll
    for (int k = 0; k < N; ++k) {
        best->value[k] = sb_minus_infinity<T>();
        best->place[k] = -1;
    }
}

// Compares with the elements at `here`.
template <typename T, int N>
__device__ __forceinline__ void sb_best_next(SbBest<T, N>* best, const T* x, u64 step, i64 here) {
    T v[N];
    sb_load_planes(v, x + here, step);
#pragma unroll
    for (int k = 0; k < N; ++k) {
        bool better = best->place[k] < 0 || sb_replaces(best->value[k], v[k]);
        best->value[k] = better ? v[k] : best->value[k];
        best->place[k] = better ? here : best->place[k];
    }
}

template <typename T, int N>
__device__ __forceinline__ void sb_best_end(const SbBest<T, N>& best, T* out, i64* indices,
                                            u64 step) {
#pragma unroll
    for (int k = 0; k < N; ++k) {
        out[k * step] = sb_clean(best.value[k]);
        indices[k * step] = best.place[k];
    }
}

template <typename T>
__device__ __forceinline__ void sb_max_pool(T* out, i64* indices, const T* in, const SbPool& p) {
    u64 plane = sb_volume(p.output);
    u64 step = sb_volume(p.input);
    sb_in_planes(p.planes, plane, [&](auto count, u64 first, u64 i) {
        u32 at[3];
        sb_coordinates(i, p.output, at);
        SbBest<T, decltype(count)::value> best;
        sb_best_start(&best);
        for (u32 a = 0; a < p.kernel[0]; ++a) {
            u32 d;
            if (!sb_tap(p, 0, at[0], a, &d)) continue;
            for (u32 b = 0; b < p.kernel[1]; ++b) {
                u32 h;
                if (!sb_tap(p, 1, at[1], b, &h)) continue;
                for (u32 c = 0; c < p.kernel[2]; ++c) {
                    u32 w;
                    if (!sb_tap(p, 2, at[2], c, &w)) continue;
                    i64 here = ((i64)d * p.input[1] + h) * p.input[2] + w;
                    sb_best_next(&best, in + first * step, step, here);
                }
            }
        }
        u64 o = first * plane + i;
        sb_best_end(best, out + o, indices + o, plane);
    });
}

// level: Portable - one thread owns one output
extern "C" __global__ void max_pool_f32(float* out, i64* indices, const float* in, SbPool p) {
    sb_max_pool<float>(out, indices, in, p);
}

// level: Portable - one thread owns one output
extern "C" __global__ void max_pool_f64(double* out, i64* indices, const double* in, SbPool p) {
    sb_max_pool<double>(out, indices, in, p);
}

template <typename T>
__device__ __forceinline__ void sb_max_pool_grad(T* grad_in, const T* grad, const i64* indices,
                                                 const SbPool& p) {
    u64 plane = sb_volume(p.input);
    u64 step = sb_volume(p.output);
    sb_in_planes(p.planes, plane, [&](auto count, u64 start, u64 i) {
        const int N = decltype(count)::value;
        u32 at[3], first[3], end[3];
        sb_coordinates(i, p.input, at);
        for (int d = 0; d < 3; ++d) sb_covering(p, d, at[d], &first[d], &end[d]);
        T sum[N] = {};
        for (u32 d = first[0]; d < end[0]; ++d) {
            for (u32 h = first[1]; h < end[1]; ++h) {
                for (u32 w = first[2]; w < end[2]; ++w) {
                    u64 o = start * step + ((u64)d * p.output[1] + h) * p.output[2] + w;
                    i64 from[N];
                    T g[N];
                    sb_load_planes(from, indices + o, step);
                    sb_load_planes(g, grad + o, step);
#pragma unroll
                    for (int k = 0; k < N; ++k) sum[k] = from[k] == (i64)i ? sum[k] + g[k] : sum[k];
                }
            }
        }
        sb_store_planes(grad_in + start * plane + i, sum, plane);
    });
}

// level: Portable - one thread owns one input position and adds in ascending output index
extern "C" __global__ void max_pool_grad_f32(float* grad_in, const float* grad, const i64* indices,
                                             SbPool p) {
    sb_max_pool_grad<float>(grad_in, grad, indices, p);
}

// level: Portable - one thread owns one input position and adds in ascending output index
extern "C" __global__ void max_pool_grad_f64(double* grad_in, const double* grad,
                                             const i64* indices, SbPool p) {
    sb_max_pool_grad<double>(grad_in, grad, indices, p);
}

// Any maximum pooling: adds each output's gradient where its index points; -1 is nowhere.
// level: NotGuaranteed - float atomics
extern "C" __global__ void max_pool_grad_f32_atomic(float* grad_in, const float* grad,
                                                    const i64* indices, u64 n, u64 out_plane,
                                                    u64 in_plane, u64* status) {
    u64 i = sb_thread();
    if (i >= n) return;
    i64 place = indices[i];
    if (place == -1) return;
    if (!sb_check(place, in_plane, i, status)) return;
    atomicAdd(grad_in + i / out_plane * in_plane + (u64)place, grad[i]);
}

// Places in the whole input: plane by plane; -1 stays.
// level: Portable - one thread owns one key
extern "C" __global__ void pool_keys(i64* keys, const i64* indices, u64 n, u64 out_plane,
                                     u64 in_plane, u64* status) {
    u64 i = sb_thread();
    if (i >= n) return;
    i64 place = indices[i];
    bool fine = place != -1 && sb_check(place, in_plane, i, status);
    keys[i] = fine ? (i64)(i / out_plane * in_plane) + place : -1;
}

// The gradient of an unpooling: each element is the one that its index names; -1 names none.
#define SB_UNPOOL_GRAD(NAME, T)                                                         \
    extern "C" __global__ void NAME(T* grad_in, const T* grad, const i64* indices, u64 n, \
                                    u64 in_plane, u64 out_plane, u64* status) {         \
        u64 i = sb_thread();                                                            \
        if (i >= n) return;                                                             \
        i64 place = indices[i];                                                         \
        bool fine = place != -1 && sb_check(place, out_plane, i, status);               \
        grad_in[i] = fine ? grad[i / in_plane * out_plane + (u64)place] : (T)0;         \
    }

// level: Portable - one thread owns one element, which is copied
SB_UNPOOL_GRAD(unpool_grad_b32, u32)
SB_UNPOOL_GRAD(unpool_grad_b64, u64)

// ---- Average -----------------------------------------------------------------------------

// What the window of output (d, h, w) is divided by.
__device__ __forceinline__ double sb_divisor(const SbPool& p, const u32* at) {
    if (p.fixed != 0) return (double)p.fixed;
    double count = 1.0;
    for (int d = 0; d < 3; ++d) {
        u64 start = (u64)at[d] * p.stride[d];
        u64 end = start + p.kernel[d];
        u64 low = p.include_pad ? 0 : p.padding[d];
        u64 high = (u64)p.input[d] + (p.include_pad ? 2ull * p.padding[d] : p.padding[d]);
        if (end > high) end = high;
        if (start < low) start = low;
        // At least one, so that an empty window gives 0 and not NaN.
        count = count * (double)(end > start ? end - start : 1);
    }
    return count;
}

// Adds the elements of N planes that lie `step` apart.
template <typename T, int N>
__device__ __forceinline__ void sb_add_planes(double (&sum)[N], const T* x, u64 step) {
    T v[N];
    sb_load_planes(v, x, step);
#pragma unroll
    for (int k = 0; k < N; ++k) sum[k] = sum[k] + (double)v[k];
}

// Divides the sums and rounds once.
template <typename T, int N>
__device__ __forceinline__ void sb_store_averages(T* out, const double (&sum)[N], double divisor,
                                                  u64 step) {
    T v[N];
#pragma unroll
    for (int k = 0; k < N; ++k) v[k] = (T)(sum[k] / divisor);
    sb_store_planes(out, v, step);
}

template <typename T>
__device__ __forceinline__ void sb_avg_pool(T* out, const T* in, const SbPool& p) {
    u64 plane = sb_volume(p.output);
    u64 step = sb_volume(p.input);
    sb_in_planes(p.planes, plane, [&](auto count, u64 first, u64 i) {
        const int N = decltype(count)::value;
        u32 at[3];
        sb_coordinates(i, p.output, at);
        const T* x = in + first * step;
        double sum[N] = {};
        for (u32 a = 0; a < p.kernel[0]; ++a) {
            u32 d;
            if (!sb_tap(p, 0, at[0], a, &d)) continue;
            for (u32 b = 0; b < p.kernel[1]; ++b) {
                u32 h;
                if (!sb_tap(p, 1, at[1], b, &h)) continue;
                for (u32 c = 0; c < p.kernel[2]; ++c) {
                    u32 w;
                    if (!sb_tap(p, 2, at[2], c, &w)) continue;
                    sb_add_planes(sum, x + (((u64)d * p.input[1] + h) * p.input[2] + w), step);
                }
            }
        }
        sb_store_averages(out + first * plane + i, sum, sb_divisor(p, at), plane);
    });
}

// level: Portable - one thread owns one output
extern "C" __global__ void avg_pool_f32(float* out, const float* in, SbPool p) {
    sb_avg_pool<float>(out, in, p);
}

// level: Portable - one thread owns one output
extern "C" __global__ void avg_pool_f64(double* out, const double* in, SbPool p) {
    sb_avg_pool<double>(out, in, p);
}

template <typename T>
__device__ __forceinline__ void sb_avg_pool_grad(T* grad_in, const T* grad, const SbPool& p) {
    u64 plane = sb_volume(p.input);
    u64 step = sb_volume(p.output);
    sb_in_planes(p.planes, plane, [&](auto count, u64 start, u64 i) {
        const int N = decltype(count)::value;
        u32 at[3], first[3], end[3], o[3];
        sb_coordinates(i, p.input, at);
        for (int d = 0; d < 3; ++d) sb_covering(p, d, at[d], &first[d], &end[d]);
        const T* g = grad + start * step;
        T sum[N] = {};
        for (o[0] = first[0]; o[0] < end[0]; ++o[0]) {
            for (o[1] = first[1]; o[1] < end[1]; ++o[1]) {
                for (o[2] = first[2]; o[2] < end[2]; ++o[2]) {
                    u64 here = ((u64)o[0] * p.output[1] + o[1]) * p.output[2] + o[2];
                    sb_fma_planes(sum, g + here, step, (T)1 / (T)sb_divisor(p, o));
                }
            }
        }
        sb_store_planes(grad_in + start * plane + i, sum, plane);
    });
}

// level: Portable - one thread owns one input position and adds in ascending output index
extern "C" __global__ void avg_pool_grad_f32(float* grad_in, const float* grad, SbPool p) {
    sb_avg_pool_grad<float>(grad_in, grad, p);
}

// level: Portable - one thread owns one input position and adds in ascending output index
extern "C" __global__ void avg_pool_grad_f64(double* grad_in, const double* grad, SbPool p) {
    sb_avg_pool_grad<double>(grad_in, grad, p);
}

// level: NotGuaranteed - float atomics
extern "C" __global__ void avg_pool_grad_f32_atomic(float* grad_in, const float* grad, SbPool p) {
    u64 i = sb_thread();
    u64 plane = sb_volume(p.output);
    if (i >= p.planes * plane) return;
    u32 at[3];
    sb_coordinates(i % plane, p.output, at);
    float* to = grad_in + i / plane * sb_volume(p.input);
    float share = grad[i] * (1.0f / (float)sb_divisor(p, at));
    for (u32 a = 0; a < p.kernel[0]; ++a) {
        u32 d;
        if (!sb_tap(p, 0, at[0], a, &d)) continue;
        for (u32 b = 0; b < p.kernel[1]; ++b) {
            u32 h;
            if (!sb_tap(p, 1, at[1], b, &h)) continue;
            for (u32 c = 0; c < p.kernel[2]; ++c) {
                u32 w;
                if (!sb_tap(p, 2, at[2], c, &w)) continue;
                atomicAdd(to + ((u64)d * p.input[1] + h) * p.input[2] + w, share);
            }
        }
    }
}

// ---- To a given size ---------------------------------------------------------------------

// Output o covers inputs floor(o * input / output) .. ceil((o + 1) * input / output).
__device__ __forceinline__ void sb_window(const SbAdaptive& p, int d, u32 o, u32* from, u32* to) {
    *from = (u32)((u64)o * p.input[d] / p.output[d]);
    *to = (u32)((((u64)o + 1) * p.input[d] + p.output[d] - 1) / p.output[d]);
}

// The outputs whose windows cover input i: the same formula with the sides exchanged.
__device__ __forceinline__ void sb_owners(const SbAdaptive& p, int d, u32 i, u32* from, u32* to) {
    *from = (u32)((u64)i * p.output[d] / p.input[d]);
    *to = (u32)((((u64)i + 1) * p.output[d] + p.input[d] - 1) / p.input[d]);
}

__device__ __forceinline__ double sb_count(const SbAdaptive& p, const u32* o) {
    u64 count = 1;
    for (int d = 0; d < 3; ++d) {
        u32 from, to;
        sb_window(p, d, o[d], &from, &to);
        count *= to - from;
    }
    return (double)count;
}

template <typename T>
__device__ __forceinline__ void sb_adaptive_avg_pool(T* out, const T* in, const SbAdaptive& p) {
    u64 plane = sb_volume(p.output);
    u64 step = sb_volume(p.input);
    sb_in_planes(p.planes, plane, [&](auto count, u64 first, u64 i) {
        const int N = decltype(count)::value;
        u32 at[3], from[3], to[3];
        sb_coordinates(i, p.output, at);
        for (int d = 0; d < 3; ++d) sb_window(p, d, at[d], &from[d], &to[d]);
        const T* x = in + first * step;
        double sum[N] = {};
        for (u32 d = from[0]; d < to[0]; ++d) {
            for (u32 h = from[1]; h < to[1]; ++h) {
                for (u32 w = from[2]; w < to[2]; ++w) {
                    sb_add_planes(sum, x + (((u64)d * p.input[1] + h) * p.input[2] + w), step);
                }
            }
        }
        sb_store_averages(out + first * plane + i, sum, sb_count(p, at), plane);
    });
}

// level: Portable - one thread owns one output
extern "C" __global__ void adaptive_avg_pool_f32(float* out, const float* in, SbAdaptive p) {
    sb_adaptive_avg_pool<float>(out, in, p);
}

// level: Portable - one thread owns one output
extern "C" __global__ void adaptive_avg_pool_f64(double* out, const double* in, SbAdaptive p) {
    sb_adaptive_avg_pool<double>(out, in, p);
}

template <typename T>
__device__ __forceinline__ void sb_adaptive_avg_pool_grad(T* grad_in, const T* grad,
                                                          const SbAdaptive& p) {
    u64 plane = sb_volume(p.input);
    u64 step = sb_volume(p.output);
    sb_in_planes(p.planes, plane, [&](auto count, u64 first, u64 i) {
        const int N = decltype(count)::value;
        u32 at[3], from[3], to[3], o[3];
        sb_coordinates(i, p.input, at);
        for (int d = 0; d < 3; ++d) sb_owners(p, d, at[d], &from[d], &to[d]);
        const T* g = grad + first * step;
        T sum[N] = {};
        for (o[0] = from[0]; o[0] < to[0]; ++o[0]) {
            for (o[1] = from[1]; o[1] < to[1]; ++o[1]) {
                for (o[2] = from[2]; o[2] < to[2]; ++o[2]) {
                    u64 here = ((u64)o[0] * p.output[1] + o[1]) * p.output[2] + o[2];
                    sb_fma_planes(sum, g + here, step, (T)1 / (T)sb_count(p, o));
                }
            }
        }
        sb_store_planes(grad_in + first * plane + i, sum, plane);
    });
}

// level: Portable - one thread owns one input position and adds in ascending output index
extern "C" __global__ void adaptive_avg_pool_grad_f32(float* grad_in, const float* grad,
                                                      SbAdaptive p) {
    sb_adaptive_avg_pool_grad<float>(grad_in, grad, p);
}

// level: Portable - one thread owns one input position and adds in ascending output index
extern "C" __global__ void adaptive_avg_pool_grad_f64(double* grad_in, const double* grad,
                                                      SbAdaptive p) {
    sb_adaptive_avg_pool_grad<double>(grad_in, grad, p);
}

// level: NotGuaranteed - float atomics
extern "C" __global__ void adaptive_avg_pool_grad_f32_atomic(float* grad_in, const float* grad,
                                                             SbAdaptive p) {
    u64 i = sb_thread();
    u64 plane = sb_volume(p.output);
    if (i >= p.planes * plane) return;
    u32 at[3], from[3], to[3];
    sb_coordinates(i % plane, p.output, at);
    for (int d = 0; d < 3; ++d) sb_window(p, d, at[d], &from[d], &to[d]);
    float* x = grad_in + i / plane * sb_volume(p.input);
    float share = grad[i] * (1.0f / (float)sb_count(p, at));
    for (u32 d = from[0]; d < to[0]; ++d) {
        for (u32 h = from[1]; h < to[1]; ++h) {
            for (u32 w = from[2]; w < to[2]; ++w) {
                atomicAdd(x + ((u64)d * p.input[1] + h) * p.input[2] + w, share);
            }
        }
    }
}

// The maximum of a box of each of N planes.
template <typename T, int N>
__device__ __forceinline__ void sb_box_max(SbBest<T, N>* best, const T* x, u64 step, const u32* size,
                                           const u32* from, const u32* to) {
    sb_best_start(best);
    for (u32 d = from[0]; d < to[0]; ++d) {
        for (u32 h = from[1]; h < to[1]; ++h) {
            for (u32 w = from[2]; w < to[2]; ++w) {
                sb_best_next(best, x, step, ((i64)d * size[1] + h) * size[2] + w);
            }
        }
    }
}

template <typename T>
__device__ __forceinline__ void sb_adaptive_max_pool(T* out, i64* indices, const T* in,
                                                     const SbAdaptive& p) {
    u64 plane = sb_volume(p.output);
    u64 step = sb_volume(p.input);
    sb_in_planes(p.planes, plane, [&](auto count, u64 first, u64 i) {
        u32 at[3], from[3], to[3];
        sb_coordinates(i, p.output, at);
        for (int d = 0; d < 3; ++d) sb_window(p, d, at[d], &from[d], &to[d]);
        SbBest<T, decltype(count)::value> best;
        sb_box_max(&best, in + first * step, step, p.input, from, to);
        u64 o = first * plane + i;
        sb_best_end(best, out + o, indices + o, plane);
    });
}

// level: Portable - one thread owns one output
extern "C" __global__ void adaptive_max_pool_f32(float* out, i64* indices, const float* in,
                                                 SbAdaptive p) {
    sb_adaptive_max_pool<float>(out, indices, in, p);
}

// level: Portable - one thread owns one output
extern "C" __global__ void adaptive_max_pool_f64(double* out, i64* indices, const double* in,
                                                 SbAdaptive p) {
    sb_adaptive_max_pool<double>(out, indices, in, p);
}

// ---- Fractional maximum ------------------------------------------------------------------

// Where the window of output o starts, from a sample in [0, 1).
template <typename T>
__device__ __forceinline__ u32 sb_fraction(u32 input, u32 output, u32 kernel, u32 o,
                                           T sample) {
    u32 last = input - kernel;
    if (o == output - 1) return last;
    double span = (double)(output - 1);
    double u = (double)sample;
    u64 start = (u64)(((double)o + u) * (double)last / span) - (u64)(u * (double)last / span);
    return start < last ? (u32)start : last;
}

template <typename T>
__device__ __forceinline__ void sb_fractional_max_pool(T* out, i64* indices, const T* in,
                                                       const T* samples, SbFractional p) {
    u64 i = sb_thread();
    u64 plane = sb_volume(p.output);
    if (i >= p.planes * plane) return;
    u32 at[3], from[3], to[3];
    sb_coordinates(i % plane, p.output, at);
    const T* sample = samples + i / plane * p.dims;
    for (int d = 0; d < 3; ++d) {
        // The samples of a plane are (W, H) in two dimensions, (D, H, W) in three.
        T u = p.dims == 3 ? sample[d] : (d == 0 ? (T)0 : sample[2 - d]);
        from[d] = sb_fraction(p.input[d], p.output[d], p.kernel[d], at[d], u);
        to[d] = from[d] + p.kernel[d];
    }
    SbBest<T, 1> best;
    sb_box_max(&best, in + i / plane * sb_volume(p.input), 0, p.input, from, to);
    sb_best_end(best, out + i, indices + i, 0);
}

// level: Portable - one thread owns one output
extern "C" __global__ void fractional_max_pool_f32(float* out, i64* indices, const float* in,
                                                   const float* samples, SbFractional p) {
    sb_fractional_max_pool<float>(out, indices, in, samples, p);
}

// level: Portable - one thread owns one output
extern "C" __global__ void fractional_max_pool_f64(double* out, i64* indices, const double* in,
                                                   const double* samples, SbFractional p) {
    sb_fractional_max_pool<double>(out, indices, in, samples, p);
}
