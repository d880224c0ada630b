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

// The largest magnitude that is not NaN, or 0 if there is none; by one warp.
__device__ __noinline__ double sb_largest(const double* x, u64 n) {
    double largest = 0.0;
    for (u64 i = threadIdx.x & 31u; i < n; i += 32) {
        double a = sb_magnitude(x[i]);
        largest = a > largest ? a : largest;
    }
    for (u32 w = 16; w >= 1; w /= 2) {
        double other = sb_shuffle_down(largest, w);
        largest = other > largest ? other : largest;
    }
    return sb_shuffle_first(largest);
}

// The power of two at or below a magnitude, or 1 if that is zero or not finite.
__device__ __forceinline__ double sb_scale_of(double largest) {
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

// Magnitudes up to this count as zeros, if the largest of the matrix is about 1.
#define SB_NEGLIGIBLE __longlong_as_double((i64)(1023 - 400) << 52)

// Makes `column` of 1 + n elements zero behind its first, where the reflection's vector is kept.
// Returns its factor, which is 0 for columns up to a negligible magnitude.
__device__ __forceinline__ double sb_householder(double* column, u64 n, double negligible) {
    u32 lane = threadIdx.x & 31u;
    double largest = sb_largest(column, n + 1);
    double scale = sb_scale_of(largest);
    // The lanes that looked for the scale own other elements.
    __syncwarp();
    double* tail = column + 1;
    for (u64 i = lane; i < n; i += 32) tail[i] = tail[i] / scale;
    double head = sb_shuffle_first(lane == 0 ? column[0] / scale : 0.0);
    double squares = sb_dot(tail, tail, n);
    double norm = __dsqrt_rn(__fma_rn(head, head, squares));
    if (squares == 0.0 || (largest <= negligible && norm == norm)) {
        for (u64 i = lane; i < n; i += 32) tail[i] = 0.0;
        if (lane == 0) column[0] = head * scale;
        return 0.0;
    }
    double beta = -sb_with_sign(norm, head);
    double tau = (beta - head) / beta;
    double divisor = head - beta;
    for (u64 i = lane; i < n; i += 32) tail[i] = tail[i] / divisor;
    if (lane == 0) column[0] = beta * scale;
    return tau;
}

// Makes `n` columns of m elements upper triangular, by one block: for each column in order the first
// warp makes the reflection, and all warps apply it to later columns, each to its own. Columns up to the
// magnitude `negligible` of the first warp count as zero.
__device__ __noinline__ void sb_factor(double* a, double* tau, u64 m, u64 n, u64 steps,
                                       double negligible) {
    u64 warp = threadIdx.x / 32;
    u64 warps = blockDim.x / 32;
    for (u64 s = 0; s < steps; ++s) {
        double* v = a + s * m + s;
        if (warp == 0) {
            double factor = sb_householder(v, m - s - 1, negligible);
            if (threadIdx.x == 0) tau[s] = factor;
        }
        __syncthreads();
        for (u64 j = s + 1 + warp; j < n; j += warps)
            sb_reflect_column(tau[s], v + 1, a + j * m + s, m - s - 1);
        __syncthreads();
    }
}

// Applies reflections of m elements, the vectors of which lie below the diagonal of `a`, to k columns
// that are `step` apart, in descending order, by one block. In columns of the identity only those
// up to the column's number change it.
__device__ __noinline__ void sb_form(double* e, const double* a, const double* tau, u64 m,
                                     u64 step, u64 k, u64 steps, bool identity) {
    u64 warp = threadIdx.x / 32;
    u64 warps = blockDim.x / 32;
    for (u64 s = steps; s > 0; --s) {
        const double* v = a + (s - 1) * m + s;
        for (u64 j = (identity ? s - 1 : 0) + warp; j < k; j += warps)
            sb_reflect_column(tau[s - 1], v, e + j * step + s - 1, m - s);
        __syncthreads();
    }
}

// One block per matrix.
#define SB_QR(NAME, T)                                                                  \
    extern "C" __global__ void NAME(T* q, T* r, double* columns, double* basis,         \
                                    double* taus, const T* x, SbMatrix p) {             \
        u64 m = p.m;                                                                    \
        u64 n = p.n;                                                                    \
        u64 k = p.k;                                                                    \
        u64 steps = m < n ? m : n;                                                      \
        double* a = columns + blockIdx.x * (m * n);                                     \
        double* e = basis + blockIdx.x * (m * k);                                       \
        double* tau = taus + blockIdx.x * steps;                                        \
        const T* from = x + blockIdx.x * (m * n);                                       \
        for (u64 i = threadIdx.x; i < m * n; i += blockDim.x)                           \
            a[i % n * m + i / n] = (double)from[i];                                     \
        for (u64 i = threadIdx.x; i < m * k; i += blockDim.x)                           \
            e[i] = i / m == i % m ? 1.0 : 0.0;                                          \
        __syncthreads();                                                                \
        double largest = threadIdx.x < 32 ? sb_largest(a, m * n) : 0.0;                 \
        __syncthreads();                                                                \
        sb_factor(a, tau, m, n, steps, SB_NEGLIGIBLE * sb_scale_of(largest));           \
        sb_form(e, a, tau, m, m, k, steps, true);                                       \
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

// ---- SVD by a bidiagonal matrix and implicit QR iteration --------------------------------

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

// What one matrix is worked on in: columns of `side` rows (k, if it is reduced to a triangle first),
// `rows` for `q` and `left`, k - 1 for `rights`, and k for `right`; all else has k elements, but
// `update` and `total` `side`, and each list of a sweep's rotations twice k.
struct SbSvd {
    double* q;
    double* a;
    double* rights;
    double* left;
    double* right;
    double* taus;
    double* left_taus;
    double* right_taus;
    double* diagonal;
    double* above;
    double* shares;
    double* row;
    double* factors_left;
    double* factors_right;
    double* update;
    double* total;
    double* left_turns;
    double* right_turns;
    // Of a row's reflection the divisor and a dot product; the scale.
    double* scalars;
    i64* order;
    // First column and number of rotations of a sweep.
    i64* sweep;
    u64 rows;
    u64 side;
    u64 k;
    bool tall;
};

// The reflection of row s from the right, by one warp: writes its vector and its factor.
__device__ __noinline__ void sb_reflect_row(const SbSvd& w, u64 s) {
    u32 lane = threadIdx.x & 31u;
    double* row = w.row + s + 1;
    u64 n = w.k - s - 1;
    double head = row[0];
    __syncwarp();
    double tau = sb_householder(row, n - 1, SB_NEGLIGIBLE);
    __syncwarp();
    double first = row[0];
    __syncwarp();
    if (lane == 0) {
        row[0] = 1.0;
        w.above[s] = first;
        w.right_taus[s] = tau;
    }
    if (tau == 0.0) {
        __syncwarp();
        for (u64 i = lane; i < n; i += 32) row[i] = 0.0;
    }
    __syncwarp();
    double share = sb_dot(w.shares + s + 1, row, n);
    if (lane == 0) {
        w.scalars[0] = head - first;
        w.scalars[1] = share;
    }
    for (u64 i = lane; i < n; i += 32) w.rights[s * (w.k - 1) + s + i] = row[i];
}

// Reduces the matrix to a bidiagonal one, by one block.
__device__ __noinline__ void sb_bidiagonalize(const SbSvd& w) {
    u64 warp = threadIdx.x / 32;
    u64 warps = blockDim.x / 32;
    u32 lane = threadIdx.x & 31u;
    for (u64 s = 0; s < w.k; ++s) {
        double* column = w.a + s * w.side;
        const double* before = s == 0 ? column : column - w.side;
        if (s > 0) {
            for (u64 i = s + threadIdx.x; i < w.side; i += blockDim.x) {
                double x = __fma_rn(w.factors_left[s], before[i], column[i]);
                column[i] = __fma_rn(w.factors_right[s], w.update[i], x);
            }
        }
        for (u64 i = threadIdx.x; i < s; i += blockDim.x) column[i] = 0.0;
        __syncthreads();
        if (warp == 0) {
            double tau = sb_householder(column + s, w.side - s - 1, SB_NEGLIGIBLE);
            __syncwarp();
            if (lane == 0) {
                w.left_taus[s] = tau;
                w.diagonal[s] = column[s];
                column[s] = 1.0;
                if (s + 1 == w.k) w.above[s] = 0.0;
            }
        }
        __syncthreads();
        if (s + 1 == w.k) break;
        // Later columns: the two updates that are left, then the products with the vector.
        double tau = w.left_taus[s];
        for (u64 c = s + 1 + warp; c < w.k; c += warps) {
            double* other = w.a + c * w.side;
            // Each lane owns the rows with its index modulo 32, in all columns.
            for (u64 i = lane; s > 0 && i < w.side; i += 32) {
                double x = __fma_rn(w.factors_left[c], before[i], other[i]);
                other[i] = __fma_rn(w.factors_right[c], w.update[i], x);
            }
            double share = tau * sb_dot(column, other, w.side);
            if (lane == (s & 31u)) {
                w.shares[c] = share;
                w.row[c] = other[s] - share;
            }
        }
        __syncthreads();
        for (u64 i = s + 1 + threadIdx.x; i < w.side; i += blockDim.x) {
            double total = 0.0;
            for (u64 c = s + 1; c < w.k;) {
                double sum = 0.0;
                u64 end = c + 32;
                for (; c < end && c < w.k; ++c)
                    sum = __fma_rn(w.row[c], w.a[c * w.side + i], sum);
                total = total + sum;
            }
            w.total[i] = total;
        }
        __syncthreads();
        if (warp == 0) sb_reflect_row(w, s);
        __syncthreads();
        tau = w.right_taus[s];
        double first = w.above[s];
        double divisor = w.scalars[0];
        double share = w.scalars[1];
        for (u64 i = threadIdx.x; i < w.side; i += blockDim.x) {
            double update = 0.0;
            if (i > s && tau != 0.0) {
                double sum = __fma_rn(-first, column[w.side + i], w.total[i]) / divisor;
                update = tau * __fma_rn(-share, column[i], sum);
            }
            w.update[i] = update;
        }
        for (u64 c = s + 1 + threadIdx.x; c < w.k; c += blockDim.x) {
            w.factors_left[c] = -w.shares[c];
            w.factors_right[c] = -w.row[c];
        }
        __syncthreads();
    }
}

// The cosine and the sine that rotate (f, g) to (r, 0), and r.
__device__ __forceinline__ double sb_rotation(double f, double g, double* c, double* s) {
    double squares = __fma_rn(f, f, g * g);
    if (squares < SB_NEGLIGIBLE * SB_NEGLIGIBLE) {
        *c = 1.0;
        *s = 0.0;
        return f;
    }
    double r = __dsqrt_rn(squares);
    *c = f / r;
    *s = g / r;
    return r;
}

__device__ __forceinline__ bool sb_negligible(const double* d, const double* e, u64 i) {
    double size = sb_magnitude(e[i]);
    double both = sb_magnitude(d[i]) + sb_magnitude(d[i + 1]);
    return size <= 1.1102230246251565e-16 * both || size <= SB_NEGLIGIBLE;
}

// A sweep with a shift, which (f, g) tells, over `count` elements above the diagonal.
__device__ __forceinline__ void sb_shifted(const SbSvd& w, double* d, double* e, u64 count,
                                           double f, double g) {
    for (u64 i = 0; i < count; ++i) {
        double c;
        double s;
        double r = sb_rotation(f, g, &c, &s);
        w.right_turns[2 * i] = c;
        w.right_turns[2 * i + 1] = s;
        if (i > 0) e[i - 1] = r;
        f = __fma_rn(c, d[i], s * e[i]);
        double rest = __fma_rn(c, e[i], -(s * d[i]));
        g = s * d[i + 1];
        double next = c * d[i + 1];
        d[i] = sb_rotation(f, g, &c, &s);
        w.left_turns[2 * i] = c;
        w.left_turns[2 * i + 1] = s;
        f = __fma_rn(c, rest, s * next);
        d[i + 1] = __fma_rn(c, next, -(s * rest));
        if (i + 1 < count) {
            g = s * e[i + 1];
            e[i + 1] = e[i + 1] * c;
        }
    }
    e[count - 1] = f;
}

// A sweep without a shift.
__device__ __forceinline__ void sb_unshifted(const SbSvd& w, double* d, double* e, u64 count) {
    double c = 1.0;
    double s = 0.0;
    double left_c = 1.0;
    double left_s = 0.0;
    for (u64 i = 0; i < count; ++i) {
        double r = sb_rotation(d[i] * c, e[i], &c, &s);
        if (i > 0) e[i - 1] = left_s * r;
        d[i] = sb_rotation(left_c * r, d[i + 1] * s, &left_c, &left_s);
        w.right_turns[2 * i] = c;
        w.right_turns[2 * i + 1] = s;
        w.left_turns[2 * i] = left_c;
        w.left_turns[2 * i + 1] = left_s;
    }
    double last = d[count] * c;
    e[count - 1] = last * left_s;
    d[count] = last * left_c;
}

// The next sweep, by one thread: its rotations and where they begin. None if all has converged
// or the sweeps are used up.
__device__ __noinline__ void sb_sweep(const SbSvd& w, u64* active, u64* remaining) {
    w.sweep[0] = 0;
    w.sweep[1] = 0;
    while (*active > 1 && sb_negligible(w.diagonal, w.above, *active - 2)) *active -= 1;
    if (*active <= 1 || *remaining == 0) return;
    *remaining -= 1;
    u64 first = *active - 2;
    while (first > 0 && !sb_negligible(w.diagonal, w.above, first - 1)) first -= 1;
    u64 count = *active - 1 - first;
    double* d = w.diagonal + first;
    double* e = w.above + first;
    w.sweep[0] = (i64)first;
    w.sweep[1] = (i64)count;
    bool zero = false;
    for (u64 i = 0; i <= count; ++i) zero = zero || sb_magnitude(d[i]) <= SB_NEGLIGIBLE;
    if (!zero) {
        // The smaller singular value of the last two rows and columns.
        double f = sb_magnitude(d[count - 1]);
        double g = sb_magnitude(e[count - 1]);
        double h = sb_magnitude(d[count]);
        double squares = g * g;
        double sum = f + h;
        double difference = f - h;
        double twice = __dsqrt_rn(__fma_rn(sum, sum, squares)) +
                       __dsqrt_rn(__fma_rn(difference, difference, squares));
        double shift = 2.0 * f / twice * h;
        double size = sb_magnitude(d[0]);
        double ratio = shift / size;
        if (!(ratio * ratio < 1.1102230246251565e-16)) {
            double start = (size - shift) * (sb_with_sign(1.0, d[0]) + shift / d[0]);
            sb_shifted(w, d, e, count, start, e[0]);
            return;
        }
    }
    sb_unshifted(w, d, e, count);
}

// Rotates neighbouring columns of one row.
__device__ __forceinline__ void sb_turn_row(double* x, u64 step, const double* turns, u64 count) {
    double at = x[0];
    for (u64 i = 0; i < count; ++i) {
        double c = turns[2 * i];
        double s = turns[2 * i + 1];
        double next = x[(i + 1) * step];
        x[i * step] = __fma_rn(c, at, s * next);
        at = __fma_rn(c, next, -(s * at));
    }
    x[count * step] = at;
}

// Makes sweeps until all has converged: the first thread makes the rotations, and all threads apply
// them, each to rows of its own.
__device__ __noinline__ void sb_iterate(const SbSvd& w) {
    u64 active = w.k;
    u64 remaining = 30 * w.k;
    while (true) {
        if (threadIdx.x == 0) sb_sweep(w, &active, &remaining);
        __syncthreads();
        u64 first = (u64)w.sweep[0];
        u64 count = (u64)w.sweep[1];
        if (count == 0) break;
        for (u64 i = threadIdx.x; i < w.side + w.k; i += blockDim.x) {
            if (i < w.side)
                sb_turn_row(w.left + first * w.rows + i, w.rows, w.left_turns, count);
            else
                sb_turn_row(w.right + first * w.k + i - w.side, w.k, w.right_turns, count);
        }
        __syncthreads();
    }
}

// True if the first element of largest magnitude is negative.
__device__ __forceinline__ bool sb_leads_negative(const double* x, u64 n) {
    u64 at;
    sb_extreme<double>(n, false, &at, [=](u64 i) { return sb_magnitude(x[i]); });
    return at != ~0ull && x[at] < 0.0;
}

// One block per matrix.
template <typename T>
__device__ __forceinline__ void sb_svd(T* u, T* s, T* v, const SbSvd& w, const T* x, SbMatrix p) {
    bool wide = p.m < p.n;
    double* from = w.tall ? w.q : w.a;
    for (u64 i = threadIdx.x; i < w.rows * w.k; i += blockDim.x)
        from[i] = (double)(wide ? x[i] : x[i % w.rows * w.k + i / w.rows]);
    __syncthreads();
    if (threadIdx.x < 32) {
        double scale = sb_scale_of(sb_largest(from, w.rows * w.k));
        if (threadIdx.x == 0) w.scalars[2] = scale;
    }
    __syncthreads();
    double scale = w.scalars[2];
    for (u64 i = threadIdx.x; i < w.rows * w.k; i += blockDim.x) from[i] = from[i] / scale;
    __syncthreads();
    if (w.tall) {
        sb_factor(w.q, w.taus, w.rows, w.k, w.k, SB_NEGLIGIBLE);
        for (u64 i = threadIdx.x; i < w.k * w.k; i += blockDim.x)
            w.a[i] = i % w.k <= i / w.k ? w.q[i / w.k * w.rows + i % w.k] : 0.0;
    }
    // Turns -0 to +0.
    __syncthreads();
    for (u64 i = threadIdx.x; i < w.side * w.k; i += blockDim.x) w.a[i] = w.a[i] + 0.0;
    for (u64 i = threadIdx.x; i < w.rows * w.k; i += blockDim.x)
        w.left[i] = i / w.rows == i % w.rows ? 1.0 : 0.0;
    for (u64 i = threadIdx.x; i < w.k * w.k; i += blockDim.x)
        w.right[i] = i / w.k == i % w.k ? 1.0 : 0.0;
    __syncthreads();
    sb_bidiagonalize(w);
    sb_form(w.left, w.a, w.left_taus, w.side, w.rows, w.k, w.k, true);
    sb_form(w.right + w.k + 1, w.rights, w.right_taus, w.k - 1, w.k, w.k - 1, w.k - 1, true);
    sb_iterate(w);
    __syncthreads();
    if (w.tall) sb_form(w.left, w.q, w.taus, w.rows, w.rows, w.k, w.k, false);
    // Descending, equal ones in their order.
    for (u64 j = threadIdx.x; j < w.k; j += blockDim.x) {
        double size = sb_magnitude(w.diagonal[j]);
        u64 rank = 0;
        for (u64 i = 0; i < w.k; ++i) {
            double other = sb_magnitude(w.diagonal[i]);
            rank += other > size || (other == size && i < j) ? 1 : 0;
        }
        w.order[rank] = (i64)j;
    }
    __syncthreads();
    u32 lane = threadIdx.x & 31u;
    for (u64 j = threadIdx.x / 32; j < w.k; j += blockDim.x / 32) {
        u64 column = (u64)w.order[j];
        const double* left = w.left + column * w.rows;
        const double* right = w.right + column * w.k;
        double value = w.diagonal[column];
        bool flipped = value < 0.0;
        bool negative = wide ? sb_leads_negative(right, w.k) != flipped
                             : sb_leads_negative(left, w.rows);
        double sign = negative ? -1.0 : 1.0;
        double right_sign = negative != flipped ? -1.0 : 1.0;
        if (lane == 0) s[j] = sb_clean((T)(sb_magnitude(value) * w.scalars[2]));
        for (u64 i = lane; i < w.rows; i += 32)
            (wide ? v : u)[i * w.k + j] = sb_clean((T)(left[i] * sign));
        for (u64 i = lane; i < w.k; i += 32)
            (wide ? u : v)[i * w.k + j] = sb_clean((T)(right[i] * right_sign));
    }
}

// `scratch` holds for each matrix what SbSvd lists, one after the other.
// Blocks have at most 512 threads, with 128 registers each.
#define SB_SVD(NAME, T)                                                                 \
    extern "C" __launch_bounds__(512) __global__ void NAME(                             \
        T* u, T* s, T* v, double* scratch, i64* places, const T* x, SbMatrix p, u64 side, \
        u64 each) {                                                                     \
        SbSvd w;                                                                        \
        w.rows = p.m < p.n ? p.n : p.m;                                                 \
        w.k = p.k;                                                                      \
        w.side = side;                                                                  \
        w.tall = side < w.rows;                                                         \
        w.q = scratch + blockIdx.x * each;                                              \
        w.a = w.q + (w.tall ? w.rows * p.k : 0);                                        \
        w.rights = w.a + w.side * p.k;                                                  \
        w.left = w.rights + p.k * p.k;                                                  \
        w.right = w.left + w.rows * p.k;                                                \
        w.taus = w.right + p.k * p.k;                                                   \
        w.left_taus = w.taus + p.k;                                                     \
        w.right_taus = w.left_taus + p.k;                                               \
        w.diagonal = w.right_taus + p.k;                                                \
        w.above = w.diagonal + p.k;                                                     \
        w.shares = w.above + p.k;                                                       \
        w.row = w.shares + p.k;                                                         \
        w.factors_left = w.row + p.k;                                                   \
        w.factors_right = w.factors_left + p.k;                                         \
        w.left_turns = w.factors_right + p.k;                                           \
        w.right_turns = w.left_turns + 2 * p.k;                                         \
        w.update = w.right_turns + 2 * p.k;                                             \
        w.total = w.update + w.side;                                                    \
        w.scalars = w.total + w.side;                                                   \
        w.order = places + blockIdx.x * (p.k + 2);                                      \
        w.sweep = w.order + p.k;                                                        \
        sb_svd<T>(u + blockIdx.x * (p.m * p.k), s + blockIdx.x * p.k,                   \
                  v + blockIdx.x * (p.n * p.k), w, x + blockIdx.x * (p.m * p.n), p);    \
    }

// level: Portable - one block per matrix, each column or row by one warp or thread
SB_SVD(svd_f32, float)
SB_SVD(svd_f64, double)
