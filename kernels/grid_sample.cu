// Sampling of an image or a volume at given points. Where the taps of a point lie and what they
// weigh is computed in f64, one table for all channels; a weight is then rounded to the element
// type. A tap of weight 0 is none, so that an infinite input next to a point does not matter.

#include "segments.cuh"
#include "declared/grid_sample.cuh"


// x rounded down; a library function that is one exact instruction.
__device__ __forceinline__ double sb_floor(double x) { return floor(x); }

// The remainder of x / y for x >= 0 and y > 0, which is exact. NaN for an infinite x.
__device__ __forceinline__ double sb_remainder(double x, double y) {
    if (!(x < __longlong_as_double(0x7ff0000000000000ll))) return sb_nan64();
    while (x >= y) {
        // The largest y * 2^k that is at most x: scaled by the difference of the exponents.
        i64 k = (__double_as_longlong(x) >> 52) - (__double_as_longlong(y) >> 52);
        double part = __longlong_as_double(__double_as_longlong(y) + (k << 52));
        if (part > x) part = part * 0.5;
        // Exact: both are multiples of the last place of y, and part <= x < 2 part.
        x = x - part;
    }
    return x;
}

struct SbPosition {
    double at;
    double slope;
};

__device__ __forceinline__ SbPosition sb_clip(double at, u32 size) {
    double last = (double)size - 1.0;
    if (at <= 0.0) return {0.0, 0.0};
    if (at >= last) return {last, 0.0};
    return {at, 1.0};
}

__device__ __forceinline__ SbPosition sb_reflect(double at, double low, double high) {
    double span = high - low;
    if (span == 0.0) return {0.0, 0.0};
    bool below = at < low;
    double distance = below ? low - at : at - low;
    double sign = below ? -1.0 : 1.0;
    double rest = sb_remainder(distance, span);
    double half = sb_floor(distance / span) * 0.5;
    // An infinite position is neither even nor odd; it counts as odd.
    if (half - sb_floor(half) == 0.0) return {rest + low, sign};
    return {span - rest + low, -sign};
}

__device__ __forceinline__ SbPosition sb_pad_position(const SbGrid& p, double at, u32 size) {
    if (p.padding == SB_GRID_PADDING_ZEROS) return {at, 1.0};
    if (p.padding == SB_GRID_PADDING_BORDER) return sb_clip(at, size);
    double low = p.align_corners ? 0.0 : -0.5;
    double high = p.align_corners ? (double)size - 1.0 : (double)size - 0.5;
    SbPosition reflected = sb_reflect(at, low, high);
    SbPosition clipped = sb_clip(reflected.at, size);
    return {clipped.at, reflected.slope * clipped.slope};
}

// The taps of a point in one dimension: place (or -1), weight and its derivative.
struct SbAxis {
    i64 place[4];
    double weight[4];
    double slope[4];
    u32 count;
    double scale;
};

__device__ __forceinline__ i64 sb_inside(double place, u32 size) {
    return place >= 0.0 && place < (double)size ? (i64)place : -1;
}

__device__ __forceinline__ double sb_near(double x) {
    const double a = -0.75;
    return ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0;
}

__device__ __forceinline__ double sb_far(double x) {
    const double a = -0.75;
    return ((a * x - 5.0 * a) * x + 8.0 * a) * x - 4.0 * a;
}

__device__ __forceinline__ double sb_near_slope(double x) {
    const double a = -0.75;
    return (3.0 * (a + 2.0) * x - 2.0 * (a + 3.0)) * x;
}

__device__ __forceinline__ double sb_far_slope(double x) {
    const double a = -0.75;
    return (3.0 * a * x - 10.0 * a) * x + 8.0 * a;
}

// Rounded to the nearest integer, ties to even. An f64 of 2^52 or more is an integer.
__device__ __forceinline__ double sb_round_even(double x) { return rint(x); }

