// Written by `cargo xtask build-kernels` from kernels/scan.cu. Do not edit.

use crate::device::Float;
use crate::launch::Family;
use crate::launch::declared::scan::{RawBest, RawLogState, RawScan};

pub(crate) const FAMILY: Family =
    Family { name: "scan", ptx: include_str!("../../../ptx/scan.ptx") };
const _: () = assert!(size_of::<RawScan>() == 48);

kernels! {
    Portable ScanTotals<T: Float> [f32 => "scan_totals_f32", f64 => "scan_totals_f64"]
        (write totals: f64, read input: T, value p: RawScan);
    Portable IntegerScanTotals [=> "integer_scan_totals"]
        (write totals: u64, read input: i64, value p: RawScan);
    Portable LogcumsumexpTotals<T: Float> [
        f32 => "logcumsumexp_totals_f32", f64 => "logcumsumexp_totals_f64",
    ]
        (write totals: RawLogState, read input: T, value p: RawScan);
    Portable CumextremeTotals<T: Float> [
        f32 => "cumextreme_totals_f32", f64 => "cumextreme_totals_f64",
    ]
        (write totals: RawBest, read input: T, value p: RawScan);
    Portable ScanCarries [=> "scan_carries"]
        (write totals: f64, value p: RawScan);
    Portable IntegerScanCarries [=> "integer_scan_carries"]
        (write totals: u64, value p: RawScan);
    Portable LogcumsumexpCarries [=> "logcumsumexp_carries"]
        (write totals: RawLogState, value p: RawScan);
    Portable CumextremeCarries [=> "cumextreme_carries"]
        (write totals: RawBest, value p: RawScan);
    Portable ScanFinish<T: Float> [f32 => "scan_finish_f32", f64 => "scan_finish_f64"]
        (write out: T, read input: T, read carries: f64, value p: RawScan);
    Portable IntegerScanFinish [=> "integer_scan_finish"]
        (write out: i64, read input: i64, read carries: u64, value p: RawScan);
    Portable LogcumsumexpFinish<T: Float> [
        f32 => "logcumsumexp_finish_f32", f64 => "logcumsumexp_finish_f64",
    ]
        (write out: T, read input: T, read carries: RawLogState, value p: RawScan);
    Portable CumextremeFinish<T: Float> [
        f32 => "cumextreme_finish_f32", f64 => "cumextreme_finish_f64",
    ]
        (
            write values: T, write indices: i64, read input: T, read carries: RawBest,
            value p: RawScan,
        );
    Portable CumprodGrad<T: Float> [f32 => "cumprod_grad_f32", f64 => "cumprod_grad_f64"]
        (write grad_in: T, write products: f64, read input: T, read grad: T, value p: RawScan);
    Portable CumprodGradGrad<T: Float> [
        f32 => "cumprod_grad_grad_f32", f64 => "cumprod_grad_grad_f64",
    ]
        (
            write grad_of_grad: T, write grad_in: T, write tangents: f64, write products: f64,
            read input: T, read grad: T, read outer_grad: T, value p: RawScan,
        );
    Portable LogcumsumexpGrad<T: Float> [
        f32 => "logcumsumexp_grad_f32", f64 => "logcumsumexp_grad_f64",
    ]
        (write grad_in: T, read input: T, read out: T, read grad: T, value p: RawScan);
}
