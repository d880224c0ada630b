// Connectionist temporal classification: the recursions of cpu_kernels::ctc, operation by
// operation, in f64. A sequence's states are its labels with a blank before, between and after
// them. One block walks through the steps of one sequence, its threads over the states.

#include "math64.cuh"
#include "declared/ctc.cuh"

// Labels, and for each sequence where they begin, how many there are, and how many steps count.
struct SbSequence {
    const i64* labels;
    u64 targets;
    u64 states;
    u64 steps;
};

__device__ __forceinline__ SbSequence sb_sequence(const i64* labels, const u64* lengths, u64 n,
                                                  u64 i) {
    u64 targets = lengths[n + i];
    return {labels + lengths[i], targets, 2 * targets + 1, lengths[2 * n + i]};
}

__device__ __forceinline__ u64 sb_label(const SbCtc& p, const SbSequence& q, u64 s) {
    if ((s & 1) == 0) return p.blank;
    u64 label = (u64)q.labels[s / 2];
    // A bad label was reported.
    return label < p.classes ? label : p.blank;
}

// 0 where state s can follow state s - 2, else minus infinity.
__device__ __forceinline__ double sb_skip(const SbSequence& q, u64 s) {
    bool skips = s < q.states && (s & 1) == 1 && s >= 3 && q.labels[s / 2] != q.labels[s / 2 - 1];
    return skips ? 0.0 : -sb_infinity64();
}

__device__ __forceinline__ double sb_log3(double a, double b, double c) {
    double m = b > a ? b : a;
    m = c > m ? c : m;
    m = m == -sb_infinity64() ? 0.0 : m;
    double sum = sb_exp(a - m) + sb_exp(b - m) + sb_exp(c - m);
    return m + sb_log(sum);
}

// level: Portable - an integer minimum
extern "C" __global__ void ctc_check(const i64* labels, const u64* lengths, SbCtc p, u64* status) {
    u64 t = sb_thread();
    u64 longest = p.states / 2;
    if (longest == 0 || t >= p.n * longest) return;
    u64 i = t / longest;
    u64 k = t % longest;
    if (k < lengths[p.n + i]) sb_check(labels[lengths[i] + k], p.classes, lengths[i] + k, status);
}

// alpha is [n, steps, states]; the log-likelihood of each sequence.
template <typename T>
__device__ __forceinline__ void sb_ctc_alpha(double* alpha, double* likelihood,
                                             const T* log_probs, const i64* labels,
                                             const u64* lengths, SbCtc p) {
    u64 i = blockIdx.x;
    SbSequence q = sb_sequence(labels, lengths, p.n, i);
    double* rows = alpha + i * p.steps * p.states;
    for (u64 t = 0; t < q.steps; ++t) {
        const T* x = log_probs + (t * p.n + i) * p.classes;
        double* now = rows + t * p.states;
        for (u64 s = threadIdx.x; s < q.states; s += blockDim.x) {
            double emitted = (double)x[sb_label(p, q, s)];
            if (t == 0) {
                now[s] = s < 2 ? emitted : -sb_infinity64();
                continue;
            }
            const double* before = now - p.states;
            double b = s >= 1 ? before[s - 1] : -sb_infinity64();
            double c = (s >= 2 ? before[s - 2] : -sb_infinity64()) + sb_skip(q, s);
            now[s] = sb_log3(before[s], b, c) + emitted;
        }
        __syncthreads();
    }
    if (threadIdx.x != 0) return;
    if (q.steps == 0) {
        likelihood[i] = q.states == 1 ? 0.0 : -sb_infinity64();
        return;
    }
    const double* last = rows + (q.steps - 1) * p.states;
    double other = q.states >= 2 ? last[q.states - 2] : -sb_infinity64();
    likelihood[i] = sb_log3(last[q.states - 1], other, -sb_infinity64());
}

// level: Portable - one thread owns one state of a step; steps are separated by barriers
extern "C" __global__ void ctc_alpha_f32(double* alpha, double* likelihood, const float* log_probs,
                                         const i64* labels, const u64* lengths, SbCtc p) {
    sb_ctc_alpha<float>(alpha, likelihood, log_probs, labels, lengths, p);
}

