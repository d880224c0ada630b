// Histograms: bincount with and without weights, histc.

#include "exact.cuh"
#include "reduce.cuh"

// Values that one block takes.
#define SB_CHUNK 4096ull
// Bins that fit a block's shared memory as exact accumulators.
#define SB_BINS 256

// Bins that a block counts in its shared memory, and values that it takes then.
#define SB_COUNTED 4096
#define SB_COUNTED_CHUNK 16384ull

// Counts the values of a block, so that hot bins do not meet in global memory, and adds its counts
// to the global ones. `bin_of` gives the bin of a value; one that does not count has no bin.
template <typename T, typename Bin>
__device__ __forceinline__ void sb_count(u64* counts, const T* values, u64 n, u64 bins,
                                         Bin bin_of) {
    const int AHEAD = 8;
    __shared__ u32 local[SB_COUNTED];
    for (u32 w = threadIdx.x; w < bins; w += blockDim.x) local[w] = 0;
    __syncthreads();
    u64 first = (u64)blockIdx.x * SB_COUNTED_CHUNK;
    u64 end = n - first < SB_COUNTED_CHUNK ? n : first + SB_COUNTED_CHUNK;
#pragma unroll 1
    for (u64 i = first + threadIdx.x; i < end; i += AHEAD * blockDim.x) {
        T value[AHEAD];
#pragma unroll
        for (int k = 0; k < AHEAD; ++k) {
            u64 at = i + k * blockDim.x;
            value[k] = values[at < end ? at : i];
        }
#pragma unroll
        for (int k = 0; k < AHEAD; ++k) {
            u64 at = i + k * blockDim.x;
            if (at >= end) break;
            u64 bin = bin_of(value[k], at);
            if (bin < bins) atomicAdd(local + bin, 1u);
        }
    }
    __syncthreads();
    for (u32 w = threadIdx.x; w < bins; w += blockDim.x) {
        if (local[w] != 0) atomicAdd(counts + w, (u64)local[w]);
    }
}

// level: Portable - integer atomics commute
extern "C" __global__ void bincount_shared(i64* counts, const i64* values, u64 n, u64 bins,
                                           u64* status) {
    sb_count((u64*)counts, values, n, bins, [=](i64 value, u64 at) {
        return sb_check(value, bins, at, status) ? (u64)value : ~0ull;
    });
}

// level: Portable - integer atomics commute
extern "C" __global__ void bincount_i64(i64* counts, const i64* values, u64 n, u64 bins,
                                        u64* status) {
    u64 i = sb_thread();
    if (i >= n) return;
    i64 bin = values[i];
    if (sb_check(bin, bins, i, status)) atomicAdd((u64*)counts + bin, 1ull);
}

// Weighted, up to SB_BINS bins: each block sums a chunk exactly in shared memory, so that hot
// bins do not meet in global memory, and then adds its limbs to the global ones.
// level: Portable - integer atomics into exact accumulators commute
extern "C" __global__ void bincount_weighted_f32(u64* acc, const i64* values, const float* weights,
                                               u64 n, u64 bins, u64* status) {
    __shared__ u64 local[SB_BINS * SB_ACC];
    u32 words = (u32)bins * SB_ACC;
    for (u32 w = threadIdx.x; w < words; w += blockDim.x) local[w] = 0;
    __syncthreads();
    u64 first = (u64)blockIdx.x * SB_CHUNK;
    u64 end = n - first < SB_CHUNK ? n : first + SB_CHUNK;
    for (u64 i = first + threadIdx.x; i < end; i += blockDim.x) {
        i64 bin = values[i];
        if (sb_check(bin, bins, i, status)) sb_exact_atomic_add(local + bin * SB_ACC, weights[i]);
    }
    __syncthreads();
    for (u32 w = threadIdx.x; w < words; w += blockDim.x) {
        if (local[w] == 0) continue;
        if (w % SB_ACC == SB_LIMBS) {
            atomicOr(acc + w, local[w]);
        } else {
            atomicAdd(acc + w, local[w]);
        }
    }
}

