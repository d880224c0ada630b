// Random numbers by logical element index: samebits_rng on the device. Element i of a draw is a
// function of seed, stream, first block and i alone, so neither the grid nor the device can
// change it.

#include "math.cuh"
#include "philox.cuh"
#include "declared/random.cuh"

__device__ __forceinline__ SbBlock sb_block(const SbDraw& draw, u64 block) {
    return sb_philox(draw.seed, draw.stream, draw.first + block);
}

// Elements 4 * block.. or 2 * block.. of a buffer. An output begins where its allocation does and is aligned
// for any of these: one access where there are so many, so that neighbouring threads fill sectors together.
template <typename T>
struct alignas(sizeof(T) == 1 ? 4 : 16) SbPack {
    static constexpr int N = sizeof(T) == 1 ? 4 : 16 / sizeof(T);
    T of[N];
};

template <typename T, int N>
__device__ __forceinline__ void sb_put(T* out, u64 block, u64 n, const T (&value)[N]) {
    typedef SbPack<T> Pack;
    u64 at = block * N;
    if (at + N <= n) {
#pragma unroll
        for (int k = 0; k < N; k += Pack::N) {
            Pack pack;
#pragma unroll
            for (int j = 0; j < Pack::N; ++j) pack.of[j] = value[k + j];
            *(Pack*)(out + at + k) = pack;
        }
        return;
    }
#pragma unroll
    for (int k = 0; k < N; ++k) {
        if (at + k < n) out[at + k] = value[k];
    }
}

template <typename T, int N>
__device__ __forceinline__ void sb_get(T (&value)[N], const T* in, u64 block, u64 n) {
    typedef SbPack<T> Pack;
    u64 at = block * N;
    // A view may begin at any element of its buffer.
    bool aligned = (u64)in % sizeof(Pack) == 0;
    if (aligned && at + N <= n) {
#pragma unroll
        for (int k = 0; k < N; k += Pack::N) {
            Pack pack = *(const Pack*)(in + at + k);
#pragma unroll
            for (int j = 0; j < Pack::N; ++j) value[k + j] = pack.of[j];
        }
        return;
    }
#pragma unroll
    for (int k = 0; k < N; ++k) value[k] = at + k < n ? in[at + k] : (T)0;
}

// [0, 1) in multiples of 2^-24, and (0, 1].
__device__ __forceinline__ float sb_unit(u32 word) {
    return (float)(i32)(word >> 8) * (1.0f / 16777216.0f);
}

// One thread computes one block: four words.
// level: Portable - one thread owns one block of the draw
extern "C" __global__ void words_u32(u32* out, u64 n, SbDraw draw) {
    u64 block = sb_thread();
    if (block * 4 >= n) return;
    SbBlock b = sb_block(draw, block);
    sb_put(out, block, n, b.word);
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
    if (block * 4 >= n) return;
    SbBlock b = sb_block(draw, block);
    float value[4];
#pragma unroll
    for (int k = 0; k < 4; ++k) {
        float x = __fmaf_rn(sb_unit(b.word[k]), range, low);
        value[k] = x < high ? x : last;
    }
    sb_put(out, block, n, value);
}

// level: Portable - one thread owns one block of the draw
extern "C" __global__ void uniform_f64(double* out, u64 n, SbDraw draw, double low, double high,
                                       double range, double last) {
    u64 block = sb_thread();
    if (block * 2 >= n) return;
    SbBlock b = sb_block(draw, block);
    double value[2];
#pragma unroll
    for (int k = 0; k < 2; ++k) {
        u64 word = (u64)b.word[2 * k] | (u64)b.word[2 * k + 1] << 32;
        double unit = (double)(i64)(word >> 11) * (1.0 / 9007199254740992.0);
        double x = __fma_rn(unit, range, low);
        value[k] = x < high ? x : last;
    }
    sb_put(out, block, n, value);
}

