// Scaled dot-product attention in tiles, with memory that grows with the sequence, not with its square.
//
// Every product is the contract's contraction: chains of fma in ascending order within blocks of
// 256 steps, whose sums are added in ascending order. A block of threads computes tiles of SIDE x
// SIDE scores (tile.cuh), turns them into weights in shared memory, and multiplies these with the
// rows of values, keys or queries. So each result belongs to one thread, and scores are computed
// again in each pass: twice forward and twice backward.
//
// Scores that the causal mask hides have weight +0 whatever they are, so tiles of them are not
// computed; but the weights of 0 are multiplied, because 0 times an infinite value is NaN.

#pragma once

#include "math64.cuh"
#include "philox.cuh"
#include "reduce.cuh"
#include "tile.cuh"
#include "declared/attention.cuh"

#define SB_K_BLOCK 256u

// The matrices of a call, of which each is used with its starts.
#define SB_QUERY 0
#define SB_KEY 1
#define SB_VALUE 2
#define SB_GRAD 3
#define SB_ADDED 4
#define SB_HIDDEN 5

template <typename T>
struct SbAttentionInputs {
    const T* query;
    const T* key;
    const T* value;
    const T* added;
    const unsigned char* hidden;
    const u64* starts;
};

// The stages of a product's two operands.
template <typename T, int TM>
struct SbStages {
    alignas(32) T a[2][SB_STAGE * SB_PITCH(SB_SIDE * TM)];
    alignas(32) T b[2][SB_STAGE * SB_PITCH(SB_SIDE * TM)];
};

// What the threads of a block share.
template <typename T, int TM>
struct SbShared {
    SbStages<T, TM> stages;
    // Weights or gradients of scores, by the step of the product with them.
    alignas(32) T tile[SB_SIDE * TM * SB_PITCH(SB_SIDE * TM)];
};

template <typename T, int TM>
__device__ __forceinline__ void sb_clear(T (&sums)[TM][TM]) {
#pragma unroll
    for (int i = 0; i < TM; ++i) {
#pragma unroll
        for (int j = 0; j < TM; ++j) sums[i][j] = (T)0;
    }
}

// out = a b over all `k` steps.
template <typename T, int TM>
__device__ __forceinline__ void sb_product(SbStages<T, TM>& stages,
                                           SbSource<T, SB_SIDE * TM> a,
                                           SbSource<T, SB_SIDE * TM> b, u64 k, T (&out)[TM][TM]) {
    u32 row = sb_tile_row();
    u32 column = sb_tile_column();
    T acc[TM][TM];
    T held_a[SbSource<T, SB_SIDE * TM>::COUNT];
    T held_b[SbSource<T, SB_SIDE * TM>::COUNT];
    sb_clear<T, TM>(out);
    sb_clear<T, TM>(acc);
    if (k == 0) return;
    u32 depth = k < SB_STAGE ? (u32)k : SB_STAGE;
    a.load(depth, (T)-0.0, held_a);
    b.load(depth, (T)0, held_b);
    // Others may still read stages of the product before.
    __syncthreads();
    a.store(stages.a[0], held_a);
    b.store(stages.b[0], held_b);
    __syncthreads();
#pragma unroll 1
    for (u32 stage = 0;; ++stage) {
        k -= depth;
        depth = k < SB_STAGE ? (u32)k : SB_STAGE;
        if (k > 0) {
            a.load(depth, (T)-0.0, held_a);
            b.load(depth, (T)0, held_b);
        }
        sb_multiply<false>(stages.a[stage % 2], stages.b[stage % 2], row, column, 0, acc);
        if (k == 0 || (stage + 1) % (SB_K_BLOCK / SB_STAGE) == 0) {
            bool first = stage < SB_K_BLOCK / SB_STAGE;
#pragma unroll
            for (int i = 0; i < TM; ++i) {
#pragma unroll
                for (int j = 0; j < TM; ++j) {
                    out[i][j] = first ? acc[i][j] : out[i][j] + acc[i][j];
                    acc[i][j] = (T)0;
                }
            }
        }
        if (k == 0) return;
        a.store(stages.a[(stage + 1) % 2], held_a);
        b.store(stages.b[(stage + 1) % 2], held_b);
        __syncthreads();
    }
}

