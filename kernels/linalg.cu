// Decompositions of matrices. Elements are converted to f64, everything is computed there in the
// order that is written at each kernel, and results are rounded once. Dot products run over the
// fixed tree, which is a warp; matrices lie by columns while they are worked on.

#include "reduce.cuh"
#include "declared/linalg.cuh"

__device__ __forceinline__ double sb_magnitude(double x) {
    return __longlong_as_double(__double_as_longlong(x) & 0x7fffffffffffffffll);
}

__device__ __forceinline__ double sb_with_sign(double x, double sign) {
    i64 bit = __double_as_longlong(sign) & (i64)(1ull << 63);
    return __longlong_as_double(__double_as_longlong(sb_magnitude(x)) | bit);
}

// x * y over the tree, by one warp. Lane l reads the elements with index = l (mod 32) and no
// others, so lanes that write those need no barrier before it.
__device__ __noinline__ double sb_dot(const double* x, const double* y, u64 n) {
    return sb_tree(n, [=](u64 i) { return x[i] * y[i]; });
}

// The power of two at or below the largest magnitude, or 1 if that is zero or not finite.
__device__ __noinline__ double sb_scale_of(const double* x, u64 n) {
    double largest = 0.0;
    for (u64 i = threadIdx.x & 31u; i < n; i += 32) {
        double a = sb_magnitude(x[i]);
        largest = a > largest ? a : largest;
    }
    for (u32 w = 16; w >= 1; w /= 2) {
        double other = sb_shuffle_down(largest, w);
        largest = other > largest ? other : largest;
    }
    largest = sb_shuffle_first(largest);
    u64 exponent = (u64)__double_as_longlong(largest) & 0x7ff0000000000000ull;
    if (largest == 0.0 || exponent == 0x7ff0000000000000ull) return 1.0;
    if (exponent < 0x0010000000000000ull) exponent = 0x0010000000000000ull;
    if (exponent > 0x7fd0000000000000ull) exponent = 0x7fd0000000000000ull;
    return __longlong_as_double((i64)exponent);
}

// ---- QR by Householder reflections -------------------------------------------------------

// Applies 1 - tau (1, v) (1, v)^T to `column` of 1 + n elements, by one warp. Its lanes own the
// elements behind the first by their index modulo 32.
__device__ __forceinline__ void sb_reflect_column(double tau, const double* v, double* column,
                                                  u64 n) {
    if (tau == 0.0) return;
    u32 lane = threadIdx.x & 31u;
    double* tail = column + 1;
    double head = sb_shuffle_first(lane == 0 ? column[0] : 0.0);
    double share = tau * (head + sb_dot(v, tail, n));
    if (lane == 0) column[0] = head - share;
    for (u64 i = lane; i < n; i += 32) tail[i] = __fma_rn(-share, v[i], tail[i]);
}

// Makes `column` of 1 + n elements zero behind its first, where the reflection's vector is kept.
// Returns its factor.
__device__ __forceinline__ double sb_householder(double* column, u64 n) {
    u32 lane = threadIdx.x & 31u;
    double scale = sb_scale_of(column, n + 1);
    // The lanes that looked for the scale own other elements.
    __syncwarp();
    double* tail = column + 1;
    for (u64 i = lane; i < n; i += 32) tail[i] = tail[i] / scale;
    double head = sb_shuffle_first(lane == 0 ? column[0] / scale : 0.0);
    double squares = sb_dot(tail, tail, n);
    if (squares == 0.0) {
        if (lane == 0) column[0] = head * scale;
        return 0.0;
    }
    double norm = __dsqrt_rn(__fma_rn(head, head, squares));
    double beta = -sb_with_sign(norm, head);
    double tau = (beta - head) / beta;
    double divisor = head - beta;
    for (u64 i = lane; i < n; i += 32) tail[i] = tail[i] / divisor;
    if (lane == 0) column[0] = beta * scale;
    return tau;
}