// An event if the word is at most `last` and `any`.
// level: Portable - one thread owns one block of the draw
extern "C" __global__ void bernoulli_b8(unsigned char* out, u64 n, SbDraw draw, u32 last,
                                        u32 any) {
    u64 block = sb_thread();
    if (block * 4 >= n) return;
    SbBlock b = sb_block(draw, block);
    unsigned char event[4];
#pragma unroll
    for (int k = 0; k < 4; ++k) event[k] = b.word[k] <= last && any != 0 ? 1 : 0;
    sb_put(out, block, n, event);
}

template <typename T>
__device__ __forceinline__ void sb_dropout(T* out, unsigned char* mask, const T* in, u64 n,
                                           SbDraw draw, u32 last, u32 any, T scale) {
    u64 block = sb_thread();
    if (block * 4 >= n) return;
    SbBlock b = sb_block(draw, block);
    T value[4];
    sb_get(value, in, block, n);
    unsigned char kept[4];
#pragma unroll
    for (int k = 0; k < 4; ++k) {
        bool keep = !(b.word[k] <= last && any != 0);
        value[k] = keep ? sb_clean(value[k] * scale) : (T)0;
        kept[k] = keep ? 1 : 0;
    }
    sb_put(out, block, n, value);
    sb_put(mask, block, n, kept);
}

// level: Portable - one thread owns one block of the draw
extern "C" __global__ void dropout_f32(float* out, unsigned char* mask, const float* in, u64 n,
                                       SbDraw draw, u32 last, u32 any, float scale) {
    sb_dropout<float>(out, mask, in, n, draw, last, any, scale);
}

// level: Portable - one thread owns one block of the draw
extern "C" __global__ void dropout_f64(double* out, unsigned char* mask, const double* in, u64 n,
                                       SbDraw draw, u32 last, u32 any, double scale) {
    sb_dropout<double>(out, mask, in, n, draw, last, any, scale);
}

// Unbiased integers in low..low + range. Rejected words are replaced from the element's private
// counters, whose key is (space0, space1).
// level: Portable - one thread owns one block of the draw
extern "C" __global__ void randint_i64(i64* out, u64 n, SbDraw draw, i64 low, u64 range, u64 excess,
                                       u32 space0, u32 space1) {
    u64 block = sb_thread();
    if (block * 2 >= n) return;
    SbBlock b = sb_block(draw, block);
    u64 number = draw.first + block;
    i64 value[2];
#pragma unroll
    for (int k = 0; k < 2; ++k) {
        u64 word = (u64)b.word[2 * k] | (u64)b.word[2 * k + 1] << 32;
        for (u64 attempt = 1; word * range < excess; ++attempt) {
            SbBlock again = sb_philox_rounds<10>(space0, space1, (u32)attempt,
                                                 (u32)(attempt >> 32), (u32)number,
                                                 (u32)(number >> 32));
            word = (u64)again.word[2 * k] | (u64)again.word[2 * k + 1] << 32;
        }
        value[k] = (i64)((u64)low + __umul64hi(word, range));
    }
    sb_put(out, block, n, value);
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
        if (block * 4 >= n) return;                                                     \
        SbBlock b = sb_block(draw, block);                                              \
        float value[4];                                                                 \
        sb_normal_pair(b.word[0], b.word[1], mean, std, &value[0], &value[1]);          \
        sb_normal_pair(b.word[2], b.word[3], mean, std, &value[2], &value[3]);          \
        _Pragma("unroll") for (int k = 0; k < 4; ++k) {                                 \
            float x = value[k];                                                         \
            value[k] = VALUE;                                                           \
        }                                                                               \
        sb_put(out, block, n, value);                                                   \
    }

// level: Portable - one thread owns one block of the draw
SB_NORMAL(normal_f32, x)
SB_NORMAL(log_normal_f32, sb_exp(x))

// ---- Normal numbers of f64 ----------------------------------------------------------------

// c[0] + x (c[1] + x (...)), two roundings per step: samebits_rng's own functions of f64, which
// use no fused operation.
template <int N>
__device__ __forceinline__ double sb_plain_horner(double x, const double (&c)[N]) {
    double y = c[N - 1];
#pragma unroll
    for (int i = N - 2; i >= 0; --i) y = y * x + c[i];
    return y;
}

