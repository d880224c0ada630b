// Written by `cargo xtask build-kernels` from kernels/random.cu. Do not edit.

use crate::device::Float;
use crate::launch::Family;
use crate::launch::declared::random::RawDraw;

pub(crate) const FAMILY: Family =
    Family { name: "random", ptx: include_str!("../../../ptx/random.ptx") };
const _: () = assert!(size_of::<RawDraw>() == 24);

kernels! {
    Portable Words [=> "words_u32"]
        (write out: u32, value n: usize, value draw: RawDraw);
    Portable PhiloxBlocks [=> "philox_blocks"]
        (write out: u32, read counters: u32, read keys: u32, value n: usize, value rounds: u32);
    Portable Uniform<T: Float> [f32 => "uniform_f32", f64 => "uniform_f64"]
        (
            write out: T, value n: usize, value draw: RawDraw, value low: T, value high: T,
            value range: T, value last: T,
        );
    Portable Bernoulli [=> "bernoulli_b8"]
        (write out: u8, value n: usize, value draw: RawDraw, value last: u32, value any: u32);
    Portable Dropout<T: Float> [f32 => "dropout_f32", f64 => "dropout_f64"]
        (
            write out: T, write mask: u8, read input: T, value n: usize, value draw: RawDraw,
            value last: u32, value any: u32, value scale: T,
        );
    Portable Randint [=> "randint_i64"]
        (
            write out: i64, value n: usize, value draw: RawDraw, value low: i64, value range: usize,
            value excess: usize, value space0: u32, value space1: u32,
        );
    Portable Normal<T: Float> [f32 => "normal_f32", f64 => "normal_f64"]
        (write out: T, value n: usize, value draw: RawDraw, value mean: T, value std: T);
    Portable LogNormal<T: Float> [f32 => "log_normal_f32"]
        (write out: T, value n: usize, value draw: RawDraw, value mean: T, value std: T);
    Portable Exponential<T: Float> [f32 => "exponential_f32"]
        (write out: T, value n: usize, value draw: RawDraw, value rate: T);
}
