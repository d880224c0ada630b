// Written by `cargo xtask build-kernels` from kernels/formula.cu. Do not edit.

use crate::device::Float;
use crate::launch::Family;
use crate::launch::declared::formula::RawFormula;
use crate::launch::declared::table::RawRow;

pub(crate) const FAMILY: Family =
    Family { name: "formula", ptx: include_str!("../../../ptx/formula.ptx") };
const _: () = assert!(size_of::<RawFormula>() == 1208);

kernels! {
    Portable Formula<T: Float> [f32 => "formula_f32", f64 => "formula_f64"]
        (
            write out: T, read in0: T, read in1: T, read in2: T, read in3: T, read in4: T,
            value p: RawFormula,
        );
    Portable FormulaAll<T: Float> [f32 => "formula_all_f32", f64 => "formula_all_f64"]
        (read rows: RawRow, value count: u32, value p: RawFormula, element t: T);
}