// level: Portable - one thread owns one state of a step; steps are separated by barriers
extern "C" __global__ void ctc_alpha_f64(double* alpha, double* likelihood,
                                         const double* log_probs, const i64* labels,
                                         const u64* lengths, SbCtc p) {
    sb_ctc_alpha<double>(alpha, likelihood, log_probs, labels, lengths, p);
}

// The losses, for the mean divided by the number of labels. `kind` bits: 1 an infinite loss
// counts as 0, 2 the mean.
// level: Portable - one thread owns one output
extern "C" __global__ void ctc_losses(double* losses, const double* likelihood, const u64* lengths,
                                      u64 n, u32 kind) {
    u64 i = sb_thread();
    if (i >= n) return;
    double loss = -likelihood[i];
    if ((kind & 1u) != 0 && loss == sb_infinity64()) loss = 0.0;
    u64 targets = lengths[n + i];
    losses[i] = (kind & 2u) != 0 ? loss / (double)(targets > 1 ? targets : 1) : loss;
}

// Turns alpha into the posterior of each state; `beta` is [n, 2, states].
template <typename T>
__device__ __forceinline__ void sb_ctc_posterior(double* alpha, double* beta,
                                                 const double* likelihood, const T* log_probs,
                                                 const i64* labels, const u64* lengths, SbCtc p) {
    u64 i = blockIdx.x;
    if (likelihood[i] == -sb_infinity64()) return;
    SbSequence q = sb_sequence(labels, lengths, p.n, i);
    double ll = likelihood[i];
    double* rows = alpha + i * p.steps * p.states;
    double* pair = beta + i * 2 * p.states;
    for (u64 t = q.steps; t-- > 0;) {
        double* now = pair + (t & 1) * p.states;
        const double* following = pair + ((t + 1) & 1) * p.states;
        const T* x = log_probs + ((t + 1) * p.n + i) * p.classes;
        for (u64 s = threadIdx.x; s < q.states; s += blockDim.x) {
            double value;
            if (t + 1 == q.steps) {
                value = s + 2 >= q.states ? 0.0 : -sb_infinity64();
            } else {
                double f[3];
                for (u64 k = 0; k < 3; ++k) {
                    bool inside = s + k < q.states;
                    f[k] = inside ? following[s + k] + (double)x[sb_label(p, q, s + k)]
                                  : -sb_infinity64();
                }
                value = sb_log3(f[0], f[1], f[2] + sb_skip(q, s + 2));
            }
            now[s] = value;
            double* place = rows + t * p.states + s;
            *place = sb_exp((*place + value) - ll);
        }
        __syncthreads();
    }
}

// level: Portable - one thread owns one state of a step; steps are separated by barriers
extern "C" __global__ void ctc_posterior_f32(double* alpha, double* beta, const double* likelihood,
                                             const float* log_probs, const i64* labels,
                                             const u64* lengths, SbCtc p) {
    sb_ctc_posterior<float>(alpha, beta, likelihood, log_probs, labels, lengths, p);
}

// level: Portable - one thread owns one state of a step; steps are separated by barriers
extern "C" __global__ void ctc_posterior_f64(double* alpha, double* beta, const double* likelihood,
                                             const double* log_probs, const i64* labels,
                                             const u64* lengths, SbCtc p) {
    sb_ctc_posterior<double>(alpha, beta, likelihood, log_probs, labels, lengths, p);
}

// What the gradient of sequence i is multiplied with. `kind` bits: 2 the mean, 4 each sequence has
// a gradient of its own.
template <typename T>
__device__ __forceinline__ double sb_ctc_scale(const T* grad, const SbSequence& q, u64 i,
                                               const SbCtc& p, u32 kind) {
    double scale = (double)grad[(kind & 4u) != 0 ? i : 0];
    if ((kind & 2u) != 0) {
        scale = scale / ((double)p.n * (double)(q.targets > 1 ? q.targets : 1));
    }
    return scale;
}

