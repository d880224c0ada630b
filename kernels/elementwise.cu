// Each element on its own: functions of one and two elements, comparisons, selection, copies of
// strided views, casts.

#include "fours.cuh"
#include "elementary.cuh"
#include "half.cuh"
#include "integer.cuh"
#include "pow.cuh"
#include "declared/elementwise.cuh"

// ---- One element -------------------------------------------------------------------------

#define SB_UNARY(NAME, T, STORE, VALUE)                                                 \
    extern "C" __global__ void NAME(T* out, const T* in, u64 n) {                       \
        u64 i = sb_thread();                                                            \
        if (i >= n) return;                                                             \
        T x = in[i];                                                                    \
        out[i] = STORE(VALUE);                                                          \
    }

// Four elements a thread: of functions of a few instructions, which only move data, and of those that are
// called most, whose constants then serve four elements.
#define SB_UNARY_FOURS(NAME, T, STORE, VALUE)                                           \
    extern "C" __global__ void NAME(T* out, const T* in, u64 n) {                       \
        sb_map(out, in, n, [](T x) { return STORE(VALUE); });                           \
    }

// level: Portable - one thread owns one output, or four
SB_UNARY_FOURS(neg_f32, float, sb_canonical, -x)
SB_UNARY_FOURS(abs_f32, float, sb_canonical, sb_abs(x))
SB_UNARY_FOURS(exp_f32, float, sb_canonical, sb_exp(x))
SB_UNARY(exp2_f32, float, sb_canonical, sb_exp2(x))
SB_UNARY(expm1_f32, float, sb_canonical, sb_expm1(x))
SB_UNARY_FOURS(log_f32, float, sb_canonical, sb_log(x))
SB_UNARY(log2_f32, float, sb_canonical, sb_log2(x))
SB_UNARY(log10_f32, float, sb_canonical, sb_log10(x))
SB_UNARY(log1p_f32, float, sb_canonical, sb_log1p(x))
SB_UNARY(rsqrt_f32, float, sb_canonical, sb_rsqrt(x))
SB_UNARY(sin_f32, float, sb_canonical, sb_sin(x))
SB_UNARY(cos_f32, float, sb_canonical, sb_cos(x))
SB_UNARY_FOURS(erf_f32, float, sb_canonical, sb_erf(x))
SB_UNARY(erfc_f32, float, sb_canonical, sb_erfc(x))
SB_UNARY_FOURS(sqrt_f32, float, sb_canonical, sb_sqrt(x))
SB_UNARY_FOURS(tanh_f32, float, sb_canonical, sb_tanh(x))
SB_UNARY_FOURS(sigmoid_f32, float, sb_canonical, sb_sigmoid(x))
SB_UNARY(sinpi_f32, float, sb_canonical, sb_sinpi(x))
SB_UNARY(cospi_f32, float, sb_canonical, sb_cospi(x))
SB_UNARY_FOURS(relu_f32, float, sb_canonical, sb_relu(x))
SB_UNARY_FOURS(reciprocal_f32, float, sb_canonical, 1.0f / x)
SB_UNARY_FOURS(square_f32, float, sb_canonical, x * x)
SB_UNARY_FOURS(neg_f64, double, sb_canonical64, -x)
SB_UNARY_FOURS(abs_f64, double, sb_canonical64, sb_abs(x))
SB_UNARY_FOURS(exp_f64, double, sb_canonical64, sb_exp(x))
SB_UNARY(exp2_f64, double, sb_canonical64, sb_exp2(x))
SB_UNARY(expm1_f64, double, sb_canonical64, sb_expm1(x))
SB_UNARY_FOURS(log_f64, double, sb_canonical64, sb_log(x))
SB_UNARY(log2_f64, double, sb_canonical64, sb_log2(x))
SB_UNARY(log10_f64, double, sb_canonical64, sb_log10(x))
SB_UNARY(log1p_f64, double, sb_canonical64, sb_log1p(x))
SB_UNARY(rsqrt_f64, double, sb_canonical64, sb_rsqrt(x))
SB_UNARY(sin_f64, double, sb_canonical64, sb_sin(x))
SB_UNARY(cos_f64, double, sb_canonical64, sb_cos(x))
SB_UNARY_FOURS(erf_f64, double, sb_canonical64, sb_erf(x))
SB_UNARY_FOURS(sqrt_f64, double, sb_canonical64, sb_sqrt(x))
SB_UNARY_FOURS(tanh_f64, double, sb_canonical64, sb_tanh(x))
SB_UNARY_FOURS(sigmoid_f64, double, sb_canonical64, sb_sigmoid(x))
SB_UNARY(sinpi_f64, double, sb_canonical64, sb_sinpi(x))
SB_UNARY(cospi_f64, double, sb_canonical64, sb_cospi(x))
SB_UNARY_FOURS(relu_f64, double, sb_canonical64, sb_relu(x))
SB_UNARY_FOURS(reciprocal_f64, double, sb_canonical64, 1.0 / x)
SB_UNARY_FOURS(square_f64, double, sb_canonical64, x * x)
SB_UNARY_FOURS(neg_i64, i64, sb_wrapped, 0 - (u64)x)
SB_UNARY_FOURS(abs_i64, i64, sb_wrapped, sb_size(x))
SB_UNARY_FOURS(relu_i64, i64, sb_wrapped, x < 0 ? 0 : x)
SB_UNARY_FOURS(square_i64, i64, sb_wrapped, (u64)x * (u64)x)

