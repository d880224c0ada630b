// Softmax and the negative log-likelihood.

#include "math64.cuh"
#include "reduce.cuh"
#include "declared/loss.cuh"

// The sum over the classes of a row, over the f64 tree, and the largest: by a warp, or where COLUMNS by
// a thread, whose row is one of at most 4096 classes and lies beside those of its neighbours.
template <bool COLUMNS, typename Term>
__device__ __forceinline__ double sb_class_sum(u64 n, Term term) {
    if constexpr (COLUMNS) {
        return sb_tree_column(n, term);
    } else {
        return sb_tree(n, term);
    }
}

// The sign of a largest zero does not matter: it changes only the sign of zeros that are shifted by it,
// from which the logarithm of the sum is taken, and that is 0 only where one element counts.
template <bool COLUMNS, typename T, typename Element>
__device__ __forceinline__ T sb_class_max(u64 n, Element element) {
    const int AHEAD = COLUMNS ? 1 : 8;
    const u32 lanes = COLUMNS ? 1 : 32;
    T best = sb_minus_infinity<T>();
    u64 i = COLUMNS ? 0 : threadIdx.x & 31u;
#pragma unroll 1
    for (; i + lanes * (AHEAD - 1) < n; i += lanes * AHEAD) {
        T x[AHEAD];
#pragma unroll
        for (int k = 0; k < AHEAD; ++k) x[k] = element(i + lanes * k);
#pragma unroll
        for (int k = 0; k < AHEAD; ++k) best = sb_largest(best, x[k]);
    }
#pragma unroll 1
    for (; i < n; i += lanes) best = sb_largest(best, element(i));
    if constexpr (!COLUMNS) {
        for (u32 w = 16; w >= 1; w /= 2) best = sb_largest(best, sb_shuffle_down(best, w));
        best = sb_shuffle_first(best);
    }
    return best;
}

// (x - max) - log(sum of exp(x - max)): each step in f32, correctly rounded, but for the sum,
// which is the f64 tree rounded to f32. Where EXP, exp(x - max) divided by that sum.
template <bool COLUMNS, bool EXP, typename T>
__device__ __forceinline__ void sb_softmax(T* out, const T* in, SbClasses p) {
    const u32 lanes = COLUMNS ? 1 : 32;
    u64 row = sb_thread() / lanes;
    if (row >= p.outer * p.inner) return;
    u64 first = row / p.inner * p.n * p.inner + row % p.inner;
    const T* x = in + first;
    u64 inner = p.inner;
    T max = sb_clean(sb_class_max<COLUMNS, T>(p.n, [=](u64 i) { return x[i * inner]; }));
    double sum = sb_class_sum<COLUMNS>(p.n, [=](u64 i) {
        return (double)sb_exp(x[i * inner] - max);
    });
    T of_sum = EXP ? (T)sum : sb_log((T)sum);
    for (u64 i = threadIdx.x % lanes; i < p.n; i += lanes) {
        T shifted = x[i * inner] - max;
        out[first + i * inner] = sb_clean(EXP ? sb_exp(shifted) / of_sum : shifted - of_sum);
    }
}

#define SB_SOFTMAX(NAME, COLUMNS, EXP, T)                                               \
    extern "C" __global__ void NAME(T* out, const T* in, SbClasses p) {                 \
        sb_softmax<COLUMNS, EXP>(out, in, p);                                           \
    }

// level: Portable - one warp or one thread owns one row
SB_SOFTMAX(log_softmax_f32, false, false, float)
SB_SOFTMAX(log_softmax_f64, false, false, double)
SB_SOFTMAX(log_softmax_columns_f32, true, false, float)
SB_SOFTMAX(log_softmax_columns_f64, true, false, double)
SB_SOFTMAX(softmax_f32, false, true, float)
SB_SOFTMAX(softmax_f64, false, true, double)
SB_SOFTMAX(softmax_columns_f32, true, true, float)
SB_SOFTMAX(softmax_columns_f64, true, true, double)

