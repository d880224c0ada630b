// Numbers about all elements of several tensors of a type, of which the host reads a few words: the first
// tensor that is not finite, the largest magnitude, and the exact sum of powers.

#include "exact64.cuh"
#include "pow.cuh"
#include "reduce.cuh"
#include "table.cuh"

// Calls `each(x)` for the elements of operand 0 that this block takes of a row.
template <typename T, typename Each>
__device__ __forceinline__ void sb_each_of_row(const SbRow* row, Each each) {
    constexpr u32 W = SB_PER_ACCESS(sizeof(T));
    const T* in = sb_operand<T>(row, 0);
    u64 n = row->n;
    sb_turns(row, [&](u64 first) {
        if (sb_whole_from(first, n) && sb_packed<W>(in)) {
            sb_packs_from<W>(first, [&](u64 at) {
                SbPack<T, W> x = sb_pack_at<W>(in, at);
#pragma unroll
                for (u32 k = 0; k < W; ++k) each(x.of[k]);
            });
            return;
        }
        sb_singles_from(first, n, [&](u64 i) { each(in[i]); });
    });
}

// The lowest number, operand 1, of a row with an element whose exponent, the bits of `mask`, is that of NaN
// and infinities.
template <typename T>
__device__ __forceinline__ void sb_first_not_finite(u64* first, const SbRow* rows, u32 count,
                                                    T mask) {
    const SbRow* row = sb_row_of_block(rows, count);
    u32 found = 0;
    sb_each_of_row<T>(row, [&](T x) { found |= (T)(x & mask) == mask ? 1u : 0u; });
    if (found != 0) atomicMin(first, row->operands[1]);
}

#define SB_FIRST_NOT_FINITE(NAME, T)                                                              \
    extern "C" __global__ void NAME(u64* first, const SbRow* rows, u32 count, T mask) {           \
        sb_first_not_finite<T>(first, rows, count, mask);                                         \
    }

// level: Portable - an integer minimum
SB_FIRST_NOT_FINITE(first_not_finite_b16, unsigned short)
SB_FIRST_NOT_FINITE(first_not_finite_b32, u32)
SB_FIRST_NOT_FINITE(first_not_finite_b64, u64)

__device__ __forceinline__ u64 sb_magnitude(double x) {
    return (u64)__double_as_longlong(x) & 0x7fffffffffffffffull;
}

// The bits of the largest magnitude in f64. Those of NaN are above those of infinity.
template <typename T>
__device__ __forceinline__ void sb_largest_magnitude(u64* most, const SbRow* rows, u32 count) {
    u64 largest = 0;
    sb_each_of_row<T>(sb_row_of_block(rows, count), [&](T x) {
        u64 magnitude = sb_magnitude((double)x);
        largest = magnitude > largest ? magnitude : largest;
    });
#pragma unroll
    for (u32 w = 16; w >= 1; w /= 2) {
        u64 other = (u64)sb_shuffle_down((i64)largest, w);
        largest = other > largest ? other : largest;
    }
    if ((threadIdx.x & 31u) == 0 && largest != 0) atomicMax(most, largest);
}

// level: Portable - an integer maximum
extern "C" __global__ void largest_magnitude_f32(u64* most, const SbRow* rows, u32 count) {
    sb_largest_magnitude<float>(most, rows, count);
}

// level: Portable - an integer maximum
extern "C" __global__ void largest_magnitude_f64(u64* most, const SbRow* rows, u32 count) {
    sb_largest_magnitude<double>(most, rows, count);
}

// Adds (|x| / scale)^exponent to an accumulator, each operation rounded to f64.
template <typename T>
__device__ __forceinline__ void sb_sum_powers(u64* acc, const SbRow* rows, u32 count, double scale,
                                              double exponent) {
    __shared__ u64 part[SB_ACC64];
    for (u32 k = threadIdx.x; k < SB_ACC64; k += blockDim.x) part[k] = 0;
    __syncthreads();
    SbTwo sum = {0.0, 0.0};
    sb_each_of_row<T>(sb_row_of_block(rows, count), [&](T x) {
        double magnitude = sb_abs64((double)x);
        if (scale != 1.0) magnitude = magnitude / scale;
        double power = exponent == 2.0   ? magnitude * magnitude
                       : exponent == 1.0 ? magnitude
                                         : sb_pow(magnitude, exponent);
        sb_exact64_add(&sum, power, part);
    });
    u32 lane = threadIdx.x & 31u;
#pragma unroll 1
    for (u32 w = 16; w >= 1; w /= 2) {
        double high = sb_shuffle_down(sum.high, w);
        double low = sb_shuffle_down(sum.low, w);
        if (lane < w) {
            sb_exact64_add(&sum, high, part);
            sb_exact64_add(&sum, low, part);
        }
    }
    if (lane == 0) {
        sb_exact64_atomic_add(part, sum.high);
        sb_exact64_atomic_add(part, sum.low);
    }
    __syncthreads();
    sb_exact64_join(acc, part);
}

// level: Portable - integer atomics into exact accumulators commute
extern "C" __global__ void sum_powers_f32(u64* acc, const SbRow* rows, u32 count, double scale,
                                          double exponent) {
    sb_sum_powers<float>(acc, rows, count, scale, exponent);
}

// level: Portable - integer atomics into exact accumulators commute
extern "C" __global__ void sum_powers_f64(u64* acc, const SbRow* rows, u32 count, double scale,
                                          double exponent) {
    sb_sum_powers<double>(acc, rows, count, scale, exponent);
}
