// Running sums, products, logarithms of sums and extrema along the middle dimension of
// [outer, n, inner]: in f64 (integers in u64), tiles of 1024, runs of 32, carries in tile order, each
// result rounded once. Gradients that walk a line from its end are at the bottom.
//
// One warp takes a tile: lane r combines run r, the runs before it are combined in order, and what
// comes before the tile is the carry, which a second kernel combines in tile order.

#include "integer.cuh"
#include "math64.cuh"
#include "declared/scan.cuh"

#define SB_RUN 32u
#define SB_SCAN_TILE 1024ull

// ---- What is scanned with ----------------------------------------------------------------

// Kind 0: sums; kind 1: products. Of doubles, or of integers as u64, which wrap around.
template <typename N>
struct SbNumbers {
    typedef N State;
    // How far loops over elements are unrolled, and whether there are scans from the end.
    static constexpr int UNROLL = 4;
    static constexpr bool REVERSIBLE = true;
    bool product;
    __device__ __forceinline__ SbNumbers(const SbScan& p) : product(p.kind != 0) {}
    __device__ __forceinline__ N identity() const { return product ? (N)1 : (N)0; }
    __device__ __forceinline__ N element(N x, u64) const { return x; }
    __device__ __forceinline__ N apply(N a, N b) const { return product ? a * b : a + b; }
};

// Called and not inlined: an exponential in every step of an unrolled loop is a lot of text.
__device__ __noinline__ double sb_exp_call(double x) { return sb_exp(x); }

struct SbLogSums {
    typedef SbLogState State;
    static constexpr int UNROLL = 1;
    static constexpr bool REVERSIBLE = false;
    __device__ __forceinline__ SbLogSums(const SbScan&) {}
    __device__ __forceinline__ SbLogState identity() const {
        return {sb_minus_infinity<double>(), 1.0};
    }
    __device__ __forceinline__ SbLogState element(double x, u64) const { return {x, 1.0}; }
    __device__ __forceinline__ SbLogState apply(SbLogState a, SbLogState b) const {
        if (a.m == sb_minus_infinity<double>()) return b;
        if (b.m == sb_minus_infinity<double>()) return a;
        if (a.m == b.m) return {a.m, a.s + b.s};
        bool left = a.m > b.m;
        // Neither holds if one is NaN, and then both sides become NaN.
        double e = sb_exp_call(left ? b.m - a.m : a.m - b.m);
        return left ? SbLogState{a.m, a.s + b.s * e} : SbLogState{b.m, a.s * e + b.s};
    }
};

// Kind 0: the largest; kind 1: the smallest.
struct SbExtremes {
    typedef SbBest State;
    static constexpr int UNROLL = 1;
    static constexpr bool REVERSIBLE = false;
    bool smallest;
    __device__ __forceinline__ SbExtremes(const SbScan& p) : smallest(p.kind != 0) {}
    __device__ __forceinline__ SbBest identity() const { return {0.0, -1}; }
    __device__ __forceinline__ SbBest element(double x, u64 i) const { return {x, (i64)i}; }
    // `a` comes first.
    __device__ __forceinline__ SbBest apply(SbBest a, SbBest b) const {
        if (a.at < 0) return b;
        if (b.at < 0) return a;
        bool better = smallest ? b.value < a.value : b.value > a.value;
        return better || (b.value != b.value && a.value == a.value) ? b : a;
    }
};

// ---- Tiles -------------------------------------------------------------------------------

// Where element i of a line is.
__device__ __forceinline__ u64 sb_at(const SbScan& p, u64 line, u64 i) {
    return (line / p.inner * p.n + i) * p.inner + line % p.inner;
}

// The same for a scan that may count from the end.
template <typename O>
__device__ __forceinline__ u64 sb_at_of(const SbScan& p, u64 line, u64 i) {
    return sb_at(p, line, O::REVERSIBLE && p.reverse ? p.n - 1 - i : i);
}

// Combines this lane's run with those before it: `before` is what the lower lanes hold, in
// order. Returns the whole warp's.
template <typename O>
__device__ __forceinline__ typename O::State sb_runs(const O& o, typename O::State* shared,
                                                     typename O::State local, u32 runs,
                                                     typename O::State* before) {
    u32 lane = threadIdx.x;
    shared[lane] = local;
    __syncwarp();
    typename O::State all = o.identity();
    *before = all;
#pragma unroll O::UNROLL
    for (u32 r = 0; r < runs; ++r) {
        if (r == lane) *before = all;
        all = o.apply(all, shared[r]);
    }
    return all;
}

