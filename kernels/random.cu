// Random numbers by logical element index: samebits_rng on the device. Element i of a draw is a
// function of seed, stream, first block and i alone, so neither the grid nor the device can
// change it.

#include "math.cuh"
#include "philox.cuh"

// The address of a draw.
struct SbDraw {
    u64 seed;
    u64 stream;
    u64 first;
};

__device__ __forceinline__ SbBlock sb_block(const SbDraw& draw, u64 block) {
    return sb_philox(draw.seed, draw.stream, draw.first + block);
}

// [0, 1) in multiples of 2^-24, and (0, 1].
__device__ __forceinline__ float sb_unit(u32 word) {
    return (float)(i32)(word >> 8) * (1.0f / 16777216.0f);
}

// One thread computes one block: four words.
// level: Portable - one thread owns one block of the draw
extern "C" __global__ void words_u32(u32* out, u64 n, SbDraw draw) {
    u64 block = sb_thread();
    u64 at = block * 4;
    if (at >= n) return;
    SbBlock b = sb_block(draw, block);
#pragma unroll
    for (int k = 0; k < 4; ++k) {
        if (at + k < n) out[at + k] = b.word[k];
    }
}

// The known answers of Random123: any counter, any key, 7 or 10 rounds.
// level: Portable - one thread owns one block
extern "C" __global__ void philox_blocks(u32* out, const u32* counters, const u32* keys, u64 n,
                                         u32 rounds) {
    u64 i = sb_thread();
    if (i >= n) return;
    const u32* c = counters + 4 * i;
    const u32* k = keys + 2 * i;
    SbBlock b = rounds == 7 ? sb_philox_rounds<7>(k[0], k[1], c[0], c[1], c[2], c[3])
                            : sb_philox_rounds<10>(k[0], k[1], c[0], c[1], c[2], c[3]);
#pragma unroll
    for (int w = 0; w < 4; ++w) out[4 * i + w] = b.word[w];
}

// level: Portable - one thread owns one block of the draw
extern "C" __global__ void uniform_f32(float* out, u64 n, SbDraw draw, float low, float high,
                                       float range, float last) {
    u64 block = sb_thread();
    u64 at = block * 4;
    if (at >= n) return;
    SbBlock b = sb_block(draw, block);
#pragma unroll
    for (int k = 0; k < 4; ++k) {
        float value = __fmaf_rn(sb_unit(b.word[k]), range, low);
        if (at + k < n) out[at + k] = value < high ? value : last;
    }
}

// level: Portable - one thread owns one block of the draw
extern "C" __global__ void uniform_f64(double* out, u64 n, SbDraw draw, double low, double high,
                                       double range, double last) {
    u64 block = sb_thread();
    u64 at = block * 2;
    if (at >= n) return;
    SbBlock b = sb_block(draw, block);
#pragma unroll
    for (int k = 0; k < 2; ++k) {
        u64 word = (u64)b.word[2 * k] | (u64)b.word[2 * k + 1] << 32;
        double unit = (double)(i64)(word >> 11) * (1.0 / 9007199254740992.0);
        double value = __fma_rn(unit, range, low);
        if (at + k < n) out[at + k] = value < high ? value : last;
    }
}

// An event if the word is at most `last` and `any`.
// level: Portable - one thread owns one block of the draw
extern "C" __global__ void bernoulli_b8(unsigned char* out, u64 n, SbDraw draw, u32 last,
                                        u32 any) {
    u64 block = sb_thread();
    u64 at = block * 4;
    if (at >= n) return;
    SbBlock b = sb_block(draw, block);
#pragma unroll
    for (int k = 0; k < 4; ++k) {
        if (at + k < n) out[at + k] = b.word[k] <= last && any != 0 ? 1 : 0;
    }
}

