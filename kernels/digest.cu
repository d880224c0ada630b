// Sums of terms for the digests of ledgers: one term for each word of eight bytes.

#include "samebits.cuh"

#define SB_K0 0x9E3779B97F4A7C15ull
#define SB_K1 0xD1B54A32D192ED03ull
// Words that one thread takes.
#define SB_WORDS 16

// Adds the terms of `blocks` blocks of `block` words of the `n` elements: one in each part, the last
// at the end. An element of more than `infinity`, without its sign, is NaN and counts as `quiet`.
template <typename T>
__device__ __forceinline__ void sb_digest(u64* sum, const T* x, u64 n, u64 blocks, u64 block,
                                          u64 infinity, u64 quiet) {
    const u64 each = 8 / sizeof(T);
    const u32 bits = 8 * sizeof(T);
    __shared__ u64 local;
    if (threadIdx.x == 0) local = 0;
    __syncthreads();
    u64 words = (n + each - 1) / each;
    u64 places = block ? words / blocks / block : 0;
    u64 mine = 0;
    for (u32 k = 0; k < SB_WORDS; k++) {
        u64 i = ((u64)blockIdx.x * SB_WORDS + k) * (u64)blockDim.x + threadIdx.x;
        if (i >= blocks * block) break;
        u64 b = i / block;
        u64 place = __umul64hi(((b * (SB_K0 >> 32)) & 0xffffffffull) << 32, places);
        u64 at = (b + 1 == blocks ? words - block : (b * places + place) * block) + i % block;
        u64 word = 0;
        for (u32 e = 0; e < each; e++) {
            if (at * each + e >= n) break;
            u64 element = x[at * each + e];
            if ((element & (~0ull >> (65 - bits))) > infinity) element = quiet;
            word |= element << (e * bits);
        }
        u64 v = word ^ (SB_K0 + at * SB_K1);
        mine += (v & 0xffffffffull) * (v >> 32) + (v << 32 | v >> 32);
    }
    atomicAdd(&local, mine);
    __syncthreads();
    if (threadIdx.x == 0) atomicAdd(sum, local);
}

#define SB_DIGEST(name, T)                                                                 \
    extern "C" __global__ void name(u64* sum, const T* x, u64 n, u64 blocks, u64 block,    \
                                    u64 infinity, u64 quiet) {                             \
        sb_digest<T>(sum, x, n, blocks, block, infinity, quiet);                           \
    }

// level: Portable - integer atomics commute
SB_DIGEST(digest_b8, unsigned char)
SB_DIGEST(digest_b16, unsigned short)
SB_DIGEST(digest_b32, u32)
SB_DIGEST(digest_b64, u64)
