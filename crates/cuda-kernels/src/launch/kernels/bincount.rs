// Written by `cargo xtask build-kernels` from kernels/bincount.cu. Do not edit.

use crate::device::Float;
use crate::launch::Family;

pub(crate) const FAMILY: Family =
    Family { name: "bincount", ptx: include_str!("../../../ptx/bincount.ptx") };

kernels! {
    Portable BincountShared [=> "bincount_shared"]
        (write counts: i64, read values: i64, value n: usize, value bins: usize, write status: u64);
    Portable Bincount [=> "bincount_i64"]
        (write counts: i64, read values: i64, value n: usize, value bins: usize, write status: u64);
    Portable BincountWeighted<T: Float> [f32 => "bincount_weighted_f32"]
        (
            write acc: u64, read values: i64, read weights: T, value n: usize, value bins: usize,
            write status: u64,
        );
    Portable HistcShared<T: Float> [f32 => "histc_shared_f32", f64 => "histc_shared_f64"]
        (
            write counts: u64, read values: T, value n: usize, read edges: T, value low: T,
            value high: T, value part: T, value bins: usize,
        );
    Portable Histc<T: Float> [f32 => "histc_f32", f64 => "histc_f64"]
        (
            write counts: u64, read values: T, value n: usize, read edges: T, value low: T,
            value high: T, value part: T, value bins: usize,
        );
    Portable HistcFinish<T: Float> [f32 => "histc_finish_f32", f64 => "histc_finish_f64"]
        (write out: T, read counts: u64, value n: usize);
    Portable Range [=> "range_i64"]
        (write range: u64, read values: i64, value n: usize);
}
