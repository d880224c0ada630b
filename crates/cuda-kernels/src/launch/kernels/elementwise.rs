// Written by `cargo xtask build-kernels` from kernels/elementwise.cu. Do not edit.

use crate::device::{Float, Number, Word};
use crate::launch::Family;
use crate::launch::declared::elementwise::{RawPair, RawView};

pub(crate) const FAMILY: Family =
    Family { name: "elementwise", ptx: include_str!("../../../ptx/elementwise.ptx") };
const _: () = assert!(size_of::<RawPair>() == 224);
const _: () = assert!(size_of::<RawView>() == 152);

kernels! {
    Portable Neg<T: Number> [f32 => "neg_f32", f64 => "neg_f64", i64 => "neg_i64"]
        (write out: T, read input: T, value n: usize);
    Portable Abs<T: Number> [f32 => "abs_f32", f64 => "abs_f64", i64 => "abs_i64"]
        (write out: T, read input: T, value n: usize);
    Portable Exp<T: Float> [f32 => "exp_f32", f64 => "exp_f64"]
        (write out: T, read input: T, value n: usize);
    Portable Exp2<T: Float> [f32 => "exp2_f32", f64 => "exp2_f64"]
        (write out: T, read input: T, value n: usize);
    Portable Expm1<T: Float> [f32 => "expm1_f32", f64 => "expm1_f64"]
        (write out: T, read input: T, value n: usize);
    Portable Log<T: Float> [f32 => "log_f32", f64 => "log_f64"]
        (write out: T, read input: T, value n: usize);
    Portable Log2<T: Float> [f32 => "log2_f32", f64 => "log2_f64"]
        (write out: T, read input: T, value n: usize);
    Portable Log10<T: Float> [f32 => "log10_f32", f64 => "log10_f64"]
        (write out: T, read input: T, value n: usize);
    Portable Log1p<T: Float> [f32 => "log1p_f32", f64 => "log1p_f64"]
        (write out: T, read input: T, value n: usize);
    Portable Rsqrt<T: Float> [f32 => "rsqrt_f32", f64 => "rsqrt_f64"]
        (write out: T, read input: T, value n: usize);
    Portable Sin<T: Float> [f32 => "sin_f32", f64 => "sin_f64"]
        (write out: T, read input: T, value n: usize);
    Portable Cos<T: Float> [f32 => "cos_f32", f64 => "cos_f64"]
        (write out: T, read input: T, value n: usize);
    Portable Erf<T: Float> [f32 => "erf_f32", f64 => "erf_f64"]
        (write out: T, read input: T, value n: usize);
    Portable Erfc<T: Float> [f32 => "erfc_f32"]
        (write out: T, read input: T, value n: usize);
    Portable Sqrt<T: Float> [f32 => "sqrt_f32", f64 => "sqrt_f64"]
        (write out: T, read input: T, value n: usize);
    Portable Tanh<T: Float> [f32 => "tanh_f32", f64 => "tanh_f64"]
        (write out: T, read input: T, value n: usize);
    Portable Sigmoid<T: Float> [f32 => "sigmoid_f32", f64 => "sigmoid_f64"]
        (write out: T, read input: T, value n: usize);
    Portable Sinpi<T: Float> [f32 => "sinpi_f32", f64 => "sinpi_f64"]
        (write out: T, read input: T, value n: usize);
    Portable Cospi<T: Float> [f32 => "cospi_f32", f64 => "cospi_f64"]
        (write out: T, read input: T, value n: usize);
    Portable Relu<T: Number> [f32 => "relu_f32", f64 => "relu_f64", i64 => "relu_i64"]
        (write out: T, read input: T, value n: usize);
    Portable Reciprocal<T: Float> [f32 => "reciprocal_f32", f64 => "reciprocal_f64"]
        (write out: T, read input: T, value n: usize);
    Portable Square<T: Number> [f32 => "square_f32", f64 => "square_f64", i64 => "square_i64"]
        (write out: T, read input: T, value n: usize);
    Portable Affine<T: Float> [f32 => "affine_f32", f64 => "affine_f64"]
        (write out: T, read input: T, value n: usize, value scale: T, value shift: T);
    Portable Add<T: Number> [f32 => "add_f32", f64 => "add_f64", i64 => "add_i64"]
        (write out: T, read left: T, read right: T, value p: RawPair);
    Portable Sub<T: Number> [f32 => "sub_f32", f64 => "sub_f64", i64 => "sub_i64"]
        (write out: T, read left: T, read right: T, value p: RawPair);
    Portable Mul<T: Number> [f32 => "mul_f32", f64 => "mul_f64", i64 => "mul_i64"]
        (write out: T, read left: T, read right: T, value p: RawPair);
    Portable Div<T: Float> [f32 => "div_f32", f64 => "div_f64"]
        (write out: T, read left: T, read right: T, value p: RawPair);
    Portable Maximum<T: Number> [f32 => "maximum_f32", f64 => "maximum_f64", i64 => "maximum_i64"]
        (write out: T, read left: T, read right: T, value p: RawPair);
    Portable Minimum<T: Number> [f32 => "minimum_f32", f64 => "minimum_f64", i64 => "minimum_i64"]
        (write out: T, read left: T, read right: T, value p: RawPair);
    Portable Pow<T: Number> [f32 => "pow_f32", f64 => "pow_f64", i64 => "pow_i64"]
        (write out: T, read left: T, read right: T, value p: RawPair);
    Portable Weigh<T: Float> [f32 => "weigh_f32", f64 => "weigh_f64"]
        (write out: T, read left: T, read right: T, value p: RawPair);
    Portable ReluGrad<T: Float> [f32 => "relu_grad_f32", f64 => "relu_grad_f64"]
        (write out: T, read left: T, read right: T, value p: RawPair);
    Portable TanhGrad<T: Float> [f32 => "tanh_grad_f32", f64 => "tanh_grad_f64"]
        (write out: T, read left: T, read right: T, value p: RawPair);
    Portable SigmoidGrad<T: Float> [f32 => "sigmoid_grad_f32", f64 => "sigmoid_grad_f64"]
        (write out: T, read left: T, read right: T, value p: RawPair);
    Portable FloorDivide [=> "floor_divide_i64"]
        (write out: i64, read left: i64, read right: i64, value p: RawPair);
    Portable Remainder [=> "remainder_i64"]
        (write out: i64, read left: i64, read right: i64, value p: RawPair);
    Portable Eq<T: Word> [f32 => "eq_f32", f64 => "eq_f64", i64 => "eq_i64", b8 => "eq_b8"]
        (write out: u8, read left: T, read right: T, value p: RawPair);
    Portable Ne<T: Word> [f32 => "ne_f32", f64 => "ne_f64", i64 => "ne_i64", b8 => "ne_b8"]
        (write out: u8, read left: T, read right: T, value p: RawPair);
    Portable Lt<T: Word> [f32 => "lt_f32", f64 => "lt_f64", i64 => "lt_i64", b8 => "lt_b8"]
        (write out: u8, read left: T, read right: T, value p: RawPair);
    Portable Le<T: Word> [f32 => "le_f32", f64 => "le_f64", i64 => "le_i64", b8 => "le_b8"]
        (write out: u8, read left: T, read right: T, value p: RawPair);
    Portable Gt<T: Word> [f32 => "gt_f32", f64 => "gt_f64", i64 => "gt_i64", b8 => "gt_b8"]
        (write out: u8, read left: T, read right: T, value p: RawPair);
    Portable Ge<T: Word> [f32 => "ge_f32", f64 => "ge_f64", i64 => "ge_i64", b8 => "ge_b8"]
        (write out: u8, read left: T, read right: T, value p: RawPair);
    Portable RefusedOperand [=> "refused_operand"]
        (read operand: i64, value n: usize, value exponent: u32, write status: u64);
    Portable Select<T: Word> [
        b8 => "select_b8", b16 => "select_b16", b32 => "select_b32", b64 => "select_b64",
    ]
        (write out: T, read condition: u8, read a: T, read b: T, value n: usize);
    Portable Copy<T: Word> [
        b8 => "copy_b8", b16 => "copy_b16", b32 => "copy_b32", b64 => "copy_b64",
    ]
        (write out: T, read input: T, value p: RawView);
    Portable Transpose<T: Word> [
        b8 => "transpose_b8", b16 => "transpose_b16", b32 => "transpose_b32",
        b64 => "transpose_b64",
    ]
        (write out: T, read input: T, value p: RawView, value dense: usize);
    Portable Join<T: Word> [
        b8 => "join_b8", b16 => "join_b16", b32 => "join_b32", b64 => "join_b64",
    ]
        (
            write out: T, read input: T, value n: usize, value width: usize, value row: usize,
            value first: usize,
        );
    Portable Fill<T: Word> [b16 => "fill_b16", b32 => "fill_b32", b64 => "fill_b64"]
        (write out: T, value n: usize, value value: T);
    Portable Cast<T: Word, R: Word> [
        f32 f64 => "cast_f32_f64", f64 f32 => "cast_f64_f32", f32 i64 => "cast_f32_i64",
        f64 i64 => "cast_f64_i64", i64 f32 => "cast_i64_f32", i64 f64 => "cast_i64_f64",
        b8 f32 => "cast_b8_f32", b8 f64 => "cast_b8_f64", b8 i64 => "cast_b8_i64",
        f32 b8 => "cast_f32_b8", f64 b8 => "cast_f64_b8", i64 b8 => "cast_i64_b8",
        i32 i64 => "cast_i32_i64", u32 i64 => "cast_u32_i64", f16 f32 => "cast_f16_f32",
        bf16 f32 => "cast_bf16_f32", i64 b32 => "cast_i64_b32", f64 i32 => "cast_f64_i32",
        f64 u32 => "cast_f64_u32", f64 f16 => "cast_f64_f16", f64 bf16 => "cast_f64_bf16",
        i64 f16 => "cast_i64_f16", i64 bf16 => "cast_i64_bf16", b8 b8 => "cast_b8_b8",
        b32 b32 => "cast_b32_b32", b64 b64 => "cast_b64_b64",
    ]
        (write out: R, read input: T, value n: usize);
    Portable Truth<T: Word> [
        f32 => "truth_f32", f64 => "truth_f64", i64 => "truth_i64", b8 => "truth_b8",
    ]
        (write out: u8, read input: T, value n: usize);
}
