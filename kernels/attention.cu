// Scaled dot-product attention with memory that grows with the sequence, not with its square.
//
// Every product is the contract's contraction: chains of fma in ascending order within blocks of
// 256 steps, whose sums are added in ascending order. A block of threads computes tiles of SIDE x
// SIDE scores (tile.cuh), turns them into weights in shared memory, and multiplies these with the
// rows of values, keys or queries. So each result belongs to one thread, and scores are computed
// again in each pass: twice forward and twice backward.
//
// Scores that the causal mask hides have weight +0 whatever they are, so tiles of them are not
// computed; but the weights of 0 are multiplied, because 0 times an infinite value is NaN.

#include "math64.cuh"
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

// The largest score of each query that a block owns.
template <typename T, int TM>
__device__ __forceinline__ void sb_attention_largest(T* largest, const SbAttentionInputs<T>& in,
                                                     const SbAttention& p) {
    const u32 SIDE = SB_SIDE * TM;
    __shared__ SbStages<T, TM> stages;
    __shared__ T bests[SIDE][SB_SIDE + 1];
    __shared__ u64 places[SIDE][SB_SIDE + 1];
    u64 tiles = (p.queries + SIDE - 1) / SIDE;
    u64 query0 = blockIdx.x % tiles * SIDE;
    u64 matrix = blockIdx.x / tiles;
    u64 seen = sb_seen(p, sb_least(query0 + SIDE, p.queries) - 1);
    T best[TM];
    u64 at[TM];
#pragma unroll
    for (int i = 0; i < TM; ++i) {
        best[i] = (T)0;
        at[i] = ~0ull;
    }
    for (u64 key0 = 0; key0 < seen; key0 += SIDE) {
        T scores[TM][TM];
        sb_product<T, TM>(stages, sb_query_rows<T, TM>(p, in, matrix, query0),
                          sb_key_rows<T, TM>(p, in, matrix, key0), p.width, scores);
#pragma unroll
        for (int i = 0; i < TM; ++i) {
            u64 query = query0 + sb_tile_at<TM>(sb_tile_row(), i);
#pragma unroll
            for (int j = 0; j < TM; ++j) {
                u64 key = key0 + sb_tile_at<TM>(sb_tile_column(), j);
                if (query >= p.queries || key >= p.keys) continue;
                T score = scores[i][j];
                sb_masked(p, in, matrix, query, key, &score);
                bool better = sb_preferred(score, key, best[i], at[i], false);
                best[i] = better ? score : best[i];
                at[i] = better ? key : at[i];
            }
        }
    }
#pragma unroll
    for (int i = 0; i < TM; ++i) {
        bests[sb_tile_at<TM>(sb_tile_row(), i)][sb_tile_column()] = best[i];
        places[sb_tile_at<TM>(sb_tile_row(), i)][sb_tile_column()] = at[i];
    }
    __syncthreads();
    u64 query = query0 + threadIdx.x;
    if (threadIdx.x >= SIDE || query >= p.queries) return;
    T found = sb_minus_infinity<T>();
    u64 place = ~0ull;
    for (u32 column = 0; column < SB_SIDE; ++column) {
        T x = bests[threadIdx.x][column];
        u64 y = places[threadIdx.x][column];
        bool better = sb_preferred(x, y, found, place, false);
        found = better ? x : found;
        place = better ? y : place;
    }
    largest[matrix * p.queries + query] = sb_clean(found);
}

// The weight of a key before division.
template <typename T>
__device__ __forceinline__ T sb_weight(const SbAttention& p, const SbAttentionInputs<T>& in,
                                       u64 matrix, u64 query, u64 key, T score, T largest,
                                       bool* excluded) {
    *excluded = sb_masked(p, in, matrix, query, key, &score);
    return *excluded ? (T)0 : sb_exp(score - largest);
}

