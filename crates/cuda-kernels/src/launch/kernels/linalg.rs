// Written by `cargo xtask build-kernels` from kernels/linalg.cu. Do not edit.

use crate::device::Float;
use crate::launch::Family;
use crate::launch::declared::linalg::RawMatrix;

pub(crate) const FAMILY: Family =
    Family { name: "linalg", ptx: include_str!("../../../ptx/linalg.ptx") };
const _: () = assert!(size_of::<RawMatrix>() == 24);

kernels! {
    Portable Qr<T: Float> [f32 => "qr_f32", f64 => "qr_f64"]
        (
            write q: T, write r: T, write columns: f64, write basis: f64, write taus: f64,
            read x: T, value p: RawMatrix,
        );
    Portable QrMixed<T: Float> [f32 => "qr_mixed_f32", f64 => "qr_mixed_f64"]
        (
            write mixed: f64, read grad_q: T, read grad_r: T, read q: T, read r: T,
            value p: RawMatrix, value count: usize,
        );
    Portable QrGrad<T: Float> [f32 => "qr_grad_f32", f64 => "qr_grad_f64"]
        (
            write out: T, write solved: f64, read mixed: f64, read grad_q: T, read q: T, read r: T,
            value p: RawMatrix, value count: usize,
        );
    Portable FindBroken<T: Float> [f32 => "find_broken_f32", f64 => "find_broken_f64"]
        (write first: u64, read x: T, value n: usize);
    Portable Svd<T: Float> [f32 => "svd_f32", f64 => "svd_f64"]
        (
            write u: T, write s: T, write v: T, write scratch: f64, write places: i64, read x: T,
            value p: RawMatrix, value side: usize, value each: usize,
        );
}