template <typename O, typename T>
__device__ __forceinline__ typename O::State sb_local(const O& o, const T* in, const SbScan& p,
                                                      u64 line, u64 first, u64 end) {
    typename O::State local = o.identity();
#pragma unroll O::UNROLL
    for (u64 i = first; i < end; ++i)
        local = o.apply(local, o.element(in[sb_at_of<O>(p, line, i)], i));
    return local;
}

struct SbTile {
    u64 line;
    u64 tile;
    u64 first;
    u64 end;
    u32 runs;
};

// The tile of this block of 32 threads, and the run of this lane.
__device__ __forceinline__ SbTile sb_tile(const SbScan& p) {
    SbTile t;
    t.tile = blockIdx.x % p.tiles;
    t.line = blockIdx.x / p.tiles;
    u64 start = t.tile * SB_SCAN_TILE;
    u64 length = p.n - start < SB_SCAN_TILE ? p.n - start : SB_SCAN_TILE;
    t.runs = (u32)((length + SB_RUN - 1) / SB_RUN);
    t.first = start + (u64)threadIdx.x * SB_RUN;
    t.end = t.first + SB_RUN < start + length ? t.first + SB_RUN : start + length;
    return t;
}

#define SB_TILE_TOTALS(NAME, T, O, S)                                                   \
    extern "C" __global__ void NAME(S* totals, const T* in, SbScan p) {                 \
        __shared__ O::State shared[32];                                                 \
        O o(p);                                                                         \
        SbTile t = sb_tile(p);                                                          \
        O::State before;                                                                \
        O::State local = sb_local(o, in, p, t.line, t.first, t.end);                    \
        O::State total = sb_runs(o, shared, local, t.runs, &before);                    \
        if (threadIdx.x == 0) totals[t.line * p.tiles + t.tile] = total;                \
    }

// level: Portable - one warp owns one tile
SB_TILE_TOTALS(scan_totals_f32, float, SbNumbers<double>, double)
SB_TILE_TOTALS(scan_totals_f64, double, SbNumbers<double>, double)
SB_TILE_TOTALS(integer_scan_totals, i64, SbNumbers<u64>, u64)
SB_TILE_TOTALS(logcumsumexp_totals_f32, float, SbLogSums, SbLogState)
SB_TILE_TOTALS(logcumsumexp_totals_f64, double, SbLogSums, SbLogState)
SB_TILE_TOTALS(cumextreme_totals_f32, float, SbExtremes, SbBest)
SB_TILE_TOTALS(cumextreme_totals_f64, double, SbExtremes, SbBest)

// Turns the totals of each line into what comes before each tile: a warp brings as many of them as
// it holds into shared memory, and one of its lanes goes through them.
#define SB_STAGED 256u

template <typename O>
__device__ __forceinline__ void sb_carries(typename O::State* totals, const SbScan& p) {
    __shared__ typename O::State staged[SB_STAGED];
    typename O::State* line = totals + blockIdx.x * p.tiles;
    O o(p);
    typename O::State carry = o.identity();
    for (u64 first = 0; first < p.tiles; first += SB_STAGED) {
        u32 count = p.tiles - first < SB_STAGED ? (u32)(p.tiles - first) : SB_STAGED;
#pragma unroll 4
        for (u32 t = threadIdx.x; t < count; t += 32) staged[t] = line[first + t];
        __syncwarp();
        if (threadIdx.x == 0) {
#pragma unroll O::UNROLL
            for (u32 t = 0; t < count; ++t) {
                typename O::State total = staged[t];
                staged[t] = carry;
                carry = o.apply(carry, total);
            }
        }
        __syncwarp();
        for (u32 t = threadIdx.x; t < count; t += 32) line[first + t] = staged[t];
        __syncwarp();
    }
}

#define SB_CARRIES(NAME, O, S)                                                          \
    extern "C" __global__ void NAME(S* totals, SbScan p) { sb_carries<O>(totals, p); }

// level: Portable - one warp owns one line and goes in tile order
SB_CARRIES(scan_carries, SbNumbers<double>, double)
SB_CARRIES(integer_scan_carries, SbNumbers<u64>, u64)
SB_CARRIES(logcumsumexp_carries, SbLogSums, SbLogState)
SB_CARRIES(cumextreme_carries, SbExtremes, SbBest)

// Calls `write(place, state)` for each element of this lane's run.
template <typename O, typename T, typename Write>
__device__ __forceinline__ void sb_finish(const O& o, typename O::State* shared, const T* in,
                                          const typename O::State* carries, const SbScan& p,
                                          Write write) {
    SbTile t = sb_tile(p);
    typename O::State before;
    typename O::State local = sb_local(o, in, p, t.line, t.first, t.end);
    sb_runs(o, shared, local, t.runs, &before);
    typename O::State carry = carries[t.line * p.tiles + t.tile];
    local = o.identity();
#pragma unroll O::UNROLL
    for (u64 i = t.first; i < t.end; ++i) {
        u64 at = sb_at_of<O>(p, t.line, i);
        local = o.apply(local, o.element(in[at], i));
        write(at, o.apply(carry, o.apply(before, local)));
    }
}

