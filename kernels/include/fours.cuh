// Four elements of a thread, by accesses of up to 16 bytes where all of a block's exist and begin at
// a multiple of them; elsewhere the threads of a block take single elements side by side.
#pragma once

#include "samebits.cuh"

// The elements of one access, if the largest type has so many bytes.
#define SB_PER_ACCESS(BYTES) ((BYTES) > 4 ? 2u : 4u)

template <typename T, u32 W>
struct __align__(W * sizeof(T)) SbPack {
    T of[W];
};

// True if `W` elements from here on can be accessed at once. A view may begin anywhere.
template <u32 W, typename T>
__device__ __forceinline__ bool sb_packed(const T* from) {
    return (u64)from % alignof(SbPack<T, W>) == 0;
}

template <u32 W, typename T>
__device__ __forceinline__ SbPack<T, W>& sb_pack_at(T* out, u64 at) {
    return *(SbPack<T, W>*)(out + at);
}
template <u32 W, typename T>
__device__ __forceinline__ const SbPack<T, W>& sb_pack_at(const T* in, u64 at) {
    return *(const SbPack<T, W>*)(in + at);
}

__device__ __forceinline__ u64 sb_first_of_block() {
    return (u64)blockIdx.x * (u64)blockDim.x * 4;
}

// True if all elements of this block exist.
__device__ __forceinline__ bool sb_whole_block(u64 n) {
    return sb_first_of_block() + 4 * (u64)blockDim.x <= n;
}

// Calls `each(i)` for the first element of each access of this thread. Not unrolled: the compiler
// then splits some accesses.
template <u32 W, typename Each>
__device__ __forceinline__ void sb_packs(Each each) {
#pragma unroll 1
    for (u32 k = 0; k < 4; k += W) {
        each(sb_first_of_block() + k * blockDim.x + W * threadIdx.x);
    }
}

// Calls `each(i)` for four elements of this thread, or as many of them as exist.
template <typename Each>
__device__ __forceinline__ void sb_singles(u64 n, Each each) {
#pragma unroll 1
    for (u32 k = 0; k < 4; ++k) {
        u64 i = sb_first_of_block() + k * blockDim.x + threadIdx.x;
        if (i < n) each(i);
    }
}

// out[i] = f(in[i])
template <typename R, typename T, typename F>
__device__ __forceinline__ void sb_map(R* out, const T* in, u64 n, F f) {
    constexpr u32 W = SB_PER_ACCESS(sizeof(R) > sizeof(T) ? sizeof(R) : sizeof(T));
    if (sb_whole_block(n) && sb_packed<W>(out) && sb_packed<W>(in)) {
        sb_packs<W>([=](u64 at) {
            SbPack<T, W> x = sb_pack_at<W>(in, at);
            SbPack<R, W> y;
#pragma unroll
            for (u32 k = 0; k < W; ++k) y.of[k] = f(x.of[k]);
            sb_pack_at<W>(out, at) = y;
        });
        return;
    }
    sb_singles(n, [=](u64 i) { out[i] = f(in[i]); });
}

// Elements of a row.
template <u32 W, typename T>
__device__ __forceinline__ SbPack<T, W> sb_pack_of_row(const T* from, i64 stride) {
    if (stride == 1 && sb_packed<W>(from)) return sb_pack_at<W>(from, 0);
    SbPack<T, W> pack;
#pragma unroll
    for (u32 k = 0; k < W; ++k) pack.of[k] = from[(i64)k * stride];
    return pack;
}
