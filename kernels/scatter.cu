// Writes and sums at computed places: index_add, index_copy, scatter, scatter_add,
// scatter_reduce, put, gather, index_select, and the gradients made of them.
//
// A tensor is seen as outer x size x inner (SbRows) and one index speaks for a whole row of
// `inner` elements. The ops whose index has one entry per element first turn it into linear
// places (`scatter_keys`), and are then index ops with outer = inner = 1.
//
// Sums have two exact forms that give the same bits, so the launcher is free to choose by shape:
// deposits into limbs with integer atomics (few outputs, many addends), and rows gathered
// through a counting sort (many outputs). The atomic form adds floats in the order of arrival.

#include "segments.cuh"
#include "integer.cuh"
#include "declared/places.cuh"

// ---- Linear places ----------------------------------------------------------------------

// level: Portable - one thread owns one key
extern "C" __global__ void scatter_keys(i64* keys, const i64* index, SbRows p, u64* status) {
    u64 i = sb_thread();
    if (i >= p.outer * p.n * p.inner) return;
    u64 column = i % p.inner;
    u64 slab = i / p.inner / p.n;
    i64 row = index[i];
    bool fine = sb_check(row, p.size, i, status);
    keys[i] = fine ? (i64)((slab * p.size + (u64)row) * p.inner + column) : -1;
}

// level: Portable - one thread owns one key
extern "C" __global__ void part_keys(i64* keys, const i64* index, SbPart p, u64* status) {
    u64 i = sb_thread();
    if (i >= p.n) return;
    i64 row = index[i];
    u64 place = (u64)row * p.step;
    u64 rest = i;
    for (u64 d = p.rank; d > 0; --d) {
        place += rest % p.shape[d - 1] * p.stride[d - 1];
        rest /= p.shape[d - 1];
    }
    keys[i] = sb_check(row, p.size, i, status) ? (i64)place : -1;
}

// One more index of several: places so far times `size` plus the index, which counts from the end
// if it is negative. `first` is not 0 for the first of them.
// level: Portable - one thread owns one key
extern "C" __global__ void joined_keys(i64* keys, const i64* index, u64 n, u64 size, u32 first,
                                       u64* status) {
    u64 i = sb_thread();
    if (i >= n) return;
    i64 place = index[i];
    if (place < 0) place += (i64)size;
    bool fine = sb_check(place, size, i, status);
    i64 before = first != 0 ? 0 : keys[i];
    keys[i] = fine && before >= 0 ? before * (i64)size + place : -1;
}

// Negative indices count from the end.
// level: Portable - one thread owns one key
extern "C" __global__ void put_keys(i64* keys, const i64* index, u64 n, u64 size, u64* status) {
    u64 i = sb_thread();
    if (i >= n) return;
    i64 place = index[i];
    if (place < 0) place += (i64)size;
    bool fine = sb_check(place, size, i, status);
    keys[i] = fine ? place : -1;
}

// ---- Exact sums by deposit --------------------------------------------------------------

// level: Portable - integer atomics into exact accumulators commute
extern "C" __global__ void index_add_f32_deposit(u64* acc, const float* source, const i64* index,
                                                 SbRows p, float alpha, u64* status) {
    u64 i = sb_thread();
    if (i >= p.outer * p.n * p.inner) return;
    u64 column = i % p.inner;
    u64 row = i / p.inner % p.n;
    u64 slab = i / p.inner / p.n;
    i64 to = index[row];
    if (!sb_check(to, p.size, row, status)) return;
    u64 place = (slab * p.size + (u64)to) * p.inner + column;
    sb_exact_atomic_add(acc + place * SB_ACC, alpha * source[i]);
}