// The bin of x is the last one whose edge is not above it. It is next to the place of x in the range;
// part is 1, or 1/2 if the range is not a finite number.
template <typename T>
__device__ __forceinline__ u64 sb_histc_bin(T x, const T* edges, T low, T high, T part, u64 bins) {
    if (!(x >= low && x <= high)) return ~0ull;
    T first = low * part;
    u64 bin = (u64)((x * part - first) / (high * part - first) * (T)bins);
    if (bin >= bins) bin = bins - 1;
    while (x < edges[bin]) --bin;
    while (bin + 1 < bins && x >= edges[bin + 1]) ++bin;
    return bin;
}

template <typename T>
__device__ __forceinline__ void sb_histc(u64* counts, const T* values, u64 n, const T* edges,
                                         T low, T high, T part, u64 bins) {
    u64 i = sb_thread();
    if (i >= n) return;
    u64 bin = sb_histc_bin(values[i], edges, low, high, part, bins);
    if (bin < bins) atomicAdd(counts + bin, 1ull);
}

#define SB_HISTC_SHARED(NAME, T)                                                             \
    extern "C" __global__ void NAME(u64* counts, const T* values, u64 n, const T* edges, T low, \
                                    T high, T part, u64 bins) {                                 \
        sb_count(counts, values, n, bins, [=](T x, u64) {                                       \
            return sb_histc_bin(x, edges, low, high, part, bins);                               \
        });                                                                                     \
    }

// level: Portable - integer atomics commute
SB_HISTC_SHARED(histc_shared_f32, float)
SB_HISTC_SHARED(histc_shared_f64, double)

// level: Portable - integer atomics commute
extern "C" __global__ void histc_f32(u64* counts, const float* values, u64 n, const float* edges,
                                     float low, float high, float part, u64 bins) {
    sb_histc<float>(counts, values, n, edges, low, high, part, bins);
}

// level: Portable - integer atomics commute
extern "C" __global__ void histc_f64(u64* counts, const double* values, u64 n, const double* edges,
                                     double low, double high, double part, u64 bins) {
    sb_histc<double>(counts, values, n, edges, low, high, part, bins);
}

template <typename T>
__device__ __forceinline__ void sb_histc_finish(T* out, const u64* counts, u64 n) {
    u64 i = sb_thread();
    if (i < n) out[i] = (T)(double)counts[i];
}

// level: Portable - one thread owns one output
extern "C" __global__ void histc_finish_f32(float* out, const u64* counts, u64 n) {
    sb_histc_finish<float>(out, counts, n);
}

// level: Portable - one thread owns one output
extern "C" __global__ void histc_finish_f64(double* out, const u64* counts, u64 n) {
    sb_histc_finish<double>(out, counts, n);
}

// The smallest and the largest value, as an order-preserving u64: first of each thread's share of a
// chunk, then of its warp.
// level: Portable - integer minimum and maximum
extern "C" __global__ void range_i64(u64* range, const i64* values, u64 n) {
    u64 first = (u64)blockIdx.x * SB_CHUNK;
    u64 end = n - first < SB_CHUNK ? n : first + SB_CHUNK;
    u64 low = ~0ull;
    u64 high = 0;
#pragma unroll 4
    for (u64 i = first + threadIdx.x; i < end; i += blockDim.x) {
        u64 key = (u64)values[i] ^ (1ull << 63);
        low = key < low ? key : low;
        high = key > high ? key : high;
    }
    for (u32 w = 16; w >= 1; w /= 2) {
        u64 other = (u64)sb_shuffle_down((i64)low, w);
        low = other < low ? other : low;
        other = (u64)sb_shuffle_down((i64)high, w);
        high = other > high ? other : high;
    }
    if ((threadIdx.x & 31u) != 0) return;
    atomicMin(range, low);
    atomicMax(range + 1, high);
}
