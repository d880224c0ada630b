// Sizes and coordinates of planes of three dimensions; missing ones have size 1.
#pragma once

#include "samebits.cuh"

__device__ __forceinline__ u64 sb_volume(const u32* size) {
    return (u64)size[0] * (u64)size[1] * (u64)size[2];
}

// Coordinates of element i of a plane.
__device__ __forceinline__ void sb_coordinates(u64 i, const u32* size, u32* at) {
    at[2] = (u32)(i % size[2]);
    i /= size[2];
    at[1] = (u32)(i % size[1]);
    at[0] = (u32)(i / size[1]);
}

// Planes of which a thread takes one place each, so that what depends on the place alone is worked out
// once and several elements are read at a time. Planes that are left over are taken one by one:
// `device::plane_threads` counts the threads.
#define SB_PLANES 8

template <int N>
struct SbCount {
    static constexpr int value = N;
};

// Calls `body(count, first, place)`: place `place` of `count` planes from `first` on.
template <typename Body>
__device__ __forceinline__ void sb_in_planes(u64 planes, u64 volume, Body body) {
    u64 i = sb_thread();
    u64 groups = planes / SB_PLANES;
    if (i >= (groups + planes % SB_PLANES) * volume) return;
    u64 group = i / volume;
    u64 place = i - group * volume;
    if (group < groups) {
        body(SbCount<SB_PLANES>(), group * SB_PLANES, place);
    } else {
        body(SbCount<1>(), groups * SB_PLANES + (group - groups), place);
    }
}

// The elements of N planes that lie `step` apart, from that of the first on.
template <typename T, int N>
__device__ __forceinline__ void sb_load_planes(T (&v)[N], const T* x, u64 step) {
#pragma unroll
    for (int k = 0; k < N; ++k) v[k] = x[k * step];
}

// Stores them, NaNs as the canonical one.
template <typename T, int N>
__device__ __forceinline__ void sb_store_planes(T* out, const T (&v)[N], u64 step) {
#pragma unroll
    for (int k = 0; k < N; ++k) out[k * step] = sb_clean(v[k]);
}

// Adds them times `weight`, each by one fma.
template <typename T, int N>
__device__ __forceinline__ void sb_fma_planes(T (&sum)[N], const T* x, u64 step, T weight) {
    T v[N];
    sb_load_planes(v, x, step);
#pragma unroll
    for (int k = 0; k < N; ++k) sum[k] = sb_fma(v[k], weight, sum[k]);
}