// Rounds an accumulator, and the old value with it if it counts.
__device__ __forceinline__ void sb_acc_round(float* out, const u64* acc, u32 with_old) {
    i64 limbs[SB_LIMBS];
#pragma unroll
    for (int l = 0; l < SB_LIMBS; ++l) limbs[l] = (i64)acc[l];
    u32 flags = (u32)acc[SB_LIMBS];
    if (with_old) {
        float old = *out;
        if (sb_is_finite(old)) {
            SbPieces piece = sb_pieces(old);
#pragma unroll
            for (int l = 0; l < SB_LIMBS; ++l) {
                if (l == (int)piece.limb) limbs[l] += piece.low;
                if (l == (int)piece.limb + 1) limbs[l] += piece.high;
            }
        } else {
            flags |= sb_special_flag(old);
        }
    }
    *out = sb_exact_round(limbs, flags);
}

// level: Portable - one thread owns one output
extern "C" __global__ void exact_round_f32(float* out, const u64* acc, u64 n, u32 with_old) {
    u64 i = sb_thread();
    if (i < n) sb_acc_round(out + i, acc + i * SB_ACC, with_old);
}

// The outputs of long segments.
// level: Portable - one thread owns one output
extern "C" __global__ void long_round_f32(float* out, const u64* acc, const u64* cursor,
                                          const u32* long_rows, SbSegments p, u32 with_old) {
    u64 i = sb_thread();
    u64 slot = i / p.columns;
    if (slot >= *cursor >> 32) return;
    u64 row = long_rows[slot];
    u64 q = i % p.columns;
    u64 place = row / p.plane * p.image_step + row % p.plane * p.place_step +
                q / p.inner * p.slab_step + q % p.inner;
    sb_acc_round(out + place, acc + i * SB_ACC, with_old);
}

// ---- Rows by counting sort --------------------------------------------------------------

// level: Portable - integer atomics commute
extern "C" __global__ void rows_count(u32* counts, const i64* index, u64 n, u64 size, u64* status) {
    u64 i = sb_thread();
    if (i >= n) return;
    i64 to = index[i];
    if (sb_check(to, size, i, status)) atomicAdd(counts + to, 1u);
}

// Scans 1024 counts per block of 256 threads; `totals` gets the sum of each block.
// level: Portable - integers
extern "C" __global__ void rows_scan(u32* starts, const u32* counts, u64 n, u32* totals) {
    __shared__ u32 part[256];
    u64 first = (u64)blockIdx.x * 1024ull + (u64)threadIdx.x * 4ull;
    u32 value[4];
    u32 sum = 0;
    for (int k = 0; k < 4; ++k) {
        value[k] = sum;
        sum += first + k < n ? counts[first + k] : 0u;
    }
    part[threadIdx.x] = sum;
    __syncthreads();
    for (u32 step = 1; step < 256; step *= 2) {
        u32 left = threadIdx.x >= step ? part[threadIdx.x - step] : 0u;
        __syncthreads();
        part[threadIdx.x] += left;
        __syncthreads();
    }
    u32 before = part[threadIdx.x] - sum;
    for (int k = 0; k < 4; ++k) {
        if (first + k < n) starts[first + k] = before + value[k];
    }
    if (threadIdx.x == 255) totals[blockIdx.x] = part[255];
}

// level: Portable - integers
extern "C" __global__ void rows_scan_add(u32* starts, u64 n, const u32* block_starts) {
    u64 i = sb_thread();
    if (i < n) starts[i] += block_starts[i / 1024ull];
}

// Puts each source row into its destination's segment, in the order of arrival. `cursors` holds
// the starts before and the ends after.
// level: Portable - the set of rows in a segment is fixed; exact sums do not see their order
// tickets: places inside a segment are summed exactly afterwards
extern "C" __global__ void rows_fill(u32* positions, u32* cursors, const i64* index, u64 n,
                                     u64 size) {
    u64 i = sb_thread();
    if (i >= n) return;
    i64 to = index[i];
    if (to < 0 || (u64)to >= size) return;
    positions[atomicAdd(cursors + to, 1u)] = (u32)i;
}

// The key by which a stable sort puts sources in the order of their destinations; bad indices last.
// level: Portable - one thread owns one key
extern "C" __global__ void rows_keys(i64* keys, const i64* index, u64 n, u64 size) {
    u64 i = sb_thread();
    if (i >= n) return;
    i64 to = index[i];
    keys[i] = to >= 0 && (u64)to < size ? to : (i64)size;
}

