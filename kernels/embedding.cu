// Rows of a table: what embedding and embedding_bag need beside the index operations.

#include "segments.cuh"
#include "reduce.cuh"
#include "declared/embedding.cuh"

// The row of each place, or -1 where it is the padding's; `padding` is all ones for none.
// level: Portable - one thread owns one key
extern "C" __global__ void embedding_keys(i64* keys, const i64* index, u64 n, u64 rows, u64 padding,
                                          u64* status) {
    u64 i = sb_thread();
    if (i >= n) return;
    i64 row = index[i];
    bool fine = sb_check(row, rows, i, status) && (u64)row != padding;
    keys[i] = fine ? row : -1;
}

// Divides each row by the number of places that hold it.
#define SB_BY_COUNT(NAME, T)                                                            \
    extern "C" __global__ void NAME(T* out, const u32* counts, u64 rows, u64 width) {   \
        u64 i = sb_thread();                                                            \
        if (i >= rows * width) return;                                                  \
        u32 count = counts[i / width];                                                  \
        if (count > 1) out[i] = sb_clean(out[i] / (T)count);                            \
    }

// level: Portable - one thread owns one output
SB_BY_COUNT(embedding_by_count_f32, float)
SB_BY_COUNT(embedding_by_count_f64, double)

// The bag of each place, and what the bag's gradient is divided by or multiplied with there.
#define SB_BAG_PLACES(NAME, T)                                                          \
    extern "C" __global__ void NAME(u32* bag, T* factor, const i64* keys,               \
                                    const u64* starts, const T* weights, SbBags p) {    \
        u64 b = sb_thread();                                                            \
        if (b >= p.bags) return;                                                        \
        u64 size = 0;                                                                   \
        for (u64 place = starts[b]; place < starts[b + 1]; ++place) {                   \
            size += keys[place] >= 0 ? 1 : 0;                                           \
        }                                                                               \
        for (u64 place = starts[b]; place < starts[b + 1]; ++place) {                   \
            bag[place] = (u32)b;                                                        \
            factor[place] = p.weighted ? weights[place] : (p.mean ? (T)size : (T)1);    \
        }                                                                               \
    }

// level: Portable - one thread owns one bag
SB_BAG_PLACES(bag_places_f32, float)
SB_BAG_PLACES(bag_places_f64, double)

// Ascending places in f64 from +0, divided by their number in f64 for a mean, rounded once.
template <typename T>
__device__ __forceinline__ void sb_bag(T* out, const T* table, const i64* keys, const u64* starts,
                                       const T* weights, const SbBags& p) {
    u64 i = sb_thread();
    if (i >= p.bags * p.width) return;
    u64 b = i / p.width;
    u64 column = i % p.width;
    double sum = 0.0;
    u64 size = 0;
    for (u64 place = starts[b]; place < starts[b + 1]; ++place) {
        if (keys[place] < 0) continue;
        double x = (double)table[(u64)keys[place] * p.width + column];
        sum = sum + (p.weighted ? (double)weights[place] * x : x);
        size += 1;
    }
    double divisor = p.mean && size > 0 ? (double)size : 1.0;
    out[i] = sb_clean((T)(sum / divisor));
}

#define SB_BAG(NAME, T)                                                                 \
    extern "C" __global__ void NAME(T* out, const T* table, const i64* keys,            \
                                    const u64* starts, const T* weights, SbBags p) {    \
        sb_bag<T>(out, table, keys, starts, weights, p);                                \
    }

// level: Portable - one thread owns one output
SB_BAG(embedding_bag_f32, float)
SB_BAG(embedding_bag_f64, double)

// The first largest, NaN before all, and the row it came from; +0 and -1 for an empty bag.
template <typename T>
__device__ __forceinline__ void sb_bag_max(T* out, i64* max_rows, const T* table, const i64* keys,
                                           const u64* starts, const SbBags& p) {
    u64 i = sb_thread();
    if (i >= p.bags * p.width) return;
    u64 b = i / p.width;
    u64 column = i % p.width;
    T best = (T)0;
    i64 row = -1;
    for (u64 place = starts[b]; place < starts[b + 1]; ++place) {
        if (keys[place] < 0) continue;
        T x = table[(u64)keys[place] * p.width + column];
        if (row < 0 || x > best || (x != x && best == best)) {
            best = x;
            row = keys[place];
        }
    }
    out[i] = sb_clean(best);
    max_rows[i] = row;
}

#define SB_BAG_MAX(NAME, T)                                                             \
    extern "C" __global__ void NAME(T* out, i64* max_rows, const T* table,              \
                                    const i64* keys, const u64* starts, SbBags p) {     \
        sb_bag_max<T>(out, max_rows, table, keys, starts, p);                           \
    }

// level: Portable - one thread owns one output
SB_BAG_MAX(embedding_bag_max_f32, float)
SB_BAG_MAX(embedding_bag_max_f64, double)

// The addend of a place: the bag's gradient times its weight, or divided by its size.
template <typename T>
__device__ __forceinline__ T sb_addend(const T* grad, const u32* bag, const T* factor, u64 place,
                                       u64 column, const SbBags& p) {
    T g = grad[(u64)bag[place] * p.width + column];
    return p.weighted ? g * factor[place] : g / factor[place];
}