// The natural logarithm of a positive normal number.
__device__ __forceinline__ double sb_plain_log(double x) {
    const double c[] = {2.0 / 3.0,  2.0 / 5.0,  2.0 / 7.0,  2.0 / 9.0,  2.0 / 11.0, 2.0 / 13.0,
                        2.0 / 15.0, 2.0 / 17.0, 2.0 / 19.0, 2.0 / 21.0, 2.0 / 23.0, 2.0 / 25.0};
    const double ln2_hi = sb_double(0x3fe62e42fefa2000ull);
    const double ln2_lo = 7.371002565167799e-13;
    double m;
    double k = sb_split(x, &m);
    double s = (m - 1.0) / (m + 1.0);
    double z = s * s;
    double tail = s * (z * sb_plain_horner(z, c));
    return k * ln2_hi + (2.0 * s + (tail + k * ln2_lo));
}

// sin and cos of pi x for 0 <= x < 2.
__device__ __forceinline__ double sb_plain_sin_cos_pi(double x, double* cosine) {
    const double a[] = {-5.16771278004997,       2.5501640398773455,     -0.5992645293207921,
                        0.08214588661112823,     -0.0073704309457143504, 0.00046630280576761255,
                        -2.1915353447830217e-05, 7.952054001475513e-07,  -2.2948428997269873e-08};
    const double b[] = {-4.934802200544679,     4.0587121264167685,      -1.3352627688545895,
                        0.2353306303588932,     -0.02580689139001406,    0.0019295743094039231,
                        -0.0001046381049248457, 4.303069587032947e-06,   -1.3878952462213771e-07,
                        3.604730797462501e-09};
    const double pi = sb_double(0x400921fb54442d18ull);
    double quarters = (2.0 * x + SB_ROUND) - SB_ROUND;
    double r = x - 0.5 * quarters;
    double u = r * r;
    double sin = r * pi + r * (1.2246467991473532e-16 + u * sb_plain_horner(u, a));
    double cos = 1.0 + u * sb_plain_horner(u, b);
    i64 n = (i64)quarters;
    if ((n & 1) != 0) {
        double old = sin;
        sin = cos;
        cos = -old;
    }
    *cosine = (n & 2) == 0 ? cos : -cos;
    return (n & 2) == 0 ? sin : -sin;
}

// level: Portable - one thread owns one block of the draw
extern "C" __global__ void normal_f64(double* out, u64 n, SbDraw draw, double mean, double std) {
    u64 block = sb_thread();
    if (block * 2 >= n) return;
    SbBlock b = sb_block(draw, block);
    u64 first = (u64)b.word[0] | (u64)b.word[1] << 32;
    u64 second = (u64)b.word[2] | (u64)b.word[3] << 32;
    double u = (double)((i64)(first >> 11) + 1) * (1.0 / 9007199254740992.0);
    double v = (double)(i64)(second >> 11) * (1.0 / 9007199254740992.0);
    double r = __dsqrt_rn(-2.0 * sb_plain_log(u));
    double cosine;
    double sine = sb_plain_sin_cos_pi(2.0 * v, &cosine);
    const double value[2] = {__fma_rn(r * cosine, std, mean), __fma_rn(r * sine, std, mean)};
    sb_put(out, block, n, value);
}

// level: Portable - one thread owns one block of the draw
extern "C" __global__ void exponential_f32(float* out, u64 n, SbDraw draw, float rate) {
    u64 block = sb_thread();
    if (block * 4 >= n) return;
    SbBlock b = sb_block(draw, block);
    float value[4];
#pragma unroll
    for (int k = 0; k < 4; ++k) {
        // The logarithm of 1 is +0, which must not become -0.
        value[k] = (0.0f - sb_log(sb_positive_unit(b.word[k]))) / rate;
    }
    sb_put(out, block, n, value);
}
