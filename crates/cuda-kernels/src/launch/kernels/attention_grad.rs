// Written by `cargo xtask build-kernels` from kernels/attention_grad.cu. Do not edit.

use crate::device::Float;
use crate::launch::Family;
use crate::launch::declared::attention::RawAttention;

pub(crate) const FAMILY: Family =
    Family { name: "attention_grad", ptx: include_str!("../../../ptx/attention_grad.ptx") };
const _: () = assert!(size_of::<RawAttention>() == 216);

kernels! {
    Portable AttentionKeys<T: Float> [f32 => "attention_keys_f32", f64 => "attention_keys_f64"]
        (
            write of_key: T, write of_value: T, read grad: T, read shared: T, read largest: T,
            read query: T, read key: T, read value: T, read added: T, read hidden: u8,
            read starts: u64, value p: RawAttention,
        );
    Portable AttentionQueries<T: Float> [
        f32 => "attention_queries_f32", f64 => "attention_queries_f64",
    ]
        (
            write of_query: T, read grad: T, read shared: T, read largest: T, read query: T,
            read key: T, read value: T, read added: T, read hidden: u8, read starts: u64,
            value p: RawAttention,
        );
    NotGuaranteed AttentionGradsAtomic<T: Float> [f32 => "attention_grads_f32_atomic"]
        (
            write of_query: T, write of_key: T, write of_value: T, read grad: T, read shared: T,
            read largest: T, read query: T, read key: T, read value: T, read added: T,
            read hidden: u8, read starts: u64, value p: RawAttention,
        );
}
