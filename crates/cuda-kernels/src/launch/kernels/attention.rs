// Written by `cargo xtask build-kernels` from kernels/attention.cu. Do not edit.

use crate::device::Float;
use crate::launch::Family;
use crate::launch::declared::attention::RawAttention;

pub(crate) const FAMILY: Family =
    Family { name: "attention", ptx: include_str!("../../../ptx/attention.ptx") };
const _: () = assert!(size_of::<RawAttention>() == 216);

kernels! {
    Portable AttentionLargest<T: Float> [
        f32 => "attention_largest_f32", f64 => "attention_largest_f64",
    ]
        (
            write largest: T, read query: T, read key: T, read value: T, read added: T,
            read hidden: u8, read starts: u64, value p: RawAttention,
        );
    Portable AttentionAverage<T: Float> [
        f32 => "attention_average_f32", f64 => "attention_average_f64",
    ]
        (
            write out: T, write sums: T, write partials: f64, read largest: T, read query: T,
            read key: T, read value: T, read added: T, read hidden: u8, read starts: u64,
            value p: RawAttention,
        );
}