// level: Portable - one thread owns one output and sums its segment exactly; long ones are noted
// tickets: a long segment's place in the list; exact sums do not see it
extern "C" __global__ void embedding_bag_grad_f32_rows(float* out, const float* grad,
                                                       const u32* bag, const float* factor,
                                                       const u32* positions, const u32* ends,
                                                       const u32* counts, u64* cursor,
                                                       u32* long_rows, u32* firsts, SbBags p) {
    u64 i = sb_thread();
    if (i >= p.rows * p.width) return;
    u64 row = i / p.width;
    u64 column = i % p.width;
    u32 count = counts[row];
    if (count > SB_PIECE) {
        if (column == 0) sb_long_note(cursor, long_rows, firsts, (u32)row, count);
        return;
    }
    SbSum sum;
    sb_sum_start(&sum);
    sb_sum_segment(&sum, positions, ends[row] - count, ends[row], [=](u32 position) {
        return sb_addend(grad, bag, factor, position, column, p);
    });
    out[i] = sb_sum_round(&sum);
}

// level: Portable - integer atomics into exact accumulators commute
extern "C" __global__ void embedding_bag_grad_f32_pieces(u64* acc, const float* grad, const u32* bag,
                                                         const float* factor, const u32* positions,
                                                         const u32* ends, const u32* counts,
                                                         const u64* cursor, const u32* long_rows,
                                                         const u32* firsts, SbBags p) {
    u64 i = sb_thread();
    u64 column = i % p.width;
    SbPiece piece;
    if (!sb_piece(&piece, i / p.width, cursor, long_rows, firsts, ends, counts)) return;
    SbSum sum;
    sb_sum_start(&sum);
    sb_sum_segment(&sum, positions, piece.begin, piece.end, [=](u32 position) {
        return sb_addend(grad, bag, factor, position, column, p);
    });
    sb_sum_deposit(&sum, acc + (piece.slot * p.width + column) * SB_ACC);
}

// Long segments have no form of their own: the order is part of the result.
// level: Portable - one thread owns one output and adds its segment in ascending places
extern "C" __global__ void embedding_bag_grad_f64_rows(double* out, const double* grad,
                                                       const u32* bag, const double* factor,
                                                       const u32* positions, const u32* ends,
                                                       const u32* counts, u64* cursor,
                                                       u32* long_rows, u32* firsts, SbBags p) {
    u64 i = sb_thread();
    if (i >= p.rows * p.width) return;
    u64 row = i / p.width;
    double sum = 0.0;
    u32 end = ends[row];
    for (u32 at = end - counts[row]; at < end; ++at) {
        sum = sum + sb_addend(grad, bag, factor, positions[at], i % p.width, p);
    }
    out[i] = sb_canonical64(sum);
}

// level: NotGuaranteed - float atomics
extern "C" __global__ void embedding_bag_grad_f32_atomic(float* out, const float* grad,
                                                         const u32* bag, const float* factor,
                                                         const i64* keys, SbBags p) {
    u64 i = sb_thread();
    if (i >= p.places * p.width) return;
    u64 place = i / p.width;
    u64 column = i % p.width;
    if (keys[place] < 0) return;
    atomicAdd(out + (u64)keys[place] * p.width + column,
              sb_addend(grad, bag, factor, place, column, p));
}

// Where each maximum's gradient goes in the table, or -1.
// level: Portable - one thread owns one key
extern "C" __global__ void bag_max_keys(i64* keys, const i64* max_rows, u64 n, u64 width, u64 rows,
                                        u64* status) {
    u64 i = sb_thread();
    if (i >= n) return;
    i64 row = max_rows[i];
    bool fine = row != -1 && sb_check(row, rows, i, status);
    keys[i] = fine ? row * (i64)width + (i64)(i % width) : -1;
}

// The scalar product of the bag's gradient and the place's row; +0 at padding.
template <typename T>
__device__ __forceinline__ void sb_bag_weight_grad(T* out, const T* grad, const T* table,
                                                   const u32* bag, const i64* keys,
                                                   const SbBags& p) {
    u64 place = sb_thread() / 32;
    if (place >= p.places) return;
    double sum = 0.0;
    if (keys[place] >= 0) {
        const T* g = grad + (u64)bag[place] * p.width;
        const T* row = table + (u64)keys[place] * p.width;
        sum = sb_tree(p.width, [=](u64 i) { return (double)g[i] * (double)row[i]; });
    }
    if ((threadIdx.x & 31u) == 0) out[place] = sb_clean((T)sum);
}

#define SB_BAG_WEIGHT_GRAD(NAME, T)                                                     \
    extern "C" __global__ void NAME(T* out, const T* grad, const T* table,              \
                                    const u32* bag, const i64* keys, SbBags p) {        \
        sb_bag_weight_grad<T>(out, grad, table, bag, keys, p);                          \
    }

// level: Portable - the tree of the contract, one warp per place
SB_BAG_WEIGHT_GRAD(embedding_bag_weight_grad_f32, float)
SB_BAG_WEIGHT_GRAD(embedding_bag_weight_grad_f64, double)
