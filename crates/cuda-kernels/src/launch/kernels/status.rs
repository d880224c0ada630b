// Written by `cargo xtask build-kernels` from kernels/status.cu. Do not edit.

use crate::launch::Family;
use crate::launch::declared::status::RawSource;

pub(crate) const FAMILY: Family =
    Family { name: "status", ptx: include_str!("../../../ptx/status.ptx") };

kernels! {
    Portable StatusCollect [=> "status_collect"]
        (write status: u64, read sources: RawSource, value count: usize);
}