// (exp(log_prob) - sum of the posteriors of the class, ascending) * scale. `kind` bits: 1 an
// infinite loss has no gradient, and those of sb_ctc_scale.
template <typename T>
__device__ __forceinline__ void sb_ctc_grad(T* out, const T* grad, const double* posterior,
                                            const double* likelihood, const T* log_probs,
                                            const i64* labels, const u64* lengths, SbCtc p,
                                            u32 kind) {
    u64 e = sb_thread();
    if (e >= p.steps * p.n * p.classes) return;
    u64 c = e % p.classes;
    u64 i = e / p.classes % p.n;
    u64 t = e / p.classes / p.n;
    SbSequence q = sb_sequence(labels, lengths, p.n, i);
    if (t >= q.steps) {
        out[e] = (T)0;
        return;
    }
    if (likelihood[i] == -sb_infinity64()) {
        out[e] = (kind & 1u) != 0 ? (T)0 : sb_clean((T)sb_nan64());
        return;
    }
    const double* row = posterior + (i * p.steps + t) * p.states;
    double sum = 0.0;
    for (u64 s = 0; s < q.states; ++s) {
        if (sb_label(p, q, s) == c) sum = sum + row[s];
    }
    double scale = sb_ctc_scale(grad, q, i, p, kind);
    out[e] = sb_clean((T)((sb_exp((double)log_probs[e]) - sum) * scale));
}

// level: Portable - one thread owns one output and adds in ascending states
extern "C" __global__ void ctc_grad_f32(float* out, const float* grad, const double* posterior,
                                        const double* likelihood, const float* log_probs,
                                        const i64* labels, const u64* lengths, SbCtc p,
                                        u32 kind) {
    sb_ctc_grad<float>(out, grad, posterior, likelihood, log_probs, labels, lengths, p, kind);
}

// level: Portable - one thread owns one output and adds in ascending states
extern "C" __global__ void ctc_grad_f64(double* out, const double* grad, const double* posterior,
                                        const double* likelihood, const double* log_probs,
                                        const i64* labels, const u64* lengths, SbCtc p,
                                        u32 kind) {
    sb_ctc_grad<double>(out, grad, posterior, likelihood, log_probs, labels, lengths, p, kind);
}

// exp(log_prob) * scale, from which every state of the class then takes its share.
// level: NotGuaranteed - what the next kernel's atomics start from
extern "C" __global__ void ctc_grad_f32_start(float* out, const float* grad,
                                              const double* likelihood, const float* log_probs,
                                              const i64* labels, const u64* lengths, SbCtc p,
                                              u32 kind) {
    u64 e = sb_thread();
    if (e >= p.steps * p.n * p.classes) return;
    u64 i = e / p.classes % p.n;
    SbSequence q = sb_sequence(labels, lengths, p.n, i);
    if (e / p.classes / p.n >= q.steps) {
        out[e] = 0.0f;
    } else if (likelihood[i] == -sb_infinity64()) {
        out[e] = (kind & 1u) != 0 ? 0.0f : sb_nan();
    } else {
        out[e] = (float)(sb_exp((double)log_probs[e]) * sb_ctc_scale(grad, q, i, p, kind));
    }
}

// level: NotGuaranteed - float atomics
extern "C" __global__ void ctc_grad_f32_atomic(float* out, const float* grad,
                                               const double* posterior, const double* likelihood,
                                               const i64* labels, const u64* lengths, SbCtc p,
                                               u32 kind) {
    u64 k = sb_thread();
    if (k >= p.steps * p.n * p.states) return;
    u64 s = k % p.states;
    u64 t = k / p.states % p.steps;
    u64 i = k / p.states / p.steps;
    SbSequence q = sb_sequence(labels, lengths, p.n, i);
    if (t >= q.steps || s >= q.states || likelihood[i] == -sb_infinity64()) return;
    double share = posterior[k] * sb_ctc_scale(grad, q, i, p, kind);
    atomicAdd(out + (t * p.n + i) * p.classes + sb_label(p, q, s), (float)-share);
}
