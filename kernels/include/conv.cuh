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

// The taps of one dimension through which an input position meets output positions, in ascending
// order: `first`, `first + step`, .. below `end`. The output position is `place` at the first and falls
// by `back` at each following one.
struct SbTaps {
    u32 first;
    u32 step;
    u32 end;
    i64 place;
    i64 back;
};

__device__ __forceinline__ SbTaps sb_taps(const SbConv& p, int d, u32 i) {
    i64 stride = p.stride[d];
    i64 dilation = p.dilation[d];
    i64 distance = (i64)i + p.padding[d];
    // Taps that are `step` apart meet positions of the same remainder.
    i64 step = 1;
    while (step < p.kernel[d] && step * dilation % stride != 0) ++step;
    i64 first = 0;
    while (first < step && (distance - first * dilation) % stride != 0) ++first;
    SbTaps taps = {0, 1, 0, 0, 0};
    if (first == step) return taps;
    i64 back = step * dilation / stride;
    // Places begin below the end of the output, and end at 0.
    i64 least = distance - (i64)(p.output[d] - 1) * stride;
    if (first * dilation < least) {
        i64 missing = least - first * dilation;
        first += (missing + step * dilation - 1) / (step * dilation) * step;
    }
    i64 end = distance / dilation + 1;
    if (distance < 0 || p.output[d] == 0) end = 0;
    taps.first = (u32)(first < p.kernel[d] ? first : p.kernel[d]);
    taps.step = (u32)step;
    taps.end = (u32)(end < p.kernel[d] ? end : p.kernel[d]);
    taps.place = (distance - first * dilation) / stride;
    taps.back = back;
    return taps;
}

// Moves on to the block of k.
template <typename T>
__device__ __forceinline__ void sb_chain_to(SbChain<T>* chain, u32* block, u64 k) {
    for (u32 to = (u32)(k / SB_K_BLOCK); *block < to; ++*block) sb_chain_flush(chain);
}

// The sum over the taps in one plane of gradients that reach an input position; k of the plane's first
// tap is `k`.
template <typename T>
__device__ __forceinline__ void sb_chain_taps(SbChain<T>* chain, u32* block, u64 k, const SbConv& p,
                                              const SbTaps* taps, const T* grad, const T* weight) {
    i64 d = taps[0].place;
    for (u32 a = taps[0].first; a < taps[0].end; a += taps[0].step, d -= taps[0].back) {
        i64 h = taps[1].place;
        for (u32 b = taps[1].first; b < taps[1].end; b += taps[1].step, h -= taps[1].back) {
            u64 row = ((u64)a * p.kernel[1] + b) * p.kernel[2];
            const T* g = grad + (d * p.output[1] + h) * p.output[2] + taps[2].place;
            for (u32 e = taps[2].first; e < taps[2].end; e += taps[2].step, g -= taps[2].back) {
                sb_chain_to(chain, block, k + row + e);
                chain->acc = sb_fma(weight[row + e], *g, chain->acc);
            }
        }
    }
}

// The chain's sum of n products, the skipped ones counted.
template <typename T>
__device__ __forceinline__ T sb_chain_end_at(SbChain<T>* chain, u32* block, u64 n) {
    sb_chain_to(chain, block, n);
    if (n % SB_K_BLOCK != 0) sb_chain_flush(chain);
    return sb_clean(chain->total);
}
