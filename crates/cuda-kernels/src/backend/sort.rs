use samebits_tensor_core::geometry::Split;
use samebits_tensor_core::ops::{Kthvalue, Median, Sort, Topk, Unique, UniqueDim};
use samebits_tensor_core::registry::register;
use samebits_tensor_core::{DType, Op, Tensor, with_ordered};

use super::{FLOATS, Stored, Tensors, on, portable, with_float};
use crate::Buffer;
use crate::device::Device;
use crate::error::Result;
use crate::scatter::{self, Rows};
use crate::sort::{self, Found, Sortable};

/// The element types with an order.
const ORDERED: &[DType] = &[DType::F32, DType::F64, DType::I64];
const STABLE: &str = "equal elements keep their order, so each has one place";

pub(super) fn register_all() {
    register(portable("stable", ORDERED, STABLE, |op: &Sort, &split| {
        with_ordered!(op.x.dtype(), T => {
            select(op, &op.x, (op.dim, split), split.size, |device, x: &Buffer<T>, shape| {
                sort::sort(device, x, shape, op.descending)
            })
        })
    }));
    register(portable("stable", ORDERED, STABLE, |op: &Topk, &split| {
        with_ordered!(op.x.dtype(), T => {
            select(op, &op.x, (op.dim, split), op.k, |device, x: &Buffer<T>, shape| {
                sort::topk(device, x, shape, op.k, op.largest)
            })
        })
    }));
    register(portable("stable", ORDERED, STABLE, |op: &Kthvalue, &split| {
        with_ordered!(op.x.dtype(), T => {
            select(op, &op.x, (op.dim, split), 1, |device, x: &Buffer<T>, shape| {
                sort::kthvalue(device, x, shape, op.k)
            })
        })
    }));
    register(portable("stable", FLOATS, STABLE, |op: &Median, &split| {
        with_float!(op.x.dtype(), T => {
            select(op, &op.x, (op.dim, split), 1, |device, x: &Buffer<T>, shape| {
                sort::median(device, x, shape, op.ignore_nan)
            })
        })
    }));
    register(portable(
        "stable",
        ORDERED,
        STABLE,
        |op: &Unique, ()| with_ordered!(op.x.dtype(), T => unique::<T>(op)),
    ));
    register(portable(
        "stable",
        ORDERED,
        STABLE,
        |op: &UniqueDim, _| with_ordered!(op.x.dtype(), T => unique_dim::<T>(op)),
    ));
}

/// Runs `find(device, x, (outer, dim, inner))` for results with size `k` along `dim`.
fn select<T: Stored, O: Op>(
    op: &O,
    x: &Tensor,
    (dim, split): (usize, Split),
    k: usize,
    find: impl FnOnce(&Device, &Buffer<T>, [usize; 3]) -> Result<Found<T>>,
) -> Tensors<(Tensor, Tensor)> {
    on(op, |gpu| {
        let (values, indices) = find(gpu.device, &*gpu.input::<T>(x)?, split.into())?;
        let mut shape = x.shape().to_vec();
        shape[dim] = k;
        Ok((gpu.tensor(values, &shape)?, gpu.tensor(indices, &shape)?))
    })
}

fn unique<T: Stored + Sortable>(op: &Unique) -> Tensors<(Tensor, Tensor, Tensor)> {
    on(op, |gpu| {
        let x = gpu.input::<T>(&op.x)?;
        let found = sort::unique(gpu.device, &x, op.x.numel(), op.consecutive)?;
        let shape = [found.count];
        Ok((
            gpu.tensor(found.values, &shape)?,
            gpu.tensor(found.inverse, op.x.shape())?,
            gpu.tensor(found.counts, &shape)?,
        ))
    })
}

fn unique_dim<T: Stored + Sortable>(op: &UniqueDim) -> Tensors<(Tensor, Tensor, Tensor)> {
    on(op, |gpu| {
        let (rank, dim) = (op.x.rank(), op.dim);
        let order: Vec<usize> =
            std::iter::once(dim).chain((0..rank).filter(|&d| d != dim)).collect();
        let rows = op.x.permute(&order)?;
        let mut shape = rows.shape().to_vec();
        let (size, inner) = (shape[0], shape[1..].iter().product());
        let x = gpu.input::<T>(&rows)?;
        let found = sort::unique_rows(gpu.device, &x, [size, inner], op.consecutive)?;
        let taken = Rows { outer: 1, size, n: found.count, inner };
        let kept = scatter::index_select(gpu.device, &x, &found.firsts, taken)?;
        shape[0] = found.count;
        let back: Vec<usize> = (1..=dim).chain([0]).chain(dim + 1..rank).collect();
        Ok((
            gpu.tensor(kept, &shape)?.permute(&back)?.contiguous()?,
            gpu.tensor(found.inverse, &[size])?,
            gpu.tensor(found.counts, &[found.count])?,
        ))
    })
}
