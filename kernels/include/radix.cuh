// A stable sort by the digits of the keys, from the lowest one up. A digit has 8 bits. Bits that are
// the same in all keys of a line, of every line, belong to no digit if they lie between digits.
#pragma once

#include "select.cuh"

#define SB_RADIX 256u
#define SB_RADIX_THREADS 256u
#define SB_RADIX_WARPS 8u
// Elements of one thread, and of a block.
#define SB_RADIX_EACH 16u
#define SB_RADIX_TILE 4096u

// What a block shares while it ranks a tile.
struct SbRanks {
    // For each warp and digit the elements of the warp so far; then, where those of the warp begin.
    unsigned short counts[SB_RADIX_WARPS * SB_RADIX];
    // Where each digit begins in the tile.
    u32 firsts[SB_RADIX];
    u32 warps[SB_RADIX_WARPS];
};

// The lowest bit of a digit, and the number of digits; equal keys have one.
struct SbRadixPass {
    u32 shift;
    u32 passes;
};

__device__ __forceinline__ SbRadixPass sb_radix_pass(u64 differs, u32 pass) {
    SbRadixPass found = {0, 0};
    u32 from = 0;
    while (from < 64 && differs >> from != 0) {
        u32 low = from + (u32)__ffsll((i64)(differs >> from)) - 1;
        if (found.passes == pass) found.shift = low;
        ++found.passes;
        from = low + 8;
    }
    if (found.passes == 0) found.passes = 1;
    return found;
}

template <typename K>
__device__ __forceinline__ u32 sb_radix_digit(K key, u32 shift) {
    return (u32)(key >> shift) & (SB_RADIX - 1);
}

// Candidates of a line.
template <typename T>
struct SbCandidates {
    const T* in;
    const u32* picks;
};

template <typename T>
__device__ __forceinline__ SbCandidates<T> sb_candidates(const T* in, const u32* picks,
                                                         const SbSort& p, u64 line) {
    return {in + line / p.inner * p.source * p.inner + line % p.inner, picks + line * p.n};
}

template <typename T>
__device__ __forceinline__ u32 sb_position(const SbCandidates<T>& of, const SbSort& p, u32 i) {
    return p.picked ? of.picks[i] : i;
}

template <typename K, typename T>
__device__ __forceinline__ K sb_candidate(const SbCandidates<T>& of, const SbSort& p, u32 i) {
    K key = sb_key(of.in[sb_position(of, p, i) * p.inner]);
    return p.descending ? ~key : key;
}

// Adds the bits in which this thread's keys differ to those of the block.
template <typename K>
__device__ __forceinline__ void sb_add_differs(u64* differs, K mine) {
#pragma unroll
    for (u32 by = 16; by > 0; by /= 2) mine |= __shfl_xor_sync(0xffffffffu, mine, by);
    if ((threadIdx.x & 31u) == 0 && mine != 0) atomicOr(differs, (u64)mine);
}

// Element r of a thread is that of the tile at this place, if each thread has `each`.
__device__ __forceinline__ u32 sb_radix_place(u32 r, u32 each) {
    return threadIdx.x / 32 * (each * 32) + r * 32 + (threadIdx.x & 31u);
}

