// Softmax and the negative log-likelihood.

#include "math.cuh"
#include "reduce.cuh"

// A tensor [outer, n, inner], the classes along n.
struct SbClasses {
    u64 outer;
    u64 n;
    u64 inner;
};

// (x - max) - log(sum of exp(x - max)): each step in f32, correctly rounded, but for the sum,
// which is the f64 tree rounded to f32.
// level: Portable - one warp owns one row
extern "C" __global__ void log_softmax_f32(float* out, const float* in, SbClasses p) {
    u64 warp = sb_thread() / 32;
    if (warp >= p.outer * p.inner) return;
    u64 first = warp / p.inner * p.n * p.inner + warp % p.inner;
    const float* x = in + first;
    u64 inner = p.inner;
    u64 at;
    float max = sb_canonical(sb_extreme<float>(p.n, false, &at, [=](u64 i) { return x[i * inner]; }));
    double sum = sb_tree(p.n, [=](u64 i) { return (double)sb_exp(x[i * inner] - max); });
    float log_sum = sb_log((float)sum);
    for (u64 i = threadIdx.x & 31u; i < p.n; i += 32) {
        float shifted = x[i * inner] - max;
        out[first + i * inner] = sb_canonical(shifted - log_sum);
    }
}

// fma(exp(y), -sum of grad, grad), the sum rounded to f32.
// level: Portable - one warp owns one row
extern "C" __global__ void log_softmax_grad_f32(float* out, const float* grad, const float* y,
                                                SbClasses p) {
    u64 warp = sb_thread() / 32;
    if (warp >= p.outer * p.inner) return;
    u64 first = warp / p.inner * p.n * p.inner + warp % p.inner;
    const float* g = grad + first;
    u64 inner = p.inner;
    float sum = -(float)sb_tree(p.n, [=](u64 i) { return (double)g[i * inner]; });
    for (u64 i = threadIdx.x & 31u; i < p.n; i += 32) {
        u64 place = first + i * inner;
        out[place] = sb_canonical(__fmaf_rn(sb_exp(y[place]), sum, grad[place]));
    }
}

// The mean over the tree; a bad target counts as +0 and is reported.
// level: Portable - one warp, the tree of the contract
extern "C" __global__ void nll_loss_f32(float* out, const float* log_probs, const i64* target, u64 n,
                                        u64 classes, u64* status) {
    if (sb_thread() >= 32) return;
    double sum = sb_tree(n, [=](u64 i) {
        i64 c = target[i];
        return sb_check(c, classes, i, status) ? (double)log_probs[i * classes + (u64)c] : 0.0;
    });
    if (threadIdx.x == 0) out[0] = sb_canonical((float)(-sum / (double)n));
}

// level: NotGuaranteed - float atomics
extern "C" __global__ void nll_loss_f32_atomic(float* out, const float* log_probs,
                                               const i64* target, u64 n, u64 classes,
                                               u64* status) {
    u64 i = sb_thread();
    if (i >= n) return;
    i64 c = target[i];
    if (!sb_check(c, classes, i, status)) return;
    atomicAdd(out, -log_probs[i * classes + (u64)c] / (float)n);
}

// -grad / n at each target, +0 elsewhere.
// level: Portable - one thread owns one output
extern "C" __global__ void nll_loss_grad_f32(float* out, const float* grad, const i64* target, u64 n,
                                             u64 classes, u64* status) {
    u64 i = sb_thread();
    if (i >= n * classes) return;
    u64 row = i / classes;
    i64 c = target[row];
    bool here = sb_check(c, classes, row, status) && (u64)c == i % classes;
    out[i] = here ? sb_canonical(-grad[0] / (float)n) : 0.0f;
}
