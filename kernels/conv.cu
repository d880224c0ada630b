// Convolution over one to three dimensions (missing ones have size 1), and its gradients, in the
// written order: k runs over channels and then the kernel, row-major; taps in the padding are
// skipped; within each block of 256 consecutive k, skipped ones counted, acc = fma(w, x, acc)
// from +0; the blocks are added in ascending order. The weight gradient's k runs over the batch
// and the output positions, in blocks of 1024.

#include "reduce.cuh"

#define SB_K_BLOCK 256u
#define SB_WEIGHT_BLOCK 1024ull

struct SbConv {
    u64 batch;
    u32 groups;
    // Channels of a group.
    u32 inputs;
    u32 outputs;
    u32 input[3];
    u32 output[3];
    u32 kernel[3];
    u32 stride[3];
    u32 padding[3];
    u32 dilation[3];
    u32 with_bias;
};

// A chain of fused multiply-adds, cut into blocks that are added in ascending order.
template <typename T>
struct SbChain {
    T total;
    T acc;
    u32 left;
    bool any;
};

template <typename T>
__device__ __forceinline__ void sb_chain_start(SbChain<T>* chain) {
    chain->total = (T)0;
    chain->acc = (T)0;
    chain->left = SB_K_BLOCK;
    chain->any = false;
}

template <typename T>
__device__ __forceinline__ void sb_chain_flush(SbChain<T>* chain) {
    chain->total = chain->any ? chain->total + chain->acc : chain->acc;
    chain->any = true;
    chain->acc = (T)0;
    chain->left = SB_K_BLOCK;
}

// Moves on by one k.
template <typename T>
__device__ __forceinline__ void sb_chain_next(SbChain<T>* chain) {
    chain->left -= 1;
    if (chain->left == 0) sb_chain_flush(chain);
}

template <typename T>
__device__ __forceinline__ T sb_chain_end(SbChain<T>* chain) {
    if (chain->left != SB_K_BLOCK) sb_chain_flush(chain);
    return sb_clean(chain->total);
}

__device__ __forceinline__ u64 sb_volume(const u32* size) {
    return (u64)size[0] * (u64)size[1] * (u64)size[2];
}

__device__ __forceinline__ void sb_coordinates(u64 i, const u32* size, u32* at) {
    at[2] = (u32)(i % size[2]);
    i /= size[2];
    at[1] = (u32)(i % size[1]);
    at[0] = (u32)(i / size[1]);
}

// Input [batch, groups * inputs, input], weight [groups * outputs, inputs, kernel], output
// [batch, groups * outputs, output].
template <typename T>
__device__ __forceinline__ void sb_conv(T* out, const T* in, const T* weight, const T* bias,
                                        SbConv p) {
    u64 i = sb_thread();
    u64 positions = sb_volume(p.output);
    u64 channels = (u64)p.groups * p.outputs;
    if (i >= p.batch * channels * positions) return;
    u32 at[3];
    sb_coordinates(i % positions, p.output, at);
    u64 channel = i / positions % channels;
    u64 image = i / positions / channels;
    u64 group = channel / p.outputs;
    u64 plane = sb_volume(p.input);
    const T* x = in + (image * p.groups + group) * p.inputs * plane;
    const T* w = weight + channel * p.inputs * sb_volume(p.kernel);
    SbChain<T> chain;
    sb_chain_start(&chain);
    for (u32 c = 0; c < p.inputs; ++c, x += plane) {
        for (u32 a = 0; a < p.kernel[0]; ++a) {
            i64 d = (i64)at[0] * p.stride[0] + (i64)a * p.dilation[0] - p.padding[0];
            for (u32 b = 0; b < p.kernel[1]; ++b) {
                i64 h = (i64)at[1] * p.stride[1] + (i64)b * p.dilation[1] - p.padding[1];
                bool row = d >= 0 && d < p.input[0] && h >= 0 && h < p.input[1];
                for (u32 e = 0; e < p.kernel[2]; ++e, ++w) {
                    i64 v = (i64)at[2] * p.stride[2] + (i64)e * p.dilation[2] - p.padding[2];
                    if (row && v >= 0 && v < p.input[2]) {
                        chain.acc = sb_fma(*w, x[(d * p.input[1] + h) * p.input[2] + v],
                                              chain.acc);
                    }
                    sb_chain_next(&chain);
                }
            }
        }
    }
    T value = sb_chain_end(&chain);
    out[i] = p.with_bias ? sb_clean(value + bias[channel]) : value;
}