// level: Portable - one thread owns four outputs; two roundings
extern "C" __global__ void affine_f32(float* out, const float* in, u64 n, float scale,
                                      float shift) {
    sb_map(out, in, n, [=](float x) { return sb_canonical(x * scale + shift); });
}

// level: Portable - one thread owns four outputs; two roundings
extern "C" __global__ void affine_f64(double* out, const double* in, u64 n, double scale,
                                      double shift) {
    sb_map(out, in, n, [=](double x) { return sb_canonical64(x * scale + shift); });
}

// ---- Two elements, with broadcasting -----------------------------------------------------

__device__ __forceinline__ void sb_pair(const SbPair& p, u64 i, i64* a, i64* b) {
    if (p.rank == 0) {
        *a = (i64)i;
        *b = (i64)i;
        return;
    }
    i64 at_a = p.offset_a;
    i64 at_b = p.offset_b;
    if (p.n >> 32 == 0) {
        u32 rest = (u32)i;
#pragma unroll 1
        for (u32 d = (u32)p.rank - 1; d > 0; --d) {
            u32 size = (u32)p.shape[d];
            i64 place = (i64)(rest % size);
            rest /= size;
            at_a += place * p.stride_a[d];
            at_b += place * p.stride_b[d];
        }
        i = rest;
    } else {
#pragma unroll 1
        for (u64 d = p.rank - 1; d > 0; --d) {
            i64 place = (i64)(i % p.shape[d]);
            i /= p.shape[d];
            at_a += place * p.stride_a[d];
            at_b += place * p.stride_b[d];
        }
    }
    // What is left is below the first size.
    *a = at_a + (i64)i * p.stride_a[0];
    *b = at_b + (i64)i * p.stride_b[0];
}

#define SB_BINARY(NAME, T, R, STORE, VALUE)                                             \
    extern "C" __global__ void NAME(R* out, const T* left, const T* right, SbPair p) {  \
        u64 i = sb_thread();                                                            \
        if (i >= p.n) return;                                                           \
        i64 at_a, at_b;                                                                 \
        sb_pair(p, i, &at_a, &at_b);                                                    \
        T a = left[at_a];                                                               \
        T b = right[at_b];                                                              \
        out[i] = STORE(VALUE);                                                          \
    }

