// Convolution and its gradients as products of matrices that are never formed, tile by tile
// through shared memory, in the written order of conv.cuh. Per group, C[m][n] is the sum over k of
// A[m][k] * B[k][n]:
//
//   pass             m               n                       k                       A         B
//   forward          output channel  image, output position  input channel, tap      weight    input
//   input gradient   input channel   image, input position   output channel, tap     weight    gradient
//   weight gradient  output channel  input channel, tap      image, output position  gradient  input
//
// A block of threads computes a tile of C (tile.cuh). Stages of 16 k pass through shared memory; no
// stage straddles a border of the order. Where A and B are not ordinary matrices, the place of an
// element is the sum of what its k and what its m or n contribute: the former is worked out once
// per stage, the latter once per thread.
//
// A tap that is to be skipped is staged as one certain NaN. No other element can be that: NaNs are
// made canonical on the way in, which changes no bit of a result whose NaNs are canonical anyway.
// A stage without such taps, which its threads vote on, is multiplied without looking.

#include "conv.cuh"
#include "tile.cuh"

#define SB_FORWARD 0
#define SB_INPUT_GRAD 1
#define SB_WEIGHT_GRAD 2

#define SB_SKIPPED 0x7fc05b1du

// The part of a place that its k, or its m or n, contributes: to each coordinate, which tells
// whether the element is to be skipped, and to the place.
struct SbPart {
    i32 at[3];
    u64 offset;
};

// What a k contributes to the places in A and B.
struct SbRow {
    SbPart b;
    u64 a;
};

// The sizes of a group's product, and the steps of its matrices.
struct SbProduct {
    u64 m;
    u64 n;
    u64 k;
    // Elements of A from one m to the next, and from one group to the next.
    u64 a_step;
    u64 a_group;
    u64 b_group;
};

template <int PASS>
__device__ __forceinline__ SbProduct sb_product(const SbConv& p) {
    u64 volume = sb_volume(p.kernel);
    u64 plane = sb_volume(p.input);
    u64 positions = sb_volume(p.output);
    u64 weights = p.outputs * (p.inputs * volume);
    if (PASS == SB_FORWARD) {
        return {p.outputs, p.batch * positions, p.inputs * volume,
                p.inputs * volume, weights, p.inputs * plane};
    }
    if (PASS == SB_INPUT_GRAD) {
        return {p.inputs, p.batch * plane, p.outputs * volume, volume, weights,
                p.outputs * positions};
    }
    return {p.outputs, p.inputs * volume, p.batch * positions, positions, p.outputs * positions,
            p.inputs * plane};
}

// Whether B's coordinates are those of an input gradient with strides, which are divided.
template <int PASS>
__device__ __forceinline__ bool sb_strided(const SbConv& p) {
    return PASS == SB_INPUT_GRAD && (p.stride[0] != 1 || p.stride[1] != 1 || p.stride[2] != 1);
}

// Adds to the offset what the coordinates contribute to it: `sign` is 1 or -1.
template <int PASS>
__device__ __forceinline__ void sb_settle(const SbConv& p, SbPart* part, i64 sign) {
    const u32* size = PASS == SB_INPUT_GRAD ? p.output : p.input;
    if (sb_strided<PASS>(p)) return;
    i64 place = ((i64)part->at[0] * size[1] + part->at[1]) * size[2] + part->at[2];
    part->offset += (u64)(sign * place);
}

// A tap's distance from the place of tap 0.
__device__ __forceinline__ void sb_tap(const SbConv& p, u64 tap, i32* at) {
    u32 t[3];
    sb_coordinates(tap, p.kernel, t);
#pragma unroll
    for (int d = 0; d < 3; ++d) at[d] = (i32)(t[d] * p.dilation[d]);
}

// The place of tap 0 for an output position.
__device__ __forceinline__ void sb_origin(const SbConv& p, u64 position, i32* at) {
    u32 o[3];
    sb_coordinates(position, p.output, o);
#pragma unroll
    for (int d = 0; d < 3; ++d) at[d] = (i32)(o[d] * p.stride[d]) - (i32)p.padding[d];
}

