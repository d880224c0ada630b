// Written by `cargo xtask build-kernels` from kernels/totals.cu. Do not edit.

use crate::device::{Float, Word};
use crate::launch::Family;
use crate::launch::declared::table::RawRow;

pub(crate) const FAMILY: Family =
    Family { name: "totals", ptx: include_str!("../../../ptx/totals.ptx") };

kernels! {
    Portable FirstNotFinite<T: Word> [
        b16 => "first_not_finite_b16", b32 => "first_not_finite_b32", b64 => "first_not_finite_b64",
    ]
        (write first: u64, read rows: RawRow, value count: u32, value mask: T);
    Portable LargestMagnitude<T: Float> [
        f32 => "largest_magnitude_f32", f64 => "largest_magnitude_f64",
    ]
        (write most: u64, read rows: RawRow, value count: u32, element t: T);
    Portable SumPowers<T: Float> [f32 => "sum_powers_f32", f64 => "sum_powers_f64"]
        (
            write acc: u64, read rows: RawRow, value count: u32, value scale: f64,
            value exponent: f64, element t: T,
        );
}
