// Convolution over one to three dimensions, and its gradients, in the written order of conv.cuh:
// the algorithms of one thread for each sum. Those over tiles are in conv_tiles.cu.

#include "conv.cuh"
#include "reduce.cuh"

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
    SbTaps taps[3];
    for (int d = 0; d < 3; ++d) taps[d] = sb_taps(p, d, at[d]);
    SbChain<T> chain;
    sb_chain_start(&chain);
    u32 block = 0;
    for (u32 c = 0; c < p.outputs; ++c, g += positions, w += p.inputs * volume) {
        sb_chain_taps(&chain, &block, c * volume, p, taps, g, w);
    }
    T value = sb_chain_end_at(&chain, &block, p.outputs * volume);
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

// Groups of one channel in and out: `channel` and `image` are a block's own, the weights are in
// shared memory, and neighbouring threads walk along the dense direction.
#define SB_DEPTHWISE_TAPS 1024

// A block's plane and this thread's position in it; stages the plane's weights.
__device__ __forceinline__ u64 sb_depthwise(const float* weight, const SbConv& p, u64 positions,
                                            float* taps, u64* plane) {
    u64 chunks = (positions + blockDim.x - 1) / blockDim.x;
    *plane = blockIdx.x / chunks;
    u64 volume = sb_volume(p.kernel);
    const float* w = weight + *plane % p.groups * volume;
    for (u32 t = threadIdx.x; t < volume; t += blockDim.x) taps[t] = w[t];
    __syncthreads();
    return blockIdx.x % chunks * blockDim.x + threadIdx.x;
}

// level: Portable - one thread owns one output and adds in the written order
extern "C" __global__ void conv_depthwise_f32(float* out, const float* in, const float* weight,
                                              const float* bias, SbConv p) {
    __shared__ float taps[SB_DEPTHWISE_TAPS];
    u64 positions = sb_volume(p.output);
    u64 plane;
    u64 position = sb_depthwise(weight, p, positions, taps, &plane);
    if (position >= positions) return;
    u32 at[3];
    sb_coordinates(position, p.output, at);
    const float* x = in + plane * sb_volume(p.input);
    const float* w = taps;
    SbChain<float> chain;
    sb_chain_start(&chain);
    for (u32 a = 0; a < p.kernel[0]; ++a) {
        i64 d = (i64)at[0] * p.stride[0] + (i64)a * p.dilation[0] - p.padding[0];
        for (u32 b = 0; b < p.kernel[1]; ++b) {
            i64 h = (i64)at[1] * p.stride[1] + (i64)b * p.dilation[1] - p.padding[1];
            bool row = d >= 0 && d < p.input[0] && h >= 0 && h < p.input[1];
            i64 base = (d * p.input[1] + h) * p.input[2];
            for (u32 e = 0; e < p.kernel[2]; ++e, ++w) {
                i64 v = (i64)at[2] * p.stride[2] + (i64)e * p.dilation[2] - p.padding[2];
                if (row && v >= 0 && v < p.input[2]) {
                    chain.acc = sb_fma(*w, x[base + v], chain.acc);
                }
                sb_chain_next(&chain);
            }
        }
    }
    float value = sb_chain_end(&chain);
    out[plane * positions + position] =
        p.with_bias ? sb_clean(value + bias[plane % p.groups]) : value;
}

// level: Portable - one thread owns one input element and adds in the written order
extern "C" __global__ void conv_depthwise_input_grad_f32(float* grad_in, const float* grad,
                                                         const float* weight, const float* bias,
                                                         SbConv p) {
    __shared__ float taps[SB_DEPTHWISE_TAPS];
    u64 size = sb_volume(p.input);
    u64 plane;
    u64 position = sb_depthwise(weight, p, size, taps, &plane);
    if (position >= size) return;
    u32 at[3];
    sb_coordinates(position, p.input, at);
    const float* g = grad + plane * sb_volume(p.output);
    SbTaps met[3];
    for (int d = 0; d < 3; ++d) met[d] = sb_taps(p, d, at[d]);
    SbChain<float> chain;
    sb_chain_start(&chain);
    u32 block = 0;
    sb_chain_taps(&chain, &block, 0, p, met, g, (const float*)taps);
    float value = sb_chain_end_at(&chain, &block, sb_volume(p.kernel));
    grad_in[plane * size + position] =
        p.with_bias ? sb_clean(value + bias[plane % p.groups]) : value;
}

// Partial sums of the weight gradient: `lanes` neighbouring threads (a power of two up to 32) work
// on one channel and one block of the order, each on the taps that fall to it.
// level: Portable - one thread owns one partial and adds in the written order
extern "C" __global__ void conv_depthwise_weight_partial_f32(float* partials, const float* grad,
                                                             const float* in, SbConv p, u64 blocks,
                                                             u32 lanes) {
    u64 unit = sb_thread() / lanes;
    u64 channels = p.groups;
    if (unit >= channels * blocks) return;
    u64 block = unit / channels;
    u64 channel = unit % channels;
    u64 volume = sb_volume(p.kernel);
    u64 plane = sb_volume(p.input);
    u64 positions = sb_volume(p.output);
    u64 first = block * SB_WEIGHT_BLOCK;
    u64 left = p.batch * positions - first;
    u32 length = left < SB_WEIGHT_BLOCK ? (u32)left : (u32)SB_WEIGHT_BLOCK;
    for (u64 tap = threadIdx.x % lanes; tap < volume; tap += lanes) {
        u32 t[3];
        u32 at[3];
        sb_coordinates(tap, p.kernel, t);
        u64 image = first / positions;
        u64 position = first % positions;
        sb_coordinates(position, p.output, at);
        const float* x = in + (image * channels + channel) * plane;
        const float* g = grad + (image * channels + channel) * positions + position;
        float acc = 0.0f;
        for (u32 k = 0; k < length; ++k) {
            i64 d = (i64)at[0] * p.stride[0] + (i64)t[0] * p.dilation[0] - p.padding[0];
            i64 h = (i64)at[1] * p.stride[1] + (i64)t[1] * p.dilation[1] - p.padding[1];
            i64 v = (i64)at[2] * p.stride[2] + (i64)t[2] * p.dilation[2] - p.padding[2];
            if (d >= 0 && d < p.input[0] && h >= 0 && h < p.input[1] && v >= 0 && v < p.input[2]) {
                acc = sb_fma(x[(d * p.input[1] + h) * p.input[2] + v], *g, acc);
            }
            // The next position; after a plane's last one that of the next image.
            ++g;
            if (++at[2] < p.output[2]) continue;
            at[2] = 0;
            if (++at[1] < p.output[1]) continue;
            at[1] = 0;
            if (++at[0] < p.output[0]) continue;
            at[0] = 0;
            x += channels * plane;
            g += (channels - 1) * positions;
        }
        partials[(block * channels + channel) * volume + tap] = acc;
    }
}