// The same of functions of a few instructions: four elements a thread, side by side in a row.
template <typename R, typename T, typename F>
__device__ __forceinline__ void sb_map_pairs(R* out, const T* left, const T* right,
                                             const SbPair& p, F f) {
    constexpr u32 W = SB_PER_ACCESS(sizeof(T));
    u64 last = p.rank > 0 ? p.rank - 1 : 0;
    bool dense = p.rank == 0;
    bool in_row = dense ? sb_packed<W>(left) && sb_packed<W>(right) : p.shape[last] % W == 0;
    if (sb_whole_block(p.n) && sb_packed<W>(out) && in_row) {
        sb_packs<W>([=, &p](u64 at) {
            i64 at_a, at_b;
            sb_pair(p, at, &at_a, &at_b);
            SbPack<T, W> a = sb_pack_of_row<W>(left + at_a, dense ? 1 : p.stride_a[last]);
            SbPack<T, W> b = sb_pack_of_row<W>(right + at_b, dense ? 1 : p.stride_b[last]);
            SbPack<R, W> y;
#pragma unroll
            for (u32 k = 0; k < W; ++k) y.of[k] = f(a.of[k], b.of[k]);
            sb_pack_at<W>(out, at) = y;
        });
        return;
    }
    sb_singles(p.n, [=](u64 i) {
        i64 at_a, at_b;
        sb_pair(p, i, &at_a, &at_b);
        out[i] = f(left[at_a], right[at_b]);
    });
}

#define SB_BINARY_FOURS(NAME, T, R, STORE, VALUE)                                       \
    extern "C" __global__ void NAME(R* out, const T* left, const T* right, SbPair p) {  \
        sb_map_pairs(out, left, right, p, [](T a, T b) { return STORE(VALUE); });       \
    }

#define SB_TRUTH(x) ((unsigned char)((x) ? 1 : 0))

// level: Portable - one thread owns one output, or four
SB_BINARY_FOURS(add_f32, float, float, sb_canonical, a + b)
SB_BINARY_FOURS(sub_f32, float, float, sb_canonical, a - b)
SB_BINARY_FOURS(mul_f32, float, float, sb_canonical, a * b)
SB_BINARY_FOURS(div_f32, float, float, sb_canonical, a / b)
SB_BINARY_FOURS(maximum_f32, float, float, sb_canonical, sb_maximum(a, b))
SB_BINARY_FOURS(minimum_f32, float, float, sb_canonical, sb_minimum(a, b))
SB_BINARY(pow_f32, float, float, sb_canonical, sb_pow(a, b))
SB_BINARY_FOURS(weigh_f32, float, float, sb_canonical, sb_weighed(a, b))
SB_BINARY_FOURS(relu_grad_f32, float, float, sb_canonical, sb_relu_grad(a, b))
SB_BINARY_FOURS(tanh_grad_f32, float, float, sb_canonical, sb_tanh_grad(a, b))
SB_BINARY_FOURS(sigmoid_grad_f32, float, float, sb_canonical, sb_sigmoid_grad(a, b))
SB_BINARY_FOURS(add_f64, double, double, sb_canonical64, a + b)
SB_BINARY_FOURS(sub_f64, double, double, sb_canonical64, a - b)
SB_BINARY_FOURS(mul_f64, double, double, sb_canonical64, a * b)
SB_BINARY_FOURS(div_f64, double, double, sb_canonical64, a / b)
SB_BINARY_FOURS(maximum_f64, double, double, sb_canonical64, sb_maximum(a, b))
SB_BINARY_FOURS(minimum_f64, double, double, sb_canonical64, sb_minimum(a, b))
SB_BINARY(pow_f64, double, double, sb_canonical64, sb_pow(a, b))
SB_BINARY_FOURS(weigh_f64, double, double, sb_canonical64, sb_weighed(a, b))
SB_BINARY_FOURS(relu_grad_f64, double, double, sb_canonical64, sb_relu_grad(a, b))
SB_BINARY_FOURS(tanh_grad_f64, double, double, sb_canonical64, sb_tanh_grad(a, b))
SB_BINARY_FOURS(sigmoid_grad_f64, double, double, sb_canonical64, sb_sigmoid_grad(a, b))
SB_BINARY_FOURS(add_i64, i64, i64, sb_wrapped, (u64)a + (u64)b)
SB_BINARY_FOURS(sub_i64, i64, i64, sb_wrapped, (u64)a - (u64)b)
SB_BINARY_FOURS(mul_i64, i64, i64, sb_wrapped, (u64)a * (u64)b)
SB_BINARY_FOURS(maximum_i64, i64, i64, sb_wrapped, a > b ? a : b)
SB_BINARY_FOURS(minimum_i64, i64, i64, sb_wrapped, a < b ? a : b)
SB_BINARY(pow_i64, i64, i64, sb_wrapped, sb_power(a, b))
SB_BINARY(floor_divide_i64, i64, i64, sb_wrapped, sb_floor_divide(a, b))
SB_BINARY(remainder_i64, i64, i64, sb_wrapped, sb_remainder(a, b))
SB_BINARY_FOURS(eq_f32, float, unsigned char, SB_TRUTH, a == b)
SB_BINARY_FOURS(ne_f32, float, unsigned char, SB_TRUTH, a != b)
SB_BINARY_FOURS(lt_f32, float, unsigned char, SB_TRUTH, a < b)
SB_BINARY_FOURS(le_f32, float, unsigned char, SB_TRUTH, a <= b)
SB_BINARY_FOURS(gt_f32, float, unsigned char, SB_TRUTH, a > b)
SB_BINARY_FOURS(ge_f32, float, unsigned char, SB_TRUTH, a >= b)
SB_BINARY_FOURS(eq_f64, double, unsigned char, SB_TRUTH, a == b)
SB_BINARY_FOURS(ne_f64, double, unsigned char, SB_TRUTH, a != b)
SB_BINARY_FOURS(lt_f64, double, unsigned char, SB_TRUTH, a < b)
SB_BINARY_FOURS(le_f64, double, unsigned char, SB_TRUTH, a <= b)
SB_BINARY_FOURS(gt_f64, double, unsigned char, SB_TRUTH, a > b)
SB_BINARY_FOURS(ge_f64, double, unsigned char, SB_TRUTH, a >= b)
SB_BINARY_FOURS(eq_i64, i64, unsigned char, SB_TRUTH, a == b)
SB_BINARY_FOURS(ne_i64, i64, unsigned char, SB_TRUTH, a != b)
SB_BINARY_FOURS(lt_i64, i64, unsigned char, SB_TRUTH, a < b)
SB_BINARY_FOURS(le_i64, i64, unsigned char, SB_TRUTH, a <= b)
SB_BINARY_FOURS(gt_i64, i64, unsigned char, SB_TRUTH, a > b)
SB_BINARY_FOURS(ge_i64, i64, unsigned char, SB_TRUTH, a >= b)
SB_BINARY_FOURS(eq_b8, unsigned char, unsigned char, SB_TRUTH, a == b)
SB_BINARY_FOURS(ne_b8, unsigned char, unsigned char, SB_TRUTH, a != b)
SB_BINARY_FOURS(lt_b8, unsigned char, unsigned char, SB_TRUTH, a < b)
SB_BINARY_FOURS(le_b8, unsigned char, unsigned char, SB_TRUTH, a <= b)
SB_BINARY_FOURS(gt_b8, unsigned char, unsigned char, SB_TRUTH, a > b)
SB_BINARY_FOURS(ge_b8, unsigned char, unsigned char, SB_TRUTH, a >= b)

