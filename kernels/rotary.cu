// Rotary position embedding.

#include "samebits.cuh"
#include "declared/rotary.cuh"

// (a cos - b sin, b cos + a sin), each operation rounded. A thread computes a pair, or copies one of
// the features that do not turn.
template <typename T>
__device__ __forceinline__ void sb_rotary(T* out, const T* x, const T* cos, const T* sin,
                                          const SbRotary& p) {
    u64 thread = sb_thread();
    u64 each = p.width - p.half;
    u64 row = thread / each;
    u64 i = thread % each;
    if (row >= p.rows) return;
    x += row * p.width;
    out += row * p.width;
    if (i >= p.half) {
        out[p.half + i] = x[p.half + i];
        return;
    }
    u64 first = p.interleaved != 0 ? 2 * i : i;
    u64 second = p.interleaved != 0 ? 2 * i + 1 : p.half + i;
    u64 angle = row % p.length * p.half + i;
    T a = x[first];
    T b = x[second];
    T c = cos[angle];
    T s = sin[angle];
    T left = a * c - b * s;
    T right = b * c + a * s;
    out[first] = sb_clean(left);
    out[second] = sb_clean(right);
}

#define SB_ROTARY(NAME, T)                                                                   \
    extern "C" __global__ void NAME(T* out, const T* x, const T* cos, const T* sin, SbRotary p) { \
        sb_rotary<T>(out, x, cos, sin, p);                                                   \
    }

// level: Portable - one thread owns a pair of outputs
SB_ROTARY(rotary_f32, float)
SB_ROTARY(rotary_f64, double)