// level: Portable - one thread owns one row
extern "C" __global__ void rows_ends(u32* starts, const u32* counts, u64 size) {
    u64 i = sb_thread();
    if (i < size) starts[i] += counts[i];
}

// level: Portable - one thread owns one output and sums its segment exactly; long ones are noted
// tickets: a long segment's place in the list; exact sums do not see it
extern "C" __launch_bounds__(512, 4) __global__ void index_add_f32_rows(
    float* out, const float* source, const u32* positions, const u32* ends, const u32* counts,
    u64* cursor, u32* long_rows, u32* firsts, SbRows p, float alpha, u32 old) {
    u64 i = sb_thread();
    if (i >= p.outer * p.size * p.inner) return;
    u64 column = i % p.inner;
    u64 row = i / p.inner % p.size;
    u64 slab = i / p.inner / p.size;
    u32 count = counts[row];
    if (count > SB_PIECE) {
        if (column == 0 && slab == 0) sb_long_note(cursor, long_rows, firsts, (u32)row, count);
        return;
    }
    SbSum sum;
    sb_sum_start(&sum);
    // A row without addends keeps its old value, rounded like any other.
    if (old == SB_OLD_ADDED || (old == SB_OLD_KEPT && count == 0)) sb_sum_add(&sum, out[i]);
    u64 first = slab * p.n;
    sb_sum_segment(&sum, positions, ends[row] - count, ends[row], [=](u32 position) {
        return alpha * source[(first + position) * p.inner + column];
    });
    out[i] = sb_sum_round(&sum);
}

// level: Portable - integer atomics into exact accumulators commute
extern "C" __global__ void index_add_f32_pieces(u64* acc, const float* source, const u32* positions,
                                                const u32* ends, const u32* counts,
                                                const u64* cursor, const u32* long_rows,
                                                const u32* firsts, SbRows p, float alpha) {
    u64 i = sb_thread();
    u64 columns = p.outer * p.inner;
    u64 q = i % columns;
    SbPiece piece;
    if (!sb_piece(&piece, i / columns, cursor, long_rows, firsts, ends, counts)) return;
    SbSum sum;
    sb_sum_start(&sum);
    u64 first = q / p.inner * p.n;
    u64 column = q % p.inner;
    sb_sum_segment(&sum, positions, piece.begin, piece.end, [=](u32 position) {
        return alpha * source[(first + position) * p.inner + column];
    });
    sb_sum_deposit(&sum, acc + (piece.slot * columns + q) * SB_ACC);
}

// level: Portable - one thread owns one output and adds its segment in ascending source order
extern "C" __global__ void index_add_f64_rows(double* out, const double* source,
                                              const u32* positions, const u32* ends,
                                              const u32* counts, SbRows p, double alpha, u32 old) {
    u64 i = sb_thread();
    if (i >= p.outer * p.size * p.inner) return;
    u64 column = i % p.inner;
    u64 row = i / p.inner % p.size;
    u64 slab = i / p.inner / p.size;
    double sum = old == SB_OLD_NONE ? 0.0 : out[i];
    u32 end = ends[row];
    for (u32 at = end - counts[row]; at < end; ++at) {
        u64 from = (slab * p.n + (u64)positions[at]) * p.inner + column;
        sum = sum + alpha * source[from];
    }
    out[i] = sb_canonical64(sum);
}

template <typename T>
__device__ __forceinline__ void sb_ordered_sum(T* out, const T* source, const u32* positions,
                                               const u32* ends, const u32* counts, u64 size) {
    u64 i = sb_thread();
    if (i >= size) return;
    T sum = (T)0;
    u32 end = ends[i];
    for (u32 at = end - counts[i]; at < end; ++at) sum = sum + source[positions[at]];
    out[i] = sb_clean(sum);
}

// level: Portable - one thread owns one output and adds in ascending source order from +0
extern "C" __global__ void ordered_sum_f32_rows(float* out, const float* source,
                                                const u32* positions, const u32* ends,
                                                const u32* counts, u64 size) {
    sb_ordered_sum<float>(out, source, positions, ends, counts, size);
}

