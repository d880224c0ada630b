// Written by `cargo xtask build-kernels` from kernels/digest.cu. Do not edit.

use crate::device::Word;
use crate::launch::Family;

pub(crate) const FAMILY: Family =
    Family { name: "digest", ptx: include_str!("../../../ptx/digest.ptx") };

kernels! {
    Portable Digest<T: Word> [
        b8 => "digest_b8", b16 => "digest_b16", b32 => "digest_b32", b64 => "digest_b64",
    ]
        (
            write sum: u64, read x: T, value n: usize, value blocks: usize, value block: usize,
            value infinity: usize, value quiet: usize,
        );
}