// level: Portable - one thread owns one output and adds in the written order
extern "C" __global__ void conv_f32(float* out, const float* in, const float* weight,
                                    const float* bias, SbConv p) {
    sb_conv<float>(out, in, weight, bias, p);
}

// level: Portable - one thread owns one output and adds in the written order
extern "C" __global__ void conv_f64(double* out, const double* in, const double* weight,
                                    const double* bias, SbConv p) {
    sb_conv<double>(out, in, weight, bias, p);
}

// Where output position o meets input position i through a tap, if it does.
__device__ __forceinline__ bool sb_meets(const SbConv& p, int d, u32 i, u32 tap, u32* o) {
    i64 distance = (i64)i + p.padding[d] - (i64)tap * p.dilation[d];
    if (distance < 0 || distance % p.stride[d] != 0) return false;
    i64 place = distance / p.stride[d];
    *o = (u32)place;
    return place < (i64)p.output[d];
}

// The gradient with respect to the input, which is also the transposed convolution.
template <typename T>
__device__ __forceinline__ void sb_conv_input_grad(T* grad_in, const T* grad, const T* weight,
                                                   const T* bias, SbConv p) {
    u64 i = sb_thread();
    u64 plane = sb_volume(p.input);
    u64 channels = (u64)p.groups * p.inputs;
    if (i >= p.batch * channels * plane) return;
    u32 at[3];
    sb_coordinates(i % plane, p.input, at);
    u64 channel = i / plane % channels;
    u64 image = i / plane / channels;
    u64 group = channel / p.inputs;
    u64 volume = sb_volume(p.kernel);
    u64 positions = sb_volume(p.output);
    const T* g = grad + (image * p.groups + group) * p.outputs * positions;
    const T* w = weight + (group * p.outputs * p.inputs + channel % p.inputs) * volume;
    SbChain<T> chain;
    sb_chain_start(&chain);
    for (u32 c = 0; c < p.outputs; ++c, g += positions, w += p.inputs * volume) {
        const T* tap = w;
        for (u32 a = 0; a < p.kernel[0]; ++a) {
            u32 d = 0;
            bool in_d = sb_meets(p, 0, at[0], a, &d);
            for (u32 b = 0; b < p.kernel[1]; ++b) {
                u32 h = 0;
                bool in_h = sb_meets(p, 1, at[1], b, &h);
                for (u32 e = 0; e < p.kernel[2]; ++e, ++tap) {
                    u32 v = 0;
                    if (in_d && in_h && sb_meets(p, 2, at[2], e, &v)) {
                        chain.acc = sb_fma(
                            *tap, g[((u64)d * p.output[1] + h) * p.output[2] + v], chain.acc);
                    }
                    sb_chain_next(&chain);
                }
            }
        }
    }
    T value = sb_chain_end(&chain);
    grad_in[i] = p.with_bias ? sb_clean(value + bias[channel]) : value;
}

// level: Portable - one thread owns one input element and adds in the written order
extern "C" __global__ void conv_input_grad_f32(float* grad_in, const float* grad,
                                               const float* weight, const float* bias, SbConv p) {
    sb_conv_input_grad<float>(grad_in, grad, weight, bias, p);
}

