// What every algorithm for a convolution starts from: its parameters, the written order of its
// sums, and coordinates. Missing dimensions have size 1.
//
// The order: k runs over channels and then the kernel, row-major; taps in the padding are skipped;
// within each block of 256 consecutive k, skipped ones counted, acc = fma(w, x, acc) from +0; the
// blocks are added in ascending order. The weight gradient's k runs over the batch and the output
// positions, in blocks of 1024.
#pragma once

#include "planes.cuh"
#include "declared/conv.cuh"

#define SB_K_BLOCK 256u
#define SB_WEIGHT_BLOCK 1024ull

// A chain of fused multiply-adds, cut into blocks that are added in ascending order.
template <typename T>
struct SbChain {
    T total;
    T acc;
    u32 left;
    bool any;
};

template <typename T>
__device__ __forceinline__ void sb_chain_start(SbChain<T>* chain) {
    chain->total = (T)0;
    chain->acc = (T)0;
    chain->left = SB_K_BLOCK;
    chain->any = false;
}

template <typename T>
__device__ __forceinline__ void sb_chain_flush(SbChain<T>* chain) {
    chain->total = chain->any ? chain->total + chain->acc : chain->acc;
    chain->any = true;
    chain->acc = (T)0;
    chain->left = SB_K_BLOCK;
}

// Moves on by one k.
template <typename T>
__device__ __forceinline__ void sb_chain_next(SbChain<T>* chain) {
    chain->left -= 1;
    if (chain->left == 0) sb_chain_flush(chain);
}

template <typename T>
__device__ __forceinline__ T sb_chain_end(SbChain<T>* chain) {
    if (chain->left != SB_K_BLOCK) sb_chain_flush(chain);
    return sb_clean(chain->total);
}

// Where output position o meets input position i through a tap, if it does.
__device__ __forceinline__ bool sb_meets(const SbConv& p, int d, u32 i, u32 tap, u32* o) {
    i64 distance = (i64)i + p.padding[d] - (i64)tap * p.dilation[d];
    if (distance < 0 || distance % p.stride[d] != 0) return false;
    i64 place = distance / p.stride[d];
    *o = (u32)place;
    return place < (i64)p.output[d];
}
