// A composition of elementwise functions in one pass over memory. Its steps are parameters: each thread
// computes the elements of one access of 16 bytes, so that what a step costs besides its function is
// shared, and keeps the values between the steps in shared memory, where each has a slot for every
// thread of the block.

#include "elementary.cuh"
#include "fours.cuh"
#include "pow.cuh"
#include "table.cuh"
#include "declared/formula.cuh"

#define SB_THREADS 128u
// As FORMULA_SLOTS.
#define SB_SLOTS 10u

template <typename T>
using SbValues = SbPack<T, SB_PER_ACCESS(sizeof(T))>;

#define SB_CASE(CODE, VALUE)                                                            \
    case CODE:                                                                          \
        _Pragma("unroll") for (u32 k = 0; k < W; ++k) {                                 \
            T a = first.of[k];                                                          \
            T b = second.of[k];                                                         \
            T c = third.of[k];                                                          \
            found.of[k] = VALUE;                                                        \
        }                                                                               \
        break;

template <typename T>
__device__ __forceinline__ SbValues<T> sb_formula_step(u32 code, const SbValues<T>& first,
                                                       const SbValues<T>& second,
                                                       const SbValues<T>& third, T x, T y) {
    constexpr u32 W = SB_PER_ACCESS(sizeof(T));
    SbValues<T> found;
    switch (code) {
        SB_CASE(SB_CODE_NUMBER, x)
        SB_CASE(SB_CODE_AFFINE, sb_clean(a * x + y))
        SB_CASE(SB_CODE_WHERE, a != (T)0 ? b : c)
        SB_CASE(SB_CODE_NEG, sb_clean(-a))
        SB_CASE(SB_CODE_ABS, sb_clean(sb_abs(a)))
        SB_CASE(SB_CODE_EXP, sb_clean(sb_exp(a)))
        SB_CASE(SB_CODE_EXP2, sb_clean(sb_exp2(a)))
        SB_CASE(SB_CODE_EXPM1, sb_clean(sb_expm1(a)))
        SB_CASE(SB_CODE_LOG, sb_clean(sb_log(a)))
        SB_CASE(SB_CODE_LOG2, sb_clean(sb_log2(a)))
        SB_CASE(SB_CODE_LOG10, sb_clean(sb_log10(a)))
        SB_CASE(SB_CODE_LOG1P, sb_clean(sb_log1p(a)))
        SB_CASE(SB_CODE_SQRT, sb_clean(sb_sqrt(a)))
        SB_CASE(SB_CODE_RSQRT, sb_clean(sb_rsqrt(a)))
        SB_CASE(SB_CODE_SIN, sb_clean(sb_sin(a)))
        SB_CASE(SB_CODE_COS, sb_clean(sb_cos(a)))
        SB_CASE(SB_CODE_TANH, sb_clean(sb_tanh(a)))
        SB_CASE(SB_CODE_SIGMOID, sb_clean(sb_sigmoid(a)))
        SB_CASE(SB_CODE_ERF, sb_clean(sb_erf(a)))
        SB_CASE(SB_CODE_RELU, sb_clean(sb_relu(a)))
        SB_CASE(SB_CODE_RECIPROCAL, sb_clean((T)1 / a))
        SB_CASE(SB_CODE_SQUARE, sb_clean(a * a))
        SB_CASE(SB_CODE_ADD, sb_clean(a + b))
        SB_CASE(SB_CODE_SUB, sb_clean(a - b))
        SB_CASE(SB_CODE_MUL, sb_clean(a * b))
        SB_CASE(SB_CODE_DIV, sb_clean(a / b))
        SB_CASE(SB_CODE_MAXIMUM, sb_clean(sb_maximum(a, b)))
        SB_CASE(SB_CODE_MINIMUM, sb_clean(sb_minimum(a, b)))
        SB_CASE(SB_CODE_POW, sb_clean(sb_pow(a, b)))
        SB_CASE(SB_CODE_WEIGH, sb_clean(sb_weighed(a, b)))
        SB_CASE(SB_CODE_RELU_GRAD, sb_clean(sb_relu_grad(a, b)))
        SB_CASE(SB_CODE_TANH_GRAD, sb_clean(sb_tanh_grad(a, b)))
        SB_CASE(SB_CODE_SIGMOID_GRAD, sb_clean(sb_sigmoid_grad(a, b)))
        SB_CASE(SB_CODE_EQ, (T)(a == b))
        SB_CASE(SB_CODE_NE, (T)(a != b))
        SB_CASE(SB_CODE_LT, (T)(a < b))
        SB_CASE(SB_CODE_LE, (T)(a <= b))
        SB_CASE(SB_CODE_GT, (T)(a > b))
        SB_CASE(SB_CODE_GE, (T)(a >= b))
        default: found = first;
    }
    return found;
}

