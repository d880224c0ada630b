use samebits_tensor_core::ops::{Bincount, BincountWeighted, Bins, Histc};
use samebits_tensor_core::registry::register;
use samebits_tensor_core::{DType, Tensor};

use super::index::{ASCENDING, EXACT};
use super::memory::Input;
use super::{
    ARRIVAL, F32, F64, FLOATS, Failure, Gpu, Real, Tensors, atomic, on, portable, with_float,
};
use crate::Variant;
use crate::bincount;
use crate::scatter::{self, Rows};

const COUNTS: &str = "integers";

pub(super) fn register_all() {
    register(portable("atomic_counts", &[DType::I64], COUNTS, |op: &Bincount, ()| {
        on(op, |gpu| {
            let x = gpu.input(&op.x)?;
            let bins = bins(&gpu, &x, op.bins)?;
            gpu.tensor(bincount::bincount(gpu.device, &x, bins)?, &[bins])
        })
    }));
    register(atomic(F32, ARRIVAL, |op, _| weighted(op, Variant::Atomic)));
    register(portable("exact", F32, EXACT, |op: &BincountWeighted, ()| {
        weighted(op, Variant::Deterministic)
    }));
    register(portable("ascending", F64, ASCENDING, |op: &BincountWeighted, ()| {
        on(op, |gpu| {
            let (x, weights) = (gpu.input(&op.x)?, gpu.input(&op.weights)?);
            let bins = bins(&gpu, &x, op.bins)?;
            let mut out = gpu.device.zeros::<f64>(bins)?;
            let rows = Rows { outer: 1, size: bins, n: op.x.numel(), inner: 1 };
            let variant = Variant::Deterministic;
            scatter::index_add(gpu.device, &mut out, &x, &weights, rows, 1.0, variant)?;
            gpu.tensor(out, &[bins])
        })
    }));
    register(portable(
        "atomic_counts",
        FLOATS,
        COUNTS,
        |op: &Histc, ()| with_float!(op.x.dtype(), T => histc::<T>(op)),
    ));
}

fn weighted(op: &BincountWeighted, variant: Variant) -> Tensors<Tensor> {
    on(op, |gpu| {
        let (x, weights) = (gpu.input(&op.x)?, gpu.input(&op.weights)?);
        let bins = bins(&gpu, &x, op.bins)?;
        // Few bins, which many threads add to at once, took the atomic form twelve times as long on an
        // H200.
        let variant = if bins <= bincount::SHARED_BINS { Variant::Deterministic } else { variant };
        let out = bincount::bincount_weighted(gpu.device, &x, &weights, bins, variant)?;
        gpu.tensor(out, &[bins])
    })
}

fn histc<T: Real>(op: &Histc) -> Tensors<Tensor> {
    on(op, |gpu| {
        let x = gpu.input::<T>(&op.x)?;
        let (low, high) = (T::from_f64(op.min), T::from_f64(op.max));
        gpu.tensor(bincount::histc(gpu.device, &x, op.bins, low, high)?, &[op.bins])
    })
}

/// Returns the length of the result. Waits for the device if it depends on the values.
fn bins(gpu: &Gpu<'_>, x: &Input<i64>, bins: Bins) -> Result<usize, Failure> {
    match bins {
        Bins::AtLeast(bins) if !x.is_empty() => Ok(bincount::bincount_len(gpu.device, x, bins)?),
        Bins::AtLeast(bins) | Bins::Exactly(bins) => Ok(bins),
    }
}