// Finds where each key of a tile goes if the tile is sorted by one digit: after the keys with lower
// digits, and of those with the same digit after those before it. That is written into the lower
// half of each tag.
template <typename K>
__device__ __forceinline__ void sb_radix_rank(u32* tags, const K* keys, u32 each, u32 shift,
                                              SbRanks* ranks) {
    u32 lane = threadIdx.x & 31u;
    u32 below = (1u << lane) - 1;
    unsigned short* mine = ranks->counts + threadIdx.x / 32 * SB_RADIX;
#pragma unroll
    for (u32 d = 0; d < SB_RADIX; d += 32) mine[d + lane] = 0;
    __syncwarp();
#pragma unroll
    for (u32 r = 0; r < SB_RADIX_EACH; ++r) {
        if (r >= each) break;
        u32 digit = sb_radix_digit(keys[r], shift);
        // The lanes with the same digit.
        u32 peers = 0xffffffffu;
#pragma unroll
        for (u32 b = 0; b < 8; ++b) {
            bool bit = (digit >> b & 1u) != 0;
            u32 vote = __ballot_sync(0xffffffffu, bit);
            peers &= bit ? vote : ~vote;
        }
        u32 before = mine[digit];
        __syncwarp();
        if ((peers & below) == 0) mine[digit] = (unsigned short)(before + __popc(peers));
        __syncwarp();
        tags[r] = (tags[r] & 0xffff0000u) + before + __popc(peers & below);
    }
    __syncthreads();
    u32 counts[SB_RADIX_WARPS];
    u32 sum = 0;
#pragma unroll
    for (u32 w = 0; w < SB_RADIX_WARPS; ++w) {
        counts[w] = sum;
        sum += ranks->counts[w * SB_RADIX + threadIdx.x];
    }
    u32 first = sb_sum_before(sum, ranks->warps);
    ranks->firsts[threadIdx.x] = first;
#pragma unroll
    for (u32 w = 0; w < SB_RADIX_WARPS; ++w) {
        ranks->counts[w * SB_RADIX + threadIdx.x] = (unsigned short)(first + counts[w]);
    }
    __syncthreads();
#pragma unroll
    for (u32 r = 0; r < SB_RADIX_EACH; ++r) {
        if (r < each) tags[r] += mine[sb_radix_digit(keys[r], shift)];
    }
}

// One block sorts one line of at most 4096 candidates; `write` gets the place of each in the sorted
// line, its key and its position.
template <typename K, typename T, typename Write>
__device__ __forceinline__ void sb_sort_line(const T* in, const u32* picks, const SbSort& p,
                                             Write write) {
    __shared__ SbRanks ranks;
    __shared__ K key[SB_RADIX_TILE];
    __shared__ unsigned short place[SB_RADIX_TILE];
    __shared__ u64 differs;
    SbCandidates<T> of = sb_candidates(in, picks, p, blockIdx.x);
    u32 count = (u32)p.n;
    u32 each = (count + SB_RADIX_THREADS - 1) / SB_RADIX_THREADS;
    u32 start = sb_radix_place(0, each);
    K first = sb_candidate<K>(of, p, 0);
    if (threadIdx.x == 0) differs = 0;
    __syncthreads();
    K mine[SB_RADIX_EACH];
    // In the upper half the place of each key in the line.
    u32 tags[SB_RADIX_EACH];
    K bits = 0;
#pragma unroll
    for (u32 r = 0; r < SB_RADIX_EACH; ++r) {
        // Absent keys come last.
        u32 i = start + r * 32;
        mine[r] = ~(K)0;
        tags[r] = i << 16;
        if (r < each && i < count) {
            mine[r] = sb_candidate<K>(of, p, i);
            bits |= mine[r] ^ first;
        }
    }
    sb_add_differs<K>(&differs, bits);
    __syncthreads();
    u64 all = differs;
    u32 passes = sb_radix_pass(all, 0).passes;
#pragma unroll 1
    for (u32 pass = 0; pass < passes; ++pass) {
        sb_radix_rank<K>(tags, mine, each, sb_radix_pass(all, pass).shift, &ranks);
#pragma unroll
        for (u32 r = 0; r < SB_RADIX_EACH; ++r) {
            if (r >= each) break;
            key[tags[r] & 0xffffu] = mine[r];
            place[tags[r] & 0xffffu] = (unsigned short)(tags[r] >> 16);
        }
        __syncthreads();
#pragma unroll
        for (u32 r = 0; r < SB_RADIX_EACH; ++r) {
            if (r >= each) break;
            mine[r] = key[start + r * 32];
            tags[r] = (u32)place[start + r * 32] << 16;
        }
    }
#pragma unroll
    for (u32 r = 0; r < SB_RADIX_EACH; ++r) {
        u32 i = start + r * 32;
        if (r < each && i < count) write(i, mine[r], sb_position(of, p, tags[r] >> 16));
    }
}

// ---- Several blocks for each line --------------------------------------------------------
//
// A block has `part` elements of a line, whole tiles but for the last one. Keys and places move
// between the halves of their buffers, so that the last pass writes the first half. Pass 0 reads
// the candidates themselves.