// Notes the first divisor that is 0, or the first exponent that is negative.
// level: Portable - an integer minimum
extern "C" __global__ void refused_operand(const i64* operand, u64 n, u32 exponent, u64* status) {
    u64 i = sb_thread();
    if (i >= n) return;
    if (exponent != 0 ? operand[i] < 0 : operand[i] == 0) sb_note_bad(status, i);
}

#define SB_SELECT(NAME, T)                                                              \
    extern "C" __global__ void NAME(T* out, const unsigned char* condition, const T* a, \
                                    const T* b, u64 n) {                                \
        constexpr u32 W = SB_PER_ACCESS(sizeof(T));                                     \
        bool packed = sb_packed<W>(out) && sb_packed<W>(condition) && sb_packed<W>(a) &&  \
                      sb_packed<W>(b);                                                  \
        if (sb_whole_block(n) && packed) {                                              \
            sb_packs<W>([=](u64 at) {                                                   \
                SbPack<unsigned char, W> c = sb_pack_at<W>(condition, at);              \
                SbPack<T, W> y = sb_pack_at<W>(a, at);                                  \
                SbPack<T, W> others = sb_pack_at<W>(b, at);                             \
                _Pragma("unroll") for (u32 k = 0; k < W; ++k) {                         \
                    if (c.of[k] == 0) y.of[k] = others.of[k];                           \
                }                                                                       \
                sb_pack_at<W>(out, at) = y;                                             \
            });                                                                         \
            return;                                                                     \
        }                                                                               \
        sb_singles(n, [=](u64 i) { out[i] = condition[i] != 0 ? a[i] : b[i]; });        \
    }

