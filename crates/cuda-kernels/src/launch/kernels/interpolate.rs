// Written by `cargo xtask build-kernels` from kernels/interpolate.cu. Do not edit.

use crate::device::Float;
use crate::launch::Family;
use crate::launch::declared::interpolate::RawTaps;

pub(crate) const FAMILY: Family =
    Family { name: "interpolate", ptx: include_str!("../../../ptx/interpolate.ptx") };
const _: () = assert!(size_of::<RawTaps>() == 48);

kernels! {
    Portable TapSum<T: Float> [f32 => "tap_sum_f32", f64 => "tap_sum_f64"]
        (
            write to: T, read from: T, read starts: u32, read places: u32, read weights: T,
            value p: RawTaps,
        );
    NotGuaranteed TapScatterAtomic<T: Float> [f32 => "tap_scatter_f32_atomic"]
        (
            write grad_in: T, read grad: T, read starts: u32, read places: u32, read weights: T,
            value p: RawTaps,
        );
}
