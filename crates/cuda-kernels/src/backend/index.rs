use samebits_tensor_core::geometry::{IndexedElements, IndexedSlices, Split};
use samebits_tensor_core::ops::{
    Gather, Index, IndexAdd, IndexCopy, IndexPut, IndexPutAdd, IndexSelect, Nonzero, Scatter,
};
use samebits_tensor_core::registry::register;
use samebits_tensor_core::{DType, Op, Tensor};

use super::elementwise::comparable;
use super::memory::Input;
use super::{
    ARRIVAL, F32, F64, Failure, Gpu, INTEGERS, Stored, Tensors, WRAPS, atomic, on, portable,
    with_comparable, with_word,
};
use crate::places;
use crate::scatter::{self, Rows, Summed};
use crate::sort;
use crate::{Buffer, Variant};

const COPY: &str = "each element is copied";
const LAST: &str = "if several sources name one place, the last one is kept";
pub(super) const EXACT: &str = "the sum is exact and rounded once";
pub(super) const ASCENDING: &str = "added in ascending source order";

pub(super) fn register_all() {
    register(portable("copy", &DType::ALL, COPY, |op: &IndexSelect, (split, shape)| {
        on(op, |gpu| {
            let (rows, index) = (rows(*split, op.index.numel()), gpu.input(&op.index)?);
            with_word!(op.x.dtype(), T => {
                let x = gpu.input::<T>(&op.x)?;
                let out = scatter::index_select(gpu.device, &x, &index, rows)?;
                gpu.typed(out, shape, op.x.dtype())
            })
        })
    }));
    register(portable("copy", &DType::ALL, COPY, |op: &Gather, plan| {
        on(op, |gpu| {
            let (rows, index) = elements(&gpu, Gather::NAME, plan, &op.index)?;
            with_word!(op.x.dtype(), T => {
                let x = gpu.input::<T>(&op.x)?;
                let out = scatter::gather(gpu.device, &x, &index, rows)?;
                gpu.typed(out, op.index.shape(), op.x.dtype())
            })
        })
    }));
    register(portable("copy", &DType::ALL, COPY, |op: &Index, plan| {
        on(op, |gpu| {
            let (rows, index) = joined(&gpu, Index::NAME, plan, &op.x, &op.indices)?;
            with_word!(op.x.dtype(), T => {
                let x = gpu.input::<T>(&op.x)?;
                let out = scatter::index_select(gpu.device, &x, &index, rows)?;
                gpu.typed(out, &plan.shape, op.x.dtype())
            })
        })
    }));
    register(portable("last", &DType::ALL, LAST, |op: &IndexCopy, &split| {
        on(op, |gpu| {
            let (rows, index) = (rows(split, op.index.numel()), gpu.input(&op.index)?);
            with_word!(op.input.dtype(), T => {
                let (mut out, source) = (gpu.copy::<T>(&op.input)?, gpu.input(&op.source)?);
                scatter::index_copy(gpu.device, &mut out, &index, &source, rows)?;
                gpu.typed(out, op.input.shape(), op.input.dtype())
            })
        })
    }));
    register(portable("last", &DType::ALL, LAST, |op: &Scatter, plan| {
        on(op, |gpu| {
            let (rows, index) = elements(&gpu, Scatter::NAME, plan, &op.index)?;
            let source = op.source.leading(op.index.shape())?;
            with_word!(op.input.dtype(), T => {
                let (mut out, source) = (gpu.copy::<T>(&op.input)?, gpu.input(&source)?);
                scatter::scatter(gpu.device, &mut out, &index, &source, rows)?;
                gpu.typed(out, op.input.shape(), op.input.dtype())
            })
        })
    }));
    register(portable("last", &DType::ALL, LAST, |op: &IndexPut, plan| {
        on(op, |gpu| {
            let (rows, index) = joined(&gpu, IndexPut::NAME, plan, &op.input, &op.indices)?;
            let values = op.values.expand(&plan.shape)?;
            with_word!(op.input.dtype(), T => {
                let (mut out, values) = (gpu.copy::<T>(&op.input)?, gpu.input(&values)?);
                scatter::index_copy(gpu.device, &mut out, &index, &values, rows)?;
                gpu.typed(out, op.input.shape(), op.input.dtype())
            })
        })
    }));
    register(portable("search", &DType::ALL, COPY, |op: &Nonzero, ()| {
        on(op, |gpu| {
            let x = comparable(&gpu, &op.x)?;
            with_comparable!(x.dtype(), T => {
                let x = gpu.input::<T>(&x)?;
                let (out, count) = sort::nonzero(gpu.device, &x, op.x.shape())?;
                gpu.tensor(out, &[count, op.x.rank()])
            })
        })
    }));
    register(atomic(F32, ARRIVAL, |op, &split| index_add::<f32>(op, split, Variant::Atomic)));
    register(portable("exact", F32, EXACT, |op: &IndexAdd, &split| {
        index_add::<f32>(op, split, Variant::Deterministic)
    }));
    register(portable("ascending", F64, ASCENDING, |op: &IndexAdd, &split| {
        index_add::<f64>(op, split, Variant::Deterministic)
    }));
    register(portable("integers", INTEGERS, WRAPS, |op: &IndexAdd, &split| {
        index_add::<i64>(op, split, Variant::Deterministic)
    }));
    register(atomic(F32, ARRIVAL, |op, plan| index_put_add::<f32>(op, plan, Variant::Atomic)));
    register(portable("exact", F32, EXACT, |op: &IndexPutAdd, plan| {
        index_put_add::<f32>(op, plan, Variant::Deterministic)
    }));
    register(portable("ascending", F64, ASCENDING, |op: &IndexPutAdd, plan| {
        index_put_add::<f64>(op, plan, Variant::Deterministic)
    }));
    register(portable("integers", INTEGERS, WRAPS, |op: &IndexPutAdd, plan| {
        index_put_add::<i64>(op, plan, Variant::Deterministic)
    }));
}