// fma(y, -sum of g, g), the sum rounded to f32; where LOG, y is given by its logarithm. `gradient`
// returns, for a row and where it begins, the function that returns g of a class.
template <bool COLUMNS, bool LOG, typename T, typename Gradient>
__device__ __forceinline__ void sb_softmax_grad(T* out, const T* y, SbClasses p,
                                                Gradient gradient) {
    const u32 lanes = COLUMNS ? 1 : 32;
    u64 row = sb_thread() / lanes;
    if (row >= p.outer * p.inner) return;
    u64 first = row / p.inner * p.n * p.inner + row % p.inner;
    u64 inner = p.inner;
    auto g = gradient(row, first);
    T sum = -(T)sb_class_sum<COLUMNS>(p.n, [=](u64 i) { return (double)g(i); });
    for (u64 i = threadIdx.x % lanes; i < p.n; i += lanes) {
        u64 place = first + i * inner;
        T factor = LOG ? sb_exp(y[place]) : y[place];
        out[place] = sb_clean(sb_fma(factor, sum, g(i)));
    }
}

#define SB_LOG_SOFTMAX_GRAD(NAME, COLUMNS, T)                                           \
    extern "C" __global__ void NAME(T* out, const T* grad, const T* y, SbClasses p) {   \
        u64 inner = p.inner;                                                            \
        sb_softmax_grad<COLUMNS, true>(out, y, p, [=](u64 row, u64 first) {             \
            const T* g = grad + first;                                                  \
            return [=](u64 i) { return g[i * inner]; };                                 \
        });                                                                             \
    }

// level: Portable - one warp or one thread owns one row
SB_LOG_SOFTMAX_GRAD(log_softmax_grad_f32, false, float)
SB_LOG_SOFTMAX_GRAD(log_softmax_grad_f64, false, double)
SB_LOG_SOFTMAX_GRAD(log_softmax_grad_columns_f32, true, float)
SB_LOG_SOFTMAX_GRAD(log_softmax_grad_columns_f64, true, double)

// The gradient of the softmax y: g = grad * y, rounded.
#define SB_SOFTMAX_GRAD(NAME, COLUMNS, T)                                               \
    extern "C" __global__ void NAME(T* out, const T* grad, const T* y, SbClasses p) {   \
        u64 inner = p.inner;                                                            \
        sb_softmax_grad<COLUMNS, false>(out, y, p, [=](u64 row, u64 first) {            \
            const T* g = grad + first;                                                  \
            const T* factor = y + first;                                                \
            return [=](u64 i) { return sb_clean(g[i * inner] * factor[i * inner]); };   \
        });                                                                             \
    }

// level: Portable - one warp or one thread owns one row
SB_SOFTMAX_GRAD(softmax_grad_f32, false, float)
SB_SOFTMAX_GRAD(softmax_grad_f64, false, double)
SB_SOFTMAX_GRAD(softmax_grad_columns_f32, true, float)
SB_SOFTMAX_GRAD(softmax_grad_columns_f64, true, double)

// ---- The negative log-likelihood ----------------------------------------------------------

// Whether position i counts; a bad target does not, and is reported.
__device__ __forceinline__ bool sb_counts(const SbTargets& p, const i64* target, u64 i,
                                          u64* status) {
    i64 c = target[i];
    return c != p.ignore && sb_check(c, p.classes, i, status);
}

// Where the log-probability of the target of position i is.
__device__ __forceinline__ u64 sb_target(const SbTargets& p, const i64* target, u64 i) {
    return (i / p.inner * p.classes + (u64)target[i]) * p.inner + i % p.inner;
}

template <typename T>
__device__ __forceinline__ double sb_class_weight(const SbTargets& p, const T* weight, i64 c) {
    return p.weighted != 0 ? (double)weight[c] : 1.0;
}

// -weight * log_prob at each position, +0 where nothing counts.
template <typename T>
__device__ __forceinline__ void sb_nll_each(T* out, const T* log_probs, const i64* target,
                                            const T* weight, SbTargets p, u64* status) {
    u64 i = sb_thread();
    if (i >= p.outer * p.inner) return;
    T value = (T)0;
    if (sb_counts(p, target, i, status)) {
        double w = sb_class_weight(p, weight, target[i]);
        value = sb_clean((T)(-(w * (double)log_probs[sb_target(p, target, i)])));
    }
    out[i] = value;
}

