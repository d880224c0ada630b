// Written by `cargo xtask build-kernels` from kernels/optim.cu. Do not edit.

use crate::device::{Float, Word};
use crate::launch::Family;
use crate::launch::declared::table::RawRow;

pub(crate) const FAMILY: Family =
    Family { name: "optim", ptx: include_str!("../../../ptx/optim.ptx") };

kernels! {
    Portable Sgd<T: Float> [f32 => "sgd_f32", f64 => "sgd_f64"]
        (
            write new_param: T, write new_velocity: T, read param: T, read velocity: T,
            read grad: T, value n: usize, value decay: T, value momentum: T, value fresh: T,
            value rate: T, value kind: u32,
        );
    Portable SgdAll<T: Float> [f32 => "sgd_all_f32", f64 => "sgd_all_f64"]
        (
            read rows: RawRow, value count: u32, value decay: T, value momentum: T, value fresh: T,
            value rate: T, value kind: u32,
        );
    Portable Adam<T: Float> [f32 => "adam_f32", f64 => "adam_f64"]
        (
            write new_param: T, write new_mean: T, write new_square: T, read param: T, read mean: T,
            read square: T, read grad: T, value n: usize, value keep: T, value decay: T,
            value beta1: T, value fresh1: T, value beta2: T, value fresh2: T, value root: T,
            value eps: T, value rate: T,
        );
    Portable AdamAll<T: Float> [f32 => "adam_all_f32", f64 => "adam_all_f64"]
        (
            read rows: RawRow, value count: u32, value keep: T, value decay: T, value beta1: T,
            value fresh1: T, value beta2: T, value fresh2: T, value root: T, value eps: T,
            value rate: T,
        );
    Portable AffineAll<T: Float> [f32 => "affine_all_f32", f64 => "affine_all_f64"]
        (read rows: RawRow, value count: u32, value scale: T, value shift: T);
    Portable CastAll<T: Word, R: Word> [
        f16 f32 => "cast_all_f16_f32", bf16 f32 => "cast_all_bf16_f32",
        f32 f16 => "cast_all_f32_f16", f32 bf16 => "cast_all_f32_bf16",
    ]
        (read rows: RawRow, value count: u32, element t: T, element r: R);
}
