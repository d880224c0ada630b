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

// Four elements from shared memory by one instruction, OFFSET bytes after `from`. The offset is part
// of the instruction, so that a stage needs one address. Of a plain read the compiler would delay what
// it needs only where a tap is not skipped, and read it on its own.
template <int OFFSET>
__device__ __forceinline__ void sb_read_four(float* out, u32 from) {
    asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4+%5];"
                 : "=f"(out[0]), "=f"(out[1]), "=f"(out[2]), "=f"(out[3])
                 : "r"(from), "n"(OFFSET)
                 : "memory");
}

// A thread's elements of a stage along one side.
template <typename F, int T>
struct SbOperands {
    const F* from;

    __device__ __forceinline__ SbOperands(const F* stage, u32 t) : from(stage + sb_tile_at<T>(t, 0)) {}

    // Those of the Q-th k.
    template <int Q>
    __device__ __forceinline__ void read(F (&out)[T]) const {
        const int run = sb_run<T>();
        const F* k = from + Q * SB_PITCH(SB_SIDE * T);
#pragma unroll
        for (int i = 0; i < T; i += run) {
            *(SbRun<F, run>*)(out + i) = *(const SbRun<F, run>*)(k + i * SB_SIDE);
        }
    }

    __device__ __forceinline__ void skip(u32 n) { from += n * SB_PITCH(SB_SIDE * T); }
};

// The same of floats in runs of four.
template <int T>
struct SbFours {
    u32 from;

    __device__ __forceinline__ SbFours(const float* stage, u32 t)
        : from((u32)__cvta_generic_to_shared(stage + sb_tile_at<T>(t, 0))) {}

    template <int Q>
    __device__ __forceinline__ void read(float (&out)[T]) const {
        const int k = Q * SB_PITCH(SB_SIDE * T) * sizeof(float);
        sb_read_four<k>(out, from);
        if constexpr (T == 8) sb_read_four<k + 4 * SB_SIDE * sizeof(float)>(out + 4, from);
    }

    __device__ __forceinline__ void skip(u32 n) {
        from += n * SB_PITCH(SB_SIDE * T) * sizeof(float);
    }
};
template <> struct SbOperands<float, 4> : SbFours<4> {
    using SbFours::SbFours;
};
template <> struct SbOperands<float, 8> : SbFours<8> {
    using SbFours::SbFours;
};

// acc[i][j] = fma(a[k][i], b[k][j], acc[i][j]) for k from Q below END, ascending.
template <int Q, int END, bool SKIP, typename T, int TM, int TN>
__device__ __forceinline__ void sb_multiply_from(const SbOperands<T, TM>& a,
                                                 const SbOperands<T, TN>& b, u32 skipped,
                                                 T (&acc)[TM][TN]) {
    if constexpr (Q < END) {
        alignas(4 * sizeof(T)) T x[TM];
        alignas(4 * sizeof(T)) T y[TN];
        a.template read<Q>(x);
        b.template read<Q>(y);
#pragma unroll
        for (int j = 0; j < TN; ++j) {
            if constexpr (SKIP) {
                if (__float_as_uint(y[j]) == skipped) continue;
            }
#pragma unroll
            for (int i = 0; i < TM; ++i) acc[i][j] = sb_fma(x[i], y[j], acc[i][j]);
        }
        sb_multiply_from<Q + 1, END, SKIP>(a, b, skipped, acc);
    }
}

// The same for the k of a stage. With SKIP, elements of B with the bits of `skipped` are left out.
template <bool SKIP, typename T, int TM, int TN>
__device__ __forceinline__ void sb_multiply(const T* a, const T* b, u32 row, u32 column,
                                            u32 skipped, T (&acc)[TM][TN]) {
    // More k at once of many sums would not leave those in registers.
    const int UNROLL = TM * TN < 64 ? SB_STAGE : 8;
    SbOperands<T, TM> from_a(a, row);
    SbOperands<T, TN> from_b(b, column);
#pragma unroll 1
    for (u32 q = 0; q < SB_STAGE; q += UNROLL) {
        sb_multiply_from<0, UNROLL, SKIP>(from_a, from_b, skipped, acc);
        from_a.skip(UNROLL);
        from_b.skip(UNROLL);
    }
}

// What a thread brings of a strided matrix: COUNT elements of each stage, along whichever direction is
// dense. Where that begins at a multiple of 16 bytes, four elements come by one access.
template <typename T, int SIDE>
struct SbSource {
    static const int COUNT = SIDE * SB_STAGE / SB_THREADS;
    // The threads that bring a row of the dense direction, in accesses of four.
    static const u32 FLAT = SIDE / 4;
    static const u32 DEEP = SB_STAGE / 4;
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
    bool deep;
    bool wide;

    // `begin` is the element of the tile's first row and first k.
    __device__ __forceinline__ SbSource(const T* begin, u64 side_stride, u64 k_stride, u64 left) {
        deep = k_stride == 1;
        sides = left < SIDE ? (u32)left : SIDE;
        u64 apart = deep ? side_stride : k_stride;
        wide = sizeof(T) == 4 && COUNT >= 4 && (deep || side_stride == 1) && sides == SIDE &&
               apart % 4 == 0 && (u64)begin % 16 == 0;
        u32 across = deep ? (wide ? DEEP : SB_STAGE) : (wide ? FLAT : SIDE);
        u32 along = threadIdx.x % across * (wide ? 4 : 1);
        u32 other = threadIdx.x / across;
        u32 other_step = SB_THREADS / across;
        side = deep ? other : along;
        depth = deep ? along : other;
        side_step = deep ? other_step : 0;
        depth_step = deep ? 0 : other_step;
        from = begin + side * side_stride + depth * k_stride;
        step = side_step * side_stride + depth_step * k_stride;
        stage = SB_STAGE * k_stride;
    }

    // Brings the next stage, of which `depths` k exist; `none` stands for what does not.
    __device__ __forceinline__ void load(u32 depths, T none, T (&held)[COUNT]) {
        if (wide) {
            // Beyond the end, only k that do not exist are read in whole accesses, and left out.
#pragma unroll
            for (int i = 0; i < COUNT / 4; ++i) {
                SbRun<T, 4> four = {{none, none, none, none}};
                u32 k = depth + i * depth_step;
                if (deep && depths < SB_STAGE) {
#pragma unroll
                    for (int e = 0; e < 4; ++e) {
                        if (k + e < depths) four.at[e] = from[i * step + e];
                    }
                } else if (k < depths) {
                    four = *(const SbRun<T, 4>*)(from + i * step);
                }
#pragma unroll
                for (int e = 0; e < 4; ++e) held[4 * i + e] = four.at[e];
            }
        } else if (sides == SIDE && depths == SB_STAGE) {
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
        if (wide && !deep) {
#pragma unroll
            for (int i = 0; i < COUNT / 4; ++i) {
                SbRun<T, 4> four = {{held[4 * i], held[4 * i + 1], held[4 * i + 2],
                                     held[4 * i + 3]}};
                *(SbRun<T, 4>*)(to + i * apart) = four;
            }
        } else if (wide) {
#pragma unroll
            for (int i = 0; i < COUNT / 4; ++i) {
#pragma unroll
                for (int e = 0; e < 4; ++e) {
                    to[i * apart + e * SB_PITCH(SIDE)] = held[4 * i + e];
                }
            }
        } else {
#pragma unroll
            for (int i = 0; i < COUNT; ++i) to[i * apart] = held[i];
        }
    }
};
