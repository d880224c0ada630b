// What every kernel starts from: short type names, the canonical NaN, index arithmetic and the
// report of a bad index.
//
// Rules for kernels declared Portable, which `cargo xtask audit-kernels` checks in the PTX:
// float arithmetic by +, -, *, / and sqrt in f32 or f64 (compiled with --fmad=false, so each is
// one rounding) or by __fmaf_rn and __fma_rn; atomics on integers only and, unless the kernel
// says why, without using what they return; no function of CUDA's math library.
#pragma once

typedef int i32;
typedef long long i64;
typedef unsigned int u32;
typedef unsigned long long u64;

// The one NaN that results carry.
__device__ __forceinline__ float sb_nan() { return __uint_as_float(0x7fc00000u); }
__device__ __forceinline__ double sb_nan64() { return __longlong_as_double(0x7ff8000000000000ll); }

__device__ __forceinline__ float sb_canonical(float x) { return x == x ? x : sb_nan(); }
__device__ __forceinline__ double sb_canonical64(double x) { return x == x ? x : sb_nan64(); }

// The same for either type.
__device__ __forceinline__ float sb_clean(float x) { return sb_canonical(x); }
__device__ __forceinline__ double sb_clean(double x) { return sb_canonical64(x); }
__device__ __forceinline__ float sb_root(float x) { return __fsqrt_rn(x); }
__device__ __forceinline__ double sb_root(double x) { return __dsqrt_rn(x); }
__device__ __forceinline__ float sb_fma(float a, float b, float c) { return __fmaf_rn(a, b, c); }
__device__ __forceinline__ double sb_fma(double a, double b, double c) { return __fma_rn(a, b, c); }

template <typename T>
__device__ __forceinline__ T sb_minus_infinity() {
    return (T)__uint_as_float(0xff800000u);
}

// The number of this thread in a one-dimensional launch.
__device__ __forceinline__ u64 sb_thread() {
    return (u64)blockIdx.x * (u64)blockDim.x + (u64)threadIdx.x;
}

// What a launch reports back: the lowest position at which it met a bad index, in a word of its op
// (all ones if none). `sb_note_bad` keeps that by an integer minimum, so the schedule cannot change
// it. The host looks up the index there; or, if it keeps too many, `status_collect` does. Its words: 0
// the number of the op that failed first (0 if none), 1 its position, 2 its index, 3 the size it had
// to be below; then the words of the ops.
#define SB_STATUS_REPORT 4

__device__ __forceinline__ void sb_note_bad(u64* status, u64 position) {
    atomicMin(status, position);
}

// True if `index` is in 0..size; notes `position` otherwise.
__device__ __forceinline__ bool sb_check(i64 index, u64 size, u64 position, u64* status) {
    bool fine = index >= 0 && (u64)index < size;
    if (!fine) sb_note_bad(status, position);
    return fine;
}

#include "declared/scatter.cuh"