// acc += tile b over the first `k` > 0 steps of the tile in shared memory, at most SIDE. Steps of the
// tile that do not exist hold -0.
template <typename T, int TM>
__device__ __forceinline__ void sb_add_product(SbShared<T, TM>& shared,
                                               SbSource<T, SB_SIDE * TM>& b, u64 k,
                                               T (&acc)[TM][TM]) {
    u32 row = sb_tile_row();
    u32 column = sb_tile_column();
    T held[SbSource<T, SB_SIDE * TM>::COUNT];
    u32 depth = k < SB_STAGE ? (u32)k : SB_STAGE;
    b.load(depth, (T)0, held);
    __syncthreads();
    b.store(shared.stages.b[0], held);
    __syncthreads();
#pragma unroll 1
    for (u32 stage = 0;; ++stage) {
        k -= depth;
        depth = k < SB_STAGE ? (u32)k : SB_STAGE;
        if (k > 0) b.load(depth, (T)0, held);
        sb_multiply<false>(shared.tile + stage * SB_STAGE * SB_PITCH(SB_SIDE * TM),
                           shared.stages.b[stage % 2], row, column, 0, acc);
        if (k == 0) return;
        b.store(shared.stages.b[(stage + 1) % 2], held);
        __syncthreads();
    }
}

// Writes a tile to shared memory: element (i, j) of `values` is step j, side i.
template <typename T, int TM>
__device__ __forceinline__ void sb_store_tile(T* tile, const T (&values)[TM][TM]) {
    const int RUN = sb_run<TM>();
#pragma unroll
    for (int j = 0; j < TM; ++j) {
        T* step = tile + sb_tile_at<TM>(sb_tile_column(), j) * SB_PITCH(SB_SIDE * TM);
#pragma unroll
        for (int i = 0; i < TM; i += RUN) {
            SbRun<T, RUN> run;
#pragma unroll
            for (int e = 0; e < RUN; ++e) run.at[e] = values[i + e][j];
            *(SbRun<T, RUN>*)(step + sb_tile_at<TM>(sb_tile_row(), i)) = run;
        }
    }
}

// Adds the sums of a block of 256 steps to those of the blocks before, which are in `out`, rows of
// `columns` elements of which `rows` and `sides` exist from the tile's first on.
template <typename T, int TM, typename Finish>
__device__ __forceinline__ void sb_hand_over(T* out, u64 rows, u64 sides, u64 columns, bool first,
                                             T (&acc)[TM][TM], Finish finish) {
#pragma unroll
    for (int i = 0; i < TM; ++i) {
        u32 row = sb_tile_at<TM>(sb_tile_row(), i);
        if (row >= rows) continue;
#pragma unroll
        for (int j = 0; j < TM; ++j) {
            u32 column = sb_tile_at<TM>(sb_tile_column(), j);
            if (column >= sides) continue;
            T* to = out + row * columns + column;
            *to = finish(first ? acc[i][j] : *to + acc[i][j], row);
        }
    }
    sb_clear<T, TM>(acc);
}

__device__ __forceinline__ u64 sb_least(u64 a, u64 b) { return a < b ? a : b; }

// The number of keys that a query sees by the causal mask.
__device__ __forceinline__ u64 sb_seen(const SbAttention& p, u64 query) {
    return query < p.keys ? sb_least(p.seen + query, p.keys) : p.keys;
}

__device__ __forceinline__ u64 sb_start(const SbAttention& p, const u64* starts, u32 of,
                                        u64 matrix) {
    return starts[of * p.count + matrix];
}

