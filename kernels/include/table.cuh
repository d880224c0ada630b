// Several tensors in one launch: a table has a row for each, and every block takes elements of one. Four
// elements of a thread are accessed as in fours.cuh, from any first element on.
#pragma once

#include "fours.cuh"
#include "declared/table.cuh"

// Several tensors in one launch: a block takes this many times four elements per thread of the tensor
// whose row says so.
#define SB_TURNS 4u

// The row of this block: the last one that begins at or before it.
__device__ __forceinline__ const SbRow* sb_row_of_block(const SbRow* rows, u32 count) {
    u32 low = 0;
    u32 high = count;
    while (high - low > 1) {
        u32 middle = low + (high - low) / 2;
        if (rows[middle].first_block <= blockIdx.x) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return rows + low;
}

// An operand of a row, in global memory: an assumption, because with __cvta_global_to_generic the compiler
// runs forever on a large kernel.
template <typename T>
__device__ __forceinline__ T* sb_operand(const SbRow* row, u32 which) {
    T* operand = (T*)row->operands[which];
    __builtin_assume(__isGlobal(operand));
    return operand;
}

// Calls `step(first)` for each first element of four per thread that this block takes of a row.
template <typename Step>
__device__ __forceinline__ void sb_turns(const SbRow* row, Step step) {
    u64 stride = 4 * (u64)blockDim.x;
    u64 first = (blockIdx.x - row->first_block) * SB_TURNS * stride;
    u64 end = first + SB_TURNS * stride;
    end = end < row->n ? end : row->n;
#pragma unroll 1
    for (; first < end; first += stride) step(first);
}

// True if four elements per thread exist from `first` on.
__device__ __forceinline__ bool sb_whole_from(u64 first, u64 n) {
    return first + 4 * (u64)blockDim.x <= n;
}

// As sb_packs of fours.cuh.
template <u32 W, typename Each>
__device__ __forceinline__ void sb_packs_from(u64 first, Each each) {
#pragma unroll 1
    for (u32 k = 0; k < 4; k += W) each(first + k * blockDim.x + W * threadIdx.x);
}

// As sb_singles of fours.cuh.
template <typename Each>
__device__ __forceinline__ void sb_singles_from(u64 first, u64 n, Each each) {
#pragma unroll 1
    for (u32 k = 0; k < 4; ++k) {
        u64 i = first + k * blockDim.x + threadIdx.x;
        if (i < n) each(i);
    }
}

// Writes by one access. An assignment of the pack would become several, because the compiler cannot tell
// that operands from a table do not overlap.
__device__ __forceinline__ void sb_write(float* to, SbPack<float, 4> x) {
    asm volatile("st.global.v4.f32 [%0], {%1, %2, %3, %4};"
                 :
                 : "l"(__cvta_generic_to_global(to)), "f"(x.of[0]), "f"(x.of[1]), "f"(x.of[2]),
                   "f"(x.of[3])
                 : "memory");
}
__device__ __forceinline__ void sb_write(unsigned short* to, SbPack<unsigned short, 4> x) {
    asm volatile("st.global.v4.u16 [%0], {%1, %2, %3, %4};"
                 :
                 : "l"(__cvta_generic_to_global(to)), "h"(x.of[0]), "h"(x.of[1]), "h"(x.of[2]),
                   "h"(x.of[3])
                 : "memory");
}
__device__ __forceinline__ void sb_write(double* to, SbPack<double, 2> x) {
    asm volatile("st.global.v2.f64 [%0], {%1, %2};"
                 :
                 : "l"(__cvta_generic_to_global(to)), "d"(x.of[0]), "d"(x.of[1])
                 : "memory");
}

// out[i] = f(in[i])
template <typename R, typename T, typename F>
__device__ __forceinline__ void sb_map_from(u64 first, R* out, const T* in, u64 n, F f) {
    constexpr u32 W = SB_PER_ACCESS(sizeof(R) > sizeof(T) ? sizeof(R) : sizeof(T));
    if (sb_whole_from(first, n) && sb_packed<W>(out) && sb_packed<W>(in)) {
        sb_packs_from<W>(first, [=](u64 at) {
            SbPack<T, W> x = sb_pack_at<W>(in, at);
            SbPack<R, W> y;
#pragma unroll
            for (u32 k = 0; k < W; ++k) y.of[k] = f(x.of[k]);
            sb_write(out + at, y);
        });
        return;
    }
    sb_singles_from(first, n, [=](u64 i) { out[i] = f(in[i]); });
}
