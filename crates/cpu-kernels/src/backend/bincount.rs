use samebits_tensor_core::ops::{Bincount, BincountWeighted, Bins, Histc};
use samebits_tensor_core::registry::{Kernel, register};
use samebits_tensor_core::{DType, Element, Result, Tensor};

use super::{F32, FLOATS, filled, with_float};
use crate::bincount;

const COUNTS: &str = "integers";
const EXACT: &str = "f32: the sum is exact and rounded once; f64: added in ascending source order";
const ATOMIC: &str = "float atomics add in the order in which threads arrive";

pub(super) fn register_all() {
    register(Kernel::portable("tables", &[DType::I64], COUNTS, |op: &Bincount, ()| {
        let x = op.x.contiguous()?;
        let bins = bins(x.as_slice()?, op.bins)?;
        filled(&[bins], |out| Ok(bincount::bincount(out, x.as_slice()?)?))
    }));
    // Registered before the atomic variant, because it is the faster of the two: see
    // docs/book/benchmarks.md.
    register(Kernel::portable(
        "exact",
        FLOATS,
        EXACT,
        |op: &BincountWeighted, ()| with_float!(op.weights.dtype(), T => weighted(op, bincount::bincount_weighted::<T>)),
    ));
    register(Kernel::fast("atomic", F32, ATOMIC, |op: &BincountWeighted, ()| {
        weighted(op, bincount::bincount_weighted_fast)
    }));
    register(Kernel::portable("tables", FLOATS, COUNTS, |op: &Histc, ()| {
        let x = op.x.contiguous()?;
        with_float!(x.dtype(), T => filled(&[op.bins], |out: &mut [T]| {
            Ok(bincount::histc(out, x.as_slice()?, op.min as T, op.max as T)?)
        }))
    }));
}

fn bins(values: &[i64], bins: Bins) -> Result<usize> {
    match bins {
        Bins::AtLeast(bins) => Ok(bincount::bincount_len(values, bins)?),
        Bins::Exactly(bins) => Ok(bins),
    }
}

fn weighted<T: Element>(
    op: &BincountWeighted,
    f: impl FnOnce(&mut [T], &[i64], &[T]) -> crate::Result<()>,
) -> Result<Tensor> {
    let (x, weights) = (op.x.contiguous()?, op.weights.contiguous()?);
    let bins = bins(x.as_slice()?, op.bins)?;
    filled(&[bins], |out| Ok(f(out, x.as_slice()?, weights.as_slice()?)?))
}
