// Written by `cargo xtask build-kernels` from the Rust declarations. Do not edit.

#pragma once

// Steps that compute a value of each of `n` elements from values in slots: first the inputs, of which
// each is `apart` elements from one element to the next, 0 or 1.
struct SbFormula {
    u64 n;
    u64 apart[5];
    double x[32];
    double y[32];
    u32 code[32];
    u32 a[32];
    u32 b[32];
    u32 c[32];
    u32 to[32];
    u32 inputs;
    u32 steps;
};

enum SbCode : u32 {
    SB_CODE_NUMBER,
    SB_CODE_AFFINE,
    SB_CODE_WHERE,
    SB_CODE_NEG,
    SB_CODE_ABS,
    SB_CODE_EXP,
    SB_CODE_EXP2,
    SB_CODE_EXPM1,
    SB_CODE_LOG,
    SB_CODE_LOG2,
    SB_CODE_LOG10,
    SB_CODE_LOG1P,
    SB_CODE_SQRT,
    SB_CODE_RSQRT,
    SB_CODE_SIN,
    SB_CODE_COS,
    SB_CODE_TANH,
    SB_CODE_SIGMOID,
    SB_CODE_ERF,
    SB_CODE_RELU,
    SB_CODE_RECIPROCAL,
    SB_CODE_SQUARE,
    SB_CODE_ADD,
    SB_CODE_SUB,
    SB_CODE_MUL,
    SB_CODE_DIV,
    SB_CODE_MAXIMUM,
    SB_CODE_MINIMUM,
    SB_CODE_POW,
    SB_CODE_WEIGH,
    SB_CODE_RELU_GRAD,
    SB_CODE_TANH_GRAD,
    SB_CODE_SIGMOID_GRAD,
    SB_CODE_EQ,
    SB_CODE_NE,
    SB_CODE_LT,
    SB_CODE_LE,
    SB_CODE_GT,
    SB_CODE_GE,
};