// The averages of SIDE features for SIDE queries, and the sums of the weights of these. `partials` has
// room for the sums of 4096 weights each, for every query of every block of threads.
template <typename T, int TM>
__device__ __forceinline__ void sb_attention_average(T* out, T* sums, double* partials,
                                                     const T* largest,
                                                     const SbAttentionInputs<T>& in,
                                                     const SbAttention& p) {
    const u32 SIDE = SB_SIDE * TM;
    // Of the 32 lanes of the sum of a query, a thread holds HELD.
    const u32 HELD = SIDE / 8;
    __shared__ SbShared<T, TM> shared;
    __shared__ T divisors[SIDE];
    u64 chunks = p.features > 0 ? (p.features + SIDE - 1) / SIDE : 1;
    u64 tiles = (p.queries + SIDE - 1) / SIDE;
    u64 feature0 = blockIdx.x % chunks * SIDE;
    u64 query0 = blockIdx.x / chunks % tiles * SIDE;
    u64 matrix = blockIdx.x / chunks / tiles;
    u64 seen = sb_seen(p, sb_least(query0 + SIDE, p.queries) - 1);
    u64 levels = (p.keys + SB_TREE_BLOCK - 1) / SB_TREE_BLOCK;
    out += (matrix * p.queries + query0) * p.features + feature0;
    partials += blockIdx.x * SIDE * levels;
    SbSource<T, SIDE> values(
        in.value + sb_start(p, in.starts, SB_VALUE, matrix) + feature0 * p.value_column,
        p.value_column, p.value_row, p.features - feature0);
    u32 my_query = threadIdx.x % SIDE;
    u32 my_lane = threadIdx.x / SIDE * HELD;
    T most[TM];
#pragma unroll
    for (int i = 0; i < TM; ++i) {
        u64 query = query0 + sb_tile_at<TM>(sb_tile_row(), i);
        most[i] = query < p.queries ? largest[matrix * p.queries + query] : (T)0;
    }
    double lanes[HELD] = {};
    T acc[TM][TM];
    sb_clear<T, TM>(acc);
#pragma unroll 1
    for (u64 key0 = 0; key0 < p.keys; key0 += SIDE) {
        T weights[TM][TM];
        sb_clear<T, TM>(weights);
        if (key0 < seen) {
            sb_product<T, TM>(shared.stages, sb_query_rows<T, TM>(p, in, matrix, query0),
                              sb_key_rows<T, TM>(p, in, matrix, key0), p.width, weights);
        }
#pragma unroll
        for (int i = 0; i < TM; ++i) {
            u64 query = query0 + sb_tile_at<TM>(sb_tile_row(), i);
#pragma unroll
            for (int j = 0; j < TM; ++j) {
                u64 key = key0 + sb_tile_at<TM>(sb_tile_column(), j);
                bool excluded = false;
                T weight = (T)-0.0;
                if (key < p.keys) {
                    weight = (T)0;
                    if (key0 < seen && query < p.queries) {
                        weight = sb_weight(p, in, matrix, query, key, weights[i][j], most[i],
                                           &excluded);
                    }
                }
                weights[i][j] = weight;
            }
        }
        // Others may still read the tile of the keys before.
        __syncthreads();
        sb_store_tile<T, TM>(shared.tile, weights);
        sb_add_product<T, TM>(shared, values, sb_least(p.keys - key0, SIDE), acc);
#pragma unroll
        for (u32 round = 0; round < SIDE; round += 32) {
#pragma unroll
            for (u32 e = 0; e < HELD; ++e) {
                u32 step = round + my_lane + e;
                lanes[e] = lanes[e] + (double)shared.tile[step * SB_PITCH(SIDE) + my_query];
            }
        }
        u64 next = key0 + SIDE;
        if (next % SB_K_BLOCK == 0 && next < p.keys) {
            sb_hand_over<T, TM>(out, p.queries - query0, p.features - feature0, p.features,
                                next <= SB_K_BLOCK, acc, [](T x, u32) { return x; });
        }
        if (next % SB_TREE_BLOCK == 0 || next >= p.keys) {
            double* halves = (double*)shared.tile;
            __syncthreads();
#pragma unroll
            for (u32 e = 0; e < HELD; ++e) {
                halves[(my_lane + e) * SIDE + my_query] = lanes[e];
                lanes[e] = 0.0;
            }
            __syncthreads();
            if (threadIdx.x < SIDE) {
                for (u32 w = 16; w >= 1; w /= 2) {
                    for (u32 lane = 0; lane < w; ++lane) {
                        double* half = halves + lane * SIDE + my_query;
                        *half = *half + half[w * SIDE];
                    }
                }
                partials[my_query * levels + key0 / SB_TREE_BLOCK] = halves[my_query];
            }
        }
    }
    __syncthreads();
    for (u32 row = threadIdx.x / 32; row < SIDE; row += SB_THREADS / 32) {
        const double* terms = partials + row * levels;
        T sum = (T)sb_tree<1>(levels, [=](u64 i) { return terms[i]; });
        sum = sum == (T)0 ? (T)1 : sb_clean(sum);
        if (threadIdx.x % 32 == 0) {
            divisors[row] = sum;
            if (feature0 == 0 && query0 + row < p.queries) {
                sums[matrix * p.queries + query0 + row] = sum;
            }
        }
    }
    __syncthreads();
    sb_hand_over<T, TM>(out, p.queries - query0, p.features - feature0, p.features,
                        p.keys <= SB_K_BLOCK, acc,
                        [&](T x, u32 row) { return sb_clean(x / divisors[row]); });
}