// level: Portable - one thread owns one output
extern "C" __global__ void nll_each_f32(float* out, const float* log_probs, const i64* target,
                                        const float* weight, SbTargets p, u64* status) {
    sb_nll_each<float>(out, log_probs, target, weight, p, status);
}

// level: Portable - one thread owns one output
extern "C" __global__ void nll_each_f64(double* out, const double* log_probs, const i64* target,
                                        const double* weight, SbTargets p, u64* status) {
    sb_nll_each<double>(out, log_probs, target, weight, p, status);
}

// The terms of the two sums, of weight * log_prob and of the weights.
template <typename T>
__device__ __forceinline__ void sb_nll_terms(double* terms, double* weights, const T* log_probs,
                                             const i64* target, const T* weight, SbTargets p,
                                             u64* status) {
    u64 i = sb_thread();
    if (i >= p.outer * p.inner) return;
    double w = 0.0;
    double term = 0.0;
    if (sb_counts(p, target, i, status)) {
        w = sb_class_weight(p, weight, target[i]);
        term = w * (double)log_probs[sb_target(p, target, i)];
    }
    terms[i] = term;
    weights[i] = w;
}

// level: Portable - one thread owns one term
extern "C" __global__ void nll_terms_f32(double* terms, double* weights, const float* log_probs,
                                         const i64* target, const float* weight, SbTargets p,
                                         u64* status) {
    sb_nll_terms<float>(terms, weights, log_probs, target, weight, p, status);
}

// level: Portable - one thread owns one term
extern "C" __global__ void nll_terms_f64(double* terms, double* weights, const double* log_probs,
                                         const i64* target, const double* weight, SbTargets p,
                                         u64* status) {
    sb_nll_terms<double>(terms, weights, log_probs, target, weight, p, status);
}

// -sum, for the mean divided by the sum of the weights.
template <typename T>
__device__ __forceinline__ void sb_nll_finish(T* out, const double* sum, const double* weights,
                                              u32 mean) {
    if (sb_thread() != 0) return;
    double loss = -sum[0];
    out[0] = sb_clean((T)(mean != 0 ? loss / weights[0] : loss));
}

// level: Portable - one thread
extern "C" __global__ void nll_finish_f32(float* out, const double* sum, const double* weights,
                                          u32 mean) {
    sb_nll_finish<float>(out, sum, weights, mean);
}

// level: Portable - one thread
extern "C" __global__ void nll_finish_f64(double* out, const double* sum, const double* weights,
                                          u32 mean) {
    sb_nll_finish<double>(out, sum, weights, mean);
}

// The two sums in f32.
// level: NotGuaranteed - float atomics
extern "C" __global__ void nll_sums_f32_atomic(float* sums, const float* log_probs,
                                               const i64* target, const float* weight,
                                               SbTargets p, u64* status) {
    u64 i = sb_thread();
    if (i >= p.outer * p.inner || !sb_counts(p, target, i, status)) return;
    float w = p.weighted != 0 ? weight[target[i]] : 1.0f;
    atomicAdd(sums, -(w * log_probs[sb_target(p, target, i)]));
    atomicAdd(sums + 1, w);
}

// level: NotGuaranteed - finishes sums of float atomics
extern "C" __global__ void nll_finish_f32_atomic(float* out, const float* sums, u32 mean) {
    if (sb_thread() == 0) out[0] = sb_canonical(mean != 0 ? sums[0] / sums[1] : sums[0]);
}

// The weight of each position, +0 where nothing counts.
template <typename T>
__device__ __forceinline__ void sb_nll_weights(double* weights, const i64* target, const T* weight,
                                               SbTargets p) {
    u64 i = sb_thread();
    if (i >= p.outer * p.inner) return;
    i64 c = target[i];
    bool counts = c != p.ignore && (u64)c < p.classes;
    weights[i] = counts ? sb_class_weight(p, weight, c) : 0.0;
}