// One block per matrix. For each column in order the first warp makes the reflection, and all
// warps apply it to later columns, each to its own; Q is formed in descending order.
#define SB_QR(NAME, T)                                                                  \
    extern "C" __global__ void NAME(T* q, T* r, double* columns, double* basis,         \
                                    double* taus, const T* x, SbMatrix p) {             \
        u64 m = p.m;                                                                    \
        u64 n = p.n;                                                                    \
        u64 k = p.k;                                                                    \
        u64 steps = m < n ? m : n;                                                      \
        u64 warp = threadIdx.x / 32;                                                    \
        u64 warps = blockDim.x / 32;                                                    \
        double* a = columns + blockIdx.x * (m * n);                                     \
        double* e = basis + blockIdx.x * (m * k);                                       \
        double* tau = taus + blockIdx.x * steps;                                        \
        const T* from = x + blockIdx.x * (m * n);                                       \
        for (u64 i = threadIdx.x; i < m * n; i += blockDim.x)                           \
            a[i % n * m + i / n] = (double)from[i];                                     \
        for (u64 i = threadIdx.x; i < m * k; i += blockDim.x)                           \
            e[i] = i / m == i % m ? 1.0 : 0.0;                                          \
        __syncthreads();                                                                \
        for (u64 s = 0; s < steps; ++s) {                                               \
            double* v = a + s * m + s;                                                  \
            if (warp == 0) {                                                            \
                double factor = sb_householder(v, m - s - 1);                           \
                if (threadIdx.x == 0) tau[s] = factor;                                  \
            }                                                                           \
            __syncthreads();                                                            \
            for (u64 j = s + 1 + warp; j < n; j += warps)                               \
                sb_reflect_column(tau[s], v + 1, a + j * m + s, m - s - 1);             \
            __syncthreads();                                                            \
        }                                                                               \
        for (u64 s = steps; s > 0; --s) {                                               \
            const double* v = a + (s - 1) * m + s;                                      \
            for (u64 j = s - 1 + warp; j < k; j += warps)                               \
                sb_reflect_column(tau[s - 1], v, e + j * m + s - 1, m - s);             \
            __syncthreads();                                                            \
        }                                                                               \
        T* to = q + blockIdx.x * (m * k);                                               \
        for (u64 i = threadIdx.x; i < m * k; i += blockDim.x)                           \
            to[i] = sb_clean((T)e[i % k * m + i / k]);                                  \
        to = r + blockIdx.x * (k * n);                                                  \
        for (u64 i = threadIdx.x; i < k * n; i += blockDim.x)                           \
            to[i] = i / n <= i % n ? sb_clean((T)a[i % n * m + i / n]) : (T)0;          \
    }

// level: Portable - one block per matrix, each column by one warp, barriers between the steps
SB_QR(qr_f32, float)
SB_QR(qr_f64, double)

// x * y over the tree, of elements `step` apart.
template <typename T>
__device__ __noinline__ double sb_dot_of(const T* x, const T* y, u64 n, u64 step) {
    return sb_tree(n, [=](u64 i) { return (double)x[i * step] * (double)y[i * step]; });
}

// M = grad_r r^T - q^T grad_q on and above the diagonal, reflected at it; one warp per element.
#define SB_QR_MIXED(NAME, T)                                                            \
    extern "C" __global__ void NAME(double* mixed, const T* grad_q, const T* grad_r,    \
                                    const T* q, const T* r, SbMatrix p, u64 count) {    \
        u64 warp = sb_thread() / 32;                                                    \
        if (warp >= count * p.n * p.n) return;                                          \
        u64 n = p.n;                                                                    \
        u64 j = warp % n;                                                               \
        u64 i = warp / n % n;                                                           \
        u64 matrix = warp / n / n;                                                      \
        if (j < i) return;                                                              \
        double left = sb_dot_of(grad_r + (matrix * n + i) * n, r + (matrix * n + j) * n, n, 1ull); \
        double right = sb_dot_of(q + matrix * p.m * n + i, grad_q + matrix * p.m * n + j, p.m, n); \
        if ((threadIdx.x & 31u) != 0) return;                                           \
        double* to = mixed + matrix * n * n;                                            \
        to[j * n + i] = left - right;                                                   \
        if (i != j) to[i * n + j] = left - right;                                       \
    }

// level: Portable - the tree of the contract, one warp per element
SB_QR_MIXED(qr_mixed_f32, float)
SB_QR_MIXED(qr_mixed_f64, double)

// (grad_q + q M) r^-T, by substitution from the last column to the first; one thread per row.
#define SB_QR_GRAD(NAME, T)                                                             \
    extern "C" __global__ void NAME(T* out, double* solved, const double* mixed,        \
                                    const T* grad_q, const T* q, const T* r,            \
                                    SbMatrix p, u64 count) {                            \
        u64 at = sb_thread();                                                           \
        if (at >= count * p.m) return;                                                  \
        u64 n = p.n;                                                                    \
        u64 matrix = at / p.m;                                                          \
        double* x = solved + matrix * p.m * n + at % p.m;                               \
        const double* mix = mixed + matrix * n * n;                                     \
        const T* upper = r + matrix * n * n;                                            \
        for (u64 j = n; j > 0; --j) {                                                   \
            double value = (double)grad_q[at * n + j - 1];                              \
            for (u64 i = 0; i < n; ++i)                                                 \
                value = __fma_rn(mix[(j - 1) * n + i], (double)q[at * n + i], value);   \
            for (u64 i = j; i < n; ++i)                                                 \
                value = __fma_rn(-(double)upper[(j - 1) * n + i], x[i * p.m], value);   \
            value = value / (double)upper[(j - 1) * n + j - 1];                         \
            x[(j - 1) * p.m] = value;                                                   \
            out[at * n + j - 1] = sb_clean((T)value);                                   \
        }                                                                               \
    }

