// Running sums and products along the middle dimension of [outer, n, inner]: in f64, tiles of
// 1024, runs of 32, carries in tile order, each result rounded once.
//
// One warp takes a tile: lane r sums run r, the runs before it are added in order, and what comes
// before the tile is the carry, which a second kernel adds up in tile order.

#include "samebits.cuh"

#define SB_RUN 32u
#define SB_SCAN_TILE 1024ull

struct SbScan {
    u64 outer;
    u64 n;
    u64 inner;
    u64 tiles;
    u32 product;
    u32 reverse;
};

__device__ __forceinline__ double sb_apply(const SbScan& p, double a, double b) {
    return p.product ? a * b : a + b;
}

__device__ __forceinline__ double sb_identity(const SbScan& p) { return p.product ? 1.0 : 0.0; }

// Where element i of a line is; a scan from the end counts from there.
__device__ __forceinline__ u64 sb_at(const SbScan& p, u64 line, u64 i) {
    u64 k = p.reverse ? p.n - 1 - i : i;
    return (line / p.inner * p.n + k) * p.inner + line % p.inner;
}

// Combines this lane's run with those before it: `before` is what the lower lanes hold, in
// order. Returns the whole warp's.
__device__ __forceinline__ double sb_runs(const SbScan& p, double* shared, double local, u32 runs,
                                          double* before) {
    u32 lane = threadIdx.x;
    shared[lane] = local;
    __syncwarp();
    double sum = sb_identity(p);
    double mine = sum;
    for (u32 r = 0; r < runs; ++r) {
        if (r == lane) mine = sum;
        sum = sb_apply(p, sum, shared[r]);
    }
    *before = mine;
    return sum;
}

template <typename T>
__device__ __forceinline__ double sb_local(const T* in, const SbScan& p, u64 line, u64 first,
                                           u64 end) {
    double local = sb_identity(p);
    for (u64 i = first; i < end; ++i) local = sb_apply(p, local, (double)in[sb_at(p, line, i)]);
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

#define SB_TILE_TOTALS(NAME, T)                                                         \
    extern "C" __global__ void NAME(double* totals, const T* in, SbScan p) {            \
        __shared__ double shared[32];                                                   \
        SbTile t = sb_tile(p);                                                          \
        double local = sb_local(in, p, t.line, t.first, t.end);                         \
        double before;                                                                  \
        double total = sb_runs(p, shared, local, t.runs, &before);                      \
        if (threadIdx.x == 0) totals[t.line * p.tiles + t.tile] = total;                \
    }

// level: Portable - one warp owns one tile
SB_TILE_TOTALS(scan_totals_f32, float)
SB_TILE_TOTALS(scan_totals_f64, double)

// Turns the totals of each line into what comes before each tile.
// level: Portable - one thread owns one line and adds in tile order
extern "C" __global__ void scan_carries(double* totals, SbScan p) {
    u64 line = sb_thread();
    if (line >= p.outer * p.inner) return;
    double carry = sb_identity(p);
    for (u64 tile = 0; tile < p.tiles; ++tile) {
        double total = totals[line * p.tiles + tile];
        totals[line * p.tiles + tile] = carry;
        carry = sb_apply(p, carry, total);
    }
}

#define SB_SCAN_FINISH(NAME, T)                                                         \
    extern "C" __global__ void NAME(T* out, const T* in, const double* carries, SbScan p) { \
        __shared__ double shared[32];                                                   \
        SbTile t = sb_tile(p);                                                          \
        double local = sb_local(in, p, t.line, t.first, t.end);                         \
        double before;                                                                  \
        sb_runs(p, shared, local, t.runs, &before);                                     \
        double carry = carries[t.line * p.tiles + t.tile];                              \
        local = sb_identity(p);                                                         \
        for (u64 i = t.first; i < t.end; ++i) {                                         \
            u64 at = sb_at(p, t.line, i);                                               \
            local = sb_apply(p, local, (double)in[at]);                                 \
            out[at] = sb_clean((T)sb_apply(p, carry, sb_apply(p, before, local)));      \
        }                                                                               \
    }

// level: Portable - one warp owns one tile
SB_SCAN_FINISH(scan_finish_f32, float)
SB_SCAN_FINISH(scan_finish_f64, double)