// level: Portable - one thread owns one weight
extern "C" __global__ void nll_weights_f32(double* weights, const i64* target, const float* weight,
                                           SbTargets p) {
    sb_nll_weights<float>(weights, target, weight, p);
}

// level: Portable - one thread owns one weight
extern "C" __global__ void nll_weights_f64(double* weights, const i64* target,
                                           const double* weight, SbTargets p) {
    sb_nll_weights<double>(weights, target, weight, p);
}

// -grad * weight / divisor at the target of a position that counts, in f64 and rounded once. `each` is
// not 0 if every position has a gradient of its own.
template <typename T>
__device__ __forceinline__ T sb_nll_slope(const T* grad, const i64* target, const T* weight,
                                          const double* divisor, const SbTargets& p, u32 each,
                                          u64 position) {
    double w = sb_class_weight(p, weight, target[position]);
    double g = (double)grad[each != 0 ? position : 0];
    return sb_clean((T)(-(g * w) / divisor[0]));
}

// The gradient at each target; the rest of `out` is +0 already.
template <typename T>
__device__ __forceinline__ void sb_nll_grad(T* out, const T* grad, const i64* target,
                                            const T* weight, const double* divisor, SbTargets p,
                                            u32 each, u64* status) {
    u64 i = sb_thread();
    if (i >= p.outer * p.inner || !sb_counts(p, target, i, status)) return;
    out[sb_target(p, target, i)] = sb_nll_slope(grad, target, weight, divisor, p, each, i);
}

// level: Portable - one thread owns one position
extern "C" __global__ void nll_grad_f32(float* out, const float* grad, const i64* target,
                                        const float* weight, const double* divisor, SbTargets p,
                                        u32 each, u64* status) {
    sb_nll_grad<float>(out, grad, target, weight, divisor, p, each, status);
}

// level: Portable - one thread owns one position
extern "C" __global__ void nll_grad_f64(double* out, const double* grad, const i64* target,
                                        const double* weight, const double* divisor, SbTargets p,
                                        u32 each, u64* status) {
    sb_nll_grad<double>(out, grad, target, weight, divisor, p, each, status);
}

// The gradient of the softmax of that gradient, which is +0 but at the targets.
template <bool COLUMNS, typename T>
__device__ __forceinline__ void sb_cross_entropy_grad(T* out, const T* log_probs, const T* grad,
                                                      const i64* target, const T* weight,
                                                      const double* divisor, SbTargets p, u32 each,
                                                      u64* status) {
    SbClasses classes = {p.outer, p.classes, p.inner};
    sb_softmax_grad<COLUMNS, true>(out, log_probs, classes, [=](u64 row, u64 first) {
        u64 at = ~0ull;
        T slope = (T)0;
        if (sb_counts(p, target, row, status)) {
            at = (u64)target[row];
            slope = sb_nll_slope(grad, target, weight, divisor, p, each, row);
        }
        return [=](u64 i) { return i == at ? slope : (T)0; };
    });
}

#define SB_CROSS_ENTROPY_GRAD(NAME, COLUMNS, T)                                                    \
    extern "C" __global__ void NAME(T* out, const T* log_probs, const T* grad, const i64* target,  \
                                    const T* weight, const double* divisor, SbTargets p, u32 each, \
                                    u64* status) {                                                 \
        sb_cross_entropy_grad<COLUMNS>(out, log_probs, grad, target, weight, divisor, p, each,     \
                                       status);                                                    \
    }

// level: Portable - one warp or one thread owns one row
SB_CROSS_ENTROPY_GRAD(cross_entropy_grad_f32, false, float)
SB_CROSS_ENTROPY_GRAD(cross_entropy_grad_f64, false, double)
SB_CROSS_ENTROPY_GRAD(cross_entropy_grad_columns_f32, true, float)
SB_CROSS_ENTROPY_GRAD(cross_entropy_grad_columns_f64, true, double)
