// The elementwise part of one step of recurrent networks, forward and backward. States are
// [n, size]; the gates of a row stand one after the other.

#include "math64.cuh"

// Which element of the states a thread owns, and where its first gate is among `gates`.
struct SbUnit {
    u64 at;
    u64 unit;
    u64 row;
};

__device__ __forceinline__ SbUnit sb_unit(u64 size) {
    u64 at = sb_thread();
    return {at, at % size, at / size};
}

// ---- Long short-term memory: gates i, f, g, o --------------------------------------------

// (x + bias) + h
template <typename T>
__device__ __forceinline__ T sb_gate(const T* x, const T* h, const T* bias, u32 biased, u64 at,
                                     u64 column) {
    return biased ? (x[at] + bias[column]) + h[at] : x[at] + h[at];
}

#define SB_LSTM(NAME, T)                                                                \
    extern "C" __global__ void NAME(T* hidden, T* next_cell, T* activations, const T* x, \
                                    const T* h, const T* bias, const T* cell, u64 n,    \
                                    u64 size, u32 biased) {                             \
        SbUnit u = sb_unit(size);                                                       \
        if (u.at >= n * size) return;                                                   \
        u64 first = u.row * 4 * size + u.unit;                                          \
        T i = sb_sigmoid(sb_gate(x, h, bias, biased, first, u.unit));                   \
        T f = sb_sigmoid(sb_gate(x, h, bias, biased, first + size, size + u.unit));     \
        T g = sb_tanh(sb_gate(x, h, bias, biased, first + 2 * size, 2 * size + u.unit)); \
        T o = sb_sigmoid(sb_gate(x, h, bias, biased, first + 3 * size, 3 * size + u.unit)); \
        T c = sb_clean(sb_fma(f, cell[u.at], i * g));                                   \
        activations[first] = i;                                                         \
        activations[first + size] = f;                                                  \
        activations[first + 2 * size] = g;                                              \
        activations[first + 3 * size] = o;                                              \
        next_cell[u.at] = c;                                                            \
        hidden[u.at] = sb_clean(o * sb_tanh(c));                                        \
    }

// level: Portable - one thread owns one unit
SB_LSTM(lstm_cell_f32, float)
SB_LSTM(lstm_cell_f64, double)

#define SB_LSTM_GRAD(NAME, T)                                                           \
    extern "C" __global__ void NAME(T* grad_gates, T* grad_previous, const T* grad_hidden, \
                                    const T* grad_cell, const T* activations,           \
                                    const T* cell, const T* next_cell, u64 n, u64 size) { \
        SbUnit u = sb_unit(size);                                                       \
        if (u.at >= n * size) return;                                                   \
        u64 first = u.row * 4 * size + u.unit;                                          \
        T i = activations[first];                                                       \
        T f = activations[first + size];                                                \
        T g = activations[first + 2 * size];                                            \
        T o = activations[first + 3 * size];                                            \
        T h = grad_hidden[u.at];                                                        \
        T t = sb_tanh(next_cell[u.at]);                                                 \
        T one = (T)1;                                                                   \
        T d = sb_fma(h * o, one - t * t, grad_cell[u.at]);                              \
        grad_gates[first] = sb_clean((d * g) * ((one - i) * i));                        \
        grad_gates[first + size] = sb_clean((d * cell[u.at]) * ((one - f) * f));        \
        grad_gates[first + 2 * size] = sb_clean((d * i) * (one - g * g));               \
        grad_gates[first + 3 * size] = sb_clean((h * t) * ((one - o) * o));             \
        grad_previous[u.at] = sb_clean(d * f);                                          \
    }

// level: Portable - one thread owns one unit
SB_LSTM_GRAD(lstm_cell_grad_f32, float)
SB_LSTM_GRAD(lstm_cell_grad_f64, double)

// ---- Gated recurrent unit: gates r, z, n -------------------------------------------------

// A gate with its bias. `biased`: 1 that of the input, 2 that of the hidden state.
template <typename T>
__device__ __forceinline__ T sb_biased(const T* gates, const T* bias, bool biased, u64 at,
                                       u64 column) {
    return biased ? gates[at] + bias[column] : gates[at];
}

#define SB_GRU(NAME, T)                                                                 \
    extern "C" __global__ void NAME(T* next, T* activations, const T* x, const T* h,    \
                                    const T* bias_x, const T* bias_h, const T* hidden,  \
                                    u64 n, u64 size, u32 biased) {                      \
        SbUnit u = sb_unit(size);                                                       \
        if (u.at >= n * size) return;                                                   \
        bool of_x = (biased & 1u) != 0;                                                 \
        bool of_h = (biased & 2u) != 0;                                                 \
        u64 first = u.row * 3 * size + u.unit;                                          \
        T sum[2];                                                                       \
        for (u32 gate = 0; gate < 2; ++gate) {                                          \
            u64 at = first + gate * size;                                               \
            u64 column = gate * size + u.unit;                                          \
            sum[gate] = sb_biased(x, bias_x, of_x, at, column) +                        \
                        sb_biased(h, bias_h, of_h, at, column);                         \
        }                                                                               \
        u64 at = first + 2 * size;                                                      \
        u64 column = 2 * size + u.unit;                                                 \
        T from_h = sb_biased(h, bias_h, of_h, at, column);                              \
        T r = sb_sigmoid(sum[0]);                                                       \
        T z = sb_sigmoid(sum[1]);                                                       \
        T y = sb_tanh(sb_fma(r, from_h, sb_biased(x, bias_x, of_x, at, column)));       \
        u64 to = u.row * 4 * size + u.unit;                                             \
        activations[to] = r;                                                            \
        activations[to + size] = z;                                                     \
        activations[to + 2 * size] = y;                                                 \
        activations[to + 3 * size] = sb_clean(from_h);                                  \
        next[u.at] = sb_clean(sb_fma(z, hidden[u.at] - y, y));                          \
    }

// level: Portable - one thread owns one unit
SB_GRU(gru_cell_f32, float)
SB_GRU(gru_cell_f64, double)

#define SB_GRU_GRAD(NAME, T)                                                            \
    extern "C" __global__ void NAME(T* grad_x, T* grad_h, T* grad_previous, const T* grad, \
                                    const T* activations, const T* hidden, u64 n,       \
                                    u64 size) {                                         \
        SbUnit u = sb_unit(size);                                                       \
        if (u.at >= n * size) return;                                                   \
        u64 from = u.row * 4 * size + u.unit;                                           \
        T r = activations[from];                                                        \
        T z = activations[from + size];                                                 \
        T y = activations[from + 2 * size];                                             \
        T h = activations[from + 3 * size];                                             \
        T g = grad[u.at];                                                               \
        T one = (T)1;                                                                   \
        T d = (g * (one - z)) * (one - y * y);                                          \
        T to_r = sb_clean((d * h) * ((one - r) * r));                                   \
        T to_z = sb_clean((g * (hidden[u.at] - y)) * ((one - z) * z));                  \
        u64 first = u.row * 3 * size + u.unit;                                          \
        grad_x[first] = to_r;                                                           \
        grad_h[first] = to_r;                                                           \
        grad_x[first + size] = to_z;                                                    \
        grad_h[first + size] = to_z;                                                    \
        grad_x[first + 2 * size] = sb_clean(d);                                         \
        grad_h[first + 2 * size] = sb_clean(d * r);                                     \
        grad_previous[u.at] = sb_clean(g * z);                                          \
    }

// level: Portable - one thread owns one unit
SB_GRU_GRAD(gru_cell_grad_f32, float)
SB_GRU_GRAD(gru_cell_grad_f64, double)