template <int PASS>
__device__ __forceinline__ SbRow sb_row(const SbConv& p, u64 k) {
    SbRow row;
    if (PASS == SB_WEIGHT_GRAD) {
        u64 positions = sb_volume(p.output);
        u64 image = k / positions;
        u64 position = k - image * positions;
        sb_origin(p, position, row.b.at);
        row.b.offset = image * p.groups * p.inputs * sb_volume(p.input);
        row.a = image * p.groups * p.outputs * positions + position;
        sb_settle<PASS>(p, &row.b, 1);
        return row;
    }
    u64 volume = sb_volume(p.kernel);
    u64 channel = k / volume;
    u64 tap = k - channel * volume;
    sb_tap(p, tap, row.b.at);
    row.b.offset = channel * sb_volume(PASS == SB_FORWARD ? p.input : p.output);
    row.a = PASS == SB_FORWARD ? k : channel * p.inputs * volume + tap;
    sb_settle<PASS>(p, &row.b, PASS == SB_FORWARD ? 1 : -1);
    return row;
}

template <int PASS>
__device__ __forceinline__ SbPart sb_column(const SbConv& p, u64 n) {
    SbPart column;
    if (PASS == SB_WEIGHT_GRAD) {
        u64 volume = sb_volume(p.kernel);
        u64 channel = n / volume;
        sb_tap(p, n - channel * volume, column.at);
        column.offset = channel * sb_volume(p.input);
    } else {
        u64 size = sb_volume(PASS == SB_FORWARD ? p.output : p.input);
        u64 image = n / size;
        u64 position = n - image * size;
        if (PASS == SB_FORWARD) {
            sb_origin(p, position, column.at);
            column.offset = image * p.groups * p.inputs * sb_volume(p.input);
        } else {
            u32 i[3];
            sb_coordinates(position, p.input, i);
#pragma unroll
            for (int d = 0; d < 3; ++d) column.at[d] = (i32)(i[d] + p.padding[d]);
            column.offset = image * p.groups * p.outputs * sb_volume(p.output);
        }
    }
    sb_settle<PASS>(p, &column, 1);
    return column;
}

// Where in B an element is. False if it is to be skipped.
template <int PASS>
__device__ __forceinline__ bool sb_locate(const SbConv& p, const SbPart& row, const SbPart& column,
                                          u64* place) {
    const u32* size = PASS == SB_INPUT_GRAD ? p.output : p.input;
    *place = row.offset + column.offset;
    bool inside = true;
    if (!sb_strided<PASS>(p)) {
#pragma unroll
        for (int d = 0; d < 3; ++d) {
            // Below 0 this is beyond any size.
            i32 at = column.at[d] + (PASS == SB_INPUT_GRAD ? -row.at[d] : row.at[d]);
            inside = inside && (u32)at < size[d];
        }
        return inside;
    }
    u32 at[3];
#pragma unroll
    for (int d = 0; d < 3; ++d) {
        i32 distance = column.at[d] - row.at[d];
        at[d] = (u32)distance / p.stride[d];
        inside = inside && distance >= 0 && at[d] * p.stride[d] == (u32)distance && at[d] < size[d];
    }
    *place += (u64)((at[0] * size[1] + at[1]) * size[2] + at[2]);
    return inside;
}

