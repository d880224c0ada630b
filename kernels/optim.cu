// Optimiser steps: one pass over memory each, every operation rounded as written.

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

// In place on the parameter and the velocity.
template <typename T>
__device__ __forceinline__ void sb_sgd(T* param, T* velocity, const T* grad, u64 n, SbSgd<T> p,
                                       u32 kind) {
    u64 i = sb_thread();
    if (i >= n) return;
    T g = kind & 1u ? sb_fma(p.decay, param[i], grad[i]) : grad[i];
    bool kept = (kind & 6u) == 6u;
    T v = sb_clean(kept ? sb_fma(p.fresh, g, p.momentum * velocity[i]) : g);
    T d = (kind & 10u) == 10u ? sb_fma(p.momentum, v, g) : v;
    param[i] = sb_clean(sb_fma(p.rate, d, param[i]));
    velocity[i] = v;
}

// level: Portable - one thread owns one element
extern "C" __global__ void sgd_f32(float* param, float* velocity, const float* grad, u64 n,
                                   float decay, float momentum, float fresh, float rate,
                                   u32 kind) {
    sb_sgd<float>(param, velocity, grad, n, {decay, momentum, fresh, rate}, kind);
}

// level: Portable - one thread owns one element
extern "C" __global__ void sgd_f64(double* param, double* velocity, const double* grad, u64 n,
                                   double decay, double momentum, double fresh, double rate,
                                   u32 kind) {
    sb_sgd<double>(param, velocity, grad, n, {decay, momentum, fresh, rate}, kind);
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

// In place on the parameter, the mean and the mean square.
template <typename T>
__device__ __forceinline__ void sb_adam(T* param, T* mean, T* square, const T* grad, u64 n,
                                        SbAdam<T> c) {
    u64 i = sb_thread();
    if (i >= n) return;
    T p = param[i] * c.keep;
    T g = sb_fma(c.decay, param[i], grad[i]);
    T m = sb_fma(c.fresh1, g, c.beta1 * mean[i]);
    T v = sb_fma(c.fresh2 * g, g, c.beta2 * square[i]);
    param[i] = sb_clean(sb_fma(c.rate, m / (sb_root(v) / c.root + c.eps), p));
    mean[i] = sb_clean(m);
    square[i] = sb_clean(v);
}

// level: Portable - one thread owns one element
extern "C" __global__ void adam_f32(float* param, float* mean, float* square, const float* grad,
                                    u64 n, float keep, float decay, float beta1, float fresh1,
                                    float beta2, float fresh2, float root, float eps,
                                    float rate) {
    sb_adam<float>(param, mean, square, grad, n,
                   {keep, decay, beta1, fresh1, beta2, fresh2, root, eps, rate});
}

// level: Portable - one thread owns one element
extern "C" __global__ void adam_f64(double* param, double* mean, double* square, const double* grad,
                                    u64 n, double keep, double decay, double beta1, double fresh1,
                                    double beta2, double fresh2, double root, double eps,
                                    double rate) {
    sb_adam<double>(param, mean, square, grad, n,
                   {keep, decay, beta1, fresh1, beta2, fresh2, root, eps, rate});
}