// level: Portable - one thread owns four outputs
SB_SELECT(select_b8, unsigned char)
SB_SELECT(select_b16, unsigned short)
SB_SELECT(select_b32, u32)
SB_SELECT(select_b64, u64)

// ---- Views -------------------------------------------------------------------------------

__device__ __forceinline__ i64 sb_place(const SbView& p, u64 i) {
    i64 at = p.offset;
    if (p.n >> 32 == 0) {
        u32 rest = (u32)i;
#pragma unroll 1
        for (u32 d = (u32)p.rank; d > 1; --d) {
            u32 size = (u32)p.shape[d - 1];
            at += (i64)(rest % size) * p.stride[d - 1];
            rest /= size;
        }
        i = rest;
    } else {
#pragma unroll 1
        for (u64 d = p.rank; d > 1; --d) {
            at += (i64)(i % p.shape[d - 1]) * p.stride[d - 1];
            i /= p.shape[d - 1];
        }
    }
    // What is left is below the first size, or 0 without dimensions.
    return at + (i64)i * p.stride[0];
}

#define SB_COPY(NAME, T)                                                                \
    extern "C" __global__ void NAME(T* out, const T* in, SbView p) {                    \
        u64 last = p.rank > 0 ? p.rank - 1 : 0;                                         \
        constexpr u32 W = SB_PER_ACCESS(sizeof(T));                                     \
        bool in_row = p.rank > 0 && p.shape[last] % W == 0;                             \
        if (sb_whole_block(p.n) && sb_packed<W>(out) && in_row) {                       \
            sb_packs<W>([=, &p](u64 at) {                                               \
                sb_pack_at<W>(out, at) =                                                \
                    sb_pack_of_row<W>(in + sb_place(p, at), p.stride[last]);            \
            });                                                                         \
            return;                                                                     \
        }                                                                               \
        sb_singles(p.n, [=](u64 i) { out[i] = in[sb_place(p, i)]; });                   \
    }

// level: Portable - one thread owns four outputs
SB_COPY(copy_b8, unsigned char)
SB_COPY(copy_b16, unsigned short)
SB_COPY(copy_b32, u32)
SB_COPY(copy_b64, u64)

#define SB_SQUARE 32u
#define SB_SQUARE_ROWS 8u

// The same for a view whose elements lie side by side along `dense` and not along the last dimension:
// a block takes a square of both, reads it along the one and writes it along the other. The number of
// squares has 31 bits.
#define SB_TRANSPOSE(NAME, T)                                                           \
    extern "C" __launch_bounds__(SB_SQUARE * SB_SQUARE_ROWS) __global__ void NAME(      \
        T* out, const T* in, SbView p, u64 dense) {                                     \
        __shared__ T square[SB_SQUARE][SB_SQUARE + 1];                                  \
        u64 last = p.rank - 1;                                                          \
        u64 columns = p.shape[last];                                                    \
        u64 rows = p.shape[dense];                                                      \
        u32 across = (u32)((columns + SB_SQUARE - 1) / SB_SQUARE);                      \
        u32 down = (u32)((rows + SB_SQUARE - 1) / SB_SQUARE);                           \
        u64 column0 = blockIdx.x % across * SB_SQUARE;                                  \
        u64 row0 = blockIdx.x / across % down * SB_SQUARE;                              \
        u32 rest = blockIdx.x / across / down;                                          \
        const T* from = in + p.offset;                                                  \
        T* to = out;                                                                    \
        u64 pitch = 0;                                                                  \
        u64 step = columns;                                                             \
        for (u64 d = last; d-- > 0;) {                                                  \
            if (d == dense) {                                                           \
                pitch = step;                                                           \
            } else {                                                                    \
                u32 size = (u32)p.shape[d];                                             \
                from += (i64)(rest % size) * p.stride[d];                               \
                to += rest % size * step;                                               \
                rest /= size;                                                           \
            }                                                                           \
            step *= p.shape[d];                                                         \
        }                                                                               \
        u32 x = threadIdx.x % SB_SQUARE;                                                \
        u32 y = threadIdx.x / SB_SQUARE;                                                \
        u32 width = columns - column0 < SB_SQUARE ? (u32)(columns - column0) : SB_SQUARE; \
        u32 height = rows - row0 < SB_SQUARE ? (u32)(rows - row0) : SB_SQUARE;          \
        i64 stride = p.stride[last];                                                    \
        from += (i64)(row0 + x) + (i64)(column0 + y) * stride;                          \
        _Pragma("unroll") for (u32 k = 0; k < SB_SQUARE; k += SB_SQUARE_ROWS) {         \
            if (x < height && y + k < width) square[y + k][x] = *from;                  \
            from += (i64)SB_SQUARE_ROWS * stride;                                       \
        }                                                                               \
        __syncthreads();                                                                \
        to += (row0 + y) * pitch + column0 + x;                                         \
        _Pragma("unroll") for (u32 k = 0; k < SB_SQUARE; k += SB_SQUARE_ROWS) {         \
            if (x < width && y + k < height) *to = square[x][y + k];                    \
            to += SB_SQUARE_ROWS * pitch;                                               \
        }                                                                               \
    }