// With `split`, row y of the grid computes block y of the order; its partial sums go to
// out[y], to be added by conv_combine, or are added to `out` as they arrive.
template <int PASS, int TM, int TN, bool ARRIVAL>
__device__ __forceinline__ void sb_conv_tile(float* out, const float* a, const float* b,
                                             const float* bias, const SbConv& p, u32 split) {
    const u32 M = SB_SIDE * TM;
    const u32 N = SB_SIDE * TN;
    const int COUNT_A = M * SB_STAGE / SB_THREADS;
    const int COUNT_B = N * SB_STAGE / SB_THREADS;
    const u64 K = PASS == SB_WEIGHT_GRAD ? SB_WEIGHT_BLOCK : (u64)SB_K_BLOCK;
    __shared__ alignas(16) float tile_a[2][SB_STAGE * SB_PITCH(M)];
    __shared__ alignas(16) float tile_b[2][SB_STAGE * SB_PITCH(N)];
    // What each k of a stage contributes.
    __shared__ i32 row_at[2][3][SB_STAGE];
    __shared__ u64 row_b[2][SB_STAGE];
    __shared__ u64 row_a[2][SB_STAGE];
    SbProduct s = sb_product<PASS>(p);
    u64 tiles_m = (s.m + M - 1) / M;
    u64 tiles_n = (s.n + N - 1) / N;
    u64 m0 = blockIdx.x % tiles_m * M;
    u64 n0 = blockIdx.x / tiles_m % tiles_n * N;
    u64 group = blockIdx.x / tiles_m / tiles_n;
    u64 first = split ? (u64)blockIdx.y * K : 0;
    u64 end = split && s.k - first > K ? first + K : s.k;
    a += group * s.a_group + m0 * s.a_step;
    b += group * s.b_group;
    u32 tx = sb_tile_column();
    u32 ty = sb_tile_row();
    float total[TM][TN] = {};
    float acc[TM][TN] = {};
    // This thread stages elements of one column of B; of A it walks along whichever direction is
    // dense.
    u32 staged = threadIdx.x % N;
    bool in_b = n0 + staged < s.n;
    SbPart column = sb_column<PASS>(p, in_b ? n0 + staged : 0);
    bool flat = s.a_step == 1;
    u32 m_first = flat ? threadIdx.x % M : threadIdx.x / SB_STAGE;
    u32 q_first = flat ? threadIdx.x / M : threadIdx.x % SB_STAGE;
    u32 m_step = flat ? 0 : SB_THREADS / SB_STAGE;
    u32 q_step = flat ? SB_THREADS / M : 0;
    float held_a[COUNT_A];
    float held_b[COUNT_B];
    u64 stages = (end - first + SB_STAGE - 1) / SB_STAGE;
    // What the k of a stage contribute, for the load one stage later.
    auto describe = [&](u64 number) {
        u64 k = first + number * SB_STAGE + threadIdx.x;
        if (threadIdx.x >= SB_STAGE || k >= end) return;
        SbRow row = sb_row<PASS>(p, k);
        u32 of = number % 2;
#pragma unroll
        for (int d = 0; d < 3; ++d) row_at[of][d][threadIdx.x] = row.b.at[d];
        row_b[of][threadIdx.x] = row.b.offset;
        row_a[of][threadIdx.x] = row.a;
    };
    // Brings a stage to registers; true if an element of it is to be skipped.
    auto load = [&](u64 number) {
        u32 of = number % 2;
        u64 left = end - first - number * SB_STAGE;
        u32 depth = left < SB_STAGE ? (u32)left : SB_STAGE;
#pragma unroll
        for (int i = 0; i < COUNT_A; ++i) {
            u32 m = m_first + i * m_step;
            u32 q = q_first + i * q_step;
            bool in = m0 + m < s.m && q < depth;
            held_a[i] = in ? a[m * s.a_step + row_a[of][q]] : -0.0f;
        }
        bool skips = false;
#pragma unroll
        for (int i = 0; i < COUNT_B; ++i) {
            u32 q = threadIdx.x / N + i * (SB_THREADS / N);
            held_b[i] = 0.0f;
            if (in_b && q < depth) {
                SbPart row = {{row_at[of][0][q], row_at[of][1][q], row_at[of][2][q]}, row_b[of][q]};
                u64 place;
                bool inside = sb_locate<PASS>(p, row, column, &place);
                held_b[i] = inside ? sb_clean(b[place]) : __uint_as_float(SB_SKIPPED);
                skips = skips || !inside;
            }
        }
        return skips;
    };
    auto store = [&](u64 number) {
#pragma unroll
        for (int i = 0; i < COUNT_A; ++i) {
            u32 q = q_first + i * q_step;
            tile_a[number % 2][q * SB_PITCH(M) + m_first + i * m_step] = held_a[i];
        }
#pragma unroll
        for (int i = 0; i < COUNT_B; ++i) {
            u32 q = threadIdx.x / N + i * (SB_THREADS / N);
            tile_b[number % 2][q * SB_PITCH(N) + staged] = held_b[i];
        }
    };
    describe(0);
    describe(1);
    __syncthreads();
    bool skips = false;
    if (stages > 0) {
        skips = load(0);
        store(0);
    }
    skips = __syncthreads_or(skips);
    for (u64 stage = 0; stage < stages; ++stage) {
        bool more = stage + 1 < stages;
        bool next = more && load(stage + 1);
        describe(stage + 2);
        const float* from_a = tile_a[stage % 2];
        const float* from_b = tile_b[stage % 2];
        if (skips) {
            sb_multiply<true>(from_a, from_b, ty, tx, SB_SKIPPED, acc);
        } else {
            sb_multiply<false>(from_a, from_b, ty, tx, SB_SKIPPED, acc);
        }
        if (!more || (stage + 1) % (K / SB_STAGE) == 0) {
            bool start = stage < K / SB_STAGE;
#pragma unroll
            for (int i = 0; i < TM; ++i) {
#pragma unroll
                for (int j = 0; j < TN; ++j) {
                    total[i][j] = start ? acc[i][j] : total[i][j] + acc[i][j];
                    acc[i][j] = 0.0f;
                }
            }
        }
        if (more) store(stage + 1);
        skips = __syncthreads_or(next);
    }
#pragma unroll
    for (int j = 0; j < TN; ++j) {
        u64 n = n0 + sb_tile_at<TN>(tx, j);
        if (n >= s.n) continue;
        u64 size = PASS == SB_WEIGHT_GRAD ? s.n : sb_volume(PASS == SB_FORWARD ? p.output : p.input);
        u64 image = n / size;
        u64 place = (image * p.groups + group) * s.m * size + (n - image * size);
#pragma unroll
        for (int i = 0; i < TM; ++i) {
            u64 m = m0 + sb_tile_at<TM>(ty, i);
            if (m >= s.m) continue;
            float value = total[i][j];
            u64 to = place + m * size;
            if (ARRIVAL) {
                if (p.with_bias && blockIdx.y == 0) value = value + bias[group * s.m + m];
                atomicAdd(out + to, value);
            } else if (split) {
                out[blockIdx.y * (s.n * s.m * p.groups) + to] = value;
            } else {
                value = sb_clean(value);
                out[to] = p.with_bias ? sb_clean(value + bias[group * s.m + m]) : value;
            }
        }
    }
}

