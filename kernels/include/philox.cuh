// Philox4x32 with 10 rounds: samebits_rng::Philox4x32 on the device.
#pragma once

#include "samebits.cuh"

struct SbBlock {
    u32 word[4];
};

template <int ROUNDS>
__device__ __forceinline__ SbBlock sb_philox_rounds(u32 k0, u32 k1, u32 c0, u32 c1, u32 c2, u32 c3) {
#pragma unroll
    for (int round = 0; round < ROUNDS; ++round) {
        u64 p0 = (u64)0xd2511f53u * (u64)c0;
        u64 p1 = (u64)0xcd9e8d57u * (u64)c2;
        u32 n0 = (u32)(p1 >> 32) ^ c1 ^ k0;
        u32 n2 = (u32)(p0 >> 32) ^ c3 ^ k1;
        c0 = n0;
        c1 = (u32)p1;
        c2 = n2;
        c3 = (u32)p0;
        k0 += 0x9e3779b9u;
        k1 += 0xbb67ae85u;
    }
    return {{c0, c1, c2, c3}};
}

// Block `block` of stream `stream` under the key `seed`.
__device__ __forceinline__ SbBlock sb_philox(u64 seed, u64 stream, u64 block) {
    return sb_philox_rounds<10>((u32)seed, (u32)(seed >> 32), (u32)block, (u32)(block >> 32),
                                (u32)stream, (u32)(stream >> 32));
}