// level: Portable - one thread owns one input element and adds in the written order
extern "C" __global__ void conv_input_grad_f64(double* grad_in, const double* grad,
                                               const double* weight, const double* bias, SbConv p) {
    sb_conv_input_grad<double>(grad_in, grad, weight, bias, p);
}

// Partial sums of the weight gradient: row y of the grid is block y of the order, and
// `partials` is [blocks, weights]. Add them with matmul_combine.
template <typename T>
__device__ __forceinline__ void sb_conv_weight_partial(T* partials, const T* grad, const T* in,
                                                       SbConv p) {
    u64 i = sb_thread();
    u64 volume = sb_volume(p.kernel);
    u64 weights = (u64)p.groups * p.outputs * p.inputs * volume;
    if (i >= weights) return;
    u32 tap[3];
    sb_coordinates(i % volume, p.kernel, tap);
    u64 c = i / volume % p.inputs;
    u64 channel = i / volume / p.inputs;
    u64 group = channel / p.outputs;
    u64 plane = sb_volume(p.input);
    u64 positions = sb_volume(p.output);
    u64 total = p.batch * positions;
    u64 first = (u64)blockIdx.y * SB_WEIGHT_BLOCK;
    u64 end = total - first < SB_WEIGHT_BLOCK ? total : first + SB_WEIGHT_BLOCK;
    T acc = (T)0;
    for (u64 k = first; k < end; ++k) {
        u64 image = k / positions;
        u64 position = k % positions;
        u32 at[3];
        sb_coordinates(position, p.output, at);
        i64 x[3];
        bool inside = true;
        for (int d = 0; d < 3; ++d) {
            x[d] = (i64)at[d] * p.stride[d] + (i64)tap[d] * p.dilation[d] - (i64)p.padding[d];
            inside = inside && x[d] >= 0 && x[d] < (i64)p.input[d];
        }
        if (!inside) continue;
        u64 place = (image * p.groups + group) * p.inputs + c;
        place = place * plane + (u64)((x[0] * p.input[1] + x[1]) * p.input[2] + x[2]);
        u64 from = (image * p.groups * p.outputs + channel) * positions + position;
        acc = sb_fma(in[place], grad[from], acc);
    }
    partials[(u64)blockIdx.y * weights + i] = acc;
}

// level: Portable - one thread owns one partial and adds in the written order
extern "C" __global__ void conv_weight_partial_f32(float* partials, const float* grad,
                                                   const float* in, SbConv p) {
    sb_conv_weight_partial<float>(partials, grad, in, p);
}

// level: Portable - one thread owns one partial and adds in the written order
extern "C" __global__ void conv_weight_partial_f64(double* partials, const double* grad,
                                                   const double* in, SbConv p) {
    sb_conv_weight_partial<double>(partials, grad, in, p);
}

// Sums of the gradient of each output channel over batch and positions.
template <typename T>
__device__ __forceinline__ void sb_conv_bias_grad(T* out, const T* grad, u64 batch, u64 channels,
                                                  u64 positions) {
    u64 channel = sb_thread() / 32;
    if (channel >= channels) return;
    double sum = sb_tree(batch * positions, [=](u64 t) {
        u64 image = t / positions;
        return (double)grad[(image * channels + channel) * positions + (t - image * positions)];
    });
    if ((threadIdx.x & 31u) == 0) out[channel] = sb_clean((T)sum);
}

// level: Portable - the tree of the contract, one warp per channel
extern "C" __global__ void conv_bias_grad_f32(float* out, const float* grad, u64 batch,
                                              u64 channels, u64 positions) {
    sb_conv_bias_grad<float>(out, grad, batch, channels, positions);
}

// level: Portable - the tree of the contract, one warp per channel
extern "C" __global__ void conv_bias_grad_f64(double* out, const double* grad, u64 batch,
                                              u64 channels, u64 positions) {
    sb_conv_bias_grad<double>(out, grad, batch, channels, positions);
}