// A score with its masks, and whether they exclude its key.
template <typename T>
__device__ __forceinline__ bool sb_masked(const SbAttention& p, const SbAttentionInputs<T>& in,
                                          u64 matrix, u64 query, u64 key, T* score) {
    bool excluded = key >= sb_seen(p, query);
    if (p.has_added != 0) {
        T number = in.added[sb_start(p, in.starts, SB_ADDED, matrix) + query * p.added_row +
                            key * p.added_column];
        excluded |= number == sb_minus_infinity<T>();
        *score = *score + number;
    }
    if (p.has_hidden != 0) {
        u64 at = sb_start(p, in.starts, SB_HIDDEN, matrix) + query * p.hidden_row +
                 key * p.hidden_column;
        excluded |= in.hidden[at] != 0;
    }
    if (excluded) *score = sb_minus_infinity<T>();
    return excluded;
}

template <typename T, int TM>
__device__ __forceinline__ SbSource<T, SB_SIDE * TM> sb_rows(const T* data, u64 start, u64 first,
                                                             u64 rows, u64 row, u64 column) {
    return SbSource<T, SB_SIDE * TM>(data + start + first * row, row, column, rows - first);
}

// The source of SIDE queries, and of SIDE keys, as sides of tiles of scores.
template <typename T, int TM>
__device__ __forceinline__ SbSource<T, SB_SIDE * TM> sb_query_rows(const SbAttention& p,
                                                                   const SbAttentionInputs<T>& in,
                                                                   u64 matrix, u64 first) {
    u64 start = sb_start(p, in.starts, SB_QUERY, matrix);
    return sb_rows<T, TM>(in.query, start, first, p.queries, p.query_row, p.query_column);
}
template <typename T, int TM>
__device__ __forceinline__ SbSource<T, SB_SIDE * TM> sb_key_rows(const SbAttention& p,
                                                                 const SbAttentionInputs<T>& in,
                                                                 u64 matrix, u64 first) {
    u64 start = sb_start(p, in.starts, SB_KEY, matrix);
    return sb_rows<T, TM>(in.key, start, first, p.keys, p.key_row, p.key_column);
}

// The weight of a key before division.
template <typename T>
__device__ __forceinline__ T sb_weight(const SbAttention& p, const SbAttentionInputs<T>& in,
                                       u64 matrix, u64 query, u64 key, T score, T largest,
                                       bool* excluded) {
    *excluded = sb_masked(p, in, matrix, query, key, &score);
    return *excluded ? (T)0 : sb_exp(score - largest);
}

// Whether dropout keeps the weights of a tile, by query and key: number i of all weights, in row-major
// order, is dropped if word i of the draw is at most p.last.
template <int TM>
struct SbKept {
    unsigned char of[SB_SIDE * TM][SB_SIDE * TM];
};

// Fills `kept`, for four keys of a query at a time. The caller synchronises.
template <int TM>
__device__ __forceinline__ void sb_draw_kept(SbKept<TM>& kept, const SbAttention& p, u64 matrix,
                                             u64 query0, u64 key0) {
    const u32 SIDE = SB_SIDE * TM;
#pragma unroll 1
    for (u32 run = threadIdx.x; run < SIDE * SIDE / 4; run += SB_THREADS) {
        u32 side = run / (SIDE / 4);
        u32 step = run % (SIDE / 4) * 4;
        u64 first = (matrix * p.queries + query0 + side) * p.keys + key0 + step;
        SbBlock block;
#pragma unroll 1
        for (u32 e = 0; e < 4; ++e) {
            u64 at = first + e;
            if (e == 0 || at % 4 == 0) block = sb_philox(p.seed, p.stream, p.first + at / 4);
            u32 word = at % 2 == 0 ? (at % 4 == 0 ? block.word[0] : block.word[2])
                                   : (at % 4 == 1 ? block.word[1] : block.word[3]);
            bool drop = word <= (u32)p.last && p.any != 0;
            kept.of[side][step + e] = drop ? 0 : 1;
        }
    }
}

// A number that dropout keeps or drops.
template <typename T>
__device__ __forceinline__ T sb_dropped(const SbAttention& p, unsigned char kept, T x) {
    return kept != 0 ? sb_clean(x * (T)p.scale) : (T)0;
}

#define SB_INPUTS(T) SbAttentionInputs<T>{query, key, value, added, hidden, starts}
