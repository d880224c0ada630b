// Optimiser steps: one pass over memory each, every operation rounded as written.

#include "samebits.cuh"

// Constants rounded to f32 by the caller. `kind` bits: 1 weight decay, 2 momentum, 4 a velocity
// from the last step, 8 Nesterov.
struct SbSgd {
    float decay;
    float momentum;
    float fresh;
    float rate;
    u32 kind;
};

// In place on the parameter and the velocity.
// level: Portable - one thread owns one element
extern "C" __global__ void sgd_f32(float* param, float* velocity, const float* grad, u64 n,
                                   SbSgd p) {
    u64 i = sb_thread();
    if (i >= n) return;
    float g = p.kind & 1u ? __fmaf_rn(p.decay, param[i], grad[i]) : grad[i];
    bool kept = (p.kind & 6u) == 6u;
    float v = sb_canonical(kept ? __fmaf_rn(p.fresh, g, p.momentum * velocity[i]) : g);
    float d = (p.kind & 10u) == 10u ? __fmaf_rn(p.momentum, v, g) : v;
    param[i] = sb_canonical(__fmaf_rn(p.rate, d, param[i]));
    velocity[i] = v;
}

struct SbAdam {
    float keep;
    float decay;
    float beta1;
    float fresh1;
    float beta2;
    float fresh2;
    float root;
    float eps;
    float rate;
};

// In place on the parameter, the mean and the mean square.
// level: Portable - one thread owns one element
extern "C" __global__ void adam_f32(float* param, float* mean, float* square, const float* grad,
                                    u64 n, SbAdam c) {
    u64 i = sb_thread();
    if (i >= n) return;
    float p = param[i] * c.keep;
    float g = __fmaf_rn(c.decay, param[i], grad[i]);
    float m = __fmaf_rn(c.fresh1, g, c.beta1 * mean[i]);
    float v = __fmaf_rn(c.fresh2 * g, g, c.beta2 * square[i]);
    param[i] = sb_canonical(__fmaf_rn(c.rate, m / (__fsqrt_rn(v) / c.root + c.eps), p));
    mean[i] = sb_canonical(m);
    square[i] = sb_canonical(v);
}