// level: Portable - one thread owns one output and adds in ascending source order from +0
extern "C" __global__ void ordered_sum_f64_rows(double* out, const double* source,
                                                const u32* positions, const u32* ends,
                                                const u32* counts, u64 size) {
    sb_ordered_sum<double>(out, source, positions, ends, counts, size);
}

// level: Portable - one thread owns one output and multiplies in ascending source order
extern "C" __global__ void reduce_prod_f32_rows(float* out, const float* source,
                                                const u32* positions, const u32* ends,
                                                const u32* counts, u64 size, u32 with_old) {
    u64 i = sb_thread();
    if (i >= size || counts[i] == 0) return;
    float product = with_old ? out[i] : 1.0f;
    u32 end = ends[i];
    for (u32 at = end - counts[i]; at < end; ++at) product = product * source[positions[at]];
    out[i] = sb_canonical(product);
}

// The kinds of SbReduction.

__device__ __forceinline__ double sb_reduce_identity(u32 kind) {
    if (kind <= SB_SCATTER_REDUCE_MEAN) return 0.0;
    if (kind == SB_SCATTER_REDUCE_PROD) return 1.0;
    double infinity = __longlong_as_double(0x7ff0000000000000ll);
    return kind == SB_SCATTER_REDUCE_AMAX ? -infinity : infinity;
}

// The old value first, if it counts; a NaN goes before all numbers, and of equal ones the first.
// level: Portable - one thread owns one output and takes its segment in ascending source order
extern "C" __global__ void reduce_f64_rows(double* out, const double* source, const u32* positions,
                                           const u32* ends, const u32* counts, u64 size, u32 kind,
                                           u32 with_old) {
    u64 i = sb_thread();
    if (i >= size) return;
    u32 n = counts[i];
    // Without a source, only sums see the old value.
    if (n == 0 && kind > SB_SCATTER_REDUCE_MEAN) return;
    double x = with_old || n == 0 ? out[i] : sb_reduce_identity(kind);
    u32 end = ends[i];
    for (u32 at = end - n; at < end; ++at) {
        double next = source[positions[at]];
        if (kind <= SB_SCATTER_REDUCE_MEAN) {
            x = x + next;
        } else if (kind == SB_SCATTER_REDUCE_PROD) {
            x = x * next;
        } else {
            bool better = kind == SB_SCATTER_REDUCE_AMAX ? next > x : next < x;
            if (better || (next != next && x == x)) x = next;
        }
    }
    u32 divisor = n + (with_old ? 1u : 0u);
    if (kind == SB_SCATTER_REDUCE_MEAN && divisor > 1) x = x / (double)divisor;
    out[i] = sb_canonical64(x);
}

// ---- Reductions of integers: every order gives the same result, so atomics combine them in place,
// but for products, which no atomic computes

// A place with a source forgets its old value.
// level: Portable - one thread owns one output
extern "C" __global__ void reduce_i64_start(i64* out, const u32* counts, u64 size, u32 kind) {
    u64 i = sb_thread();
    if (i >= size || counts[i] == 0) return;
    i64 identity = 0;
    if (kind == SB_SCATTER_REDUCE_AMAX) identity = (i64)(1ull << 63);
    if (kind == SB_SCATTER_REDUCE_AMIN) identity = (i64)~(1ull << 63);
    out[i] = identity;
}

// level: Portable - integer atomics commute; sums wrap around
extern "C" __global__ void reduce_i64(i64* out, const i64* source, const i64* index, u64 n,
                                      u64 size, u32 kind) {
    u64 i = sb_thread();
    if (i >= n) return;
    i64 to = index[i];
    if (to < 0 || (u64)to >= size) return;
    i64 x = source[i];
    if (kind <= SB_SCATTER_REDUCE_MEAN) {
        atomicAdd((u64*)out + to, (u64)x);
    } else if (kind == SB_SCATTER_REDUCE_AMAX) {
        atomicMax(out + to, x);
    } else {
        atomicMin(out + to, x);
    }
}

