// Attention: the largest scores, then the sums of the weights and the averages of the values.

#include "attention.cuh"

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
        best[i] = sb_minus_infinity<T>();
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
                // A thread's keys ascend, so the first of equal scores stays.
                bool better = score > best[i] || score != score;
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

// Adds the weights of a tile to a thread's lanes of the sum of one query.
template <typename T, int TM>
__device__ __forceinline__ void sb_add_lanes(const T* tile, double (&lanes)[SB_SIDE * TM / 8]) {
    const u32 SIDE = SB_SIDE * TM;
    u32 query = threadIdx.x % SIDE;
    u32 lane = threadIdx.x / SIDE * (SIDE / 8);
#pragma unroll
    for (u32 round = 0; round < SIDE; round += 32) {
#pragma unroll
        for (u32 e = 0; e < SIDE / 8; ++e) {
            lanes[e] = lanes[e] + (double)tile[(round + lane + e) * SB_PITCH(SIDE) + query];
        }
    }
}

// Applies dropout to the weights of a tile, of which `keys` keys exist.
template <typename T, int TM>
__device__ __forceinline__ void sb_drop(const SbKept<TM>& kept, const SbAttention& p, u64 keys,
                                        T (&weights)[TM][TM]) {
#pragma unroll
    for (int i = 0; i < TM; ++i) {
        u32 query = sb_tile_at<TM>(sb_tile_row(), i);
#pragma unroll
        for (int j = 0; j < TM; ++j) {
            u32 key = sb_tile_at<TM>(sb_tile_column(), j);
            // Steps that do not exist stay -0.
            if (key < keys) weights[i][j] = sb_dropped(p, kept.of[query][key], weights[i][j]);
        }
    }
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
    __shared__ SbKept<TM> kept;
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
        if (p.dropout != 0) {
            // Weights are summed before some are dropped.
            sb_draw_kept<TM>(kept, p, matrix, query0, key0);
            __syncthreads();
            sb_add_lanes<T, TM>(shared.tile, lanes);
            __syncthreads();
            sb_drop<T, TM>(kept, p, p.keys - key0, weights);
            sb_store_tile<T, TM>(shared.tile, weights);
        }
        sb_add_product<T, TM>(shared, values, sb_least(p.keys - key0, SIDE), acc);
        if (p.dropout == 0) sb_add_lanes<T, TM>(shared.tile, lanes);
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