__device__ __forceinline__ void sb_axis(const SbGrid& p, double coordinate, u32 size,
                                        SbAxis* axis) {
    double n = (double)size;
    double at;
    double scale;
    if (p.align_corners) {
        scale = (n - 1.0) / 2.0;
        at = (coordinate + 1.0) * scale;
    } else {
        scale = n / 2.0;
        at = ((coordinate + 1.0) * n - 1.0) / 2.0;
    }
    if (p.mode == SB_GRID_MODE_NEAREST) {
        axis->place[0] = sb_inside(sb_round_even(sb_pad_position(p, at, size).at), size);
        axis->weight[0] = 1.0;
        axis->slope[0] = 0.0;
        axis->count = 1;
        axis->scale = 0.0;
    } else if (p.mode == SB_GRID_MODE_LINEAR) {
        SbPosition padded = sb_pad_position(p, at, size);
        double left = sb_floor(padded.at);
        double part = padded.at - left;
        axis->place[0] = sb_inside(left, size);
        axis->weight[0] = 1.0 - part;
        axis->slope[0] = -1.0;
        axis->place[1] = sb_inside(left + 1.0, size);
        axis->weight[1] = part;
        axis->slope[1] = 1.0;
        axis->count = 2;
        axis->scale = scale * padded.slope;
    } else {
        double left = sb_floor(at);
        double t = at - left;
        for (int k = 0; k < 4; ++k) {
            axis->place[k] =
                sb_inside(sb_pad_position(p, left + (double)k - 1.0, size).at, size);
        }
        axis->weight[0] = sb_far(t + 1.0);
        axis->weight[1] = sb_near(t);
        axis->weight[2] = sb_near(1.0 - t);
        axis->weight[3] = sb_far(2.0 - t);
        axis->slope[0] = sb_far_slope(t + 1.0);
        axis->slope[1] = sb_near_slope(t);
        axis->slope[2] = -sb_near_slope(1.0 - t);
        axis->slope[3] = -sb_far_slope(2.0 - t);
        axis->count = 4;
        axis->scale = scale;
    }
}

template <typename T>
__device__ __forceinline__ void sb_axes(const SbGrid& p, const T* grid, SbAxis* axes) {
    for (u32 d = 0; d < 3; ++d) {
        if (d < p.dims) {
            // The coordinates x, y, z are in the opposite order of the dimensions.
            sb_axis(p, (double)grid[d], p.input[2 - d], &axes[d]);
        } else {
            axes[d].place[0] = 0;
            axes[d].weight[0] = 1.0;
            axes[d].slope[0] = 0.0;
            axes[d].count = 1;
            axes[d].scale = 0.0;
        }
    }
}

// For each point its taps in row-major order: place in the plane of its image, counted through
// the batch, or -1; and the weight.
template <typename T>
__device__ __forceinline__ void sb_grid_taps(i64* places, T* weights, const T* grid,
                                             const SbGrid& p) {
    u64 i = sb_thread();
    if (i >= p.batch * p.points) return;
    SbAxis axes[3];
    sb_axes(p, grid + i * p.dims, axes);
    u64 plane = (u64)p.input[0] * p.input[1] * p.input[2];
    i64 base = (i64)(i / p.points * plane);
    u64 to = i * p.taps;
    for (u32 z = 0; z < axes[2].count; ++z) {
        for (u32 y = 0; y < axes[1].count; ++y) {
            for (u32 x = 0; x < axes[0].count; ++x) {
                bool inside =
                    axes[0].place[x] >= 0 && axes[1].place[y] >= 0 && axes[2].place[z] >= 0;
                i64 place = (axes[2].place[z] * p.input[1] + axes[1].place[y]) * p.input[2] +
                            axes[0].place[x];
                T weight = (T)(axes[2].weight[z] * axes[1].weight[y] * axes[0].weight[x]);
                places[to] = inside && weight != (T)0 ? base + place : -1;
                weights[to] = weight;
                to += 1;
            }
        }
    }
}

#define SB_GRID_TAPS(NAME, T)                                                           \
    extern "C" __global__ void NAME(i64* places, T* weights, const T* grid, SbGrid p) { \
        sb_grid_taps<T>(places, weights, grid, p);                                      \
    }

// level: Portable - one thread owns one point
SB_GRID_TAPS(grid_taps_f32, float)
SB_GRID_TAPS(grid_taps_f64, double)