// level: Portable - one thread owns one output; products wrap around
extern "C" __global__ void reduce_prod_i64_rows(i64* out, const i64* source, const u32* positions,
                                                const u32* ends, const u32* counts, u64 size,
                                                u32 with_old) {
    u64 i = sb_thread();
    if (i >= size || counts[i] == 0) return;
    u64 product = with_old ? (u64)out[i] : 1ull;
    u32 end = ends[i];
    for (u32 at = end - counts[i]; at < end; ++at) product = product * (u64)source[positions[at]];
    out[i] = sb_wrapped(product);
}

// level: Portable - one thread owns one output; integers
extern "C" __global__ void reduce_mean_i64(i64* out, const u32* counts, u64 size, u32 with_old) {
    u64 i = sb_thread();
    if (i >= size) return;
    u32 n = counts[i] + (with_old ? 1u : 0u);
    if (n > 1) out[i] = sb_wrapped(sb_floor_divide(out[i], (i64)n));
}

// level: Portable - one thread owns one output
extern "C" __global__ void reduce_mean_f32(float* out, const u32* counts, u64 size, u32 with_old) {
    u64 i = sb_thread();
    if (i >= size) return;
    u32 n = counts[i] + (with_old ? 1u : 0u);
    if (n > 1) out[i] = sb_canonical(out[i] / (float)n);
}

// ---- Sums in the order of arrival -------------------------------------------------------

// A is the type that atomics add.
#define SB_INDEX_ADD(NAME, T, A)                                                        \
    extern "C" __global__ void NAME(T* out, const T* source, const i64* index, SbRows p, \
                                    T alpha, u64* status) {                             \
        u64 i = sb_thread();                                                            \
        if (i >= p.outer * p.n * p.inner) return;                                       \
        u64 column = i % p.inner;                                                       \
        u64 row = i / p.inner % p.n;                                                    \
        u64 slab = i / p.inner / p.n;                                                   \
        i64 to = index[row];                                                            \
        if (!sb_check(to, p.size, row, status)) return;                                 \
        A* place = (A*)out + (slab * p.size + (u64)to) * p.inner + column;              \
        atomicAdd(place, (A)alpha * (A)source[i]);                                      \
    }

// level: NotGuaranteed - float atomics
SB_INDEX_ADD(index_add_f32_atomic, float, float)

// level: Portable - integers wrap around, so their atomics commute
SB_INDEX_ADD(index_add_i64, i64, u64)

// level: NotGuaranteed - float atomics
extern "C" __global__ void scatter_add_f32_atomic(float* out, const float* source, const i64* index,
                                                  SbRows p, u64* status) {
    u64 i = sb_thread();
    if (i >= p.outer * p.n * p.inner) return;
    u64 column = i % p.inner;
    u64 slab = i / p.inner / p.n;
    i64 to = index[i];
    if (!sb_check(to, p.size, i, status)) return;
    atomicAdd(out + (slab * p.size + (u64)to) * p.inner + column, source[i]);
}

// level: NotGuaranteed - products round in the order of arrival
extern "C" __global__ void reduce_prod_f32_atomic(float* out, const float* source, const i64* index,
                                                  u64 n, u64 size, u64* status) {
    u64 i = sb_thread();
    if (i >= n) return;
    i64 to = index[i];
    if (!sb_check(to, size, i, status)) return;
    u32* place = (u32*)out + to;
    u32 old = atomicOr(place, 0u);
    for (;;) {
        u32 product = __float_as_uint(__uint_as_float(old) * source[i]);
        u32 found = atomicCAS(place, old, product);
        if (found == old) break;
        old = found;
    }
}

// ---- Duplicate writes: the highest source position wins ---------------------------------

// level: Portable - an integer maximum
extern "C" __global__ void index_winner(u64* winner, const i64* index, u64 n, u64 size,
                                        u64* status) {
    u64 i = sb_thread();
    if (i >= n) return;
    i64 to = index[i];
    if (sb_check(to, size, i, status)) atomicMax(winner + to, i + 1);
}

