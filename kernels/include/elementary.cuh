// Functions of one and two numbers that are a few operations. NaN results are to be made canonical.
#pragma once

#include "samebits.cuh"

template <typename T>
__device__ __forceinline__ T sb_abs(T x) {
    return x < (T)0 ? -x : x + (T)0;
}

template <typename T>
__device__ __forceinline__ T sb_relu(T x) {
    return x <= (T)0 ? (T)0 : x;
}

template <typename T>
__device__ __forceinline__ T sb_maximum(T a, T b) {
    return a >= b ? a : (b > a ? b : a + b);
}

template <typename T>
__device__ __forceinline__ T sb_minimum(T a, T b) {
    return a <= b ? a : (b < a ? b : a + b);
}

// a * b; a b of 0 makes a zero of any number, also of an infinite one.
template <typename T>
__device__ __forceinline__ T sb_weighed(T a, T b) {
    if (b == (T)0) a = a > (T)1 ? (T)1 : (a < (T)-1 ? (T)-1 : a);
    return a * b;
}

template <typename T>
__device__ __forceinline__ T sb_relu_grad(T a, T b) {
    return b > (T)0 ? a : (b <= (T)0 ? (T)0 : b);
}

template <typename T>
__device__ __forceinline__ T sb_tanh_grad(T a, T b) {
    return a * ((T)1 - b * b);
}

template <typename T>
__device__ __forceinline__ T sb_sigmoid_grad(T a, T b) {
    return a * (((T)1 - b) * b);
}
