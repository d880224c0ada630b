use samebits_tensor_core::layout::{PerDim, outer_dim_inner};
use samebits_tensor_core::ops::{
    Gather, Index, IndexAdd, IndexCopy, IndexPut, IndexPutAdd, IndexSelect, Nonzero, Scatter,
    indexed_shape,
};
use samebits_tensor_core::registry::register;
use samebits_tensor_core::{DType, Layout, Op, Tensor};

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
    register(portable("copy", &DType::ALL, COPY, |op: &IndexSelect, ()| {
        on(op, |gpu| {
            let rows = rows(IndexSelect::NAME, op.x.shape(), op.dim, op.index.numel())?;
            let index = gpu.input(&op.index)?;
            let mut shape = op.x.shape().to_vec();
            shape[op.dim] = rows.n;
            with_word!(op.x.dtype(), T => {
                let x = gpu.input::<T>(&op.x)?;
                let out = scatter::index_select(gpu.device, &x, &index, rows)?;
                gpu.typed(out, &shape, op.x.dtype())
            })
        })
    }));
    register(portable("copy", &DType::ALL, COPY, |op: &Gather, ()| {
        on(op, |gpu| {
            let (rows, index) = elements(&gpu, Gather::NAME, op.x.shape(), op.dim, &op.index)?;
            with_word!(op.x.dtype(), T => {
                let x = gpu.input::<T>(&op.x)?;
                let out = scatter::gather(gpu.device, &x, &index, rows)?;
                gpu.typed(out, op.index.shape(), op.x.dtype())
            })
        })
    }));
    register(portable("copy", &DType::ALL, COPY, |op: &Index, ()| {
        on(op, |gpu| {
            let (rows, index, shape) = joined(&gpu, Index::NAME, &op.x, &op.indices)?;
            with_word!(op.x.dtype(), T => {
                let x = gpu.input::<T>(&op.x)?;
                let out = scatter::index_select(gpu.device, &x, &index, rows)?;
                gpu.typed(out, &shape, op.x.dtype())
            })
        })
    }));
    register(portable("last", &DType::ALL, LAST, |op: &IndexCopy, ()| {
        on(op, |gpu| {
            let rows = rows(IndexCopy::NAME, op.input.shape(), op.dim, op.index.numel())?;
            let index = gpu.input(&op.index)?;
            with_word!(op.input.dtype(), T => {
                let (mut out, source) = (gpu.copy::<T>(&op.input)?, gpu.input(&op.source)?);
                scatter::index_copy(gpu.device, &mut out, &index, &source, rows)?;
                gpu.typed(out, op.input.shape(), op.input.dtype())
            })
        })
    }));
    register(portable("last", &DType::ALL, LAST, |op: &Scatter, ()| {
        on(op, |gpu| {
            let shape = op.input.shape();
            let (rows, index) = elements(&gpu, Scatter::NAME, shape, op.dim, &op.index)?;
            let source = part(&op.source, &op.index)?;
            with_word!(op.input.dtype(), T => {
                let (mut out, source) = (gpu.copy::<T>(&op.input)?, gpu.input(&source)?);
                scatter::scatter(gpu.device, &mut out, &index, &source, rows)?;
                gpu.typed(out, shape, op.input.dtype())
            })
        })
    }));
    register(portable("last", &DType::ALL, LAST, |op: &IndexPut, ()| {
        on(op, |gpu| {
            let (rows, index, shape) = joined(&gpu, IndexPut::NAME, &op.input, &op.indices)?;
            let values = op.values.expand(&shape)?;
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
    register(atomic(F32, ARRIVAL, |op, _| index_add::<f32>(op, Variant::Atomic)));
    register(portable("exact", F32, EXACT, |op: &IndexAdd, ()| {
        index_add::<f32>(op, Variant::Deterministic)
    }));
    register(portable("ascending", F64, ASCENDING, |op: &IndexAdd, ()| {
        index_add::<f64>(op, Variant::Deterministic)
    }));
    register(portable("integers", INTEGERS, WRAPS, |op: &IndexAdd, ()| {
        index_add::<i64>(op, Variant::Deterministic)
    }));
    register(atomic(F32, ARRIVAL, |op, _| index_put_add::<f32>(op, Variant::Atomic)));
    register(portable("exact", F32, EXACT, |op: &IndexPutAdd, ()| {
        index_put_add::<f32>(op, Variant::Deterministic)
    }));
    register(portable("ascending", F64, ASCENDING, |op: &IndexPutAdd, ()| {
        index_put_add::<f64>(op, Variant::Deterministic)
    }));
    register(portable("integers", INTEGERS, WRAPS, |op: &IndexPutAdd, ()| {
        index_put_add::<i64>(op, Variant::Deterministic)
    }));
}

fn index_add<T: Stored + Summed>(op: &IndexAdd, variant: Variant) -> Tensors<Tensor> {
    on(op, |gpu| {
        let rows = rows(IndexAdd::NAME, op.input.shape(), op.dim, op.index.numel())?;
        let mut out = gpu.copy::<T>(&op.input)?;
        let (index, source) = (gpu.input(&op.index)?, gpu.input(&op.source)?);
        let alpha = T::from_f64(op.alpha);
        scatter::index_add(gpu.device, &mut out, &index, &source, rows, alpha, variant)?;
        gpu.tensor(out, op.input.shape())
    })
}

fn index_put_add<T: Stored + Summed>(op: &IndexPutAdd, variant: Variant) -> Tensors<Tensor> {
    on(op, |gpu| {
        let (rows, index, shape) = joined(&gpu, IndexPutAdd::NAME, &op.input, &op.indices)?;
        let mut out = gpu.copy::<T>(&op.input)?;
        let values = gpu.input(&op.values.expand(&shape)?)?;
        let one = T::from_f64(1.0);
        scatter::index_add(gpu.device, &mut out, &index, &values, rows, one, variant)?;
        gpu.tensor(out, op.input.shape())
    })
}

/// Returns the view of a tensor along one dimension, with `n` places in the index.
pub(super) fn rows(
    op: &'static str,
    shape: &[usize],
    dim: usize,
    n: usize,
) -> Result<Rows, Failure> {
    let (outer, size, inner) = outer_dim_inner(op, shape, dim)?;
    Ok(Rows { outer, size, n, inner })
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

/// Returns an index of elements of a tensor of `shape`, and the view it addresses. If the index
/// covers only a part of the tensor, it is converted to places in the flattened tensor.
pub(super) fn elements(
    gpu: &Gpu<'_>,
    op: &'static str,
    shape: &[usize],
    dim: usize,
    index: &Tensor,
) -> Result<(Rows, Places), Failure> {
    let rows = rows(op, shape, dim, index.shape()[dim])?;
    let given = gpu.input(index)?;
    if (0..shape.len()).all(|d| d == dim || index.shape()[d] == shape[d]) {
        return Ok((rows, Places::Given(given)));
    }
    let strides = Layout::contiguous(op, shape)?;
    let strides = strides.strides();
    let size = shape[dim];
    let places = places::part_places(gpu.device, op, &given, index.shape(), strides, dim, size)?;
    let flat = Rows { outer: 1, size: shape.iter().product(), n: index.numel(), inner: 1 };
    Ok((flat, Places::Computed(places)))
}

/// Returns the part of a source that an index of elements covers.
pub(super) fn part(source: &Tensor, index: &Tensor) -> Result<Tensor, Failure> {
    let mut source = source.clone();
    for (dim, &size) in index.shape().iter().enumerate() {
        source = source.narrow(dim, 0, size)?;
    }
    Ok(source)
}

/// Returns the view and the rows that several indices of the first dimensions name together, and
/// the shape of the selected part.
fn joined(
    gpu: &Gpu<'_>,
    op: &'static str,
    x: &Tensor,
    indices: &[Tensor],
) -> Result<(Rows, Buffer<i64>, PerDim), Failure> {
    let (sizes, rest) = x.shape().split_at(indices.len());
    let shape = indexed_shape(op, x, indices)?;
    let index_shape = &shape[..shape.len() - rest.len()];
    let given = indices
        .iter()
        .map(|index| gpu.input(&index.expand(index_shape)?))
        .collect::<Result<Vec<Input<i64>>, Failure>>()?;
    let n = index_shape.iter().product();
    let found = places::joined_places(gpu.device, op, &given, sizes, n)?;
    let rows = Rows { outer: 1, size: sizes.iter().product(), n, inner: rest.iter().product() };
    Ok((rows, found, shape))
}
