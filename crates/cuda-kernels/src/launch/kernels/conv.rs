// Written by `cargo xtask build-kernels` from kernels/conv.cu. Do not edit.

use crate::device::Float;
use crate::launch::Family;
use crate::launch::declared::conv::RawConv;

pub(crate) const FAMILY: Family =
    Family { name: "conv", ptx: include_str!("../../../ptx/conv.ptx") };
const _: () = assert!(size_of::<RawConv>() == 96);

kernels! {
    Portable Conv<T: Float> [f32 => "conv_f32", f64 => "conv_f64"]
        (write out: T, read input: T, read weight: T, read bias: T, value p: RawConv);
    Portable ConvInputGrad<T: Float> [f32 => "conv_input_grad_f32", f64 => "conv_input_grad_f64"]
        (write grad_in: T, read grad: T, read weight: T, read bias: T, value p: RawConv);
    Portable ConvWeightPartial<T: Float> [
        f32 => "conv_weight_partial_f32", f64 => "conv_weight_partial_f64",
    ]
        (write partials: T, read grad: T, read input: T, value p: RawConv);
    Portable ConvDepthwise<T: Float> [f32 => "conv_depthwise_f32"]
        (write out: T, read input: T, read weight: T, read bias: T, value p: RawConv);
    Portable ConvDepthwiseInputGrad<T: Float> [f32 => "conv_depthwise_input_grad_f32"]
        (write grad_in: T, read grad: T, read weight: T, read bias: T, value p: RawConv);
    Portable ConvDepthwiseWeightPartial<T: Float> [f32 => "conv_depthwise_weight_partial_f32"]
        (
            write partials: T, read grad: T, read input: T, value p: RawConv, value blocks: usize,
            value lanes: u32,
        );
}