// What the backward pass has of the forward pass and of the gradient.
template <typename T>
struct SbUpstream {
    const T* grad;
    const T* shared;
    const T* largest;
};

// The gradients of SIDE keys and their values, each of SIDE columns. With ATOMIC, also the shares of
// these keys in the gradients of the queries, by float atomics.
template <typename T, int TM, bool ATOMIC>
__device__ __forceinline__ void sb_attention_keys(T* of_query, T* of_key, T* of_value,
                                                  const SbUpstream<T>& up,
                                                  const SbAttentionInputs<T>& in,
                                                  const SbAttention& p) {
    const u32 SIDE = SB_SIDE * TM;
    __shared__ SbShared<T, TM> shared;
    u64 widest = p.width > p.features ? p.width : p.features;
    u64 chunks = (widest + SIDE - 1) / SIDE;
    u64 tiles = (p.keys + SIDE - 1) / SIDE;
    u64 column0 = blockIdx.x % chunks * SIDE;
    u64 key0 = blockIdx.x / chunks % tiles * SIDE;
    u64 matrix = blockIdx.x / chunks / tiles;
    u64 widths = column0 < p.width ? p.width - column0 : 0;
    u64 features = column0 < p.features ? p.features - column0 : 0;
    u64 query_start = sb_start(p, in.starts, SB_QUERY, matrix);
    u64 value_start = sb_start(p, in.starts, SB_VALUE, matrix);
    u64 grad_start = sb_start(p, in.starts, SB_GRAD, matrix);
    of_key += (matrix * p.keys + key0) * p.width + column0;
    of_value += (matrix * p.keys + key0) * p.features + column0;
    SbSource<T, SIDE> query_steps(in.query + query_start + column0 * p.query_column,
                                  p.query_column, p.query_row, widths);
    SbSource<T, SIDE> grad_steps(up.grad + grad_start + column0 * p.grad_column, p.grad_column,
                                 p.grad_row, features);
    T key_sums[TM][TM];
    T value_sums[TM][TM];
    sb_clear<T, TM>(key_sums);
    sb_clear<T, TM>(value_sums);
#pragma unroll 1
    for (u64 query0 = 0; query0 < p.queries; query0 += SIDE) {
        u64 steps = sb_least(p.queries - query0, SIDE);
        bool visible = key0 < sb_seen(p, query0 + steps - 1);
        // Rows are keys and columns queries.
        T weights[TM][TM];
        T scores[TM][TM];
        sb_clear<T, TM>(weights);
        sb_clear<T, TM>(scores);
        if (visible) {
            sb_product<T, TM>(shared.stages, sb_key_rows<T, TM>(p, in, matrix, key0),
                              sb_query_rows<T, TM>(p, in, matrix, query0), p.width, weights);
            sb_product<T, TM>(
                shared.stages,
                sb_rows<T, TM>(in.value, value_start, key0, p.keys, p.value_row, p.value_column),
                sb_rows<T, TM>(up.grad, grad_start, query0, p.queries, p.grad_row, p.grad_column),
                p.features, scores);
        }
#pragma unroll
        for (int j = 0; j < TM; ++j) {
            u64 query = query0 + sb_tile_at<TM>(sb_tile_column(), j);
            bool inside = visible && query < p.queries;
            u64 row = matrix * p.queries + query;
            T largest = inside ? up.largest[row] : (T)0;
            T reduced = inside ? up.shared[row] : (T)0;
#pragma unroll
            for (int i = 0; i < TM; ++i) {
                u64 key = key0 + sb_tile_at<TM>(sb_tile_row(), i);
                T weight = query < p.queries ? (T)0 : (T)-0.0;
                T score = weight;
                if (inside && key < p.keys) {
                    bool excluded = false;
                    weight = sb_weight(p, in, matrix, query, key, weights[i][j], largest,
                                       &excluded);
                    if (!excluded) score = weight * (scores[i][j] - reduced);
                }
                weights[i][j] = weight;
                scores[i][j] = score;
            }
        }
        bool last = query0 + SIDE >= p.queries;
        bool ends = last || (query0 + SIDE) % SB_K_BLOCK == 0;
        bool first = query0 < SB_K_BLOCK;
        if (features > 0) {
            // Others may still read the tile before.
            __syncthreads();
            sb_store_tile<T, TM>(shared.tile, weights);
            sb_add_product<T, TM>(shared, grad_steps, steps, value_sums);
            if (ends) {
                sb_hand_over<T, TM>(of_value, p.keys - key0, features, p.features, first,
                                    value_sums,
                                    [=](T x, u32) { return last ? sb_clean(x) : x; });
            }
        }
        if (widths == 0) continue;
        __syncthreads();
        sb_store_tile<T, TM>(shared.tile, scores);
        sb_add_product<T, TM>(shared, query_steps, steps, key_sums);
        if (ends) {
            sb_hand_over<T, TM>(of_key, p.keys - key0, widths, p.width, first, key_sums,
                                [=](T x, u32) { return last ? sb_clean(x) : x; });
        }
        if constexpr (ATOMIC) {
            if (!visible) continue;
            // Once more with keys as steps.
            T query_sums[TM][TM];
            sb_clear<T, TM>(query_sums);
            __syncthreads();
#pragma unroll
            for (int i = 0; i < TM; ++i) {
                u32 step = sb_tile_at<TM>(sb_tile_row(), i);
#pragma unroll
                for (int j = 0; j < TM; ++j) {
                    u32 side = sb_tile_at<TM>(sb_tile_column(), j);
                    shared.tile[step * SB_PITCH(SIDE) + side] = scores[i][j];
                }
            }
            SbSource<T, SIDE> key_steps(in.key + sb_start(p, in.starts, SB_KEY, matrix) +
                                            key0 * p.key_row + column0 * p.key_column,
                                        p.key_column, p.key_row, widths);
            sb_add_product<T, TM>(shared, key_steps, sb_least(p.keys - key0, SIDE), query_sums);
#pragma unroll
            for (int i = 0; i < TM; ++i) {
                u64 query = query0 + sb_tile_at<TM>(sb_tile_row(), i);
                if (query >= p.queries) continue;
#pragma unroll
                for (int j = 0; j < TM; ++j) {
                    u32 column = sb_tile_at<TM>(sb_tile_column(), j);
                    if (column >= widths) continue;
                    atomicAdd(of_query + (matrix * p.queries + query) * p.width + column0 + column,
                              query_sums[i][j]);
                }
            }
        }
    }
}