#define SB_SCAN_FINISH(NAME, T, N, STORE)                                               \
    extern "C" __global__ void NAME(T* out, const T* in, const N* carries, SbScan p) {  \
        __shared__ N shared[32];                                                        \
        sb_finish(SbNumbers<N>(p), shared, in, carries, p,                              \
                  [=](u64 at, N y) { out[at] = STORE((T)y); });                         \
    }

// level: Portable - one warp owns one tile
SB_SCAN_FINISH(scan_finish_f32, float, double, sb_canonical)
SB_SCAN_FINISH(scan_finish_f64, double, double, sb_canonical64)
SB_SCAN_FINISH(integer_scan_finish, i64, u64, sb_wrapped)

__device__ __noinline__ double sb_log_call(double x) { return sb_log(x); }

__device__ __forceinline__ double sb_log_result(SbLogState y) {
    if (sb_abs64(y.m) == sb_infinity64() && y.s == y.s) return y.m;
    return y.m + sb_log_call(y.s);
}

#define SB_LOG_FINISH(NAME, T)                                                          \
    extern "C" __global__ void NAME(T* out, const T* in, const SbLogState* carries,     \
                                    SbScan p) {                                         \
        __shared__ SbLogState shared[32];                                               \
        sb_finish(SbLogSums(p), shared, in, carries, p, [=](u64 at, SbLogState y) {     \
            out[at] = sb_clean((T)sb_log_result(y));                                    \
        });                                                                             \
    }

// level: Portable - one warp owns one tile
SB_LOG_FINISH(logcumsumexp_finish_f32, float)
SB_LOG_FINISH(logcumsumexp_finish_f64, double)

#define SB_EXTREME_FINISH(NAME, T)                                                      \
    extern "C" __global__ void NAME(T* values, i64* indices, const T* in,               \
                                    const SbBest* carries, SbScan p) {                  \
        __shared__ SbBest shared[32];                                                   \
        sb_finish(SbExtremes(p), shared, in, carries, p, [=](u64 at, SbBest y) {        \
            values[at] = sb_clean((T)y.value);                                          \
            indices[at] = y.at;                                                         \
        });                                                                             \
    }

// level: Portable - one warp owns one tile; values are moved
SB_EXTREME_FINISH(cumextreme_finish_f32, float)
SB_EXTREME_FINISH(cumextreme_finish_f64, double)

// ---- Gradients that walk a line ----------------------------------------------------------

// P holds the products up to each element, the first zero left out, as far as they are not zero;
// element i is the sum of g[j] * P[j] / x[i] over j >= i, from the last j down.
#define SB_CUMPROD_GRAD(NAME, T)                                                        \
    extern "C" __global__ void NAME(T* grad_in, double* products, const T* in,          \
                                    const T* grad, SbScan p) {                          \
        u64 line = sb_thread();                                                         \
        if (line >= p.outer * p.inner) return;                                          \
        u64 zero = p.n;                                                                 \
        u64 second = p.n;                                                               \
        double product = 1.0;                                                           \
        for (u64 k = 0; k < p.n; ++k) {                                                 \
            u64 at = sb_at(p, line, k);                                                 \
            T x = in[at];                                                               \
            if (x == (T)0) {                                                            \
                if (zero < p.n) {                                                       \
                    second = k;                                                         \
                    break;                                                              \
                }                                                                       \
                zero = k;                                                               \
            } else {                                                                    \
                product = product * (double)x;                                          \
            }                                                                           \
            products[at] = product;                                                     \
        }                                                                               \
        for (u64 k = zero; k < p.n; ++k) grad_in[sb_at(p, line, k)] = (T)0;             \
        double sum = 0.0;                                                               \
        for (u64 k = second; k > zero; --k) {                                           \
            u64 at = sb_at(p, line, k - 1);                                             \
            sum = sum + (double)grad[at] * products[at];                                \
        }                                                                               \
        if (zero < p.n) grad_in[sb_at(p, line, zero)] = sb_clean((T)sum);               \
        sum = 0.0;                                                                      \
        for (u64 k = zero; k > 0; --k) {                                                \
            u64 at = sb_at(p, line, k - 1);                                             \
            sum = sum + (double)grad[at] * products[at];                                \
            grad_in[at] = sb_clean((T)(sum / (double)in[at]));                          \
        }                                                                               \
    }

// level: Portable - one thread owns one line
SB_CUMPROD_GRAD(cumprod_grad_f32, float)
SB_CUMPROD_GRAD(cumprod_grad_f64, double)

