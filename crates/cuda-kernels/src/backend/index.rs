use samebits_tensor_core::layout::outer_dim_inner;
use samebits_tensor_core::ops::{IndexAdd, IndexSelect};
use samebits_tensor_core::registry::register;
use samebits_tensor_core::{DType, Op, Tensor};

use super::{ARRIVAL, F32, Failure, Tensors, atomic, on, portable, with_any};
use crate::Variant;
use crate::scatter::{self, Rows};

pub(super) fn register_all() {
    register(portable("copy", &DType::ALL, "each element is copied", |op: &IndexSelect| {
        on(op, |gpu| {
            let rows = rows(IndexSelect::NAME, op.x.shape(), op.dim, op.index.numel())?;
            let index = gpu.input(&op.index)?;
            let mut shape = op.x.shape().to_vec();
            shape[op.dim] = rows.n;
            with_any!(op.x.dtype(), T => {
                let out = scatter::index_select(gpu.device, &*gpu.input::<T>(&op.x)?, &index, rows)?;
                gpu.typed(out, &shape, op.x.dtype())
            })
        })
    }));
    register(atomic(F32, ARRIVAL, |op| index_add(op, Variant::Atomic)));
    register(portable("exact", F32, "the sum is exact and rounded once", |op: &IndexAdd| {
        index_add(op, Variant::Deterministic)
    }));
    register(portable(
        "ascending",
        &[DType::F64],
        "added in ascending source order",
        |op: &IndexAdd| {
            on(op, |gpu| {
                let rows = rows(IndexAdd::NAME, op.input.shape(), op.dim, op.index.numel())?;
                let mut out = gpu.copy::<f64>(&op.input)?;
                let (index, source) = (gpu.input(&op.index)?, gpu.input(&op.source)?);
                scatter::index_add_f64(gpu.device, &mut out, &index, &source, rows, op.alpha)?;
                gpu.tensor(out, op.input.shape())
            })
        },
    ));
}

fn index_add(op: &IndexAdd, variant: Variant) -> Tensors<Tensor> {
    on(op, |gpu| {
        let rows = rows(IndexAdd::NAME, op.input.shape(), op.dim, op.index.numel())?;
        let mut out = gpu.copy::<f32>(&op.input)?;
        let (index, source) = (gpu.input(&op.index)?, gpu.input(&op.source)?);
        let alpha = op.alpha as f32;
        scatter::index_add(gpu.device, &mut out, &index, &source, rows, alpha, variant)?;
        gpu.tensor(out, op.input.shape())
    })
}

/// A tensor seen along one dimension, with `n` places in the index.
pub(super) fn rows(
    op: &'static str,
    shape: &[usize],
    dim: usize,
    n: usize,
) -> Result<Rows, Failure> {
    let (outer, size, inner) = outer_dim_inner(op, shape, dim)?;
    Ok(Rows { outer, size, n, inner })
}
