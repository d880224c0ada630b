// Matrix products in the written order: within each block of 256 k, ascending,
// acc = fma(a[i][k], b[k][j], acc) from +0; block partials are added in ascending order.
//
// One block of 256 threads computes 64 x 64 outputs, each thread 4 x 4. Tiles of 16 k pass
// through shared memory; a tile never straddles a border of the order, and k beyond the end is
// skipped, not multiplied with zero.

#include "samebits.cuh"
#include "declared/matmul.cuh"

#define SB_TILE 64
#define SB_TILE_K 16
#define SB_K_BLOCK 256

template <typename T>
__device__ __forceinline__ void sb_matmul(T* out, const T* a, const T* b, const u64* a_offset,
                                          const u64* b_offset, const SbMatmul& p) {
    __shared__ T tile_a[SB_TILE_K][SB_TILE + 1];
    __shared__ T tile_b[SB_TILE_K][SB_TILE + 1];
    u64 columns = (p.n + SB_TILE - 1) / SB_TILE;
    u64 rows = (p.m + SB_TILE - 1) / SB_TILE;
    u64 column0 = blockIdx.x % columns * SB_TILE;
    u64 row0 = blockIdx.x / columns % rows * SB_TILE;
    u64 batch = blockIdx.x / columns / rows;
    a += a_offset[batch];
    b += b_offset[batch];
    out += batch * p.m * p.n;
    u32 tx = threadIdx.x % 16;
    u32 ty = threadIdx.x / 16;
    T total[4][4];
    T acc[4][4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            total[i][j] = (T)0;
            acc[i][j] = (T)0;
        }
    }
    for (u64 k0 = 0; k0 < p.k; k0 += SB_TILE_K) {
        u32 depth = p.k - k0 < SB_TILE_K ? (u32)(p.k - k0) : SB_TILE_K;
        for (u32 e = threadIdx.x; e < SB_TILE * SB_TILE_K; e += 256) {
            // Neighbouring threads walk along whichever direction is dense.
            u32 r = p.a_column == 1 ? e / SB_TILE_K : e % SB_TILE;
            u32 q = p.a_column == 1 ? e % SB_TILE_K : e / SB_TILE;
            bool in = row0 + r < p.m && q < depth;
            tile_a[q][r] = in ? a[(row0 + r) * p.a_row + (k0 + q) * p.a_column] : (T)0;
            u32 c = p.b_row == 1 ? e / SB_TILE_K : e % SB_TILE;
            u32 s = p.b_row == 1 ? e % SB_TILE_K : e / SB_TILE;
            in = column0 + c < p.n && s < depth;
            tile_b[s][c] = in ? b[(k0 + s) * p.b_row + (column0 + c) * p.b_column] : (T)0;
        }
        __syncthreads();
        for (u32 q = 0; q < depth; ++q) {
            T x[4];
            T y[4];
#pragma unroll
            for (int i = 0; i < 4; ++i) x[i] = tile_a[q][ty + 16 * i];
#pragma unroll
            for (int j = 0; j < 4; ++j) y[j] = tile_b[q][tx + 16 * j];
#pragma unroll
            for (int i = 0; i < 4; ++i) {
#pragma unroll
                for (int j = 0; j < 4; ++j) acc[i][j] = sb_fma(x[i], y[j], acc[i][j]);
            }
        }
        __syncthreads();
        u64 done = k0 + depth;
        if (done % SB_K_BLOCK == 0 || done == p.k) {
            bool first = done <= SB_K_BLOCK;
#pragma unroll
            for (int i = 0; i < 4; ++i) {
#pragma unroll
                for (int j = 0; j < 4; ++j) {
                    total[i][j] = first ? acc[i][j] : total[i][j] + acc[i][j];
                    acc[i][j] = (T)0;
                }
            }
        }
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            u64 row = row0 + ty + 16 * i;
            u64 column = column0 + tx + 16 * j;
            if (row < p.m && column < p.n) out[row * p.n + column] = sb_clean(total[i][j]);
        }
    }
}

// level: Portable - one thread owns one output and adds in the written order
extern "C" __global__ void matmul_f32(float* out, const float* a, const float* b,
                                      const u64* a_offset, const u64* b_offset, SbMatmul p) {
    sb_matmul<float>(out, a, b, a_offset, b_offset, p);
}

// level: Portable - one thread owns one output and adds in the written order
extern "C" __global__ void matmul_f64(double* out, const double* a, const double* b,
                                      const u64* a_offset, const u64* b_offset, SbMatmul p) {
    sb_matmul<double>(out, a, b, a_offset, b_offset, p);
}

// Splits k at the borders of the order: row y of the grid computes partial z, and
// `matmul_combine` adds them. For products with few outputs and a long k.
// level: Portable - one thread owns one partial
extern "C" __global__ void matmul_partial_f32(float* partials, const float* a, const float* b,
                                              const u64* a_offset, const u64* b_offset,
                                              SbMatmul p) {
    u64 block = blockIdx.y;
    SbMatmul q = p;
    u64 first = block * SB_K_BLOCK;
    q.k = p.k - first < SB_K_BLOCK ? p.k - first : SB_K_BLOCK;
    sb_matmul<float>(partials + block * p.batch * p.m * p.n, a + first * p.a_column,
                     b + first * p.b_row, a_offset, b_offset, q);
}

template <typename T>
__device__ __forceinline__ void sb_matmul_combine(T* out, const T* partials, u64 n, u64 blocks) {
    u64 i = sb_thread();
    if (i >= n) return;
    T total = partials[i];
    for (u64 block = 1; block < blocks; ++block) total = total + partials[block * n + i];
    out[i] = sb_clean(total);
}

// level: Portable - one thread owns one output and adds the partials in ascending order
extern "C" __global__ void matmul_combine_f32(float* out, const float* partials, u64 n,
                                              u64 blocks) {
    sb_matmul_combine<float>(out, partials, n, blocks);
}

// level: Portable - one thread owns one output and adds the partials in ascending order
extern "C" __global__ void matmul_combine_f64(double* out, const double* partials, u64 n,
                                              u64 blocks) {
    sb_matmul_combine<double>(out, partials, n, blocks);
}

// Split k with float atomics: partials in the order of arrival.
// level: NotGuaranteed - float atomics
extern "C" __global__ void matmul_combine_f32_atomic(float* out, const float* partials, u64 n,
                                                     u64 blocks) {
    u64 i = sb_thread();
    if (i >= n * blocks) return;
    atomicAdd(out + i % n, partials[i]);
}
