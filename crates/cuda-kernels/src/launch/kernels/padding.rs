// Written by `cargo xtask build-kernels` from kernels/padding.cu. Do not edit.

use crate::device::{Float, Word};
use crate::launch::Family;
use crate::launch::declared::padding::RawPad;

pub(crate) const FAMILY: Family =
    Family { name: "padding", ptx: include_str!("../../../ptx/padding.ptx") };
const _: () = assert!(size_of::<RawPad>() == 48);

kernels! {
    Portable Pad<T: Word> [b8 => "pad_b8", b16 => "pad_b16", b32 => "pad_b32", b64 => "pad_b64"]
        (write out: T, read input: T, value p: RawPad, value value: T);
    Portable PadGrad<T: Float> [f32 => "pad_grad_f32", f64 => "pad_grad_f64"]
        (write grad_in: T, read grad: T, value p: RawPad);
    NotGuaranteed PadGradAtomic<T: Float> [f32 => "pad_grad_f32_atomic"]
        (write grad_in: T, read grad: T, value p: RawPad);
}