// The gradients of SIDE columns of SIDE queries.
template <typename T, int TM>
__device__ __forceinline__ void sb_attention_queries(T* of_query, const SbUpstream<T>& up,
                                                     const SbAttentionInputs<T>& in,
                                                     const SbAttention& p) {
    const u32 SIDE = SB_SIDE * TM;
    __shared__ SbShared<T, TM> shared;
    u64 chunks = (p.width + SIDE - 1) / SIDE;
    u64 tiles = (p.queries + SIDE - 1) / SIDE;
    u64 column0 = blockIdx.x % chunks * SIDE;
    u64 query0 = blockIdx.x / chunks % tiles * SIDE;
    u64 matrix = blockIdx.x / chunks / tiles;
    u64 widths = p.width - column0;
    u64 seen = sb_seen(p, sb_least(query0 + SIDE, p.queries) - 1);
    u64 value_start = sb_start(p, in.starts, SB_VALUE, matrix);
    u64 grad_start = sb_start(p, in.starts, SB_GRAD, matrix);
    of_query += (matrix * p.queries + query0) * p.width + column0;
    SbSource<T, SIDE> key_steps(
        in.key + sb_start(p, in.starts, SB_KEY, matrix) + column0 * p.key_column, p.key_column,
        p.key_row, widths);
    T largest[TM];
    T reduced[TM];
#pragma unroll
    for (int i = 0; i < TM; ++i) {
        u64 query = query0 + sb_tile_at<TM>(sb_tile_row(), i);
        bool inside = query < p.queries;
        largest[i] = inside ? up.largest[matrix * p.queries + query] : (T)0;
        reduced[i] = inside ? up.shared[matrix * p.queries + query] : (T)0;
    }
    T sums[TM][TM];
    sb_clear<T, TM>(sums);
#pragma unroll 1
    for (u64 key0 = 0; key0 < p.keys; key0 += SIDE) {
        bool visible = key0 < seen;
        T weights[TM][TM];
        T scores[TM][TM];
        sb_clear<T, TM>(weights);
        sb_clear<T, TM>(scores);
        if (visible) {
            sb_product<T, TM>(shared.stages, sb_query_rows<T, TM>(p, in, matrix, query0),
                              sb_key_rows<T, TM>(p, in, matrix, key0), p.width, weights);
            sb_product<T, TM>(
                shared.stages,
                sb_rows<T, TM>(up.grad, grad_start, query0, p.queries, p.grad_row, p.grad_column),
                sb_rows<T, TM>(in.value, value_start, key0, p.keys, p.value_row, p.value_column),
                p.features, scores);
        }
#pragma unroll
        for (int i = 0; i < TM; ++i) {
            u64 query = query0 + sb_tile_at<TM>(sb_tile_row(), i);
#pragma unroll
            for (int j = 0; j < TM; ++j) {
                u64 key = key0 + sb_tile_at<TM>(sb_tile_column(), j);
                T score = key < p.keys ? (T)0 : (T)-0.0;
                if (visible && query < p.queries && key < p.keys) {
                    bool excluded = false;
                    T weight = sb_weight(p, in, matrix, query, key, weights[i][j], largest[i],
                                         &excluded);
                    if (!excluded) score = weight * (scores[i][j] - reduced[i]);
                }
                scores[i][j] = score;
            }
        }
        // Others may still read the tile of the keys before.
        __syncthreads();
        sb_store_tile<T, TM>(shared.tile, scores);
        sb_add_product<T, TM>(shared, key_steps, sb_least(p.keys - key0, SIDE), sums);
        u64 next = key0 + SIDE;
        bool last = next >= p.keys;
        if (last || next % SB_K_BLOCK == 0) {
            sb_hand_over<T, TM>(of_query, p.queries - query0, widths, p.width,
                                key0 < SB_K_BLOCK, sums,
                                [=](T x, u32) { return last ? sb_clean(x) : x; });
        }
    }
}

