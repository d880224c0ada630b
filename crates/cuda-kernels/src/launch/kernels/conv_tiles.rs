// Written by `cargo xtask build-kernels` from kernels/conv_tiles.cu. Do not edit.

use crate::device::Float;
use crate::launch::Family;
use crate::launch::declared::conv::RawConv;

pub(crate) const FAMILY: Family =
    Family { name: "conv_tiles", ptx: include_str!("../../../ptx/conv_tiles.ptx") };
const _: () = assert!(size_of::<RawConv>() == 96);

kernels! {
    Portable Conv16x16<T: Float> [f32 => "conv_16x16_f32"]
        (write out: T, read a: T, read b: T, read bias: T, value p: RawConv, value split: u32);
    Portable Conv64x64<T: Float> [f32 => "conv_64x64_f32"]
        (write out: T, read a: T, read b: T, read bias: T, value p: RawConv, value split: u32);
    Portable Conv128x64<T: Float> [f32 => "conv_128x64_f32"]
        (write out: T, read a: T, read b: T, read bias: T, value p: RawConv, value split: u32);
    Portable ConvInputGrad16x16<T: Float> [f32 => "conv_input_grad_16x16_f32"]
        (write out: T, read a: T, read b: T, read bias: T, value p: RawConv, value split: u32);
    Portable ConvInputGrad64x64<T: Float> [f32 => "conv_input_grad_64x64_f32"]
        (write out: T, read a: T, read b: T, read bias: T, value p: RawConv, value split: u32);
    Portable ConvInputGrad128x64<T: Float> [f32 => "conv_input_grad_128x64_f32"]
        (write out: T, read a: T, read b: T, read bias: T, value p: RawConv, value split: u32);
    Portable ConvWeightGrad16x16<T: Float> [f32 => "conv_weight_grad_16x16_f32"]
        (write out: T, read a: T, read b: T, read bias: T, value p: RawConv, value split: u32);
    Portable ConvWeightGrad64x64<T: Float> [f32 => "conv_weight_grad_64x64_f32"]
        (write out: T, read a: T, read b: T, read bias: T, value p: RawConv, value split: u32);
    Portable ConvWeightGrad128x64<T: Float> [f32 => "conv_weight_grad_128x64_f32"]
        (write out: T, read a: T, read b: T, read bias: T, value p: RawConv, value split: u32);
    NotGuaranteed Conv64x64Atomic<T: Float> [f32 => "conv_64x64_f32_atomic"]
        (write out: T, read a: T, read b: T, read bias: T, value p: RawConv, value split: u32);
    NotGuaranteed ConvInputGrad64x64Atomic<T: Float> [f32 => "conv_input_grad_64x64_f32_atomic"]
        (write out: T, read a: T, read b: T, read bias: T, value p: RawConv, value split: u32);
    NotGuaranteed ConvWeightGrad64x64Atomic<T: Float> [f32 => "conv_weight_grad_64x64_f32_atomic"]
        (write out: T, read a: T, read b: T, read bias: T, value p: RawConv, value split: u32);
    Portable ConvCombine<T: Float> [f32 => "conv_combine_f32"]
        (
            write out: T, read partials: T, read bias: T, value n: usize, value blocks: usize,
            value channels: usize, value positions: usize, value with_bias: u32,
        );
}
