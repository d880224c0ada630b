use samebits_tensor_core::layout::outer_dim_inner;
use samebits_tensor_core::ops::{
    Gather, Index, IndexAdd, IndexCopy, IndexPut, IndexPutAdd, IndexSelect, Nonzero, Scatter,
    indexed_shape,
};
use samebits_tensor_core::registry::{Kernel, register};
use samebits_tensor_core::{DType, Element, Layout, Op, Result, Tensor};

use super::elementwise::comparable;
use super::{F32, FLOATS, INTEGERS, WRAPS, filled, with_bits, with_float};
use crate::{index, memory, scatter};

const COPY: &str = "each element is copied";
const LAST: &str = "if several sources name one place, the last one is kept";
const EXACT: &str = "f32: the sum is exact and rounded once; f64: added in ascending source order";
const ATOMIC: &str = "float atomics add in the order in which threads arrive";

pub(super) fn register_all() {
    register_reads();
    register_assignments();
    register_sums();
}

fn register_reads() {
    register(Kernel::portable("copy", &DType::ALL, COPY, |op: &IndexSelect, ()| {
        let (outer, size, inner) = outer_dim_inner(IndexSelect::NAME, op.x.shape(), op.dim)?;
        let (x, index) = (op.x.contiguous()?, op.index.contiguous()?);
        let mut shape = x.shape().to_vec();
        shape[op.dim] = index.numel();
        let mut out = Tensor::scratch(&shape, x.dtype())?;
        with_bits!(x.dtype(), T => index::index_select::<T>(
            IndexSelect::NAME,
            out.as_mut_slice()?,
            x.as_slice()?,
            [outer, size, inner],
            index.as_slice()?,
        )?);
        Ok(out)
    }));
    register(Kernel::portable("copy", &DType::ALL, COPY, |op: &Gather, ()| {
        let x = op.x.contiguous()?;
        let (shape, index) = places(Gather::NAME, x.shape(), op.dim, &op.index)?;
        let mut out = Tensor::scratch(op.index.shape(), x.dtype())?;
        with_bits!(x.dtype(), T => index::gather::<T>(
            out.as_mut_slice()?,
            x.as_slice()?,
            shape,
            index.as_slice()?,
        )?);
        Ok(out)
    }));
    register(Kernel::portable("copy", &DType::ALL, COPY, |op: &Index, ()| {
        let x = op.x.contiguous()?;
        let (shape, index) = linear(Index::NAME, &x, &op.indices)?;
        let out_shape = indexed_shape(Index::NAME, &x, &op.indices)?;
        let mut out = Tensor::scratch(&out_shape, x.dtype())?;
        with_bits!(x.dtype(), T => index::take::<T>(
            out.as_mut_slice()?,
            x.as_slice()?,
            shape,
            &index,
        )?);
        Ok(out)
    }));
    register(Kernel::portable("search", &DType::ALL, COPY, |op: &Nonzero, ()| {
        let x = comparable(&op.x)?;
        match x.dtype() {
            DType::F32 => nonzero(&x, |x: f32| x != 0.0),
            DType::F64 => nonzero(&x, |x: f64| x != 0.0),
            DType::I64 => nonzero(&x, |x: i64| x != 0),
            _ => nonzero(&x, |x: u8| x != 0),
        }
    }));
}

fn register_assignments() {
    register(Kernel::portable("last", &DType::ALL, LAST, |op: &IndexCopy, ()| {
        let IndexCopy { input, dim, index, source } = op;
        with_bits!(input.dtype(), T => {
            to_slices(input, *dim, index, source, false, index::index_copy::<T>)
        })
    }));
    register(Kernel::portable("last", &DType::ALL, LAST, |op: &Scatter, ()| {
        let Scatter { input, dim, index, source } = op;
        with_bits!(input.dtype(), T => {
            to_elements(Scatter::NAME, input, *dim, index, source, false, index::scatter::<T>)
        })
    }));
    register(Kernel::portable("last", &DType::ALL, LAST, |op: &IndexPut, ()| {
        with_bits!(op.input.dtype(), T => {
            put(&op.input, &op.indices, &op.values, false, index::put::<T>)
        })
    }));
}