// level: Portable - each element is copied
SB_TRANSPOSE(transpose_b8, unsigned char)
SB_TRANSPOSE(transpose_b16, unsigned short)
SB_TRANSPOSE(transpose_b32, u32)
SB_TRANSPOSE(transpose_b64, u64)

// Rows of `width` elements to place `first` of rows of `row`.
#define SB_JOIN(NAME, T)                                                                \
    extern "C" __global__ void NAME(T* out, const T* in, u64 n, u64 width, u64 row,     \
                                    u64 first) {                                        \
        auto place = [=](u64 i) {                                                       \
            if (n >> 32 != 0) return i / width * row + first + i % width;               \
            return (u32)i / (u32)width * row + first + (u32)i % (u32)width;             \
        };                                                                              \
        constexpr u32 W = SB_PER_ACCESS(sizeof(T));                                     \
        bool in_row = (width | row | first) % W == 0;                                   \
        if (sb_whole_block(n) && sb_packed<W>(out) && sb_packed<W>(in) && in_row) {     \
            sb_packs<W>([=](u64 at) {                                                   \
                sb_pack_at<W>(out, place(at)) = sb_pack_at<W>(in, at);                  \
            });                                                                         \
            return;                                                                     \
        }                                                                               \
        sb_singles(n, [=](u64 i) { out[place(i)] = in[i]; });                           \
    }

// level: Portable - one thread owns four elements
SB_JOIN(join_b8, unsigned char)
SB_JOIN(join_b16, unsigned short)
SB_JOIN(join_b32, u32)
SB_JOIN(join_b64, u64)

#define SB_FILL(NAME, T)                                                                \
    extern "C" __global__ void NAME(T* out, u64 n, T value) {                           \
        constexpr u32 W = SB_PER_ACCESS(sizeof(T));                                     \
        if (sb_whole_block(n) && sb_packed<W>(out)) {                                   \
            sb_packs<W>([=](u64 at) {                                                   \
                SbPack<T, W> pack;                                                      \
                _Pragma("unroll") for (u32 k = 0; k < W; ++k) pack.of[k] = value;       \
                sb_pack_at<W>(out, at) = pack;                                          \
            });                                                                         \
            return;                                                                     \
        }                                                                               \
        sb_singles(n, [=](u64 i) { out[i] = value; });                                  \
    }

// level: Portable - one thread owns four outputs
SB_FILL(fill_b16, unsigned short)
SB_FILL(fill_b32, u32)
SB_FILL(fill_b64, u64)

// ---- Casts -------------------------------------------------------------------------------

// Truncated towards zero and saturated; NaN gives 0. The comparison spells out what the
// conversion instruction does differently for 64-bit results.
__device__ __forceinline__ i64 sb_to_i64(double x) {
    if (x != x) return 0;
    if (x >= 9223372036854775808.0) return 0x7fffffffffffffffll;
    if (x <= -9223372036854775808.0) return (i64)(1ull << 63);
    return (i64)x;
}

