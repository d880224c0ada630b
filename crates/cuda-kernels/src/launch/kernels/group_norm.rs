// Written by `cargo xtask build-kernels` from kernels/group_norm.cu. Do not edit.

use crate::device::Float;
use crate::launch::Family;
use crate::launch::declared::group_norm::RawGroups;

pub(crate) const FAMILY: Family =
    Family { name: "group_norm", ptx: include_str!("../../../ptx/group_norm.ptx") };
const _: () = assert!(size_of::<RawGroups>() == 40);

kernels! {
    Portable GroupNormalize<T: Float> [f32 => "group_normalize_f32", f64 => "group_normalize_f64"]
        (
            write out: T, read input: T, read scaled: T, read weight: T, read bias: T,
            value p: RawGroups,
        );
    Portable GroupNormBlocks<T: Float> [
        f32 => "group_norm_blocks_f32", f64 => "group_norm_blocks_f64",
    ]
        (
            write partials: f64, write scaled: T, read grad: T, read input: T, read weight: T,
            read mean: T, read rstd: T, value p: RawGroups, value blocks: usize, value eps: f64,
        );
    Portable GroupNormMeans<T: Float> [f32 => "group_norm_means_f32", f64 => "group_norm_means_f64"]
        (
            write means: T, read partials: f64, value rows: usize, value blocks: usize,
            value width: usize,
        );
    Portable GroupNormInputGrad<T: Float> [
        f32 => "group_norm_input_grad_f32", f64 => "group_norm_input_grad_f64",
    ]
        (
            write out: T, write products: T, read grad: T, read input: T, read scaled: T,
            read weight: T, read means: T, value p: RawGroups,
        );
}