// level: Portable - one thread owns one row
SB_QR_GRAD(qr_grad_f32, float)
SB_QR_GRAD(qr_grad_f64, double)

// ---- SVD by one-sided Jacobi rotations ---------------------------------------------------

// The lowest place of an element that is not finite.
#define SB_FIND_BROKEN(NAME, T)                                                         \
    extern "C" __global__ void NAME(u64* first, const T* x, u64 n) {                    \
        u64 i = sb_thread();                                                            \
        if (i >= n) return;                                                             \
        T rest = x[i] - x[i];                                                           \
        if (rest != rest) atomicMin(first, i);                                          \
    }

// level: Portable - an integer minimum
SB_FIND_BROKEN(find_broken_f32, float)
SB_FIND_BROKEN(find_broken_f64, double)

// What one matrix is worked on in. `left` has `rows` rows, all else k; k columns each.
struct SbJacobi {
    double* left;
    double* right;
    double* sorted_left;
    double* sorted_right;
    double* norms;
    // One column of `rows`.
    double* candidate;
    i64* order;
    u64 rows;
    u64 k;
};

__device__ __forceinline__ void sb_rotate(double c, double s, double* x, double* y, u64 n) {
    for (u64 i = threadIdx.x; i < n; i += 32) {
        double p = x[i];
        double q = y[i];
        x[i] = __fma_rn(c, p, -(s * q));
        y[i] = __fma_rn(s, p, c * q);
    }
}

// Rotates every pair once; true if any was.
__device__ __noinline__ bool sb_sweep(const SbJacobi& w) {
    bool rotated = false;
    for (u64 p = 0; p < w.k; ++p) {
        for (u64 q = p + 1; q < w.k; ++q) {
            double* x = w.left + p * w.rows;
            double* y = w.left + q * w.rows;
            double a = sb_dot(x, x, w.rows);
            double b = sb_dot(y, y, w.rows);
            double g = sb_dot(x, y, w.rows);
            double bound = 2.220446049250313e-16 * (__dsqrt_rn(a) * __dsqrt_rn(b));
            if (g == 0.0 || sb_magnitude(g) <= bound) continue;
            rotated = true;
            double z = (b - a) / (2.0 * g);
            double size = sb_magnitude(z);
            // Beyond the range of squares the rotation is 1 / 2z.
            double t = size > 1e150 ? 0.5 / z
                                    : sb_with_sign(1.0, z) / (size + __dsqrt_rn(1.0 + z * z));
            double c = 1.0 / __dsqrt_rn(1.0 + t * t);
            double s = c * t;
            sb_rotate(c, s, x, y, w.rows);
            sb_rotate(c, s, w.right + p * w.k, w.right + q * w.k, w.k);
        }
    }
    return rotated;
}

// Divides column j by its norm. If that is 0, makes it orthogonal to those before it.
__device__ __noinline__ void sb_normalize(const SbJacobi& w, u64 j, double norm) {
    double* x = w.sorted_left + j * w.rows;
    if (norm > 0.0) {
        for (u64 i = threadIdx.x; i < w.rows; i += 32) x[i] = x[i] / norm;
        return;
    }
    double* y = w.candidate;
    for (u64 unit = 0; unit < w.rows; ++unit) {
        for (u64 i = threadIdx.x; i < w.rows; i += 32) y[i] = i == unit ? 1.0 : 0.0;
        // Twice, because once leaves a rest where little remains.
        for (int round = 0; round < 2; ++round) {
            for (u64 b = 0; b < j; ++b) {
                const double* before = w.sorted_left + b * w.rows;
                double share = sb_dot(before, y, w.rows);
                for (u64 i = threadIdx.x; i < w.rows; i += 32)
                    y[i] = __fma_rn(-share, before[i], y[i]);
            }
        }
        double squares = sb_dot(y, y, w.rows);
        // Some unit vector keeps at least 1 / rows of its square.
        if (squares * 2.0 * (double)w.rows >= 1.0) {
            double root = __dsqrt_rn(squares);
            for (u64 i = threadIdx.x; i < w.rows; i += 32) x[i] = y[i] / root;
            return;
        }
    }
}

// Whether the first element of largest magnitude is negative.
__device__ __forceinline__ bool sb_leads_negative(const double* x, u64 n) {
    u64 at;
    sb_extreme<double>(n, false, &at, [=](u64 i) { return sb_magnitude(x[i]); });
    return at != ~0ull && x[at] < 0.0;
}

