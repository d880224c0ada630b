// A composition of elementwise functions in one pass over memory. Its steps are parameters: each thread
// computes one element, and keeps the values between the steps in shared memory, where each has a slot
// for every thread of the block.

#include "elementary.cuh"
#include "pow.cuh"
#include "declared/formula.cuh"

#define SB_THREADS 256u
// As FORMULA_SLOTS.
#define SB_SLOTS 12u

template <typename T>
__device__ __forceinline__ T sb_formula_step(u32 code, T a, T b, T c, double x, double y) {
    switch (code) {
        case SB_CODE_NUMBER: return (T)x;
        case SB_CODE_AFFINE: return sb_clean(a * (T)x + (T)y);
        case SB_CODE_WHERE: return a != (T)0 ? b : c;
        case SB_CODE_NEG: return sb_clean(-a);
        case SB_CODE_ABS: return sb_clean(sb_abs(a));
        case SB_CODE_EXP: return sb_clean(sb_exp(a));
        case SB_CODE_EXP2: return sb_clean(sb_exp2(a));
        case SB_CODE_EXPM1: return sb_clean(sb_expm1(a));
        case SB_CODE_LOG: return sb_clean(sb_log(a));
        case SB_CODE_LOG2: return sb_clean(sb_log2(a));
        case SB_CODE_LOG10: return sb_clean(sb_log10(a));
        case SB_CODE_LOG1P: return sb_clean(sb_log1p(a));
        case SB_CODE_SQRT: return sb_clean(sb_sqrt(a));
        case SB_CODE_RSQRT: return sb_clean(sb_rsqrt(a));
        case SB_CODE_SIN: return sb_clean(sb_sin(a));
        case SB_CODE_COS: return sb_clean(sb_cos(a));
        case SB_CODE_TANH: return sb_clean(sb_tanh(a));
        case SB_CODE_SIGMOID: return sb_clean(sb_sigmoid(a));
        case SB_CODE_ERF: return sb_clean(sb_erf(a));
        case SB_CODE_RELU: return sb_clean(sb_relu(a));
        case SB_CODE_RECIPROCAL: return sb_clean((T)1 / a);
        case SB_CODE_SQUARE: return sb_clean(a * a);
        case SB_CODE_ADD: return sb_clean(a + b);
        case SB_CODE_SUB: return sb_clean(a - b);
        case SB_CODE_MUL: return sb_clean(a * b);
        case SB_CODE_DIV: return sb_clean(a / b);
        case SB_CODE_MAXIMUM: return sb_clean(sb_maximum(a, b));
        case SB_CODE_MINIMUM: return sb_clean(sb_minimum(a, b));
        case SB_CODE_POW: return sb_clean(sb_pow(a, b));
        case SB_CODE_WEIGH: return sb_clean(sb_weighed(a, b));
        case SB_CODE_RELU_GRAD: return sb_clean(sb_relu_grad(a, b));
        case SB_CODE_TANH_GRAD: return sb_clean(sb_tanh_grad(a, b));
        case SB_CODE_SIGMOID_GRAD: return sb_clean(sb_sigmoid_grad(a, b));
        case SB_CODE_EQ: return (T)(a == b);
        case SB_CODE_NE: return (T)(a != b);
        case SB_CODE_LT: return (T)(a < b);
        case SB_CODE_LE: return (T)(a <= b);
        case SB_CODE_GT: return (T)(a > b);
        default: return (T)(a >= b);
    }
}

template <typename T>
__device__ __forceinline__ void sb_formula(T* out, const T* in0, const T* in1, const T* in2,
                                           const T* in3, const T* in4, const SbFormula& p) {
    __shared__ T values[SB_SLOTS][SB_THREADS];
    u64 i = sb_thread();
    if (i >= p.n) return;
    u32 own = threadIdx.x;
    // An input of one element is read again and again.
    values[0][own] = in0[p.apart[0] * i];
    if (p.inputs > 1) values[1][own] = in1[p.apart[1] * i];
    if (p.inputs > 2) values[2][own] = in2[p.apart[2] * i];
    if (p.inputs > 3) values[3][own] = in3[p.apart[3] * i];
    if (p.inputs > 4) values[4][own] = in4[p.apart[4] * i];
    T value = (T)0;
#pragma unroll 1
    for (u32 step = 0; step < p.steps; ++step) {
        // Steps without so many arguments name the first input.
        value = sb_formula_step(p.code[step], values[p.a[step]][own], values[p.b[step]][own],
                                values[p.c[step]][own], p.x[step], p.y[step]);
        values[p.to[step]][own] = value;
    }
    out[i] = value;
}

// level: Portable - one thread owns one output
extern "C" __launch_bounds__(SB_THREADS) __global__ void formula_f32(
    float* out, const float* in0, const float* in1, const float* in2, const float* in3,
    const float* in4, SbFormula p) {
    sb_formula(out, in0, in1, in2, in3, in4, p);
}

// level: Portable - one thread owns one output
extern "C" __launch_bounds__(SB_THREADS) __global__ void formula_f64(
    double* out, const double* in0, const double* in1, const double* in2, const double* in3,
    const double* in4, SbFormula p) {
    sb_formula(out, in0, in1, in2, in3, in4, p);
}
