// Products by tiles: what a block of 256 threads does with a stage of 16 k, staged in shared memory.
//
// A thread computes TM x TN elements of the tile, in runs of up to four that lie side by side, so
// that it reads its operands from shared memory four at a time. Each element belongs to one
// thread, which adds ascending in k. Two stages have a place: while one is multiplied, the
// elements of the next come from memory to registers.
//
// k beyond the end is multiplied as -0 times +0, which is -0 and changes no sum.
#pragma once

#include "samebits.cuh"

#define SB_STAGE 16u
#define SB_SIDE 16u
#define SB_THREADS 256u

// Elements from one k to the next: a tile's side, and a little for the banks.
#define SB_PITCH(SIDE) ((SIDE) + 4)

// Elements side by side, which are read and written at once.
template <typename T, int N>
struct alignas(sizeof(T) * N) SbRun {
    T at[N];
};

// How many of a thread's T elements along a side lie side by side.
template <int T>
__device__ __forceinline__ constexpr int sb_run() {
    return T < 4 ? T : 4;
}

// A thread's place among the 16 along each side. A warp has 4 by 8 of them.
__device__ __forceinline__ u32 sb_tile_row() {
    return threadIdx.x / 64 * 4 + threadIdx.x % 32 / 8;
}
__device__ __forceinline__ u32 sb_tile_column() {
    return threadIdx.x / 32 % 2 * 8 + threadIdx.x % 8;
}

// Where in the tile the i-th of the T elements of thread `t` along a side is.
template <int T>
__device__ __forceinline__ u32 sb_tile_at(u32 t, int i) {
    const int run = sb_run<T>();
    return i / run * (SB_SIDE * run) + t * run + i % run;
}

// Four elements from shared memory by one instruction. Of a plain read the compiler would delay what
// it needs only where a tap is not skipped, and read it on its own.
__device__ __forceinline__ void sb_read(SbRun<float, 4>* out, const SbRun<float, 4>* from) {
    asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(out->at[0]), "=f"(out->at[1]), "=f"(out->at[2]), "=f"(out->at[3])
                 : "l"(__cvta_generic_to_shared(from))
                 : "memory");
}
template <typename R>
__device__ __forceinline__ void sb_read(R* out, const R* from) {
    *out = *from;
}

// A thread's elements of a stage along one side.
template <int T, typename F>
__device__ __forceinline__ void sb_operands(const F* stage, u32 t, F (&out)[T]) {
    const int run = sb_run<T>();
#pragma unroll
    for (int i = 0; i < T; i += run) {
        sb_read((SbRun<F, run>*)(out + i), (const SbRun<F, run>*)(stage + sb_tile_at<T>(t, i)));
    }
}

// acc[i][j] = fma(a[k][i], b[k][j], acc[i][j]) for the k of a stage, ascending. With SKIP, elements
// of B with the bits of `skipped` are left out.
template <bool SKIP, typename T, int TM, int TN>
__device__ __forceinline__ void sb_multiply(const T* a, const T* b, u32 row, u32 column,
                                            u32 skipped, T (&acc)[TM][TN]) {
    // More k at once of many sums would not leave those in registers.
    const int UNROLL = TM * TN < 64 ? SB_STAGE : 8;
#pragma unroll UNROLL
    for (u32 q = 0; q < SB_STAGE; ++q) {
        alignas(4 * sizeof(T)) T x[TM];
        alignas(4 * sizeof(T)) T y[TN];
        sb_operands<TM>(a + q * SB_PITCH(SB_SIDE * TM), row, x);
        sb_operands<TN>(b + q * SB_PITCH(SB_SIDE * TN), column, y);
#pragma unroll
        for (int j = 0; j < TN; ++j) {
            if constexpr (SKIP) {
                if (__float_as_uint(y[j]) == skipped) continue;
            }
#pragma unroll
            for (int i = 0; i < TM; ++i) acc[i][j] = sb_fma(x[i], y[j], acc[i][j]);
        }
    }
}

// What a thread brings of a strided matrix: COUNT elements of each stage, `step` apart in memory
// and in the tile, along whichever direction is dense.
template <typename T, int SIDE>
struct SbSource {
    static const int COUNT = SIDE * SB_STAGE / SB_THREADS;
    const T* from;
    u64 step;
    u64 stage;
    // The first of them along the side and along k, and the steps.
    u32 side;
    u32 depth;
    u32 side_step;
    u32 depth_step;
    // The side's elements that exist.
    u32 sides;

    // `from` is the element of the tile's first row and first k.
    __device__ __forceinline__ SbSource(const T* begin, u64 side_stride, u64 k_stride, u64 left) {
        bool deep = k_stride == 1;
        side = deep ? threadIdx.x / SB_STAGE : threadIdx.x % SIDE;
        depth = deep ? threadIdx.x % SB_STAGE : threadIdx.x / SIDE;
        side_step = deep ? SB_THREADS / SB_STAGE : 0;
        depth_step = deep ? 0 : SB_THREADS / SIDE;
        from = begin + side * side_stride + depth * k_stride;
        step = side_step * side_stride + depth_step * k_stride;
        stage = SB_STAGE * k_stride;
        sides = left < SIDE ? (u32)left : SIDE;
    }

    // Brings the next stage, of which `depths` k exist; `none` stands for what does not.
    __device__ __forceinline__ void load(u32 depths, T none, T (&held)[COUNT]) {
        if (sides == SIDE && depths == SB_STAGE) {
#pragma unroll
            for (int i = 0; i < COUNT; ++i) held[i] = from[i * step];
        } else {
#pragma unroll
            for (int i = 0; i < COUNT; ++i) {
                bool in = side + i * side_step < sides && depth + i * depth_step < depths;
                held[i] = in ? from[i * step] : none;
            }
        }
        from += stage;
    }

    __device__ __forceinline__ void store(T* tile, const T (&held)[COUNT]) const {
        T* to = tile + depth * SB_PITCH(SIDE) + side;
        u32 apart = depth_step * SB_PITCH(SIDE) + side_step;
#pragma unroll
        for (int i = 0; i < COUNT; ++i) to[i * apart] = held[i];
    }
};
