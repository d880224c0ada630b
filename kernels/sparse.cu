// Products with sparse matrices that are lists of elements: sorted by row and column (sort.cu), and
// where these are equal in the order of the list.

#include "reduce.cuh"
#include "declared/sparse.cuh"

#define SB_K_BLOCK 256ull

// Reports elements that lie outside.
// level: Portable - an integer minimum
extern "C" __global__ void sparse_check(const i64* index, u64 n, u64 size, u64* status) {
    u64 i = sb_thread();
    if (i < n) sb_check(index[i], size, i, status);
}

// The place of each element in the matrix, row by row. Elements outside come last.
// level: Portable - one thread owns one key
extern "C" __global__ void sparse_keys(i64* keys, const i64* rows, const i64* columns, SbSparse p) {
    u64 i = sb_thread();
    if (i >= p.elements) return;
    u64 row = (u64)rows[i];
    u64 column = (u64)columns[i];
    bool inside = row < p.rows && column < p.columns;
    keys[i] = inside ? (i64)(row * p.columns + column) : 0x7fffffffffffffffll;
}

// Where the elements of each row begin, and where those of the last one end. `sorted` are the keys as
// the sort leaves them: with the sign bit changed.
// level: Portable - one thread owns one start
extern "C" __global__ void sparse_starts(u32* starts, const u64* sorted, SbSparse p) {
    u64 row = sb_thread();
    if (row > p.rows) return;
    u64 first = row * p.columns ^ 0x8000000000000000ull;
    u32 low = 0;
    u32 high = (u32)p.elements;
    while (low < high) {
        u32 middle = low + (high - low) / 2;
        if (sorted[middle] < first) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    starts[row] = low;
}

// A chain of fma in ascending columns within blocks of 256, from +0; the blocks that have an element
// are added in ascending order.
template <typename T>
struct SbSparseChain {
    T total;
    T partial;
    // The block of the last element, and the column at which it ends.
    u64 block;
    u64 end;
    bool begun;
};

template <typename T>
__device__ __forceinline__ void sb_sparse_add(SbSparseChain<T>* chain, const SbSparse& p, u64 column,
                                              T value, T x) {
    if (column >= chain->end) {
        u64 place = column % p.period;
        u64 block = place / SB_K_BLOCK;
        if (chain->end != 0 && block != chain->block) {
            chain->total = chain->begun ? chain->total + chain->partial : chain->partial;
            chain->partial = (T)0;
            chain->begun = true;
        }
        chain->block = block;
        u64 end = (block + 1) * SB_K_BLOCK;
        chain->end = column - place + (end < p.period ? end : p.period);
    }
    chain->partial = sb_fma(value, x, chain->partial);
}

// Elements that are read before the first of them is added.
#define SB_SPARSE_AHEAD 4

template <typename T>
__device__ __forceinline__ void sb_sparse_mm(T* out, const T* values, const T* dense,
                                             const i64* columns, const u32* order,
                                             const u32* starts, const SbSparse& p) {
    u64 i = sb_thread();
    if (i >= p.rows * p.width) return;
    u64 row = i / p.width;
    const T* x = dense + i % p.width;
    SbSparseChain<T> chain = {(T)0, (T)0, 0, 0, false};
    u32 at = starts[row];
    u32 end = starts[row + 1];
    for (; end - at >= SB_SPARSE_AHEAD; at += SB_SPARSE_AHEAD) {
        u32 element[SB_SPARSE_AHEAD];
        u64 column[SB_SPARSE_AHEAD];
        T value[SB_SPARSE_AHEAD];
        T other[SB_SPARSE_AHEAD];
#pragma unroll
        for (int k = 0; k < SB_SPARSE_AHEAD; ++k) element[k] = order[at + k];
#pragma unroll
        for (int k = 0; k < SB_SPARSE_AHEAD; ++k) {
            column[k] = (u64)columns[element[k]];
            value[k] = values[element[k]];
        }
#pragma unroll
        for (int k = 0; k < SB_SPARSE_AHEAD; ++k) other[k] = x[column[k] * p.width];
#pragma unroll
        for (int k = 0; k < SB_SPARSE_AHEAD; ++k)
            sb_sparse_add(&chain, p, column[k], value[k], other[k]);
    }
    for (; at < end; ++at) {
        u32 element = order[at];
        u64 column = (u64)columns[element];
        sb_sparse_add(&chain, p, column, values[element], x[column * p.width]);
    }
    out[i] = sb_clean(chain.begun ? chain.total + chain.partial : chain.partial);
}

// level: Portable - one thread owns one output and adds in the written order
extern "C" __global__ void sparse_mm_f32(float* out, const float* values, const float* dense,
                                         const i64* columns, const u32* order,
                                         const u32* starts, SbSparse p) {
    sb_sparse_mm<float>(out, values, dense, columns, order, starts, p);
}

// level: Portable - one thread owns one output and adds in the written order
extern "C" __global__ void sparse_mm_f64(double* out, const double* values, const double* dense,
                                         const i64* columns, const u32* order,
                                         const u32* starts, SbSparse p) {
    sb_sparse_mm<double>(out, values, dense, columns, order, starts, p);
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
