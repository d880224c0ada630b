// Written by `cargo xtask build-kernels` from kernels/rotary.cu. Do not edit.

use crate::device::Float;
use crate::launch::Family;
use crate::launch::declared::rotary::RawRotary;

pub(crate) const FAMILY: Family =
    Family { name: "rotary", ptx: include_str!("../../../ptx/rotary.ptx") };
const _: () = assert!(size_of::<RawRotary>() == 40);

kernels! {
    Portable Rotary<T: Float> [f32 => "rotary_f32", f64 => "rotary_f64"]
        (write out: T, read x: T, read cos: T, read sin: T, value p: RawRotary);
}