template <typename T, typename K>
__device__ __forceinline__ void sb_radix_differs(u64* differs, const T* in, const u32* picks,
                                                 const SbSort& p) {
    __shared__ u64 shared;
    SbCandidates<T> of = sb_candidates(in, picks, p, blockIdx.x / p.parts);
    u64 start = blockIdx.x % p.parts * p.part;
    u64 end = sb_least(start + p.part, p.n);
    if (threadIdx.x == 0) shared = 0;
    __syncthreads();
    K first = sb_candidate<K>(of, p, 0);
    K bits = 0;
#pragma unroll 8
    for (u64 i = start + threadIdx.x; i < end; i += SB_RADIX_THREADS) {
        bits |= sb_candidate<K>(of, p, (u32)i) ^ first;
    }
    sb_add_differs<K>(&shared, bits);
    __syncthreads();
    if (threadIdx.x == 0 && shared != 0) atomicOr(differs, shared);
}

// Where a pass reads and writes.
struct SbHalves {
    u64 from;
    u64 to;
};

__device__ __forceinline__ SbHalves sb_halves(const SbSort& p, SbRadixPass at, u32 pass) {
    u64 half = p.lines * p.n;
    bool second = (at.passes - 1 - pass) % 2 != 0;
    return {second ? 0 : half, second ? half : 0};
}

// Counts the digits of each part.
template <typename T, typename K>
__device__ __forceinline__ void sb_radix_counts(u32* counts, const K* keys, const T* in,
                                                const u32* picks, const u64* differs,
                                                const SbSort& p, u32 pass) {
    __shared__ u32 bins[SB_RADIX];
    SbRadixPass at = sb_radix_pass(*differs, pass);
    if (pass >= at.passes) return;
    u64 line = blockIdx.x / p.parts;
    u64 part = blockIdx.x % p.parts;
    u64 end = sb_least((part + 1) * p.part, p.n);
    const K* from = keys + sb_halves(p, at, pass).from + line * p.n;
    bins[threadIdx.x] = 0;
    __syncthreads();
    u64 start = part * p.part + threadIdx.x;
    if (pass == 0) {
        SbCandidates<T> of = sb_candidates(in, picks, p, line);
#pragma unroll 8
        for (u64 i = start; i < end; i += SB_RADIX_THREADS) {
            u32 digit = sb_radix_digit(sb_candidate<K>(of, p, (u32)i), at.shift);
            atomicAdd(bins + digit, 1u);
        }
    } else {
#pragma unroll 8
        for (u64 i = start; i < end; i += SB_RADIX_THREADS) {
            atomicAdd(bins + sb_radix_digit(from[i], at.shift), 1u);
        }
    }
    __syncthreads();
    counts[(line * SB_RADIX + threadIdx.x) * p.parts + part] = bins[threadIdx.x];
}

// Sums the counts before each part, a warp those of one digit of a line, and all of them.
__device__ __forceinline__ void sb_radix_starts(u32* counts, u32* totals, const u64* differs,
                                                const SbSort& p, u32 pass) {
    u64 row = sb_thread() / 32;
    u32 lane = threadIdx.x & 31u;
    if (pass >= sb_radix_pass(*differs, pass).passes || row >= p.lines * SB_RADIX) return;
    u32* mine = counts + row * p.parts;
    u32 before = 0;
#pragma unroll 1
    for (u64 start = 0; start < p.parts; start += 4 * 32) {
        u32 value[4];
#pragma unroll
        for (u32 k = 0; k < 4; ++k) {
            u64 i = start + k * 32 + lane;
            value[k] = i < p.parts ? mine[i] : 0;
        }
#pragma unroll
        for (u32 k = 0; k < 4; ++k) {
            u32 sum = value[k];
#pragma unroll
            for (u32 by = 1; by < 32; by *= 2) {
                u32 lower = __shfl_up_sync(0xffffffffu, sum, by);
                if (lane >= by) sum += lower;
            }
            u64 i = start + k * 32 + lane;
            if (i < p.parts) mine[i] = before + sum - value[k];
            before += __shfl_sync(0xffffffffu, sum, 31);
        }
    }
    if (lane == 0) totals[row] = before;
}

