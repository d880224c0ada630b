// Optimiser steps: one pass over memory each, from the old values to new ones, every operation rounded as
// written; and what many parameters need at once.

#include "half.cuh"
#include "table.cuh"

// Constants rounded to the element type by the caller. `kind` bits: 1 weight decay, 2 momentum, 4 a velocity
// from the last step, 8 Nesterov.
template <typename T>
struct SbSgd {
    T decay;
    T momentum;
    T fresh;
    T rate;
};

template <typename T>
struct SbSgdStep {
    T param;
    T velocity;
};

template <typename T>
__device__ __forceinline__ SbSgdStep<T> sb_sgd_one(T param, T velocity, T grad, const SbSgd<T>& p,
                                                   u32 kind) {
    T g = kind & 1u ? sb_fma(p.decay, param, grad) : grad;
    bool kept = (kind & 6u) == 6u;
    T v = sb_clean(kept ? sb_fma(p.fresh, g, p.momentum * velocity) : g);
    T d = (kind & 10u) == 10u ? sb_fma(p.momentum, v, g) : v;
    return {sb_clean(sb_fma(p.rate, d, param)), v};
}

// Reads the velocity only if there was a step before, and writes it only with momentum.
template <typename T>
__device__ __forceinline__ void sb_sgd(T* new_param, T* new_velocity, const T* param,
                                       const T* velocity, const T* grad, u64 n, SbSgd<T> p,
                                       u32 kind, u64 first = sb_first_of_block()) {
    bool kept = (kind & 6u) == 6u;
    constexpr u32 W = SB_PER_ACCESS(sizeof(T));
    bool packed = sb_packed<W>(new_param) && sb_packed<W>(new_velocity) && sb_packed<W>(param) &&
                  sb_packed<W>(velocity) && sb_packed<W>(grad);
    if (sb_whole_from(first, n) && packed) {
        sb_packs_from<W>(first, [=](u64 at) {
            SbPack<T, W> x = sb_pack_at<W>(param, at);
            SbPack<T, W> g = sb_pack_at<W>(grad, at);
            SbPack<T, W> v = g;
            if (kept) v = sb_pack_at<W>(velocity, at);
#pragma unroll
            for (u32 k = 0; k < W; ++k) {
                SbSgdStep<T> step = sb_sgd_one(x.of[k], v.of[k], g.of[k], p, kind);
                x.of[k] = step.param;
                v.of[k] = step.velocity;
            }
            sb_write(new_param + at, x);
            if (kind & 2u) sb_write(new_velocity + at, v);
        });
        return;
    }
    sb_singles_from(first, n, [=](u64 i) {
        SbSgdStep<T> step =
            sb_sgd_one(param[i], kept ? velocity[i] : (T)0, grad[i], p, kind);
        new_param[i] = step.param;
        if (kind & 2u) new_velocity[i] = step.velocity;
    });
}

// level: Portable - one thread owns four elements
extern "C" __global__ void sgd_f32(float* new_param, float* new_velocity, const float* param,
                                   const float* velocity, const float* grad, u64 n, float decay,
                                   float momentum, float fresh, float rate, u32 kind) {
    sb_sgd<float>(new_param, new_velocity, param, velocity, grad, n, {decay, momentum, fresh, rate},
                  kind);
}

// level: Portable - one thread owns four elements
extern "C" __global__ void sgd_f64(double* new_param, double* new_velocity, const double* param,
                                   const double* velocity, const double* grad, u64 n, double decay,
                                   double momentum, double fresh, double rate, u32 kind) {
    sb_sgd<double>(new_param, new_velocity, param, velocity, grad, n, {decay, momentum, fresh, rate},
                  kind);
}

template <typename T>
__device__ __forceinline__ void sb_sgd_all(const SbRow* rows, u32 count, SbSgd<T> p, u32 kind) {
    const SbRow* row = sb_row_of_block(rows, count);
    sb_turns(row, [=](u64 first) {
        sb_sgd<T>(sb_operand<T>(row, 0), sb_operand<T>(row, 1), sb_operand<T>(row, 2),
                  sb_operand<T>(row, 3), sb_operand<T>(row, 4), row->n, p, kind, first);
    });
}

// level: Portable - each element has one thread
extern "C" __global__ void sgd_all_f32(const SbRow* rows, u32 count, float decay, float momentum,
                                       float fresh, float rate, u32 kind) {
    sb_sgd_all<float>(rows, count, {decay, momentum, fresh, rate}, kind);
}