// level: Portable - one thread owns one block of the draw
extern "C" __global__ void dropout_f32(float* out, unsigned char* mask, const float* in, u64 n,
                                       SbDraw draw, u32 last, u32 any, float scale) {
    u64 block = sb_thread();
    u64 at = block * 4;
    if (at >= n) return;
    SbBlock b = sb_block(draw, block);
#pragma unroll
    for (int k = 0; k < 4; ++k) {
        if (at + k >= n) break;
        bool keep = !(b.word[k] <= last && any != 0);
        out[at + k] = keep ? sb_canonical(in[at + k] * scale) : 0.0f;
        mask[at + k] = keep ? 1 : 0;
    }
}

// Unbiased integers in low..low + range. Rejected words are replaced from the element's private
// counters, whose key is (space0, space1).
// level: Portable - one thread owns one block of the draw
extern "C" __global__ void randint_i64(i64* out, u64 n, SbDraw draw, i64 low, u64 range, u64 excess,
                                       u32 space0, u32 space1) {
    u64 block = sb_thread();
    u64 at = block * 2;
    if (at >= n) return;
    SbBlock b = sb_block(draw, block);
    u64 number = draw.first + block;
#pragma unroll
    for (int k = 0; k < 2; ++k) {
        u64 word = (u64)b.word[2 * k] | (u64)b.word[2 * k + 1] << 32;
        for (u64 attempt = 1; word * range < excess; ++attempt) {
            SbBlock again = sb_philox_rounds<10>(space0, space1, (u32)attempt,
                                                 (u32)(attempt >> 32), (u32)number,
                                                 (u32)(number >> 32));
            word = (u64)again.word[2 * k] | (u64)again.word[2 * k + 1] << 32;
        }
        if (at + k < n) out[at + k] = (i64)((u64)low + __umul64hi(word, range));
    }
}

// ---- Normal numbers and what is made of them or of the same logarithm ---------------------

// (0, 1] in multiples of 2^-24.
__device__ __forceinline__ float sb_positive_unit(u32 word) {
    return (float)((i32)(word >> 8) + 1) * (1.0f / 16777216.0f);
}

// Box and Muller's transform of two words: correctly rounded functions, one rounding per step.
__device__ __forceinline__ void sb_normal_pair(u32 first, u32 second, float mean, float std,
                                               float* a, float* b) {
    float u = sb_positive_unit(first);
    float v = sb_unit(second);
    float r = sb_sqrt(-2.0f * sb_log(u));
    *a = __fmaf_rn(r * sb_cospi(2.0f * v), std, mean);
    *b = __fmaf_rn(r * sb_sinpi(2.0f * v), std, mean);
}

#define SB_NORMAL(NAME, VALUE)                                                          \
    extern "C" __global__ void NAME(float* out, u64 n, SbDraw draw, float mean, float std) { \
        u64 block = sb_thread();                                                        \
        u64 at = block * 4;                                                             \
        if (at >= n) return;                                                            \
        SbBlock b = sb_block(draw, block);                                              \
        float value[4];                                                                 \
        sb_normal_pair(b.word[0], b.word[1], mean, std, &value[0], &value[1]);          \
        sb_normal_pair(b.word[2], b.word[3], mean, std, &value[2], &value[3]);          \
        _Pragma("unroll") for (int k = 0; k < 4; ++k) {                                 \
            float x = value[k];                                                         \
            if (at + k < n) out[at + k] = VALUE;                                        \
        }                                                                               \
    }

// level: Portable - one thread owns one block of the draw
SB_NORMAL(normal_f32, x)
SB_NORMAL(log_normal_f32, sb_exp(x))

// level: Portable - one thread owns one block of the draw
extern "C" __global__ void exponential_f32(float* out, u64 n, SbDraw draw, float rate) {
    u64 block = sb_thread();
    u64 at = block * 4;
    if (at >= n) return;
    SbBlock b = sb_block(draw, block);
#pragma unroll
    for (int k = 0; k < 4; ++k) {
        // The logarithm of 1 is +0, which must not become -0.
        if (at + k < n) out[at + k] = (0.0f - sb_log(sb_positive_unit(b.word[k]))) / rate;
    }
}