__device__ __forceinline__ unsigned char sb_to_u8(double x) {
    if (!(x >= 1.0)) return 0;
    return x >= 255.0 ? 255 : (unsigned char)(u32)x;
}

__device__ __forceinline__ i32 sb_to_i32(double x) {
    if (x != x) return 0;
    if (x >= 2147483647.0) return 0x7fffffff;
    if (x <= -2147483648.0) return (i32)(1u << 31);
    return (i32)x;
}

__device__ __forceinline__ u32 sb_to_u32(double x) {
    if (!(x >= 1.0)) return 0;
    return x >= 4294967295.0 ? 0xffffffffu : (u32)(i64)x;
}

// A double that rounds to any half as x does. From 2^53 on, the lowest bits become one that tells
// whether all of them were zero.
__device__ __forceinline__ double sb_odd(i64 x) {
    u64 size = x < 0 ? 0 - (u64)x : (u64)x;
    if (size < 1ull << 53) return (double)x;
    double kept = (double)((size >> 11 | ((size & 0x7ff) != 0 ? 1ull : 0ull)) << 11);
    return x < 0 ? -kept : kept;
}

#define SB_CAST(NAME, T, R, VALUE)                                                      \
    extern "C" __global__ void NAME(R* out, const T* in, u64 n) {                       \
        sb_map(out, in, n, [](T x) -> R { return VALUE; });                             \
    }

// level: Portable - one thread owns four outputs
SB_CAST(cast_f32_f64, float, double, sb_canonical64((double)x))
SB_CAST(cast_f64_f32, double, float, sb_canonical((float)x))
SB_CAST(cast_f32_i64, float, i64, sb_to_i64((double)x))
SB_CAST(cast_f64_i64, double, i64, sb_to_i64(x))
SB_CAST(cast_i64_f32, i64, float, (float)x)
SB_CAST(cast_i64_f64, i64, double, (double)x)
SB_CAST(cast_b8_f32, unsigned char, float, (float)x)
SB_CAST(cast_b8_f64, unsigned char, double, (double)x)
SB_CAST(cast_b8_i64, unsigned char, i64, (i64)x)
SB_CAST(cast_f32_b8, float, unsigned char, sb_to_u8((double)x))
SB_CAST(cast_f64_b8, double, unsigned char, sb_to_u8(x))
SB_CAST(cast_i64_b8, i64, unsigned char, (unsigned char)x)
SB_CAST(cast_i32_i64, i32, i64, (i64)x)
SB_CAST(cast_u32_i64, u32, i64, (i64)x)
SB_CAST(cast_f16_f32, unsigned short, float, sb_of_f16(x))
SB_CAST(cast_bf16_f32, unsigned short, float, sb_of_bf16(x))
SB_CAST(cast_i64_b32, i64, u32, (u32)x)
SB_CAST(cast_f64_i32, double, i32, sb_to_i32(x))
SB_CAST(cast_f64_u32, double, u32, sb_to_u32(x))
SB_CAST(cast_f64_f16, double, unsigned short, (sb_narrowed<5, 10>(x)))
SB_CAST(cast_f64_bf16, double, unsigned short, (sb_narrowed<8, 7>(x)))
SB_CAST(cast_i64_f16, i64, unsigned short, (sb_narrowed<5, 10>(sb_odd(x))))
SB_CAST(cast_i64_bf16, i64, unsigned short, (sb_narrowed<8, 7>(sb_odd(x))))
SB_CAST(cast_b8_b8, unsigned char, unsigned char, x)
SB_CAST(cast_b32_b32, u32, u32, x)
SB_CAST(cast_b64_b64, u64, u64, x)
SB_CAST(truth_f32, float, unsigned char, SB_TRUTH(x != 0.0f))
SB_CAST(truth_f64, double, unsigned char, SB_TRUTH(x != 0.0))
SB_CAST(truth_i64, i64, unsigned char, SB_TRUTH(x != 0))
SB_CAST(truth_b8, unsigned char, unsigned char, SB_TRUTH(x != 0))