// From +0, taps in row-major order, each by one fma.
template <typename T>
__device__ __forceinline__ void sb_grid_sample(T* out, const T* in, const i64* places,
                                               const T* weights, const SbGrid& p) {
    u64 i = sb_thread();
    if (i >= p.batch * p.channels * p.points) return;
    u64 point = i % p.points;
    u64 channel = i / p.points % p.channels;
    u64 image = i / p.points / p.channels;
    u64 plane = (u64)p.input[0] * p.input[1] * p.input[2];
    // Places count the planes of one channel through the batch.
    const T* x = in + (image * (p.channels - 1) + channel) * plane;
    u64 first = (image * p.points + point) * p.taps;
    T sum = (T)0;
    for (u64 t = first; t < first + p.taps; ++t) {
        if (places[t] >= 0) sum = sb_fma(x[places[t]], weights[t], sum);
    }
    out[i] = sb_clean(sum);
}

#define SB_GRID_SAMPLE(NAME, T)                                                         \
    extern "C" __global__ void NAME(T* out, const T* in, const i64* places,             \
                                    const T* weights, SbGrid p) {                       \
        sb_grid_sample<T>(out, in, places, weights, p);                                 \
    }

// level: Portable - one thread owns one output
SB_GRID_SAMPLE(grid_sample_f32, float)
SB_GRID_SAMPLE(grid_sample_f64, double)

// The gradient of the input: exact sums of gradient * weight, rounded. Segments list the taps of
// each place.
// level: Portable - one thread owns one input element and sums exactly; long segments are noted
// tickets: a long segment's place in the list; exact sums do not see it
extern "C" __global__ void grid_input_grad_f32_rows(float* grad_in, const float* grad,
                                                    const float* weights, const u32* positions,
                                                    const u32* ends, const u32* counts, u64* cursor,
                                                    u32* long_rows, u32* firsts, SbGrid p) {
    u64 i = sb_thread();
    u64 plane = (u64)p.input[0] * p.input[1] * p.input[2];
    if (i >= p.batch * p.channels * plane) return;
    u64 image = i / plane / p.channels;
    u64 row = image * plane + i % plane;
    u32 count = counts[row];
    if (count > SB_PIECE) {
        if (i / plane % p.channels == 0) sb_long_note(cursor, long_rows, firsts, (u32)row, count);
        return;
    }
    const float* g = grad + i / plane * p.points;
    SbSum sum;
    sb_sum_start(&sum);
    sb_sum_segment(&sum, positions, ends[row] - count, ends[row], [=](u32 tap) {
        return g[tap / p.taps % p.points] * weights[tap];
    });
    grad_in[i] = sb_sum_round(&sum);
}

// level: Portable - integer atomics into exact accumulators commute
extern "C" __global__ void grid_input_grad_f32_pieces(u64* acc, const float* grad,
                                                      const float* weights, const u32* positions,
                                                      const u32* ends, const u32* counts,
                                                      const u64* cursor, const u32* long_rows,
                                                      const u32* firsts, SbGrid p) {
    u64 i = sb_thread();
    u64 channel = i % p.channels;
    SbPiece piece;
    if (!sb_piece(&piece, i / p.channels, cursor, long_rows, firsts, ends, counts)) return;
    u64 plane = (u64)p.input[0] * p.input[1] * p.input[2];
    const float* g = grad + (piece.row / plane * p.channels + channel) * p.points;
    SbSum sum;
    sb_sum_start(&sum);
    sb_sum_segment(&sum, positions, piece.begin, piece.end, [=](u32 tap) {
        return g[tap / p.taps % p.points] * weights[tap];
    });
    sb_sum_deposit(&sum, acc + (piece.slot * p.channels + channel) * SB_ACC);
}