fn register_sums() {
    // Registered before the atomic variants, because it is the faster of the two: see
    // docs/benchmarks.md.
    register(Kernel::portable("exact", FLOATS, EXACT, |op: &IndexAdd, ()| {
        let IndexAdd { input, dim, index, source, alpha } = op;
        let fresh = is_zero(input)?;
        with_float!(input.dtype(), T => {
            to_slices(input, *dim, index, source, fresh, |out, shape, index, source: &[T]| {
                scatter::index_add_to(out, fresh, shape, index, source, *alpha as T)
            })
        })
    }));
    register(Kernel::fast("atomic", F32, ATOMIC, |op: &IndexAdd, ()| {
        let IndexAdd { input, dim, index, source, alpha } = op;
        to_slices(input, *dim, index, source, false, |out, shape, index, source| {
            scatter::index_add_fast(out, shape, index, source, *alpha as f32)
        })
    }));
    register(Kernel::portable("exact", FLOATS, EXACT, |op: &IndexPutAdd, ()| {
        let IndexPutAdd { input, indices, values } = op;
        let fresh = is_zero(input)?;
        with_float!(input.dtype(), T => {
            put(input, indices, values, fresh, |out: &mut [T], shape, index, values| {
                scatter::put_add_to(out, fresh, shape, index, values)
            })
        })
    }));
    register(Kernel::fast("atomic", F32, ATOMIC, |op: &IndexPutAdd, ()| {
        put(&op.input, &op.indices, &op.values, false, scatter::put_add_fast)
    }));
    register(Kernel::portable("integers", INTEGERS, WRAPS, |op: &IndexAdd, ()| {
        let IndexAdd { input, dim, index, source, alpha } = op;
        to_slices(input, *dim, index, source, false, |out, shape, index, source| {
            scatter::integer::index_add(out, shape, index, source, *alpha as i64)
        })
    }));
    register(Kernel::portable("integers", INTEGERS, WRAPS, |op: &IndexPutAdd, ()| {
        put(&op.input, &op.indices, &op.values, false, scatter::integer::put_add)
    }));
}

/// Returns true if the tensor is a single stored +0, repeated. Sums that start from it need not
/// read it.
pub(super) fn is_zero(x: &Tensor) -> Result<bool> {
    let layout = x.layout();
    let mut sizes = layout.shape().iter().zip(layout.strides());
    if x.numel() == 0 || !sizes.all(|(&size, &stride)| size == 1 || stride == 0) {
        return Ok(false);
    }
    Ok(with_float!(x.dtype(), T => x.storage_slice::<T>()?[layout.offset()].to_bits() == 0))
}

/// Returns the tensor to write: a copy of the input, or uninitialised memory if `fresh`.
fn start(input: &Tensor, fresh: bool) -> Result<Tensor> {
    if fresh { Ok(Tensor::scratch(input.shape(), input.dtype())?) } else { input.contiguous() }
}

/// Runs `f(out, (outer, dim, inner), index, source)` on a copy of the input, for an index of
/// slices. A `fresh` output has no meaningful content.
pub(super) fn to_slices<T: Element>(
    input: &Tensor,
    dim: usize,
    index: &Tensor,
    source: &Tensor,
    fresh: bool,
    f: impl FnOnce(&mut [T], [usize; 3], &[i64], &[T]) -> crate::Result<()>,
) -> Result<Tensor> {
    let (outer, size, inner) = outer_dim_inner("index", input.shape(), dim)?;
    let (index, source) = (index.contiguous()?, source.contiguous()?);
    let mut out = start(input, fresh)?;
    f(out.as_mut_slice()?, [outer, size, inner], index.as_slice()?, source.as_slice()?)?;
    Ok(out)
}

