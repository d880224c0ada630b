// Written by `cargo xtask build-kernels` from kernels/matmul.cu. Do not edit.

use crate::device::Float;
use crate::launch::Family;
use crate::launch::declared::matmul::RawMatmul;

pub(crate) const FAMILY: Family =
    Family { name: "matmul", ptx: include_str!("../../../ptx/matmul.ptx") };
const _: () = assert!(size_of::<RawMatmul>() == 104);

kernels! {
    Portable Matmul64x64<T: Float> [f32 => "matmul_64x64_f32", f64 => "matmul_64x64_f64"]
        (
            write out: T, read a: T, read b: T, read offsets: u64, value p: RawMatmul,
            value split: u32,
        );
    Portable Matmul128x128<T: Float> [f32 => "matmul_128x128_f32"]
        (
            write out: T, read a: T, read b: T, read offsets: u64, value p: RawMatmul,
            value split: u32,
        );
    Portable MatmulCombine<T: Float> [f32 => "matmul_combine_f32", f64 => "matmul_combine_f64"]
        (write out: T, read partials: T, value n: usize, value blocks: usize);
    NotGuaranteed MatmulCombineAtomic<T: Float> [f32 => "matmul_combine_f32_atomic"]
        (write out: T, read partials: T, value n: usize, value blocks: usize);
}
