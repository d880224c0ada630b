// Written by `cargo xtask build-kernels` from kernels/loss.cu. Do not edit.

use crate::device::Float;
use crate::launch::Family;
use crate::launch::declared::loss::{RawClasses, RawTargets};

pub(crate) const FAMILY: Family =
    Family { name: "loss", ptx: include_str!("../../../ptx/loss.ptx") };
const _: () = assert!(size_of::<RawClasses>() == 24);
const _: () = assert!(size_of::<RawTargets>() == 40);

kernels! {
    Portable LogSoftmax<T: Float> [f32 => "log_softmax_f32", f64 => "log_softmax_f64"]
        (write out: T, read input: T, value p: RawClasses);
    Portable LogSoftmaxColumns<T: Float> [
        f32 => "log_softmax_columns_f32", f64 => "log_softmax_columns_f64",
    ]
        (write out: T, read input: T, value p: RawClasses);
    Portable Softmax<T: Float> [f32 => "softmax_f32", f64 => "softmax_f64"]
        (write out: T, read input: T, value p: RawClasses);
    Portable SoftmaxColumns<T: Float> [f32 => "softmax_columns_f32", f64 => "softmax_columns_f64"]
        (write out: T, read input: T, value p: RawClasses);
    Portable LogSoftmaxGrad<T: Float> [f32 => "log_softmax_grad_f32", f64 => "log_softmax_grad_f64"]
        (write out: T, read grad: T, read y: T, value p: RawClasses);
    Portable LogSoftmaxGradColumns<T: Float> [
        f32 => "log_softmax_grad_columns_f32", f64 => "log_softmax_grad_columns_f64",
    ]
        (write out: T, read grad: T, read y: T, value p: RawClasses);
    Portable SoftmaxGrad<T: Float> [f32 => "softmax_grad_f32", f64 => "softmax_grad_f64"]
        (write out: T, read grad: T, read y: T, value p: RawClasses);
    Portable SoftmaxGradColumns<T: Float> [
        f32 => "softmax_grad_columns_f32", f64 => "softmax_grad_columns_f64",
    ]
        (write out: T, read grad: T, read y: T, value p: RawClasses);
    Portable NllEach<T: Float> [f32 => "nll_each_f32", f64 => "nll_each_f64"]
        (
            write out: T, read log_probs: T, read target: i64, read weight: T, value p: RawTargets,
            write status: u64,
        );
    Portable NllTerms<T: Float> [f32 => "nll_terms_f32", f64 => "nll_terms_f64"]
        (
            write terms: f64, write weights: f64, read log_probs: T, read target: i64,
            read weight: T, value p: RawTargets, write status: u64,
        );
    Portable NllFinish<T: Float> [f32 => "nll_finish_f32", f64 => "nll_finish_f64"]
        (write out: T, read sum: f64, read weights: f64, value mean: u32);
    NotGuaranteed NllSumsAtomic<T: Float> [f32 => "nll_sums_f32_atomic"]
        (
            write sums: T, read log_probs: T, read target: i64, read weight: T, value p: RawTargets,
            write status: u64,
        );
    NotGuaranteed NllFinishAtomic<T: Float> [f32 => "nll_finish_f32_atomic"]
        (write out: T, read sums: T, value mean: u32);
    Portable NllWeights<T: Float> [f32 => "nll_weights_f32", f64 => "nll_weights_f64"]
        (write weights: f64, read target: i64, read weight: T, value p: RawTargets);
    Portable NllGrad<T: Float> [f32 => "nll_grad_f32", f64 => "nll_grad_f64"]
        (
            write out: T, read grad: T, read target: i64, read weight: T, read divisor: f64,
            value p: RawTargets, value each: u32, write status: u64,
        );
    Portable CrossEntropyGrad<T: Float> [
        f32 => "cross_entropy_grad_f32", f64 => "cross_entropy_grad_f64",
    ]
        (
            write out: T, read log_probs: T, read grad: T, read target: i64, read weight: T,
            read divisor: f64, value p: RawTargets, value each: u32, write status: u64,
        );
    Portable CrossEntropyGradColumns<T: Float> [
        f32 => "cross_entropy_grad_columns_f32", f64 => "cross_entropy_grad_columns_f64",
    ]
        (
            write out: T, read log_probs: T, read grad: T, read target: i64, read weight: T,
            read divisor: f64, value p: RawTargets, value each: u32, write status: u64,
        );
}