// level: Portable - each element has one thread
extern "C" __global__ void sgd_all_f64(const SbRow* rows, u32 count, double decay, double momentum,
                                       double fresh, double rate, u32 kind) {
    sb_sgd_all<double>(rows, count, {decay, momentum, fresh, rate}, kind);
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
struct SbAdamStep {
    T param;
    T mean;
    T square;
};

template <typename T>
__device__ __forceinline__ SbAdamStep<T> sb_adam_one(T param, T mean, T square, T grad,
                                                     const SbAdam<T>& c) {
    T p = param * c.keep;
    T g = sb_fma(c.decay, param, grad);
    T m = sb_fma(c.fresh1, g, c.beta1 * mean);
    T v = sb_fma(c.fresh2 * g, g, c.beta2 * square);
    return {sb_clean(sb_fma(c.rate, m / (sb_root(v) / c.root + c.eps), p)), sb_clean(m),
            sb_clean(v)};
}

template <typename T>
__device__ __forceinline__ void sb_adam(T* new_param, T* new_mean, T* new_square, const T* param,
                                        const T* mean, const T* square, const T* grad, u64 n,
                                        SbAdam<T> c, u64 first = sb_first_of_block()) {
    constexpr u32 W = SB_PER_ACCESS(sizeof(T));
    bool packed = sb_packed<W>(new_param) && sb_packed<W>(new_mean) && sb_packed<W>(new_square) &&
                  sb_packed<W>(param) && sb_packed<W>(mean) && sb_packed<W>(square) &&
                  sb_packed<W>(grad);
    if (sb_whole_from(first, n) && packed) {
        sb_packs_from<W>(first, [=](u64 at) {
            SbPack<T, W> x = sb_pack_at<W>(param, at);
            SbPack<T, W> m = sb_pack_at<W>(mean, at);
            SbPack<T, W> v = sb_pack_at<W>(square, at);
            SbPack<T, W> g = sb_pack_at<W>(grad, at);
#pragma unroll
            for (u32 k = 0; k < W; ++k) {
                SbAdamStep<T> step = sb_adam_one(x.of[k], m.of[k], v.of[k], g.of[k], c);
                x.of[k] = step.param;
                m.of[k] = step.mean;
                v.of[k] = step.square;
            }
            sb_write(new_param + at, x);
            sb_write(new_mean + at, m);
            sb_write(new_square + at, v);
        });
        return;
    }
    sb_singles_from(first, n, [=](u64 i) {
        SbAdamStep<T> step = sb_adam_one(param[i], mean[i], square[i], grad[i], c);
        new_param[i] = step.param;
        new_mean[i] = step.mean;
        new_square[i] = step.square;
    });
}

// level: Portable - one thread owns four elements
extern "C" __global__ void adam_f32(float* new_param, float* new_mean, float* new_square,
                                    const float* param, const float* mean, const float* square,
                                    const float* grad, u64 n, float keep, float decay, float beta1,
                                    float fresh1, float beta2, float fresh2, float root, float eps,
                                    float rate) {
    sb_adam<float>(new_param, new_mean, new_square, param, mean, square, grad, n,
                   {keep, decay, beta1, fresh1, beta2, fresh2, root, eps, rate});
}

// level: Portable - one thread owns four elements
extern "C" __global__ void adam_f64(double* new_param, double* new_mean, double* new_square,
                                    const double* param, const double* mean, const double* square,
                                    const double* grad, u64 n, double keep, double decay, double beta1,
                                    double fresh1, double beta2, double fresh2, double root, double eps,
                                    double rate) {
    sb_adam<double>(new_param, new_mean, new_square, param, mean, square, grad, n,
                   {keep, decay, beta1, fresh1, beta2, fresh2, root, eps, rate});
}

template <typename T>
__device__ __forceinline__ void sb_adam_all(const SbRow* rows, u32 count, SbAdam<T> c) {
    const SbRow* row = sb_row_of_block(rows, count);
    sb_turns(row, [=](u64 first) {
        sb_adam<T>(sb_operand<T>(row, 0), sb_operand<T>(row, 1), sb_operand<T>(row, 2),
                   sb_operand<T>(row, 3), sb_operand<T>(row, 4), sb_operand<T>(row, 5),
                   sb_operand<T>(row, 6), row->n, c, first);
    });
}

// level: Portable - each element has one thread
extern "C" __global__ void adam_all_f32(const SbRow* rows, u32 count, float keep, float decay,
                                        float beta1, float fresh1, float beta2, float fresh2,
                                        float root, float eps, float rate) {
    sb_adam_all<float>(rows, count,
                       {keep, decay, beta1, fresh1, beta2, fresh2, root, eps, rate});
}

// level: Portable - each element has one thread
extern "C" __global__ void adam_all_f64(const SbRow* rows, u32 count, double keep, double decay,
                                        double beta1, double fresh1, double beta2, double fresh2,
                                        double root, double eps, double rate) {
    sb_adam_all<double>(rows, count,
                        {keep, decay, beta1, fresh1, beta2, fresh2, root, eps, rate});
}

template <typename T>
__device__ __forceinline__ void sb_affine_all(const SbRow* rows, u32 count, T scale, T shift) {
    const SbRow* row = sb_row_of_block(rows, count);
    T* out = sb_operand<T>(row, 0);
    const T* in = sb_operand<T>(row, 1);
    u64 n = row->n;
    sb_turns(row, [=](u64 first) {
        sb_map_from(first, out, in, n, [=](T x) { return sb_clean(x * scale + shift); });
    });
}

// level: Portable - each element has one thread; two roundings
extern "C" __global__ void affine_all_f32(const SbRow* rows, u32 count, float scale, float shift) {
    sb_affine_all<float>(rows, count, scale, shift);
}

// level: Portable - each element has one thread; two roundings
extern "C" __global__ void affine_all_f64(const SbRow* rows, u32 count, double scale,
                                          double shift) {
    sb_affine_all<double>(rows, count, scale, shift);
}

#define SB_CAST_ALL(NAME, T, R, VALUE)                                                            \
    extern "C" __global__ void NAME(const SbRow* rows, u32 count) {                               \
        const SbRow* row = sb_row_of_block(rows, count);                                          \
        R* out = sb_operand<R>(row, 0);                                                           \
        const T* in = sb_operand<T>(row, 1);                                                      \
        u64 n = row->n;                                                                           \
        sb_turns(row, [=](u64 first) {                                                            \
            sb_map_from(first, out, in, n, [](T x) -> R { return VALUE; });                       \
        });                                                                                       \
    }

// level: Portable - each element has one thread
SB_CAST_ALL(cast_all_f16_f32, unsigned short, float, sb_of_f16(x))
SB_CAST_ALL(cast_all_bf16_f32, unsigned short, float, sb_of_bf16(x))
SB_CAST_ALL(cast_all_f32_f16, float, unsigned short, (sb_narrowed<5, 10>((double)x)))
SB_CAST_ALL(cast_all_f32_bf16, float, unsigned short, (sb_narrowed<8, 7>((double)x)))
