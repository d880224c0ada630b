// Written by `cargo xtask build-kernels` from kernels/embedding.cu. Do not edit.

use crate::device::Float;
use crate::launch::Family;
use crate::launch::declared::embedding::RawBags;

pub(crate) const FAMILY: Family =
    Family { name: "embedding", ptx: include_str!("../../../ptx/embedding.ptx") };
const _: () = assert!(size_of::<RawBags>() == 40);

kernels! {
    Portable EmbeddingKeys [=> "embedding_keys"]
        (
            write keys: i64, read index: i64, value n: usize, value rows: usize,
            value padding: usize, write status: u64,
        );
    Portable EmbeddingByCount<T: Float> [
        f32 => "embedding_by_count_f32", f64 => "embedding_by_count_f64",
    ]
        (write out: T, read counts: u32, value rows: usize, value width: usize);
    Portable BagPlaces<T: Float> [f32 => "bag_places_f32", f64 => "bag_places_f64"]
        (
            write bag: u32, write factor: T, read keys: i64, read starts: u64, read weights: T,
            value p: RawBags,
        );
    Portable EmbeddingBag<T: Float> [f32 => "embedding_bag_f32", f64 => "embedding_bag_f64"]
        (
            write out: T, read table: T, read keys: i64, read starts: u64, read weights: T,
            value p: RawBags,
        );
    Portable EmbeddingBagMax<T: Float> [
        f32 => "embedding_bag_max_f32", f64 => "embedding_bag_max_f64",
    ]
        (
            write out: T, write max_rows: i64, read table: T, read keys: i64, read starts: u64,
            value p: RawBags,
        );
    Portable EmbeddingBagGradRows<T: Float> [
        f32 => "embedding_bag_grad_f32_rows", f64 => "embedding_bag_grad_f64_rows",
    ]
        (
            write out: T, read grad: T, read bag: u32, read factor: T, read positions: u32,
            read ends: u32, read counts: u32, write cursor: u64, write long_rows: u32,
            write firsts: u32, value p: RawBags,
        );
    Portable EmbeddingBagGradPieces<T: Float> [f32 => "embedding_bag_grad_f32_pieces"]
        (
            write acc: u64, read grad: T, read bag: u32, read factor: T, read positions: u32,
            read ends: u32, read counts: u32, read cursor: u64, read long_rows: u32,
            read firsts: u32, value p: RawBags,
        );
    NotGuaranteed EmbeddingBagGradAtomic<T: Float> [f32 => "embedding_bag_grad_f32_atomic"]
        (
            write out: T, read grad: T, read bag: u32, read factor: T, read keys: i64,
            value p: RawBags,
        );
    Portable BagMaxKeys [=> "bag_max_keys"]
        (
            write keys: i64, read max_rows: i64, value n: usize, value width: usize,
            value rows: usize, write status: u64,
        );
    Portable EmbeddingBagWeightGrad<T: Float> [
        f32 => "embedding_bag_weight_grad_f32", f64 => "embedding_bag_weight_grad_f64",
    ]
        (
            write out: T, read grad: T, read table: T, read bag: u32, read keys: i64,
            value p: RawBags,
        );
}