#define SB_TILE(NAME, PASS, TM, TN, ARRIVAL)                                                  \
    extern "C" __global__ void NAME(float* out, const float* a, const float* b,               \
                                    const float* bias, SbConv p, u32 split) {                 \
        sb_conv_tile<PASS, TM, TN, ARRIVAL>(out, a, b, bias, p, split);                       \
    }

// level: Portable - one thread owns one sum, or one block of it, and adds in the written order
SB_TILE(conv_16x16_f32, SB_FORWARD, 1, 1, false)
SB_TILE(conv_64x64_f32, SB_FORWARD, 4, 4, false)
SB_TILE(conv_128x64_f32, SB_FORWARD, 8, 4, false)
SB_TILE(conv_input_grad_16x16_f32, SB_INPUT_GRAD, 1, 1, false)
SB_TILE(conv_input_grad_64x64_f32, SB_INPUT_GRAD, 4, 4, false)
SB_TILE(conv_input_grad_128x64_f32, SB_INPUT_GRAD, 8, 4, false)
SB_TILE(conv_weight_grad_16x16_f32, SB_WEIGHT_GRAD, 1, 1, false)
SB_TILE(conv_weight_grad_64x64_f32, SB_WEIGHT_GRAD, 4, 4, false)
SB_TILE(conv_weight_grad_128x64_f32, SB_WEIGHT_GRAD, 8, 4, false)

// level: NotGuaranteed - float atomics add the blocks in the order in which they arrive
SB_TILE(conv_64x64_f32_atomic, SB_FORWARD, 4, 4, true)
SB_TILE(conv_input_grad_64x64_f32_atomic, SB_INPUT_GRAD, 4, 4, true)
SB_TILE(conv_weight_grad_64x64_f32_atomic, SB_WEIGHT_GRAD, 4, 4, true)

// Adds the partial sums of n elements, and the bias of each one's channel.
// level: Portable - one thread owns one output and adds the partials in ascending order
extern "C" __global__ void conv_combine_f32(float* out, const float* partials, const float* bias,
                                            u64 n, u64 blocks, u64 channels, u64 positions,
                                            u32 with_bias) {
    u64 i = sb_thread();
    if (i >= n) return;
    float total = partials[i];
    for (u64 block = 1; block < blocks; ++block) total = total + partials[block * n + i];
    total = sb_clean(total);
    out[i] = with_bias ? sb_clean(total + bias[i / positions % channels]) : total;
}