#define SB_INDEX_COPY(NAME, T)                                                          \
    extern "C" __global__ void NAME(T* out, const T* source, const u64* winner, SbRows p) { \
        u64 i = sb_thread();                                                            \
        if (i >= p.outer * p.size * p.inner) return;                                    \
        u64 column = i % p.inner;                                                       \
        u64 row = i / p.inner % p.size;                                                 \
        u64 slab = i / p.inner / p.size;                                                \
        u64 from = winner[row];                                                         \
        if (from != 0) out[i] = source[(slab * p.n + from - 1) * p.inner + column];     \
    }

// level: Portable - one thread owns one output
SB_INDEX_COPY(index_copy_b8, unsigned char)
SB_INDEX_COPY(index_copy_b16, unsigned short)
SB_INDEX_COPY(index_copy_b32, u32)
SB_INDEX_COPY(index_copy_b64, u64)

// ---- Extrema: NaN first, then the value, then the lowest position ------------------------

// Larger for better candidates: NaN above all, equal zeros alike.
__device__ __forceinline__ u32 sb_extreme_key(float x, u32 minimum) {
    if (x != x) return 0xffffffffu;
    u32 bits = __float_as_uint(x + 0.0f);
    u32 key = bits ^ ((u32)((i32)bits >> 31) | 0x80000000u);
    return minimum ? ~key : key;
}

// The value's key above the complement of its position: the maximum is the first of the best.
// level: Portable - an integer maximum
extern "C" __global__ void reduce_extreme_f32(u64* best, const float* source, const i64* index,
                                              u64 n, u64 size, u32 minimum, u64* status) {
    u64 i = sb_thread();
    if (i >= n) return;
    i64 to = index[i];
    if (!sb_check(to, size, i, status)) return;
    u64 key = (u64)sb_extreme_key(source[i], minimum) << 32 | (u64)(~(u32)i);
    atomicMax(best + to, key);
}

// The old value comes before every source element.
// level: Portable - one thread owns one output
extern "C" __global__ void reduce_extreme_f32_finish(float* out, const u64* best,
                                                     const float* source, u64 size, u32 minimum,
                                                     u32 with_old) {
    u64 i = sb_thread();
    if (i >= size || best[i] == 0) return;
    u32 key = (u32)(best[i] >> 32);
    float value = source[~(u32)best[i]];
    if (with_old && sb_extreme_key(out[i], minimum) >= key) value = out[i];
    out[i] = sb_canonical(value);
}

// ---- Reads at computed places ------------------------------------------------------------

// The result's element i takes the row that index[row of i], or index[i], names.
#define SB_SELECT_ROWS(NAME, T, PLACE)                                                  \
    extern "C" __global__ void NAME(T* out, const T* source, const i64* index, SbRows p, \
                                    u64* status) {                                      \
        u64 i = sb_thread();                                                            \
        if (i >= p.outer * p.n * p.inner) return;                                       \
        u64 column = i % p.inner;                                                       \
        u64 slab = i / p.inner / p.n;                                                   \
        u64 place = PLACE;                                                              \
        i64 from = index[place];                                                        \
        bool fine = sb_check(from, p.size, place, status);                              \
        out[i] = fine ? source[(slab * p.size + (u64)from) * p.inner + column] : (T)0;  \
    }

// level: Portable - one thread owns one output
SB_SELECT_ROWS(index_select_b8, unsigned char, i / p.inner % p.n)
SB_SELECT_ROWS(index_select_b16, unsigned short, i / p.inner % p.n)
SB_SELECT_ROWS(index_select_b32, u32, i / p.inner % p.n)
SB_SELECT_ROWS(index_select_b64, u64, i / p.inner % p.n)
SB_SELECT_ROWS(gather_b8, unsigned char, i)
SB_SELECT_ROWS(gather_b16, unsigned short, i)
SB_SELECT_ROWS(gather_b32, u32, i)
SB_SELECT_ROWS(gather_b64, u64, i)
