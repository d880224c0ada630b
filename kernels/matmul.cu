// Matrix products in the written order: within each block of 256 k, ascending,
// acc = fma(a[i][k], b[k][j], acc) from +0; block partials are added in ascending order.
//
// A block of threads computes a tile of 64 x 64 or 128 x 128 outputs (tile.cuh), and keeps the sums of
// one block of k and of those before in registers. With `split`, row y of the grid computes block y of
// k into out[y], and `matmul_combine` adds them: for products whose tiles would leave most of a GPU
// idle.

#include "tile.cuh"
#include "declared/matmul.cuh"

#define SB_K_BLOCK 256u

// Writes N sums that lie side by side.
template <typename T, int N>
__device__ __forceinline__ void sb_matmul_write(T* out, const T* sums, bool last) {
    SbRun<T, N> run;
#pragma unroll
    for (int j = 0; j < N; ++j) run.at[j] = last ? sb_clean(sums[j]) : sums[j];
    *(SbRun<T, N>*)out = run;
}

template <typename T, int TM, int TN>
__device__ __forceinline__ void sb_matmul(T* out, const T* a, const T* b, const u64* offsets,
                                          const SbMatmul& p, u32 split) {
    const u32 M = SB_SIDE * TM;
    const u32 N = SB_SIDE * TN;
    __shared__ alignas(32) T tile_a[2][SB_STAGE * SB_PITCH(M)];
    __shared__ alignas(32) T tile_b[2][SB_STAGE * SB_PITCH(N)];
    u64 columns = (p.n + N - 1) / N;
    u64 rows = (p.m + M - 1) / M;
    u64 column0 = blockIdx.x % columns * N;
    u64 row0 = blockIdx.x / columns % rows * M;
    u64 batch = blockIdx.x / columns / rows;
    u64 begin = split ? (u64)blockIdx.y * SB_K_BLOCK : 0;
    u64 left = split && p.k - begin > SB_K_BLOCK ? SB_K_BLOCK : p.k - begin;
    u64 a_at = p.table ? offsets[2 * batch] : p.a_first + batch * p.a_step;
    u64 b_at = p.table ? offsets[2 * batch + 1] : p.b_first + batch * p.b_step;
    SbSource<T, M> from_a(a + a_at + row0 * p.a_row + begin * p.a_column, p.a_row,
                          p.a_column, p.m - row0);
    SbSource<T, N> from_b(b + b_at + column0 * p.b_column + begin * p.b_row, p.b_column,
                          p.b_row, p.n - column0);
    u32 row = sb_tile_row();
    u32 column = sb_tile_column();
    out += ((blockIdx.y * p.batch + batch) * p.m + row0) * p.n + column0;
    T acc[TM][TN] = {};
    T total[TM][TN] = {};
    T held_a[SbSource<T, M>::COUNT];
    T held_b[SbSource<T, N>::COUNT];
    u32 depth = left < SB_STAGE ? (u32)left : SB_STAGE;
    from_a.load(depth, (T)-0.0, held_a);
    from_b.load(depth, (T)0, held_b);
    from_a.store(tile_a[0], held_a);
    from_b.store(tile_b[0], held_b);
    __syncthreads();
    for (u32 stage = 0;; ++stage) {
        left -= depth;
        depth = left < SB_STAGE ? (u32)left : SB_STAGE;
        if (left > 0) {
            from_a.load(depth, (T)-0.0, held_a);
            from_b.load(depth, (T)0, held_b);
        }
        sb_multiply<false>(tile_a[stage % 2], tile_b[stage % 2], row, column, 0, acc);
        if (left == 0 || (stage + 1) % (SB_K_BLOCK / SB_STAGE) == 0) {
            bool first = stage < SB_K_BLOCK / SB_STAGE;
#pragma unroll
            for (int i = 0; i < TM; ++i) {
#pragma unroll
                for (int j = 0; j < TN; ++j) {
                    total[i][j] = first ? acc[i][j] : total[i][j] + acc[i][j];
                    acc[i][j] = (T)0;
                }
            }
        }
        if (left == 0) break;
        from_a.store(tile_a[(stage + 1) % 2], held_a);
        from_b.store(tile_b[(stage + 1) % 2], held_b);
        __syncthreads();
    }
    bool last = !split;
#pragma unroll
    for (int i = 0; i < TM; ++i) {
        u32 m = sb_tile_at<TM>(row, i);
        if (row0 + m >= p.m) continue;
#pragma unroll
        for (int j = 0; j < TN; j += 4) {
            u32 n = sb_tile_at<TN>(column, j);
            T* to = out + m * p.n + n;
            if (p.n % 4 == 0) {
                if (column0 + n < p.n) sb_matmul_write<T, 4>(to, total[i] + j, last);
            } else {
#pragma unroll
                for (int e = 0; e < 4; ++e) {
                    if (column0 + n + e < p.n) {
                        sb_matmul_write<T, 1>(to + e, total[i] + j + e, last);
                    }
                }
            }
        }
    }
}

#define SB_MATMUL(NAME, T, TM, TN, BLOCKS)                                                     \
    extern "C" __launch_bounds__(SB_THREADS, BLOCKS) __global__ void NAME(                     \
        T* out, const T* a, const T* b, const u64* offsets, SbMatmul p, u32 split) {           \
        sb_matmul<T, TM, TN>(out, a, b, offsets, p, split);                                    \
    }

// level: Portable - one thread owns one output, or one block of it, and adds in the written order
SB_MATMUL(matmul_64x64_f32, float, 4, 4, 3)
SB_MATMUL(matmul_64x64_f64, double, 4, 4, 2)
SB_MATMUL(matmul_128x128_f32, float, 8, 8, 1)

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