// The gradient of that gradient: t and P up to each element but it, ascending, are kept; then S and
// T come down from the last element. Nothing is divided, so zeros are no exception.
#define SB_CUMPROD_GRAD_GRAD(NAME, T)                                                   \
    extern "C" __global__ void NAME(T* grad_of_grad, T* grad_in, double* tangents,      \
                                    double* products, const T* in, const T* grad,       \
                                    const T* outer_grad, SbScan p) {                    \
        u64 line = sb_thread();                                                         \
        if (line >= p.outer * p.inner) return;                                          \
        double tangent = 0.0;                                                           \
        double product = 1.0;                                                           \
        _Pragma("unroll 1") for (u64 k = 0; k < p.n; ++k) {                             \
            u64 at = sb_at(p, line, k);                                                 \
            double x = (double)in[at];                                                  \
            tangents[at] = tangent;                                                     \
            products[at] = product;                                                     \
            tangent = tangent * x + product * (double)outer_grad[at];                   \
            product = product * x;                                                      \
            grad_of_grad[at] = sb_clean((T)tangent);                                    \
        }                                                                               \
        double of_products = 0.0;                                                       \
        double of_tangents = 0.0;                                                       \
        _Pragma("unroll 1") for (u64 k = p.n; k > 0; --k) {                             \
            if (k < p.n) {                                                              \
                u64 after = sb_at(p, line, k);                                          \
                double x = (double)in[after];                                           \
                of_products =                                                           \
                    of_products * x + of_tangents * (double)outer_grad[after];          \
                of_tangents = of_tangents * x;                                          \
            }                                                                           \
            u64 at = sb_at(p, line, k - 1);                                             \
            of_tangents = of_tangents + (double)grad[at];                               \
            double sum = of_tangents * tangents[at] + of_products * products[at];       \
            grad_in[at] = sb_clean((T)sum);                                             \
        }                                                                               \
    }

// level: Portable - one thread owns one line
SB_CUMPROD_GRAD_GRAD(cumprod_grad_grad_f32, float)
SB_CUMPROD_GRAD_GRAD(cumprod_grad_grad_f64, double)

// s * exp(m) is the sum of g[j] * exp(-y[j]) over j >= i, from the last j down. A large y[j] does not enter
// it: its g[j] is split evenly among the elements up to j that are equal to it.
#define SB_LOGCUMSUMEXP_GRAD(NAME, T, LARGE)                                            \
    extern "C" __global__ void NAME(T* grad_in, const T* in, const T* out,              \
                                    const T* grad, SbScan p) {                          \
        u64 line = sb_thread();                                                         \
        if (line >= p.outer * p.inner) return;                                          \
        double m = sb_minus_infinity<double>();                                         \
        double s = 0.0;                                                                 \
        double large = 0.0;                                                             \
        double each = 0.0;                                                              \
        u64 among = 0;                                                                  \
        for (u64 k = p.n; k > 0; --k) {                                                 \
            u64 at = sb_at(p, line, k - 1);                                             \
            double x = (double)in[at];                                                  \
            double y = (double)out[at];                                                 \
            double n = -y;                                                              \
            double g = (double)grad[at];                                                \
            if (sb_abs64(y) >= LARGE) {                                                 \
                if (y != large) {                                                       \
                    large = y;                                                          \
                    each = 0.0;                                                         \
                    among = 0;                                                          \
                    for (u64 i = k; i > 0; --i) {                                       \
                        u64 place = sb_at(p, line, i - 1);                              \
                        if ((double)out[place] != y) break;                             \
                        if ((double)in[place] == y) ++among;                            \
                    }                                                                   \
                }                                                                       \
                each = each + g / (double)among;                                        \
            } else if (m == sb_minus_infinity<double>() && s == 0.0) {                  \
                m = n;                                                                  \
                s = g;                                                                  \
            } else if (m == n) {                                                        \
                s = s + g;                                                              \
            } else {                                                                    \
                bool kept = m > n;                                                      \
                double e = sb_exp_call(kept ? n - m : m - n);                           \
                s = kept ? s + g * e : s * e + g;                                       \
                m = kept ? m : n;                                                       \
            }                                                                           \
            bool empty = x == sb_infinity64() && m == m;                                \
            double sum = empty ? 0.0 : s * sb_exp_call(m + x);                          \
            if (x == large && y == large && among > 0) {                                \
                --among;                                                                \
                sum = sum + each;                                                       \
            }                                                                           \
            grad_in[at] = sb_clean((T)sum);                                             \
        }                                                                               \
    }

// level: Portable - one thread owns one line
SB_LOGCUMSUMEXP_GRAD(logcumsumexp_grad_f32, float, 0x1p30)
SB_LOGCUMSUMEXP_GRAD(logcumsumexp_grad_f64, double, 0x1p59)
