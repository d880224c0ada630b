// Written by `cargo xtask build-kernels` from kernels/pooling.cu. Do not edit.

use crate::device::{Float, Word};
use crate::launch::Family;
use crate::launch::declared::pooling::{RawAdaptive, RawFractional, RawPool};

pub(crate) const FAMILY: Family =
    Family { name: "pooling", ptx: include_str!("../../../ptx/pooling.ptx") };
const _: () = assert!(size_of::<RawAdaptive>() == 32);
const _: () = assert!(size_of::<RawFractional>() == 48);
const _: () = assert!(size_of::<RawPool>() == 88);

kernels! {
    Portable MaxPool<T: Float> [f32 => "max_pool_f32", f64 => "max_pool_f64"]
        (write out: T, write indices: i64, read input: T, value p: RawPool);
    Portable MaxPoolGrad<T: Float> [f32 => "max_pool_grad_f32", f64 => "max_pool_grad_f64"]
        (write grad_in: T, read grad: T, read indices: i64, value p: RawPool);
    NotGuaranteed MaxPoolGradAtomic<T: Float> [f32 => "max_pool_grad_f32_atomic"]
        (
            write grad_in: T, read grad: T, read indices: i64, value n: usize,
            value out_plane: usize, value in_plane: usize, write status: u64,
        );
    Portable PoolKeys [=> "pool_keys"]
        (
            write keys: i64, read indices: i64, value n: usize, value out_plane: usize,
            value in_plane: usize, write status: u64,
        );
    Portable UnpoolGrad<T: Word> [b32 => "unpool_grad_b32", b64 => "unpool_grad_b64"]
        (
            write grad_in: T, read grad: T, read indices: i64, value n: usize,
            value in_plane: usize, value out_plane: usize, write status: u64,
        );
    Portable AvgPool<T: Float> [f32 => "avg_pool_f32", f64 => "avg_pool_f64"]
        (write out: T, read input: T, value p: RawPool);
    Portable AvgPoolGrad<T: Float> [f32 => "avg_pool_grad_f32", f64 => "avg_pool_grad_f64"]
        (write grad_in: T, read grad: T, value p: RawPool);
    NotGuaranteed AvgPoolGradAtomic<T: Float> [f32 => "avg_pool_grad_f32_atomic"]
        (write grad_in: T, read grad: T, value p: RawPool);
    Portable AdaptiveAvgPool<T: Float> [
        f32 => "adaptive_avg_pool_f32", f64 => "adaptive_avg_pool_f64",
    ]
        (write out: T, read input: T, value p: RawAdaptive);
    Portable AdaptiveAvgPoolGrad<T: Float> [
        f32 => "adaptive_avg_pool_grad_f32", f64 => "adaptive_avg_pool_grad_f64",
    ]
        (write grad_in: T, read grad: T, value p: RawAdaptive);
    NotGuaranteed AdaptiveAvgPoolGradAtomic<T: Float> [f32 => "adaptive_avg_pool_grad_f32_atomic"]
        (write grad_in: T, read grad: T, value p: RawAdaptive);
    Portable AdaptiveMaxPool<T: Float> [
        f32 => "adaptive_max_pool_f32", f64 => "adaptive_max_pool_f64",
    ]
        (write out: T, write indices: i64, read input: T, value p: RawAdaptive);
    Portable FractionalMaxPool<T: Float> [
        f32 => "fractional_max_pool_f32", f64 => "fractional_max_pool_f64",
    ]
        (write out: T, write indices: i64, read input: T, read samples: T, value p: RawFractional);
}
