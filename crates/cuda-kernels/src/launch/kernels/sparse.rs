// Written by `cargo xtask build-kernels` from kernels/sparse.cu. Do not edit.

use crate::device::Float;
use crate::launch::Family;
use crate::launch::declared::sparse::RawSparse;

pub(crate) const FAMILY: Family =
    Family { name: "sparse", ptx: include_str!("../../../ptx/sparse.ptx") };
const _: () = assert!(size_of::<RawSparse>() == 40);

kernels! {
    Portable SparseCheck [=> "sparse_check"]
        (read index: i64, value n: usize, value size: usize, write status: u64);
    Portable SparseKeys [=> "sparse_keys"]
        (write keys: i64, read rows: i64, read columns: i64, value p: RawSparse);
    Portable SparseStarts [=> "sparse_starts"]
        (write starts: u32, read sorted: u64, value p: RawSparse);
    Portable SparseMm<T: Float> [f32 => "sparse_mm_f32", f64 => "sparse_mm_f64"]
        (
            write out: T, read values: T, read dense: T, read columns: i64, read order: u32,
            read starts: u32, value p: RawSparse,
        );
    NotGuaranteed SparseMmAtomic<T: Float> [f32 => "sparse_mm_f32_atomic"]
        (
            write out: T, read values: T, read dense: T, read rows: i64, read columns: i64,
            value p: RawSparse,
        );
    Portable SampledProduct<T: Float> [f32 => "sampled_product_f32", f64 => "sampled_product_f64"]
        (
            write out: T, read left: T, read right: T, read rows: i64, read columns: i64,
            value p: RawSparse,
        );
}