/// Runs `f(out, (outer, dim, inner), index, source)` on a copy of the input, for an index of
/// elements. A `fresh` output has no meaningful content.
pub(super) fn to_elements<T: Element>(
    op: &'static str,
    input: &Tensor,
    dim: usize,
    index: &Tensor,
    source: &Tensor,
    fresh: bool,
    f: impl FnOnce(&mut [T], [usize; 3], &[i64], &[T]) -> crate::Result<()>,
) -> Result<Tensor> {
    let mut source = source.clone();
    for (d, &size) in index.shape().iter().enumerate() {
        source = source.narrow(d, 0, size)?;
    }
    let source = source.contiguous()?;
    let (shape, index) = places(op, input.shape(), dim, index)?;
    let mut out = start(input, fresh)?;
    f(out.as_mut_slice()?, shape, index.as_slice()?, source.as_slice()?)?;
    Ok(out)
}

/// Returns the shape (outer, dim, inner) and the index for an index of elements. If the index
/// covers only a part of the tensor, it is converted to places in the flattened tensor.
fn places(
    op: &'static str,
    shape: &[usize],
    dim: usize,
    index: &Tensor,
) -> Result<([usize; 3], Tensor)> {
    let (outer, size, inner) = outer_dim_inner(op, shape, dim)?;
    let index = index.contiguous()?;
    if (0..shape.len()).all(|d| d == dim || index.shape()[d] == shape[d]) {
        return Ok(([outer, size, inner], index));
    }
    scatter::check(op, index.as_slice()?, size)?;
    let mut strides = Layout::contiguous(op, shape)?.strides().to_vec();
    let stride = std::mem::take(&mut strides[dim]);
    let lines = Layout::strided(index.shape(), &strides, 0)?;
    let pairs = lines.positions().zip(index.as_slice::<i64>()?);
    let index = filled(index.shape(), |linear| {
        for (place, (line, &i)) in linear.iter_mut().zip(pairs) {
            *place = line as i64 + i * stride as i64;
        }
        Ok(())
    })?;
    Ok(([1, outer * size * inner, 1], index))
}

/// Runs `f(out, (rows, width), index, values)` on a copy of the input. A `fresh` output has no
/// meaningful content.
fn put<T: Element>(
    input: &Tensor,
    indices: &[Tensor],
    values: &Tensor,
    fresh: bool,
    f: impl FnOnce(&mut [T], [usize; 2], &[i64], &[T]) -> crate::Result<()>,
) -> Result<Tensor> {
    let (shape, index) = linear(IndexPut::NAME, input, indices)?;
    let values_shape = indexed_shape(IndexPut::NAME, input, indices)?;
    let values = values.expand(&values_shape)?.contiguous()?;
    let mut out = start(input, fresh)?;
    f(out.as_mut_slice()?, shape, &index, values.as_slice()?)?;
    Ok(out)
}

/// Returns the shape (rows, width) and the rows that indices of the first dimensions name.
fn linear(op: &'static str, x: &Tensor, indices: &[Tensor]) -> Result<([usize; 2], Vec<i64>)> {
    let (sizes, rest) = x.shape().split_at(indices.len());
    let shape = indexed_shape(op, x, indices)?;
    let index_shape = &shape[..shape.len() - rest.len()];
    let broadcast = indices
        .iter()
        .map(|index| index.expand(index_shape)?.contiguous())
        .collect::<Result<Vec<_>>>()?;
    let slices =
        broadcast.iter().map(|index| index.as_slice::<i64>()).collect::<Result<Vec<_>>>()?;
    let index = index::linear_index(op, &slices, sizes)?;
    Ok(([sizes.iter().product(), rest.iter().product()], index))
}

fn nonzero<T: Element>(x: &Tensor, is_nonzero: impl Fn(T) -> bool) -> Result<Tensor> {
    let values = x.as_slice::<T>()?;
    let rank = x.rank();
    let count = values.iter().filter(|&&x| is_nonzero(x)).count();
    let size = memory::volume(Nonzero::NAME, &[count, rank])?;
    let mut positions: Vec<i64> = memory::zeroed(Nonzero::NAME, size)?;
    let mut free = positions.chunks_exact_mut(rank.max(1));
    for (i, _) in values.iter().enumerate().filter(|&(_, &x)| is_nonzero(x)) {
        let mut rest = i;
        for (position, &size) in free.next().unwrap_or_default().iter_mut().zip(x.shape()).rev() {
            *position = (rest % size) as i64;
            rest /= size;
        }
    }
    Tensor::from_slice(&positions, &[count, rank])
}
