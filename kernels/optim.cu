// Optimiser steps: one pass over memory each, from the old values to new ones, every operation rounded as
// written.

#include "samebits.cuh"

// Constants rounded to the element type by the caller. `kind` bits: 1 weight decay, 2 momentum, 4 a velocity
// from the last step, 8 Nesterov.
template <typename T>
struct SbSgd {
    T decay;
    T momentum;
    T fresh;
    T rate;
};

// Reads the velocity only if there was a step before, and writes it only with momentum.
template <typename T>
__device__ __forceinline__ void sb_sgd(T* new_param, T* new_velocity, const T* param,
                                       const T* velocity, const T* grad, u64 n, SbSgd<T> p,
                                       u32 kind) {
    u64 i = sb_thread();
    if (i >= n) return;
    T g = kind & 1u ? sb_fma(p.decay, param[i], grad[i]) : grad[i];
    bool kept = (kind & 6u) == 6u;
    T v = sb_clean(kept ? sb_fma(p.fresh, g, p.momentum * velocity[i]) : g);
    T d = (kind & 10u) == 10u ? sb_fma(p.momentum, v, g) : v;
    new_param[i] = sb_clean(sb_fma(p.rate, d, param[i]));
    if (kind & 2u) new_velocity[i] = v;
}

// level: Portable - one thread owns one element
extern "C" __global__ void sgd_f32(float* new_param, float* new_velocity, const float* param,
                                   const float* velocity, const float* grad, u64 n, float decay,
                                   float momentum, float fresh, float rate, u32 kind) {
    sb_sgd<float>(new_param, new_velocity, param, velocity, grad, n, {decay, momentum, fresh, rate},
                  kind);
}

// level: Portable - one thread owns one element
extern "C" __global__ void sgd_f64(double* new_param, double* new_velocity, const double* param,
                                   const double* velocity, const double* grad, u64 n, double decay,
                                   double momentum, double fresh, double rate, u32 kind) {
    sb_sgd<double>(new_param, new_velocity, param, velocity, grad, n, {decay, momentum, fresh, rate},
                  kind);
}

template <typename T>
struct SbAdam {
    T keep;
    T decay;
    T beta1;
    T fresh1;
    T beta2;
    T fresh2;
    T root;
    T eps;
    T rate;
};

template <typename T>
__device__ __forceinline__ void sb_adam(T* new_param, T* new_mean, T* new_square, const T* param,
                                        const T* mean, const T* square, const T* grad, u64 n,
                                        SbAdam<T> c) {
    u64 i = sb_thread();
    if (i >= n) return;
    T p = param[i] * c.keep;
    T g = sb_fma(c.decay, param[i], grad[i]);
    T m = sb_fma(c.fresh1, g, c.beta1 * mean[i]);
    T v = sb_fma(c.fresh2 * g, g, c.beta2 * square[i]);
    new_param[i] = sb_clean(sb_fma(c.rate, m / (sb_root(v) / c.root + c.eps), p));
    new_mean[i] = sb_clean(m);
    new_square[i] = sb_clean(v);
}

// level: Portable - one thread owns one element
extern "C" __global__ void adam_f32(float* new_param, float* new_mean, float* new_square,
                                    const float* param, const float* mean, const float* square,
                                    const float* grad, u64 n, float keep, float decay, float beta1,
                                    float fresh1, float beta2, float fresh2, float root, float eps,
                                    float rate) {
    sb_adam<float>(new_param, new_mean, new_square, param, mean, square, grad, n,
                   {keep, decay, beta1, fresh1, beta2, fresh2, root, eps, rate});
}

// level: Portable - one thread owns one element
extern "C" __global__ void adam_f64(double* new_param, double* new_mean, double* new_square,
                                    const double* param, const double* mean, const double* square,
                                    const double* grad, u64 n, double keep, double decay, double beta1,
                                    double fresh1, double beta2, double fresh2, double root, double eps,
                                    double rate) {
    sb_adam<double>(new_param, new_mean, new_square, param, mean, square, grad, n,
                   {keep, decay, beta1, fresh1, beta2, fresh2, root, eps, rate});
}
