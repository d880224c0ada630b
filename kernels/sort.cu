// Sorting and selection along the middle dimension of [outer, n, inner], the distinct elements of
// a tensor, and the positions of those that are not zero.
//
// Sorting is stable, so every element has one place. Lines of at most 1024 elements share a tile,
// which is sorted by merging in shared memory; elements of different lines never change places.
// Longer lines are sorted by their digits. A few elements of a long line are found by their
// digits, and only they are sorted.

#include "radix.cuh"

#define SB_SORT_TILE 1024u
#define SB_SORT_THREADS 256u
// Elements of one thread.
#define SB_SORT_EACH 4u

// How many of the first `d` elements of two merged runs come from the left one.
template <typename Before>
__device__ __forceinline__ u32 sb_split(u32 left, u32 right, u32 d, Before right_is_before_left) {
    u32 low = d > right ? d - right : 0;
    u32 high = sb_least(d, left);
    while (low < high) {
        u32 middle = (low + high) / 2;
        if (right_is_before_left(d - 1 - middle, middle)) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return low;
}

// Merges the elements from `d` on of two runs in shared memory into what this thread holds.
// Elements are in the same line if the upper halves of their tags are equal.
template <typename K>
__device__ __forceinline__ void sb_merge(const K* key, const u32* tag, u32 a, u32 a_end, u32 b,
                                         u32 b_end, u32 d, K* keys, u32* tags) {
    u32 from_left = sb_split(a_end - a, b_end - b, d, [=](u32 r, u32 l) {
        return key[b + r] < key[a + l] && (tag[b + r] ^ tag[a + l]) >> 16 == 0;
    });
    u32 l = a + from_left;
    u32 r = b + (d - from_left);
#pragma unroll
    for (u32 k = 0; k < SB_SORT_EACH; ++k) {
        bool has_left = l < a_end;
        bool has_right = r < b_end;
        if (!has_left && !has_right) break;
        bool right = has_right && (!has_left || (key[r] < key[l] && (tag[r] ^ tag[l]) >> 16 == 0));
        u32 from = right ? r : l;
        keys[k] = key[from];
        tags[k] = tag[from];
        r += right ? 1 : 0;
        l += right ? 0 : 1;
    }
}

template <typename T, typename K>
__device__ __forceinline__ void sb_sort_tile(K* keys, u32* places, const T* in, const u32* picks,
                                             const SbSort& p) {
    __shared__ K key[SB_SORT_TILE];
    // The line of the tile, and the place in the tile before it was sorted.
    __shared__ u32 tag[SB_SORT_TILE];
    u64 line = blockIdx.x * p.per_tile;
    u32 length = (u32)p.n;
    u32 count = (u32)sb_least(p.per_tile, p.lines - line) * length;
    u64 base = line * p.n;
    for (u32 i = threadIdx.x; i < count; i += SB_SORT_THREADS) {
        key[i] = sb_candidate<K>(sb_candidates(in, picks, p, line + i / length), p, i % length);
        tag[i] = i / length << 16 | i;
    }
    __syncthreads();
    u32 start = threadIdx.x * SB_SORT_EACH;
    u32 held = start < count ? sb_least(count - start, SB_SORT_EACH) : 0;
    K mine[SB_SORT_EACH];
    u32 tags[SB_SORT_EACH];
    // Absent elements have a line of their own and stay at the end.
#pragma unroll
    for (u32 k = 0; k < SB_SORT_EACH; ++k) {
        mine[k] = k < held ? key[start + k] : 0;
        tags[k] = k < held ? tag[start + k] : 0xffff0000u;
    }
    // Neighbours change places, in alternating pairs.
#pragma unroll
    for (u32 round = 0; round < SB_SORT_EACH; ++round) {
#pragma unroll
        for (u32 k = round % 2; k + 1 < SB_SORT_EACH; k += 2) {
            if (mine[k + 1] < mine[k] && (tags[k + 1] ^ tags[k]) >> 16 == 0) {
                K other = mine[k];
                mine[k] = mine[k + 1];
                mine[k + 1] = other;
                u32 t = tags[k];
                tags[k] = tags[k + 1];
                tags[k + 1] = t;
            }
        }
    }
    for (u32 run = SB_SORT_EACH;; run *= 2) {
        // What others read here was read before the barrier that ended the round.
#pragma unroll
        for (u32 k = 0; k < SB_SORT_EACH; ++k) {
            if (k < held) {
                key[start + k] = mine[k];
                tag[start + k] = tags[k];
            }
        }
        __syncthreads();
        if (run >= count) break;
        if (held > 0) {
            u32 a = start / (2 * run) * (2 * run);
            u32 b = sb_least(a + run, count);
            u32 end = sb_least(b + run, count);
            sb_merge(key, tag, a, b, b, end, start - a, mine, tags);
        }
        __syncthreads();
    }
    for (u32 i = threadIdx.x; i < count; i += SB_SORT_THREADS) {
        u32 from = tag[i] & 0xffffu;
        keys[base + i] = key[i];
        places[base + i] = p.picked ? picks[base + from] : from % length;
    }
}

#define SB_SORT_TILES(NAME, T, K)                                                       \
    extern "C" __global__ void NAME(K* keys, u32* places, const T* in, const u32* picks, \
                                    SbSort p) {                                         \
        sb_sort_tile<T, K>(keys, places, in, picks, p);                                 \
    }

// level: Portable - a stable sort of one tile; each element has one place
SB_SORT_TILES(sort_tiles_f32, float, u32)
SB_SORT_TILES(sort_tiles_f64, double, u64)
SB_SORT_TILES(sort_tiles_i64, i64, u64)

#define SB_SORT_LINES(NAME, T, K, BLOCKS)                                               \
    extern "C" __launch_bounds__(256, BLOCKS) __global__ void NAME(                             \
        K* keys, u32* places, const T* in, const u32* picks, SbSort p) {                \
        u64 base = blockIdx.x * p.n;                                                    \
        sb_sort_line<K>(in, picks, p, [=](u32 i, K key, u32 position) {                 \
            keys[base + i] = key;                                                       \
            places[base + i] = position;                                                \
        });                                                                             \
    }

// level: Portable - a stable sort of one line; each element has one place
SB_SORT_LINES(sort_lines_f32, float, u32, 3)
SB_SORT_LINES(sort_lines_f64, double, u64, 2)
SB_SORT_LINES(sort_lines_i64, i64, u64, 2)

#define SB_SORT_ROWS(NAME, T, K, BLOCKS)                                                \
    extern "C" __launch_bounds__(256, BLOCKS) __global__ void NAME(                     \
        T* values, i64* indices, const T* in, SbSort p) {                               \
        u64 base = blockIdx.x * p.n;                                                    \
        sb_sort_line<K>(in, nullptr, p, [=](u32 i, K, u32 position) {                   \
            values[base + i] = in[base + position];                                     \
            indices[base + i] = (i64)position;                                          \
        });                                                                             \
    }

// level: Portable - a stable sort of one dense line; each element has one place
SB_SORT_ROWS(sort_rows_f32, float, u32, 3)
SB_SORT_ROWS(sort_rows_f64, double, u64, 2)
SB_SORT_ROWS(sort_rows_i64, i64, u64, 2)

// ---- Long lines: see radix.cuh -------------------------------------------------------------

#define SB_SORT_DIFFERS(NAME, T, K)                                                     \
    extern "C" __global__ void NAME(u64* differs, const T* in, const u32* picks,        \
                                    SbSort p) {                                         \
        sb_radix_differs<T, K>(differs, in, picks, p);                                  \
    }

// level: Portable - integer atomics commute
SB_SORT_DIFFERS(sort_differs_f32, float, u32)
SB_SORT_DIFFERS(sort_differs_f64, double, u64)
SB_SORT_DIFFERS(sort_differs_i64, i64, u64)

#define SB_SORT_COUNTS(NAME, T, K)                                                      \
    extern "C" __global__ void NAME(u32* counts, const K* keys, const T* in,            \
                                    const u32* picks, const u64* differs, SbSort p,     \
                                    u32 pass) {                                         \
        sb_radix_counts<T, K>(counts, keys, in, picks, differs, p, pass);               \
    }

// level: Portable - integer atomics commute
SB_SORT_COUNTS(sort_counts_f32, float, u32)
SB_SORT_COUNTS(sort_counts_f64, double, u64)
SB_SORT_COUNTS(sort_counts_i64, i64, u64)

// level: Portable - integers
extern "C" __global__ void sort_starts(u32* counts, u32* totals, const u64* differs, SbSort p,
                                       u32 pass) {
    sb_radix_starts(counts, totals, differs, p, pass);
}

#define SB_SORT_MOVE(NAME, T, K, BLOCKS)                                                \
    extern "C" __launch_bounds__(256, BLOCKS) __global__ void NAME(                             \
        K* keys, u32* places, const T* in, const u32* picks, const u32* counts,         \
        const u32* totals, const u64* differs, SbSort p, u32 pass) {                    \
        sb_radix_move<T, K>(keys, places, in, picks, counts, totals, differs, p, pass); \
    }

// level: Portable - each element has one place, after those of lower digits and those before it
SB_SORT_MOVE(sort_move_f32, float, u32, 3)
SB_SORT_MOVE(sort_move_f64, double, u64, 2)
SB_SORT_MOVE(sort_move_i64, i64, u64, 2)

// The first `k` elements of each line, or one of them, found without sorting: see select.cuh.
#define SB_SELECT_LINES(NAME, T, K)                                                     \
    extern "C" __global__ void NAME(u32* picks, const T* in, SbSelect p) {              \
        sb_select_line<T, K>(picks, in, p);                                             \
    }

// level: Portable - counts commute; picks are in the order of their positions
SB_SELECT_LINES(select_lines_f32, float, u32)
SB_SELECT_LINES(select_lines_f64, double, u64)
SB_SELECT_LINES(select_lines_i64, i64, u64)

#define SB_SELECT_DIGITS(NAME, T, K)                                                    \
    extern "C" __global__ void NAME(u32* bins, SbChosen* chosen, const T* in, SbSelect p, \
                                    u32 pass) {                                         \
        sb_select_digits<T, K>(bins, chosen, in, p, pass);                              \
    }

// level: Portable - integer atomics commute
SB_SELECT_DIGITS(select_digits_f32, float, u32)
SB_SELECT_DIGITS(select_digits_f64, double, u64)
SB_SELECT_DIGITS(select_digits_i64, i64, u64)

#define SB_SELECT_COUNTS(NAME, T, K)                                                    \
    extern "C" __global__ void NAME(u32* counts, SbChosen* chosen, const T* in,         \
                                    const u32* bins, SbSelect p, u32 pass) {            \
        sb_select_counts<T, K>(counts, chosen, in, bins, p, pass);                      \
    }

// level: Portable - integer atomics commute
SB_SELECT_COUNTS(select_counts_f32, float, u32)
SB_SELECT_COUNTS(select_counts_f64, double, u64)
SB_SELECT_COUNTS(select_counts_i64, i64, u64)

#define SB_SELECT_WRITE(NAME, T, K)                                                     \
    extern "C" __global__ void NAME(u32* picks, const T* in, const SbChosen* chosen,    \
                                    const u32* counts, SbSelect p, u32 pass) {          \
        sb_select_write<T, K>(picks, in, chosen, counts, p, pass);                      \
    }

// level: Portable - each pick has one place, after those before it
SB_SELECT_WRITE(select_write_f32, float, u32)
SB_SELECT_WRITE(select_write_f64, double, u64)
SB_SELECT_WRITE(select_write_i64, i64, u64)

#define SB_SORT_TAKE(NAME, T)                                                           \
    extern "C" __global__ void NAME(T* values, i64* indices, const T* in,               \
                                    const u32* places, SbTake p) {                      \
        u64 i = sb_thread();                                                            \
        if (i >= p.outer * p.k * p.inner) return;                                       \
        u64 column = i % p.inner;                                                       \
        u64 slab = i / p.inner / p.k;                                                   \
        u64 line = slab * p.inner + column;                                             \
        u64 from = places[line * p.stride + p.first + i / p.inner % p.k];               \
        values[i] = in[(slab * p.source + from) * p.inner + column];                    \
        indices[i] = (i64)from;                                                         \
    }

// level: Portable - one thread owns one output
SB_SORT_TAKE(sort_take_b32, u32)
SB_SORT_TAKE(sort_take_b64, u64)

// NaNs are the end of a sorted line. With any, the median is the first of them; if they are left
// out, it is the lower median of the rest.
template <typename T, typename K>
__device__ __forceinline__ void sb_median(T* values, i64* indices, const T* in, const K* keys,
                                          const u32* places, const SbTake& p, u32 ignore_nan) {
    u64 line = sb_thread();
    if (line >= p.outer * p.inner) return;
    const K* sorted = keys + line * p.stride;
    u64 numbers = 0;
    u64 high = p.source;
    while (numbers < high) {
        u64 middle = (numbers + high) / 2;
        if (sorted[middle] == ~(K)0) {
            high = middle;
        } else {
            numbers = middle + 1;
        }
    }
    u64 place = numbers;
    if (ignore_nan || numbers == p.source) place = numbers > 0 ? (numbers - 1) / 2 : 0;
    u64 from = places[line * p.stride + place];
    values[line] = sb_clean(in[(line / p.inner * p.source + from) * p.inner + line % p.inner]);
    indices[line] = (i64)from;
}

// level: Portable - one thread owns one line
extern "C" __global__ void sort_median_f32(float* values, i64* indices, const float* in,
                                           const u32* keys, const u32* places, SbTake p,
                                           u32 ignore_nan) {
    sb_median<float, u32>(values, indices, in, keys, places, p, ignore_nan);
}

// level: Portable - one thread owns one line
extern "C" __global__ void sort_median_f64(double* values, i64* indices, const double* in,
                                           const u64* keys, const u32* places, SbTake p,
                                           u32 ignore_nan) {
    sb_median<double, u64>(values, indices, in, keys, places, p, ignore_nan);
}

// The same of lines whose medians were found without sorting.
#define SB_SELECT_MEDIAN(NAME, T)                                                       \
    extern "C" __global__ void NAME(T* values, i64* indices, const T* in,               \
                                    const u32* places, SbTake p) {                      \
        u64 line = sb_thread();                                                         \
        if (line >= p.outer * p.inner) return;                                          \
        u64 from = places[line];                                                        \
        values[line] =                                                                  \
            sb_clean(in[(line / p.inner * p.source + from) * p.inner + line % p.inner]); \
        indices[line] = (i64)from;                                                      \
    }

// level: Portable - one thread owns one line
SB_SELECT_MEDIAN(select_median_f32, float)
SB_SELECT_MEDIAN(select_median_f64, double)

// ---- Distinct elements --------------------------------------------------------------------

// Where a new element begins, in sorted order or, if `order` does not count, as they are; one
// flag more than elements, so that the sums before the flags end with their total.
#define SB_UNIQUE_FLAGS(NAME, T)                                                        \
    extern "C" __global__ void NAME(u32* flags, const T* in, const u32* order, u64 n,   \
                                    u32 sorted) {                                       \
        u64 i = sb_thread();                                                            \
        if (i > n) return;                                                              \
        bool begins = i == 0 && n > 0;                                                  \
        if (i > 0 && i < n) {                                                           \
            begins = !(in[sorted ? order[i] : i] == in[sorted ? order[i - 1] : i - 1]); \
        }                                                                               \
        flags[i] = begins ? 1u : 0u;                                                    \
    }

// level: Portable - one thread owns one flag
SB_UNIQUE_FLAGS(unique_flags_f32, float)
SB_UNIQUE_FLAGS(unique_flags_f64, double)
SB_UNIQUE_FLAGS(unique_flags_i64, i64)

// The distinct elements, the first of equal ones; for each element its place among them; and
// where the places of each begin.
#define SB_UNIQUE(NAME, T)                                                              \
    extern "C" __global__ void NAME(T* values, i64* inverse, u32* begins, const T* in,  \
                                    const u32* order, const u32* flags,                 \
                                    const u32* before, u64 n, u32 sorted) {             \
        u64 i = sb_thread();                                                            \
        if (i >= n) return;                                                             \
        u64 from = sorted ? order[i] : i;                                               \
        u32 place = before[i] + flags[i] - 1;                                           \
        inverse[from] = (i64)place;                                                     \
        if (flags[i] == 0) return;                                                      \
        values[place] = in[from];                                                       \
        begins[place] = (u32)i;                                                         \
    }

// level: Portable - one thread owns one element and what begins with it
SB_UNIQUE(unique_b32, u32)
SB_UNIQUE(unique_b64, u64)

// level: Portable - one thread owns one count
extern "C" __global__ void unique_counts(i64* counts, const u32* begins, u64 count, u64 n) {
    u64 i = sb_thread();
    if (i >= count) return;
    u64 end = i + 1 < count ? begins[i + 1] : n;
    counts[i] = (i64)(end - begins[i]);
}

// ---- Positions of what is not zero ----------------------------------------------------------

#define SB_NONZERO_FLAGS(NAME, T)                                                       \
    extern "C" __global__ void NAME(u32* flags, const T* in, u64 n) {                   \
        u64 i = sb_thread();                                                            \
        if (i > n) return;                                                              \
        flags[i] = i < n && in[i] != (T)0 ? 1u : 0u;                                    \
    }

// level: Portable - one thread owns one flag
SB_NONZERO_FLAGS(nonzero_flags_u8, unsigned char)
SB_NONZERO_FLAGS(nonzero_flags_f32, float)
SB_NONZERO_FLAGS(nonzero_flags_f64, double)
SB_NONZERO_FLAGS(nonzero_flags_i64, i64)

// The position of each element that is not zero, dimension by dimension.
// level: Portable - one thread owns one element
extern "C" __global__ void nonzero_positions(i64* out, const u32* flags, const u32* before,
                                             const u64* shape, u64 rank, u64 n) {
    u64 i = sb_thread();
    if (i >= n || flags[i] == 0) return;
    i64* position = out + (u64)before[i] * rank;
    u64 rest = i;
    for (u64 d = rank; d > 0; --d) {
        position[d - 1] = (i64)(rest % shape[d - 1]);
        rest /= shape[d - 1];
    }
}

// ---- Distinct rows --------------------------------------------------------------------------

// level: Portable - one thread owns one place
extern "C" __global__ void unique_rows_start(u32* order, u64 rows) {
    u64 i = sb_thread();
    if (i < rows) order[i] = (u32)i;
}

// True if row a sorts before row b: by the keys of their first different elements.
template <typename T>
__device__ __forceinline__ bool sb_row_before(const T* in, u64 width, u32 a, u32 b) {
    const T* left = in + (u64)a * width;
    const T* right = in + (u64)b * width;
    for (u64 k = 0; k < width; ++k) {
        auto x = sb_key(left[k]);
        auto y = sb_key(right[k]);
        if (x != y) return x < y;
    }
    return false;
}

// Merges neighbouring runs of `run` rows: each row goes behind those of its own run before it and
// those of the other run that come before it; of equal rows the left run's come first.
#define SB_UNIQUE_ROWS_MERGE(NAME, T)                                                   \
    extern "C" __global__ void NAME(u32* order_out, const u32* order, const T* in,      \
                                    u64 rows, u64 width, u64 run) {                     \
        u64 i = sb_thread();                                                            \
        if (i >= rows) return;                                                          \
        u64 start = i / (2 * run) * (2 * run);                                          \
        u64 middle = sb_least(start + run, rows);                                       \
        u64 end = sb_least(middle + run, rows);                                         \
        bool left = i < middle;                                                         \
        u32 mine = order[i];                                                            \
        u64 low = left ? middle : start;                                                \
        u64 high = left ? end : middle;                                                 \
        u64 first = low;                                                                \
        while (low < high) {                                                            \
            u64 at = (low + high) / 2;                                                  \
            bool before = left ? sb_row_before(in, width, order[at], mine)              \
                               : !sb_row_before(in, width, mine, order[at]);            \
            if (before) {                                                               \
                low = at + 1;                                                           \
            } else {                                                                    \
                high = at;                                                              \
            }                                                                           \
        }                                                                               \
        order_out[start + (i - (left ? start : middle)) + (low - first)] = mine;        \
    }

// level: Portable - one thread owns one row, and each row has one place
SB_UNIQUE_ROWS_MERGE(unique_rows_merge_f32, float)
SB_UNIQUE_ROWS_MERGE(unique_rows_merge_f64, double)
SB_UNIQUE_ROWS_MERGE(unique_rows_merge_i64, i64)

// As for elements, one flag more than rows.
#define SB_UNIQUE_ROWS_FLAGS(NAME, T)                                                   \
    extern "C" __global__ void NAME(u32* flags, const u32* order, const T* in,          \
                                    u64 rows, u64 width) {                              \
        u64 i = sb_thread();                                                            \
        if (i > rows) return;                                                           \
        bool begins = i == 0 && rows > 0;                                               \
        if (i > 0 && i < rows) {                                                        \
            const T* here = in + (u64)order[i] * width;                                 \
            const T* last = in + (u64)order[i - 1] * width;                             \
            for (u64 k = 0; k < width && !begins; ++k) begins = !(here[k] == last[k]);  \
        }                                                                               \
        flags[i] = begins ? 1u : 0u;                                                    \
    }

// level: Portable - one thread owns one flag
SB_UNIQUE_ROWS_FLAGS(unique_rows_flags_f32, float)
SB_UNIQUE_ROWS_FLAGS(unique_rows_flags_f64, double)
SB_UNIQUE_ROWS_FLAGS(unique_rows_flags_i64, i64)

// The first of equal rows, for each row its place among them, and where the places of each begin.
// level: Portable - one thread owns one row and what begins with it
extern "C" __global__ void unique_rows(i64* firsts, i64* inverse, u32* begins, const u32* order,
                                       const u32* flags, const u32* before, u64 rows) {
    u64 i = sb_thread();
    if (i >= rows) return;
    u32 place = before[i] + flags[i] - 1;
    inverse[order[i]] = (i64)place;
    if (flags[i] == 0) return;
    firsts[place] = (i64)order[i];
    begins[place] = (u32)i;
}