#define SB_INPUTS(T) SbAttentionInputs<T>{query, key, value, added, hidden, starts}

#define SB_ATTENTION_LARGEST(NAME, T, TM)                                                       \
    extern "C" __launch_bounds__(SB_THREADS, 2) __global__ void NAME(                           \
        T* largest, const T* query, const T* key, const T* value, const T* added,               \
        const unsigned char* hidden, const u64* starts, SbAttention p) {                        \
        sb_attention_largest<T, TM>(largest, SB_INPUTS(T), p);                                  \
    }

// level: Portable - one thread owns one output and compares in ascending order
SB_ATTENTION_LARGEST(attention_largest_f32, float, 4)
SB_ATTENTION_LARGEST(attention_largest_f64, double, 2)

#define SB_ATTENTION_AVERAGE(NAME, T, TM)                                                       \
    extern "C" __launch_bounds__(SB_THREADS, 2) __global__ void NAME(                           \
        T* out, T* sums, double* partials, const T* largest, const T* query, const T* key,      \
        const T* value, const T* added, const unsigned char* hidden, const u64* starts,         \
        SbAttention p) {                                                                        \
        sb_attention_average<T, TM>(out, sums, partials, largest, SB_INPUTS(T), p);             \
    }

// level: Portable - one thread owns one output and adds in the written order
SB_ATTENTION_AVERAGE(attention_average_f32, float, 4)
SB_ATTENTION_AVERAGE(attention_average_f64, double, 2)

