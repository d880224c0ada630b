// Written by `cargo xtask build-kernels` from kernels/ctc.cu. Do not edit.

use crate::device::Float;
use crate::launch::Family;
use crate::launch::declared::ctc::RawCtc;

pub(crate) const FAMILY: Family = Family { name: "ctc", ptx: include_str!("../../../ptx/ctc.ptx") };
const _: () = assert!(size_of::<RawCtc>() == 40);

kernels! {
    Portable CtcCheck [=> "ctc_check"]
        (read labels: i64, read lengths: u64, value p: RawCtc, write status: u64);
    Portable CtcAlpha<T: Float> [f32 => "ctc_alpha_f32", f64 => "ctc_alpha_f64"]
        (
            write alpha: f64, write likelihood: f64, read log_probs: T, read labels: i64,
            read lengths: u64, value p: RawCtc,
        );
    Portable CtcLosses [=> "ctc_losses"]
        (
            write losses: f64, read likelihood: f64, read lengths: u64, value n: usize,
            value kind: u32,
        );
    Portable CtcPosterior<T: Float> [f32 => "ctc_posterior_f32", f64 => "ctc_posterior_f64"]
        (
            write alpha: f64, write beta: f64, read likelihood: f64, read log_probs: T,
            read labels: i64, read lengths: u64, value p: RawCtc,
        );
    Portable CtcGrad<T: Float> [f32 => "ctc_grad_f32", f64 => "ctc_grad_f64"]
        (
            write out: T, read grad: T, read posterior: f64, read likelihood: f64,
            read log_probs: T, read labels: i64, read lengths: u64, value p: RawCtc,
            value kind: u32,
        );
    NotGuaranteed CtcGradStart<T: Float> [f32 => "ctc_grad_f32_start"]
        (
            write out: T, read grad: T, read likelihood: f64, read log_probs: T, read labels: i64,
            read lengths: u64, value p: RawCtc, value kind: u32,
        );
    NotGuaranteed CtcGradAtomic<T: Float> [f32 => "ctc_grad_f32_atomic"]
        (
            write out: T, read grad: T, read posterior: f64, read likelihood: f64, read labels: i64,
            read lengths: u64, value p: RawCtc, value kind: u32,
        );
}
