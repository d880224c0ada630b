// Running sums, products, logarithms of sums and extrema along the middle dimension of
// [outer, n, inner]: in f64 (integers in u64), tiles of 1024, runs of 32, carries in tile order, each
// result rounded once. Gradients that walk a line from its end are at the bottom.
//
// Where a line is dense, one warp takes a tile: it brings it into shared memory, lane r combines run r,
// and the runs before it are combined in order. Elsewhere one thread takes a tile, run by run, beside
// those of the neighbouring lines. What comes before the tile is the carry, combined in tile order.

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
    // How far loops over elements are unrolled, how many elements a thread loads at once, and
    // whether there are scans from the end.
    static constexpr int UNROLL = 4;
    static constexpr u32 AHEAD = 32;
    static constexpr bool REVERSIBLE = true;
    // Integers wrap around.
    static constexpr bool ANY_ORDER = (N)0.5 == (N)0;
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
    static constexpr u32 AHEAD = 2;
    static constexpr bool REVERSIBLE = false;
    static constexpr bool ANY_ORDER = false;
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
    static constexpr u32 AHEAD = 4;
    static constexpr bool REVERSIBLE = false;
    static constexpr bool ANY_ORDER = true;
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

// The distance of an element's neighbour, modulo 2^64.
template <typename O>
__device__ __forceinline__ u64 sb_step(const SbScan& p) {
    return O::REVERSIBLE && p.reverse ? 0 - p.inner : p.inner;
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

struct SbTile {
    u64 line;
    u64 tile;
    u64 start;
    u32 length;
};

__device__ __forceinline__ SbTile sb_tile(const SbScan& p, u64 line, u64 tile) {
    u64 start = tile * SB_SCAN_TILE;
    u64 length = p.n - start < SB_SCAN_TILE ? p.n - start : SB_SCAN_TILE;
    return {line, tile, start, (u32)length};
}

// The tile of this warp, and that of this thread: the first lines' come first.
__device__ __forceinline__ SbTile sb_warps_tile(const SbScan& p) {
    return sb_tile(p, blockIdx.x / p.tiles, blockIdx.x % p.tiles);
}
__device__ __forceinline__ SbTile sb_threads_tile(const SbScan& p) {
    u64 lines = p.outer * p.inner;
    return sb_tile(p, sb_thread() % lines, sb_thread() / lines);
}

// A tile in shared memory: a run has a word more than elements, so that lanes meet different banks.
#define SB_STAGED_TILE 1056u
// Calls `move(slot, place)` for each element of the tile, a warp for neighbours.
template <typename O, typename Move>
__device__ __forceinline__ void sb_move(const SbScan& p, const SbTile& t, Move move) {
    u64 first = sb_at_of<O>(p, t.line, t.start);
    u64 step = sb_step<O>(p);
    u32 slot = threadIdx.x;
#pragma unroll 8
    for (u32 j = threadIdx.x; j < t.length; j += 32) {
        move(slot, first + step * j);
        slot += SB_RUN + 1;
    }
    __syncwarp();
}

// Combines this lane's run of a staged tile, calling `each(slot, state)` after each element.
template <typename O, typename T, typename Each>
__device__ __forceinline__ typename O::State sb_run(const O& o, const T* staged, const SbTile& t,
                                                    Each each) {
    u32 first = threadIdx.x * SB_RUN;
    u32 count = first < t.length ? t.length - first : 0;
    u32 slot = threadIdx.x * (SB_RUN + 1);
    typename O::State local = o.identity();
#pragma unroll O::UNROLL
    for (u32 k = 0; k < (count < SB_RUN ? count : SB_RUN); ++k) {
        local = o.apply(local, o.element(staged[slot + k], t.start + first + k));
        each(slot + k, local);
    }
    return local;
}

// Combines a tile by this thread, calling `each(place, before, local)` after each element.
template <typename O, typename T, typename Each>
__device__ __forceinline__ typename O::State sb_walk(const O& o, const T* in, const SbScan& p,
                                                     const SbTile& t, Each each) {
    typename O::State before = o.identity();
    u64 at = sb_at_of<O>(p, t.line, t.start);
    u64 step = sb_step<O>(p);
#pragma unroll 1
    for (u32 first = 0; first < t.length; first += SB_RUN) {
        typename O::State local = o.identity();
        if (first + SB_RUN <= t.length) {
#pragma unroll 1
            for (u32 j = 0; j < SB_RUN; j += O::AHEAD) {
                T x[O::AHEAD];
#pragma unroll
                for (u32 k = 0; k < O::AHEAD; ++k) x[k] = in[at + step * (j + k)];
#pragma unroll
                for (u32 k = 0; k < O::AHEAD; ++k) {
                    local = o.apply(local, o.element(x[k], t.start + first + j + k));
                    each(at + step * (j + k), before, local);
                }
            }
        } else {
#pragma unroll 1
            for (u32 k = 0; first + k < t.length; ++k) {
                local = o.apply(local, o.element(in[at + step * k], t.start + first + k));
                each(at + step * k, before, local);
            }
        }
        before = o.apply(before, local);
        at += step * SB_RUN;
    }
    return before;
}

__device__ __forceinline__ u32 sb_runs_of(const SbTile& t) {
    return (t.length + SB_RUN - 1) / SB_RUN;
}

template <typename O, typename T>
__device__ __forceinline__ void sb_totals(typename O::State* totals, const T* in,
                                          const SbScan& p) {
    __shared__ T staged[SB_STAGED_TILE];
    __shared__ typename O::State shared[32];
    O o(p);
    if (p.staged) {
        SbTile t = sb_warps_tile(p);
        sb_move<O>(p, t, [&](u32 slot, u64 at) { staged[slot] = in[at]; });
        typename O::State before;
        typename O::State local =
            sb_run(o, staged, t, [](u32, const typename O::State&) {});
        typename O::State total = sb_runs(o, shared, local, sb_runs_of(t), &before);
        if (threadIdx.x == 0) totals[t.line * p.tiles + t.tile] = total;
        return;
    }
    SbTile t = sb_threads_tile(p);
    if (t.tile >= p.tiles) return;
    totals[t.line * p.tiles + t.tile] = sb_walk(
        o, in, p, t, [](u64, const typename O::State&, const typename O::State&) {});
}

#define SB_TILE_TOTALS(NAME, T, O, S)                                                   \
    extern "C" __global__ void NAME(S* totals, const T* in, SbScan p) {                 \
        sb_totals<O, T>(totals, in, p);                                                 \
    }

// level: Portable - one warp or thread owns one tile
SB_TILE_TOTALS(scan_totals_f32, float, SbNumbers<double>, double)
SB_TILE_TOTALS(scan_totals_f64, double, SbNumbers<double>, double)
SB_TILE_TOTALS(integer_scan_totals, i64, SbNumbers<u64>, u64)
SB_TILE_TOTALS(logcumsumexp_totals_f32, float, SbLogSums, SbLogState)
SB_TILE_TOTALS(logcumsumexp_totals_f64, double, SbLogSums, SbLogState)
SB_TILE_TOTALS(cumextreme_totals_f32, float, SbExtremes, SbBest)
SB_TILE_TOTALS(cumextreme_totals_f64, double, SbExtremes, SbBest)

// Turns the totals of each line into what comes before each tile. One warp combines a portion in
// shared memory, while the others store the one before it and bring the next one.
#define SB_PORTION 1024u
#define SB_CARRY_THREADS 128u

// Eight of them at once, so that only the combinations wait for one another.
template <typename O>
__device__ __forceinline__ typename O::State sb_chain(const O& o, typename O::State* staged,
                                                      u32 first, u32 end,
                                                      typename O::State carry) {
    const u32 AHEAD = O::AHEAD < 8 ? O::AHEAD : 8;
    u32 t = first;
#pragma unroll 1
    for (; t + AHEAD <= end; t += AHEAD) {
        typename O::State totals[AHEAD];
#pragma unroll
        for (u32 k = 0; k < AHEAD; ++k) totals[k] = staged[t + k];
#pragma unroll
        for (u32 k = 0; k < AHEAD; ++k) {
            typename O::State total = totals[k];
            totals[k] = carry;
            carry = o.apply(carry, total);
        }
#pragma unroll
        for (u32 k = 0; k < AHEAD; ++k) staged[t + k] = totals[k];
    }
#pragma unroll 1
    for (; t < end; ++t) {
        typename O::State total = staged[t];
        staged[t] = carry;
        carry = o.apply(carry, total);
    }
    return carry;
}

// The portion by one warp: in order by its first lane, or, if any order gives the same bits, a
// part by each lane.
template <typename O>
__device__ __forceinline__ typename O::State sb_portion(const O& o, typename O::State* staged,
                                                        typename O::State* shared, u32 count,
                                                        typename O::State carry) {
    if (!O::ANY_ORDER) {
        if (threadIdx.x == 0) carry = sb_chain(o, staged, 0, count, carry);
        return carry;
    }
    const u32 EACH = SB_PORTION / 32;
    u32 first = threadIdx.x * EACH < count ? threadIdx.x * EACH : count;
    u32 end = first + EACH < count ? first + EACH : count;
    typename O::State local = o.identity();
#pragma unroll 4
    for (u32 t = first; t < end; ++t) local = o.apply(local, staged[t]);
    typename O::State before;
    typename O::State all = sb_runs(o, shared, local, 32, &before);
    sb_chain(o, staged, first, end, o.apply(carry, before));
    __syncwarp();
    return o.apply(carry, all);
}

template <typename O>
__device__ __forceinline__ void sb_carries(typename O::State* totals, const SbScan& p) {
    typedef typename O::State State;
    __shared__ __align__(16) State staged[2][SB_PORTION];
    __shared__ State shared[32];
    State* line = totals + blockIdx.x * p.tiles;
    O o(p);
    State carry = o.identity();
    u64 portions = (p.tiles + SB_PORTION - 1) / SB_PORTION;
    auto count = [&](u64 c) {
        u64 left = p.tiles - c * SB_PORTION;
        return left < SB_PORTION ? (u32)left : SB_PORTION;
    };
    for (u32 t = threadIdx.x; t < count(0); t += SB_CARRY_THREADS) staged[0][t] = line[t];
    __syncthreads();
#pragma unroll 1
    for (u64 c = 0; c < portions; ++c) {
        State* others = staged[(c + 1) % 2];
        if (threadIdx.x < 32) {
            carry = sb_portion(o, staged[c % 2], shared, count(c), carry);
        } else {
            u32 first = threadIdx.x - 32;
            u32 stored = c > 0 ? SB_PORTION : 0;
            u32 loaded = c + 1 < portions ? count(c + 1) : 0;
#pragma unroll 4
            for (u32 t = first; t < stored; t += SB_CARRY_THREADS - 32) {
                line[(c - 1) * SB_PORTION + t] = others[t];
            }
#pragma unroll 12
            for (u32 t = first; t < loaded; t += SB_CARRY_THREADS - 32) {
                others[t] = line[(c + 1) * SB_PORTION + t];
            }
        }
        __syncthreads();
    }
    u64 last = portions - 1;
    for (u32 t = threadIdx.x; t < count(last); t += SB_CARRY_THREADS) {
        line[last * SB_PORTION + t] = staged[last % 2][t];
    }
}

#define SB_CARRIES(NAME, O, S)                                                          \
    extern "C" __global__ void NAME(S* totals, SbScan p) { sb_carries<O>(totals, p); }

// level: Portable - one warp combines one line in tile order, or in any that gives the same
SB_CARRIES(scan_carries, SbNumbers<double>, double)
SB_CARRIES(integer_scan_carries, SbNumbers<u64>, u64)
SB_CARRIES(logcumsumexp_carries, SbLogSums, SbLogState)
SB_CARRIES(cumextreme_carries, SbExtremes, SbBest)

// What comes before the tile.
template <typename O>
__device__ __forceinline__ typename O::State sb_carry(const O& o,
                                                      const typename O::State* carries,
                                                      const SbScan& p, const SbTile& t) {
    const typename O::State* line = carries + t.line * p.tiles;
    if (p.carried) return line[t.tile];
    typename O::State carry = o.identity();
#pragma unroll 4
    for (u64 k = 0; k < t.tile; ++k) carry = o.apply(carry, line[k]);
    return carry;
}

// Scans the tile; `write(place, state)` stores a result, `put(slot, state)` keeps it in shared
// memory, from where `flush(slot, place)` stores it.
template <typename O, typename T, typename Write, typename Put, typename Flush>
__device__ __forceinline__ void sb_finish(const O& o, T* staged, const T* in,
                                          const typename O::State* carries, const SbScan& p,
                                          Write write, Put put, Flush flush) {
    __shared__ typename O::State shared[32];
    typedef typename O::State State;
    if (p.staged) {
        SbTile t = sb_warps_tile(p);
        sb_move<O>(p, t, [&](u32 slot, u64 at) { staged[slot] = in[at]; });
        State before;
        State local = sb_run(o, staged, t, [](u32, const State&) {});
        sb_runs(o, shared, local, sb_runs_of(t), &before);
        State carry = sb_carry(o, carries, p, t);
        sb_run(o, staged, t, [&](u32 slot, const State& local) {
            put(slot, o.apply(carry, o.apply(before, local)));
        });
        __syncwarp();
        sb_move<O>(p, t, flush);
        return;
    }
    SbTile t = sb_threads_tile(p);
    if (t.tile >= p.tiles) return;
    State carry = sb_carry(o, carries, p, t);
    sb_walk(o, in, p, t, [&](u64 at, const State& before, const State& local) {
        write(at, o.apply(carry, o.apply(before, local)));
    });
}

// Results of the elements' type.
template <typename O, typename T, typename Result>
__device__ __forceinline__ void sb_finish_one(T* out, const T* in,
                                              const typename O::State* carries, const SbScan& p,
                                              Result result) {
    __shared__ T staged[SB_STAGED_TILE];
    typedef typename O::State State;
    sb_finish(
        O(p), staged, in, carries, p, [=](u64 at, const State& y) { out[at] = result(y); },
        [&](u32 slot, const State& y) { staged[slot] = result(y); },
        [&](u32 slot, u64 at) { out[at] = staged[slot]; });
}

#define SB_SCAN_FINISH(NAME, T, N, STORE)                                               \
    extern "C" __global__ void NAME(T* out, const T* in, const N* carries, SbScan p) {  \
        sb_finish_one<SbNumbers<N>>(out, in, carries, p,                                \
                                    [](N y) { return STORE((T)y); });                   \
    }

// level: Portable - one warp or thread owns one tile
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
        sb_finish_one<SbLogSums>(out, in, carries, p, [](const SbLogState& y) {         \
            return sb_clean((T)sb_log_result(y));                                       \
        });                                                                             \
    }

// level: Portable - one warp or thread owns one tile
SB_LOG_FINISH(logcumsumexp_finish_f32, float)
SB_LOG_FINISH(logcumsumexp_finish_f64, double)

#define SB_EXTREME_FINISH(NAME, T)                                                      \
    extern "C" __global__ void NAME(T* values, i64* indices, const T* in,               \
                                    const SbBest* carries, SbScan p) {                  \
        __shared__ T staged[SB_STAGED_TILE];                                            \
        __shared__ i64 places[SB_STAGED_TILE];                                          \
        sb_finish(                                                                      \
            SbExtremes(p), staged, in, carries, p,                                      \
            [=](u64 at, const SbBest& y) {                                              \
                values[at] = sb_clean((T)y.value);                                      \
                indices[at] = y.at;                                                     \
            },                                                                          \
            [&](u32 slot, const SbBest& y) {                                            \
                staged[slot] = sb_clean((T)y.value);                                    \
                places[slot] = y.at;                                                    \
            },                                                                          \
            [&](u32 slot, u64 at) {                                                     \
                values[at] = staged[slot];                                              \
                indices[at] = places[slot];                                             \
            });                                                                         \
    }

// level: Portable - one warp or thread owns one tile; values are moved
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