// Moves the elements of each part to their places by one digit.
template <typename T, typename K>
__device__ __forceinline__ void sb_radix_move(K* keys, u32* places, const T* in, const u32* picks,
                                              const u32* counts, const u32* totals,
                                              const u64* differs, const SbSort& p, u32 pass) {
    __shared__ SbRanks ranks;
    // The keys of a tile, then their places.
    __shared__ K moved[SB_RADIX_TILE];
    // Where the next element of each digit goes.
    __shared__ u32 next[SB_RADIX];
    u32* moved_places = (u32*)moved;
    SbRadixPass pass_at = sb_radix_pass(*differs, pass);
    if (pass >= pass_at.passes) return;
    u32 shift = pass_at.shift;
    u64 line = blockIdx.x / p.parts;
    u64 part = blockIdx.x % p.parts;
    u64 end = sb_least((part + 1) * p.part, p.n);
    SbHalves halves = sb_halves(p, pass_at, pass);
    const K* keys_from = keys + halves.from + line * p.n;
    const u32* places_from = places + halves.from + line * p.n;
    K* keys_to = keys + halves.to + line * p.n;
    u32* places_to = places + halves.to + line * p.n;
    SbCandidates<T> of = sb_candidates(in, picks, p, line);
    u64 row = line * SB_RADIX + threadIdx.x;
    next[threadIdx.x] = sb_sum_before(totals[row], ranks.warps) + counts[row * p.parts + part];
#pragma unroll 1
    for (u64 start = part * p.part; start < end; start += SB_RADIX_TILE) {
        u32 count = (u32)sb_least(end - start, (u64)SB_RADIX_TILE);
        u32 each = (count + SB_RADIX_THREADS - 1) / SB_RADIX_THREADS;
        u32 own = sb_radix_place(0, each);
        K mine[SB_RADIX_EACH];
        u32 tags[SB_RADIX_EACH];
#pragma unroll
        for (u32 r = 0; r < SB_RADIX_EACH; ++r) {
            // Absent keys come last.
            mine[r] = ~(K)0;
            tags[r] = 0;
        }
        if (pass == 0) {
#pragma unroll
            for (u32 r = 0; r < SB_RADIX_EACH; ++r) {
                u32 i = own + r * 32;
                if (r < each && i < count) mine[r] = sb_candidate<K>(of, p, (u32)start + i);
            }
        } else {
#pragma unroll
            for (u32 r = 0; r < SB_RADIX_EACH; ++r) {
                u32 i = own + r * 32;
                if (r < each && i < count) mine[r] = keys_from[start + i];
            }
        }
        sb_radix_rank<K>(tags, mine, each, shift, &ranks);
#pragma unroll
        for (u32 r = 0; r < SB_RADIX_EACH; ++r) {
            if (r < each) moved[tags[r]] = mine[r];
        }
        __syncthreads();
        u32 to[SB_RADIX_EACH];
#pragma unroll
        for (u32 r = 0; r < SB_RADIX_EACH; ++r) {
            u32 i = r * SB_RADIX_THREADS + threadIdx.x;
            if (i < count) {
                K key = moved[i];
                u32 digit = sb_radix_digit(key, shift);
                to[r] = next[digit] + (i - ranks.firsts[digit]);
                keys_to[to[r]] = key;
            }
        }
        __syncthreads();
        u32 after = threadIdx.x + 1 < SB_RADIX ? ranks.firsts[threadIdx.x + 1] : count;
        next[threadIdx.x] += after - ranks.firsts[threadIdx.x];
        if (pass == 0) {
#pragma unroll
            for (u32 r = 0; r < SB_RADIX_EACH; ++r) {
                u32 i = own + r * 32;
                if (r < each && i < count) {
                    moved_places[tags[r]] = sb_position(of, p, (u32)start + i);
                }
            }
        } else {
#pragma unroll
            for (u32 r = 0; r < SB_RADIX_EACH; ++r) {
                u32 i = own + r * 32;
                if (r < each && i < count) moved_places[tags[r]] = places_from[start + i];
            }
        }
        __syncthreads();
#pragma unroll
        for (u32 r = 0; r < SB_RADIX_EACH; ++r) {
            u32 i = r * SB_RADIX_THREADS + threadIdx.x;
            if (i < count) places_to[to[r]] = moved_places[i];
        }
    }
}
