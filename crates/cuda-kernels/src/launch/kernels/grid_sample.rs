// Written by `cargo xtask build-kernels` from kernels/grid_sample.cu. Do not edit.

use crate::device::Float;
use crate::launch::Family;
use crate::launch::declared::grid_sample::RawGrid;

pub(crate) const FAMILY: Family =
    Family { name: "grid_sample", ptx: include_str!("../../../ptx/grid_sample.ptx") };
const _: () = assert!(size_of::<RawGrid>() == 56);

kernels! {
    Portable GridTaps<T: Float> [f32 => "grid_taps_f32", f64 => "grid_taps_f64"]
        (write places: i64, write weights: T, read grid: T, value p: RawGrid);
    Portable GridSample<T: Float> [f32 => "grid_sample_f32", f64 => "grid_sample_f64"]
        (write out: T, read input: T, read places: i64, read weights: T, value p: RawGrid);
    Portable GridInputGradRows<T: Float> [
        f32 => "grid_input_grad_f32_rows", f64 => "grid_input_grad_f64_rows",
    ]
        (
            write grad_in: T, read grad: T, read weights: T, read positions: u32, read ends: u32,
            read counts: u32, write cursor: u64, write long_rows: u32, write firsts: u32,
            value p: RawGrid,
        );
    Portable GridInputGradPieces<T: Float> [f32 => "grid_input_grad_f32_pieces"]
        (
            write acc: u64, read grad: T, read weights: T, read positions: u32, read ends: u32,
            read counts: u32, read cursor: u64, read long_rows: u32, read firsts: u32,
            value p: RawGrid,
        );
    NotGuaranteed GridInputGradAtomic<T: Float> [f32 => "grid_input_grad_f32_atomic"]
        (write grad_in: T, read grad: T, read places: i64, read weights: T, value p: RawGrid);
    Portable GridGrad<T: Float> [f32 => "grid_grad_f32", f64 => "grid_grad_f64"]
        (write grad_grid: T, read grad: T, read input: T, read grid: T, value p: RawGrid);
}
