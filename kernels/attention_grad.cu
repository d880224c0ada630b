// The gradients of attention.

#include "attention.cuh"

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
    __shared__ SbKept<TM> kept;
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
            if (p.dropout != 0) {
                // Others may still read those of the queries before.
                __syncthreads();
                sb_draw_kept<TM>(kept, p, matrix, query0, key0);
                __syncthreads();
            }
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
                    T through = scores[i][j];
                    T dropped = weight;
                    if (p.dropout != 0) {
                        unsigned char keep = kept.of[query - query0][key - key0];
                        through = sb_dropped(p, keep, through);
                        dropped = sb_dropped(p, keep, weight);
                    }
                    if (!excluded) score = weight * (through - reduced);
                    weight = dropped;
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
    __shared__ SbKept<TM> kept;
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
            if (p.dropout != 0) {
                // Others may still read those of the keys before.
                __syncthreads();
                sb_draw_kept<TM>(kept, p, matrix, query0, key0);
                __syncthreads();
            }
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
                    T through = scores[i][j];
                    if (p.dropout != 0) {
                        through = sb_dropped(p, kept.of[query - query0][key - key0], through);
                    }
                    if (!excluded) score = weight * (through - reduced[i]);
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
