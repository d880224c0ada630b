// Padding of up to three dimensions (missing ones have size 1 and no padding): constant, reflect,
// replicate, circular. A negative amount cuts off; circular padding wraps what is left.
//
// A gradient element takes the outputs that copied it in ascending output index, from +0: one
// thread owns it and knows them in closed form. The atomic form has one thread per output.

#include "planes.cuh"
#include "declared/padding.cuh"

// The input positions of dimension d that are copied to other places too: circular padding does not
// know what is cut off.
struct SbKept {
    i64 first;
    i64 size;
};

__device__ __forceinline__ SbKept sb_kept(const SbPad& p, int d) {
    i64 n = p.input[d];
    if (p.mode != SB_PAD_MODE_CIRCULAR) return {0, n};
    i64 before = p.before[d];
    i64 after = (i64)p.output[d] - n - before;
    i64 first = before < 0 ? -before : 0;
    return {first, n - first + (after < 0 ? after : 0)};
}

// The input position that output o of dimension d copies, or -1.
__device__ __forceinline__ i64 sb_copied(const SbPad& p, int d, u32 o) {
    SbKept kept = sb_kept(p, d);
    i64 n = kept.size;
    i64 i = (i64)o - p.before[d];
    if (i >= kept.first && i < kept.first + n) return i;
    if (p.mode == SB_PAD_MODE_CONSTANT) return -1;
    if (p.mode == SB_PAD_MODE_REFLECT) return i < 0 ? -i : 2 * (n - 1) - i;
    if (p.mode == SB_PAD_MODE_REPLICATE) return i < 0 ? 0 : n - 1;
    i = (i - kept.first) % n;
    return kept.first + (i < 0 ? i + n : i);
}

// The place in the input plane that an output copies, or -1.
__device__ __forceinline__ i64 sb_copied_place(const SbPad& p, u64 o) {
    u32 at[3];
    sb_coordinates(o, p.output, at);
    i64 place = 0;
    for (int d = 0; d < 3; ++d) {
        i64 i = sb_copied(p, d, at[d]);
        if (i < 0) return -1;
        place = place * p.input[d] + i;
    }
    return place;
}

template <typename T>
__device__ __forceinline__ void sb_pad(T* out, const T* in, const SbPad& p, T value) {
    u64 plane = sb_volume(p.output);
    u64 step = sb_volume(p.input);
    sb_in_planes(p.planes, plane, [&](auto count, u64 first, u64 i) {
        const int N = decltype(count)::value;
        i64 place = sb_copied_place(p, i);
        T v[N];
#pragma unroll
        for (int k = 0; k < N; ++k) v[k] = value;
        if (place >= 0) sb_load_planes(v, in + first * step + place, step);
#pragma unroll
        for (int k = 0; k < N; ++k) out[(first + k) * plane + i] = v[k];
    });
}

#define SB_PAD(NAME, T)                                                                 \
    extern "C" __global__ void NAME(T* out, const T* in, SbPad p, T value) {            \
        sb_pad<T>(out, in, p, value);                                                   \
    }

// level: Portable - one thread owns one output
SB_PAD(pad_b8, unsigned char)
SB_PAD(pad_b16, unsigned short)
SB_PAD(pad_b32, u32)
SB_PAD(pad_b64, u64)

// The outputs of dimension d that copy input i, ascending: start + k * step for k below count,
// or a list where they are mirror images.
struct SbCopies {
    u32 start;
    u32 step;
    u32 count;
    bool listed;
    u32 list[3];
};

__device__ __forceinline__ SbCopies sb_copies(const SbPad& p, int d, u32 i) {
    SbCopies c;
    i64 n = p.input[d];
    i64 out = p.output[d];
    i64 before = p.before[d];
    i64 here = before + i;
    c.listed = p.mode == SB_PAD_MODE_REFLECT;
    c.start = 0;
    c.step = 1;
    c.count = 0;
    for (int k = 0; k < 3; ++k) c.list[k] = 0;
    if (c.listed) {
        // The image in the left border, the element itself, the image in the right border.
        i64 places[3] = {before - i, here, before + 2 * (n - 1) - i};
#pragma unroll
        for (int k = 0; k < 3; ++k) {
            bool image = k == 1 || (k == 0 ? i > 0 : i < n - 1);
            bool border = k == 1 || (k == 0 ? places[k] < before : places[k] >= before + n);
            if (image && border && places[k] >= 0 && places[k] < out) {
                c.list[c.count] = (u32)places[k];
                c.count += 1;
            }
        }
        return c;
    }
    i64 first = here;
    i64 last = here;
    if (p.mode == SB_PAD_MODE_REPLICATE) {
        if (i == 0) first = 0;
        if (i == n - 1) last = out - 1;
        if (first < 0) first = 0;
        if (last >= out) last = out - 1;
    } else if (p.mode == SB_PAD_MODE_CIRCULAR) {
        SbKept kept = sb_kept(p, d);
        if (i < kept.first || i >= kept.first + kept.size) return c;
        first = here % kept.size;
        if (first < 0) first += kept.size;
        last = out - 1;
        c.step = (u32)kept.size;
    }
    if (first >= 0 && first < out && last >= first && last < out) {
        c.start = (u32)first;
        c.count = (u32)((last - first) / c.step) + 1;
    }
    return c;
}

__device__ __forceinline__ u32 sb_copy(const SbCopies& c, u32 k) {
    return c.listed ? c.list[k] : c.start + k * c.step;
}

template <typename T>
__device__ __forceinline__ void sb_pad_grad(T* grad_in, const T* grad, const SbPad& p) {
    u64 plane = sb_volume(p.input);
    u64 step = sb_volume(p.output);
    sb_in_planes(p.planes, plane, [&](auto count, u64 first, u64 i) {
        const int N = decltype(count)::value;
        u32 at[3];
        sb_coordinates(i, p.input, at);
        SbCopies a = sb_copies(p, 0, at[0]);
        SbCopies b = sb_copies(p, 1, at[1]);
        SbCopies c = sb_copies(p, 2, at[2]);
        T sum[N] = {};
        for (u32 d = 0; d < a.count; ++d) {
            for (u32 h = 0; h < b.count; ++h) {
                u64 line = ((u64)sb_copy(a, d) * p.output[1] + sb_copy(b, h)) * p.output[2];
                for (u32 w = 0; w < c.count; ++w) {
                    const T* g = grad + first * step + line + sb_copy(c, w);
                    T v[N];
                    sb_load_planes(v, g, step);
#pragma unroll
                    for (int k = 0; k < N; ++k) sum[k] = sum[k] + v[k];
                }
            }
        }
        sb_store_planes(grad_in + first * plane + i, sum, plane);
    });
}

// level: Portable - one thread owns one input position and adds in ascending output index
extern "C" __global__ void pad_grad_f32(float* grad_in, const float* grad, SbPad p) {
    sb_pad_grad<float>(grad_in, grad, p);
}

// level: Portable - one thread owns one input position and adds in ascending output index
extern "C" __global__ void pad_grad_f64(double* grad_in, const double* grad, SbPad p) {
    sb_pad_grad<double>(grad_in, grad, p);
}

// level: NotGuaranteed - float atomics
extern "C" __global__ void pad_grad_f32_atomic(float* grad_in, const float* grad, SbPad p) {
    u64 i = sb_thread();
    u64 plane = sb_volume(p.output);
    if (i >= p.planes * plane) return;
    i64 place = sb_copied_place(p, i % plane);
    if (place >= 0) atomicAdd(grad_in + i / plane * sb_volume(p.input) + (u64)place, grad[i]);
}