// The same in f64, where segments list the taps in ascending order.
// level: Portable - one thread owns one input element and adds its taps in ascending order
extern "C" __global__ void grid_input_grad_f64_rows(double* grad_in, const double* grad,
                                                    const double* weights, const u32* positions,
                                                    const u32* ends, const u32* counts, u64* cursor,
                                                    u32* long_rows, u32* firsts, SbGrid p) {
    u64 i = sb_thread();
    u64 plane = (u64)p.input[0] * p.input[1] * p.input[2];
    if (i >= p.batch * p.channels * plane) return;
    u64 image = i / plane / p.channels;
    u64 row = image * plane + i % plane;
    const double* g = grad + i / plane * p.points;
    double sum = 0.0;
    u32 end = ends[row];
    for (u32 at = end - counts[row]; at < end; ++at) {
        u32 tap = positions[at];
        sum = sum + g[tap / p.taps % p.points] * weights[tap];
    }
    grad_in[i] = sb_canonical64(sum);
}

// level: NotGuaranteed - float atomics
extern "C" __global__ void grid_input_grad_f32_atomic(float* grad_in, const float* grad,
                                                      const i64* places, const float* weights,
                                                      SbGrid p) {
    u64 i = sb_thread();
    if (i >= p.batch * p.channels * p.points) return;
    u64 point = i % p.points;
    u64 channel = i / p.points % p.channels;
    u64 image = i / p.points / p.channels;
    u64 plane = (u64)p.input[0] * p.input[1] * p.input[2];
    float* x = grad_in + (image * (p.channels - 1) + channel) * plane;
    u64 first = (image * p.points + point) * p.taps;
    for (u64 t = first; t < first + p.taps; ++t) {
        if (places[t] >= 0) atomicAdd(x + places[t], grad[i] * weights[t]);
    }
}

// The gradient of the coordinates, in f64: channels ascending, taps in row-major order.
template <typename T>
__device__ __forceinline__ void sb_grid_grad(T* grad_grid, const T* grad, const T* in,
                                             const T* grid, const SbGrid& p) {
    u64 i = sb_thread();
    if (i >= p.batch * p.points) return;
    SbAxis axes[3];
    sb_axes(p, grid + i * p.dims, axes);
    u64 plane = (u64)p.input[0] * p.input[1] * p.input[2];
    u64 image = i / p.points;
    double sums[3] = {0.0, 0.0, 0.0};
    for (u64 c = 0; c < p.channels; ++c) {
        const T* input = in + (image * p.channels + c) * plane;
        double inner[3] = {0.0, 0.0, 0.0};
        for (u32 z = 0; z < axes[2].count; ++z) {
            for (u32 y = 0; y < axes[1].count; ++y) {
                for (u32 x = 0; x < axes[0].count; ++x) {
                    i64 px = axes[0].place[x];
                    i64 py = axes[1].place[y];
                    i64 pz = axes[2].place[z];
                    if (px < 0 || py < 0 || pz < 0) continue;
                    double v = (double)input[(pz * p.input[1] + py) * p.input[2] + px];
                    double wx = axes[0].weight[x];
                    double wy = axes[1].weight[y];
                    double wz = axes[2].weight[z];
                    double slopes[3] = {wz * wy * axes[0].slope[x], wz * axes[1].slope[y] * wx,
                                        axes[2].slope[z] * wy * wx};
                    for (int d = 0; d < 3; ++d) {
                        if (slopes[d] != 0.0) inner[d] = inner[d] + v * slopes[d];
                    }
                }
            }
        }
        double g = (double)grad[(image * p.channels + c) * p.points + i % p.points];
        for (int d = 0; d < 3; ++d) sums[d] = sums[d] + g * inner[d];
    }
    for (u32 d = 0; d < p.dims; ++d) {
        T value = p.mode == SB_GRID_MODE_NEAREST ? (T)0 : (T)(sums[d] * axes[d].scale);
        grad_grid[i * p.dims + d] = sb_clean(value);
    }
}

#define SB_GRID_GRAD(NAME, T)                                                           \
    extern "C" __global__ void NAME(T* grad_grid, const T* grad, const T* in,           \
                                    const T* grid, SbGrid p) {                          \
        sb_grid_grad<T>(grad_grid, grad, in, grid, p);                                  \
    }

// level: Portable - one thread owns one point
SB_GRID_GRAD(grid_grad_f32, float)
SB_GRID_GRAD(grid_grad_f64, double)