// One warp per matrix, whose lane l owns the rows with index = l (mod 32) of every column: so the
// sweeps need no barrier.
template <typename T>
__device__ __forceinline__ void sb_svd(T* u, T* s, T* v, const SbJacobi& w, const T* x,
                                       SbMatrix p) {
    bool wide = p.m < p.n;
    for (u64 j = 0; j < p.k; ++j) {
        for (u64 i = threadIdx.x; i < w.rows; i += 32)
            w.left[j * w.rows + i] = (double)(wide ? x[j * p.n + i] : x[i * p.n + j]);
        for (u64 i = threadIdx.x; i < p.k; i += 32) w.right[j * p.k + i] = i == j ? 1.0 : 0.0;
    }
    __syncthreads();
    double scale = sb_scale_of(w.left, w.rows * p.k);
    __syncthreads();
    for (u64 j = 0; j < p.k; ++j) {
        for (u64 i = threadIdx.x; i < w.rows; i += 32)
            w.left[j * w.rows + i] = w.left[j * w.rows + i] / scale;
    }
    for (int round = 0; round < 60 && sb_sweep(w); ++round) {
    }
    for (u64 j = 0; j < p.k; ++j) {
        const double* column = w.left + j * w.rows;
        double norm = __dsqrt_rn(sb_dot(column, column, w.rows));
        if (threadIdx.x == 0) w.norms[j] = norm;
    }
    __syncthreads();
    // Descending, equal ones in their order.
    for (u64 j = threadIdx.x; j < p.k; j += 32) {
        u64 rank = 0;
        for (u64 i = 0; i < p.k; ++i) {
            bool before = w.norms[i] > w.norms[j] || (w.norms[i] == w.norms[j] && i < j);
            rank += before ? 1 : 0;
        }
        w.order[rank] = (i64)j;
    }
    __syncthreads();
    for (u64 j = 0; j < p.k; ++j) {
        u64 from = (u64)w.order[j];
        for (u64 i = threadIdx.x; i < w.rows; i += 32)
            w.sorted_left[j * w.rows + i] = w.left[from * w.rows + i];
        for (u64 i = threadIdx.x; i < p.k; i += 32)
            w.sorted_right[j * p.k + i] = w.right[from * p.k + i];
    }
    for (u64 j = 0; j < p.k; ++j) {
        double norm = w.norms[w.order[j]];
        sb_normalize(w, j, norm);
        if (threadIdx.x == 0) s[j] = sb_clean((T)(norm * scale));
    }
    __syncthreads();
    for (u64 j = 0; j < p.k; ++j) {
        double* left = w.sorted_left + j * w.rows;
        double* right = w.sorted_right + j * p.k;
        double sign = sb_leads_negative(wide ? right : left, wide ? p.k : w.rows) ? -1.0 : 1.0;
        for (u64 i = threadIdx.x; i < w.rows; i += 32) {
            T value = sb_clean((T)(left[i] * sign));
            (wide ? v : u)[i * p.k + j] = value;
        }
        for (u64 i = threadIdx.x; i < p.k; i += 32) {
            T value = sb_clean((T)(right[i] * sign));
            (wide ? u : v)[i * p.k + j] = value;
        }
    }
}

// `scratch` holds for each matrix what SbJacobi lists, one after the other.
#define SB_SVD(NAME, T)                                                                 \
    extern "C" __global__ void NAME(T* u, T* s, T* v, double* scratch, i64* order,      \
                                    const T* x, SbMatrix p) {                           \
        u64 rows = p.m < p.n ? p.n : p.m;                                               \
        u64 tall = rows * p.k;                                                          \
        u64 square = p.k * p.k;                                                         \
        double* from = scratch + blockIdx.x * (2 * tall + 2 * square + p.k + rows);     \
        SbJacobi w;                                                                     \
        w.left = from;                                                                  \
        w.sorted_left = w.left + tall;                                                  \
        w.right = w.sorted_left + tall;                                                 \
        w.sorted_right = w.right + square;                                              \
        w.norms = w.sorted_right + square;                                              \
        w.candidate = w.norms + p.k;                                                    \
        w.order = order + blockIdx.x * p.k;                                             \
        w.rows = rows;                                                                  \
        w.k = p.k;                                                                      \
        sb_svd<T>(u + blockIdx.x * (p.m * p.k), s + blockIdx.x * p.k,                   \
                  v + blockIdx.x * (p.n * p.k), w, x + blockIdx.x * (p.m * p.n), p);    \
    }

// level: Portable - one warp per matrix, pairs in a fixed order
SB_SVD(svd_f32, float)
SB_SVD(svd_f64, double)
