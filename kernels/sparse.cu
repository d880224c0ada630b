// Products with sparse matrices that are lists of elements: grouped by row (scatter.cu), each row
// in ascending columns and then in the order of the list.

#include "reduce.cuh"
#include "declared/sparse.cuh"

#define SB_K_BLOCK 256ull

// Reports elements that lie outside.
// level: Portable - an integer minimum
extern "C" __global__ void sparse_check(const i64* index, u64 n, u64 size, u64* status) {
    u64 i = sb_thread();
    if (i < n) sb_check(index[i], size, i, status);
}

// True if element a comes before element b in its row.
__device__ __forceinline__ bool sb_earlier(const i64* columns, u32 a, u32 b) {
    return columns[a] != columns[b] ? columns[a] < columns[b] : a < b;
}

// Sorts each row's elements: a heap sort, because a row may be long.
// level: Portable - one thread owns one row, and no two elements are equal
extern "C" __global__ void sparse_sort(u32* positions, const u32* ends, const u32* counts,
                                       const i64* columns, u64 rows) {
    u64 row = sb_thread();
    if (row >= rows) return;
    u32 n = counts[row];
    u32* list = positions + (ends[row] - n);
    for (u32 built = n / 2, last = n; last > 1;) {
        u32 item;
        if (built > 0) {
            built -= 1;
            item = list[built];
        } else {
            last -= 1;
            item = list[last];
            list[last] = list[0];
            if (last == 1) {
                list[0] = item;
                break;
            }
        }
        u32 hole = built;
        for (u32 child = 2 * hole + 1; child < last; child = 2 * hole + 1) {
            if (child + 1 < last && sb_earlier(columns, list[child], list[child + 1])) child += 1;
            if (!sb_earlier(columns, item, list[child])) break;
            list[hole] = list[child];
            hole = child;
        }
        list[hole] = item;
    }
}

// Each output: a chain of fma in ascending columns within blocks of 256, from +0; the blocks that
// have an element are added in ascending order.
template <typename T>
__device__ __forceinline__ void sb_sparse_mm(T* out, const T* values, const T* dense,
                                             const i64* columns, const u32* positions,
                                             const u32* ends, const u32* counts, SbSparse p) {
    u64 i = sb_thread();
    if (i >= p.rows * p.width) return;
    u64 row = i / p.width;
    u64 j = i % p.width;
    T total = (T)0;
    T partial = (T)0;
    bool begun = false;
    bool any = false;
    u64 current = 0;
    u32 end = ends[row];
    for (u32 at = end - counts[row]; at < end; ++at) {
        u32 element = positions[at];
        u64 column = (u64)columns[element];
        if (column >= p.columns) continue;
        u64 block = column % p.period / SB_K_BLOCK;
        if (any && block != current) {
            total = begun ? total + partial : partial;
            partial = (T)0;
            begun = true;
        }
        any = true;
        current = block;
        partial = sb_fma(values[element], dense[column * p.width + j], partial);
    }
    out[i] = sb_clean(begun ? total + partial : partial);
}

// level: Portable - one thread owns one output and adds in the written order
extern "C" __global__ void sparse_mm_f32(float* out, const float* values, const float* dense,
                                         const i64* columns, const u32* positions,
                                         const u32* ends, const u32* counts, SbSparse p) {
    sb_sparse_mm<float>(out, values, dense, columns, positions, ends, counts, p);
}

// level: Portable - one thread owns one output and adds in the written order
extern "C" __global__ void sparse_mm_f64(double* out, const double* values, const double* dense,
                                         const i64* columns, const u32* positions,
                                         const u32* ends, const u32* counts, SbSparse p) {
    sb_sparse_mm<double>(out, values, dense, columns, positions, ends, counts, p);
}

// Bad elements were reported and are skipped.
// level: NotGuaranteed - float atomics
extern "C" __global__ void sparse_mm_f32_atomic(float* out, const float* values,
                                                const float* dense, const i64* rows,
                                                const i64* columns, SbSparse p) {
    u64 i = sb_thread();
    if (i >= p.elements * p.width) return;
    u64 element = i / p.width;
    u64 j = i % p.width;
    u64 row = (u64)rows[element];
    u64 column = (u64)columns[element];
    if (row >= p.rows || column >= p.columns) return;
    atomicAdd(out + row * p.width + j, values[element] * dense[column * p.width + j]);
}

// Dot products of chosen rows of two matrices of `rows` and `columns` rows.
template <typename T>
__device__ __forceinline__ void sb_sampled_product(T* out, const T* left, const T* right,
                                                   const i64* rows, const i64* columns,
                                                   SbSparse p) {
    u64 element = sb_thread() / 32;
    if (element >= p.elements) return;
    u64 row = (u64)rows[element];
    u64 column = (u64)columns[element];
    double sum = 0.0;
    if (row < p.rows && column < p.columns) {
        const T* x = left + row * p.width;
        const T* y = right + column * p.width;
        sum = sb_tree(p.width, [=](u64 i) { return (double)x[i] * (double)y[i]; });
    }
    if ((threadIdx.x & 31u) == 0) out[element] = sb_clean((T)sum);
}

// level: Portable - the tree of the contract, one warp per element
extern "C" __global__ void sampled_product_f32(float* out, const float* left, const float* right,
                                               const i64* rows, const i64* columns, SbSparse p) {
    sb_sampled_product<float>(out, left, right, rows, columns, p);
}

// level: Portable - the tree of the contract, one warp per element
extern "C" __global__ void sampled_product_f64(double* out, const double* left,
                                               const double* right, const i64* rows,
                                               const i64* columns, SbSparse p) {
    sb_sampled_product<double>(out, left, right, rows, columns, p);
}