// The elements of an input from i on, of `n`; one element serves all where it is not `apart`.
template <typename T>
__device__ __forceinline__ SbValues<T> sb_formula_input(const T* in, u64 apart, u64 i, u64 n) {
    constexpr u32 W = SB_PER_ACCESS(sizeof(T));
    if (apart != 0 && i + W <= n && sb_packed<W>(in)) return sb_pack_at<W>(in, i);
    SbValues<T> values;
#pragma unroll
    for (u32 k = 0; k < W; ++k) values.of[k] = i + k < n ? in[apart * (i + k)] : (T)0;
    return values;
}

// The values of an access from element i on, of `n`; `in(k)` is input k.
template <typename T, typename In>
__device__ __forceinline__ SbValues<T> sb_formula_values(In in, u64 i, u64 n, const SbFormula& p) {
    __shared__ SbValues<T> values[SB_SLOTS][SB_THREADS];
    u32 own = threadIdx.x;
    values[0][own] = sb_formula_input(in(0), p.apart[0], i, n);
    if (p.inputs > 1) values[1][own] = sb_formula_input(in(1), p.apart[1], i, n);
    if (p.inputs > 2) values[2][own] = sb_formula_input(in(2), p.apart[2], i, n);
    if (p.inputs > 3) values[3][own] = sb_formula_input(in(3), p.apart[3], i, n);
    if (p.inputs > 4) values[4][own] = sb_formula_input(in(4), p.apart[4], i, n);
    SbValues<T> value = values[0][own];
#pragma unroll 1
    for (u32 step = 0; step < p.steps; ++step) {
        // Steps without so many arguments name the first input.
        value = sb_formula_step<T>(p.code[step], values[p.a[step]][own], values[p.b[step]][own],
                                   values[p.c[step]][own], (T)p.x[step], (T)p.y[step]);
        values[p.to[step]][own] = value;
    }
    return value;
}

template <typename T>
__device__ __forceinline__ void sb_formula_write(T* out, u64 i, u64 n, const SbValues<T>& value) {
    constexpr u32 W = SB_PER_ACCESS(sizeof(T));
    if (i + W <= n && sb_packed<W>(out)) {
        sb_write(out + i, value);
        return;
    }
#pragma unroll
    for (u32 k = 0; k < W; ++k) {
        if (i + k < n) out[i + k] = value.of[k];
    }
}

template <typename T>
__device__ __forceinline__ void sb_formula(T* out, const T* in0, const T* in1, const T* in2,
                                           const T* in3, const T* in4, const SbFormula& p) {
    u64 i = sb_thread() * SB_PER_ACCESS(sizeof(T));
    if (i >= p.n) return;
    auto in = [=](u32 k) { return k == 0 ? in0 : k == 1 ? in1 : k == 2 ? in2 : k == 3 ? in3 : in4; };
    sb_formula_write(out, i, p.n, sb_formula_values<T>(in, i, p.n, p));
}

// level: Portable - one thread owns four outputs
extern "C" __launch_bounds__(SB_THREADS) __global__ void formula_f32(
    float* out, const float* in0, const float* in1, const float* in2, const float* in3,
    const float* in4, SbFormula p) {
    sb_formula(out, in0, in1, in2, in3, in4, p);
}

// level: Portable - one thread owns two outputs
extern "C" __launch_bounds__(SB_THREADS) __global__ void formula_f64(
    double* out, const double* in0, const double* in1, const double* in2, const double* in3,
    const double* in4, SbFormula p) {
    sb_formula(out, in0, in1, in2, in3, in4, p);
}

// The formula of several results: operand 0 of a row is the result, those after it are the inputs.
template <typename T>
__device__ __forceinline__ void sb_formula_all(const SbRow* rows, u32 count, const SbFormula& p) {
    constexpr u32 W = SB_PER_ACCESS(sizeof(T));
    const SbRow* row = sb_row_of_block(rows, count);
    T* out = sb_operand<T>(row, 0);
    u64 n = row->n;
    auto in = [=](u32 k) { return (const T*)sb_operand<T>(row, 1 + k); };
    sb_turns(row, [&](u64 first) {
        sb_packs_from<W>(first, [&](u64 i) {
            if (i < n) sb_formula_write(out, i, n, sb_formula_values<T>(in, i, n, p));
        });
    });
}

// level: Portable - each element has one thread
extern "C" __launch_bounds__(SB_THREADS) __global__ void formula_all_f32(const SbRow* rows,
                                                                         u32 count, SbFormula p) {
    sb_formula_all<float>(rows, count, p);
}

// level: Portable - each element has one thread
extern "C" __launch_bounds__(SB_THREADS) __global__ void formula_all_f64(const SbRow* rows,
                                                                         u32 count, SbFormula p) {
    sb_formula_all<double>(rows, count, p);
}