fn index_add<T: Stored + Summed>(op: &IndexAdd, split: Split, variant: Variant) -> Tensors<Tensor> {
    on(op, |gpu| {
        let rows = rows(split, op.index.numel());
        let mut out = gpu.copy::<T>(&op.input)?;
        let (index, source) = (gpu.input(&op.index)?, gpu.input(&op.source)?);
        let alpha = T::from_f64(op.alpha);
        scatter::index_add(gpu.device, &mut out, &index, &source, rows, alpha, variant)?;
        gpu.tensor(out, op.input.shape())
    })
}

fn index_put_add<T: Stored + Summed>(
    op: &IndexPutAdd,
    plan: &IndexedSlices,
    variant: Variant,
) -> Tensors<Tensor> {
    on(op, |gpu| {
        let (rows, index) = joined(&gpu, IndexPutAdd::NAME, plan, &op.input, &op.indices)?;
        let mut out = gpu.copy::<T>(&op.input)?;
        let values = gpu.input(&op.values.expand(&plan.shape)?)?;
        let one = T::from_f64(1.0);
        scatter::index_add(gpu.device, &mut out, &index, &values, rows, one, variant)?;
        gpu.tensor(out, op.input.shape())
    })
}

/// Returns the view of a tensor along one dimension, with `n` places in the index.
pub(super) fn rows(split: Split, n: usize) -> Rows {
    let Split { outer, size, inner } = split;
    Rows { outer, size, n, inner }
}

/// An index in device memory: that of a tensor, or a computed one.
pub(super) enum Places {
    Given(Input<i64>),
    Computed(Buffer<i64>),
}

impl std::ops::Deref for Places {
    type Target = Buffer<i64>;

    fn deref(&self) -> &Buffer<i64> {
        match self {
            Places::Given(index) => index,
            Places::Computed(index) => index,
        }
    }
}

/// Returns an index of elements, and the view it addresses. If the index covers only a part of the
/// tensor, it is converted to places in the flattened tensor.
pub(super) fn elements(
    gpu: &Gpu<'_>,
    op: &'static str,
    plan: &IndexedElements,
    index: &Tensor,
) -> Result<(Rows, Places), Failure> {
    if plan.whole {
        let n = index.shape()[plan.dim];
        return Ok((rows(plan.split, n), Places::Given(gpu.input(index)?)));
    }
    let places = flat_places(gpu, op, plan, index)?;
    Ok((rows(plan.flat(), index.numel()), Places::Computed(places)))
}

/// Returns an index of elements as places in the flattened tensor.
pub(super) fn flat_places(
    gpu: &Gpu<'_>,
    op: &'static str,
    plan: &IndexedElements,
    index: &Tensor,
) -> Result<Buffer<i64>, Failure> {
    let (given, size) = (gpu.input(index)?, plan.split.size);
    let (shape, strides) = (index.shape(), &plan.strides[..]);
    Ok(places::part_places(gpu.device, op, &given, shape, strides, plan.dim, size)?)
}

/// Returns the view and the rows that several indices of the first dimensions name together.
fn joined(
    gpu: &Gpu<'_>,
    op: &'static str,
    plan: &IndexedSlices,
    x: &Tensor,
    indices: &[Tensor],
) -> Result<(Rows, Buffer<i64>), Failure> {
    let given = indices
        .iter()
        .map(|index| gpu.input(&index.expand(plan.index_shape())?))
        .collect::<Result<Vec<Input<i64>>, Failure>>()?;
    let (sizes, n) = (&x.shape()[..indices.len()], plan.index_shape().iter().product());
    let found = places::joined_places(gpu.device, op, &given, sizes, n)?;
    Ok((Rows { outer: 1, size: plan.rows, n, inner: plan.width }, found))
}
