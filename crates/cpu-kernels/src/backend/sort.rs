use samebits_tensor_core::geometry::Split;
use samebits_tensor_core::ops::{Kthvalue, Median, Sort, Topk, Unique, UniqueDim};
use samebits_tensor_core::registry::{Kernel, register};
use samebits_tensor_core::{DType, Element, Op, Result, Tensor, with_ordered};

use super::{FLOATS, with_float};
use crate::memory;
use crate::sort::{self, Sortable};

/// The element types with an order.
const ORDERED: &[DType] = &[DType::F32, DType::F64, DType::I64];
const STABLE: &str = "equal elements keep their order, so each has one place";

pub(super) fn register_all() {
    register(Kernel::portable("stable", ORDERED, STABLE, |op: &Sort, &split| {
        with_ordered!(op.x.dtype(), T => {
            select(&op.x, (op.dim, split), split.size, |x: &[T], shape, values, indices| {
                sort::sort(x, shape, op.descending, values, indices)
            })
        })
    }));
    register(Kernel::portable("stable", ORDERED, STABLE, |op: &Topk, &split| {
        with_ordered!(op.x.dtype(), T => {
            select(&op.x, (op.dim, split), op.k, |x: &[T], shape, values, indices| {
                sort::topk(x, shape, op.k, op.largest, values, indices)
            })
        })
    }));
    register(Kernel::portable("stable", ORDERED, STABLE, |op: &Kthvalue, &split| {
        with_ordered!(op.x.dtype(), T => {
            select(&op.x, (op.dim, split), 1, |x: &[T], shape, values, indices| {
                sort::kthvalue(x, shape, op.k, values, indices)
            })
        })
    }));
    register(Kernel::portable("stable", FLOATS, STABLE, |op: &Median, &split| {
        with_float!(op.x.dtype(), T => {
            let median = if op.ignore_nan { sort::nanmedian::<T> } else { sort::median::<T> };
            select(&op.x, (op.dim, split), 1, median)
        })
    }));
    register(Kernel::portable(
        "stable",
        ORDERED,
        STABLE,
        |op: &Unique, ()| with_ordered!(op.x.dtype(), T => unique::<T>(op)),
    ));
    register(Kernel::portable(
        "stable",
        ORDERED,
        STABLE,
        |op: &UniqueDim, _| with_ordered!(op.x.dtype(), T => unique_dim::<T>(op)),
    ));
}

/// Runs `f(x, (outer, dim, inner), values, indices)` for results with size `k` along `dim`.
fn select<T: Element>(
    x: &Tensor,
    (dim, split): (usize, Split),
    k: usize,
    f: impl FnOnce(&[T], [usize; 3], &mut [T], &mut [i64]) -> crate::Result<()>,
) -> Result<(Tensor, Tensor)> {
    let x = x.contiguous()?;
    let mut shape = x.shape().to_vec();
    shape[dim] = k;
    let mut values = Tensor::scratch(&shape, x.dtype())?;
    let mut indices = Tensor::scratch(&shape, DType::I64)?;
    f(x.as_slice()?, split.into(), values.as_mut_slice()?, indices.as_mut_slice()?)?;
    Ok((values, indices))
}

fn unique<T: Element + Sortable>(op: &Unique) -> Result<(Tensor, Tensor, Tensor)> {
    let x = op.x.contiguous()?;
    let mut inverse = Tensor::scratch(x.shape(), DType::I64)?;
    let (values, counts) =
        sort::unique_to(x.as_slice::<T>()?, op.consecutive, inverse.as_mut_slice()?)?;
    let shape = [values.len()];
    Ok((Tensor::from_slice(&values, &shape)?, inverse, Tensor::from_slice(&counts, &shape)?))
}

fn unique_dim<T: Element + Sortable>(op: &UniqueDim) -> Result<(Tensor, Tensor, Tensor)> {
    let (rank, dim) = (op.x.rank(), op.dim);
    let order: Vec<usize> = std::iter::once(dim).chain((0..rank).filter(|&d| d != dim)).collect();
    let x = op.x.permute(&order)?.contiguous()?;
    let (rows, width) = (x.shape()[0], x.shape()[1..].iter().product());
    let values = x.as_slice::<T>()?;
    let found = sort::unique_rows(values, [rows, width], op.consecutive)?;
    let (distinct, mut shape) = (found.rows.len(), x.shape().to_vec());
    shape[0] = distinct;
    let mut kept = memory::with_capacity(UniqueDim::NAME, distinct * width)?;
    for &row in &found.rows {
        kept.extend_from_slice(&values[row * width..][..width]);
    }
    let back: Vec<usize> = (1..=dim).chain([0]).chain(dim + 1..rank).collect();
    Ok((
        Tensor::from_slice(&kept, &shape)?.permute(&back)?.contiguous()?,
        Tensor::from_slice(&found.inverse, &[rows])?,
        Tensor::from_slice(&found.counts, &[distinct])?,
    ))
}