#define SB_ATTENTION_KEYS(NAME, T, TM)                                                          \
    extern "C" __launch_bounds__(SB_THREADS, 2) __global__ void NAME(                           \
        T* of_key, T* of_value, const T* grad, const T* shared, const T* largest,               \
        const T* query, const T* key, const T* value, const T* added,                           \
        const unsigned char* hidden, const u64* starts, SbAttention p) {                        \
        SbUpstream<T> up = {grad, shared, largest};                                             \
        sb_attention_keys<T, TM, false>((T*)nullptr, of_key, of_value, up, SB_INPUTS(T), p);    \
    }

// level: Portable - one thread owns one output and adds in the written order
SB_ATTENTION_KEYS(attention_keys_f32, float, 4)
SB_ATTENTION_KEYS(attention_keys_f64, double, 2)

#define SB_ATTENTION_QUERIES(NAME, T, TM)                                                       \
    extern "C" __launch_bounds__(SB_THREADS, 2) __global__ void NAME(                           \
        T* of_query, const T* grad, const T* shared, const T* largest, const T* query,          \
        const T* key, const T* value, const T* added, const unsigned char* hidden,              \
        const u64* starts, SbAttention p) {                                                     \
        SbUpstream<T> up = {grad, shared, largest};                                             \
        sb_attention_queries<T, TM>(of_query, up, SB_INPUTS(T), p);                             \
    }

// level: Portable - one thread owns one output and adds in the written order
SB_ATTENTION_QUERIES(attention_queries_f32, float, 4)
SB_ATTENTION_QUERIES(attention_queries_f64, double, 2)

// All gradients in one pass.
// level: NotGuaranteed - float atomics
extern "C" __launch_bounds__(SB_THREADS, 2) __global__ void attention_grads_f32_atomic(
    float* of_query, float* of_key, float* of_value, const float* grad, const float* shared,
    const float* largest, const float* query, const float* key, const float* value,
    const float* added, const unsigned char* hidden, const u64* starts, SbAttention p) {
    SbUpstream<float> up = {grad, shared, largest};
    sb_attention_keys<float, 4, true>(of_query, of_key, of_value, up, SB_INPUTS(float), p);
}
