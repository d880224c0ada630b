use samebits_tensor_core::geometry::{IndexedElements, IndexedSlices, Split};
use samebits_tensor_core::ops::{
    Gather, Index, IndexAdd, IndexCopy, IndexPut, IndexPutAdd, IndexSelect, Nonzero, Scatter,
};
use samebits_tensor_core::registry::{Kernel, register};
use samebits_tensor_core::{DType, Element, Layout, Op, Result, Tensor};

use super::elementwise::comparable;
use super::{F32, FLOATS, INTEGERS, WRAPS, filled, with_bits, with_float};
use crate::{index, memory, parallel, scatter};

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
    register(Kernel::portable("copy", &DType::ALL, COPY, |op: &IndexSelect, (split, shape)| {
        let (x, index) = (op.x.contiguous()?, op.index.contiguous()?);
        let mut out = Tensor::scratch(shape, x.dtype())?;
        with_bits!(x.dtype(), T => index::index_select::<T>(
            IndexSelect::NAME,
            out.as_mut_slice()?,
            x.as_slice()?,
            (*split).into(),
            index.as_slice()?,
        )?);
        Ok(out)
    }));
    register(Kernel::portable("copy", &DType::ALL, COPY, |op: &Gather, plan| {
        if !op.x.is_contiguous() && op.index.numel() < op.x.numel() / FAR {
            let found = with_bits!(op.x.dtype(), T => gather_in_place::<T>(op)?);
            if let Some(found) = found {
                return Ok(found);
            }
        }
        let x = op.x.contiguous()?;
        let (shape, index) = places(Gather::NAME, plan, &op.index)?;
        let mut out = Tensor::scratch(op.index.shape(), x.dtype())?;
        with_bits!(x.dtype(), T => index::gather::<T>(
            out.as_mut_slice()?,
            x.as_slice()?,
            shape,
            index.as_slice()?,
        )?);
        Ok(out)
    }));
    register(Kernel::portable("copy", &DType::ALL, COPY, |op: &Index, plan| {
        let x = op.x.contiguous()?;
        let index = linear(Index::NAME, plan, &x, &op.indices)?;
        let mut out = Tensor::scratch(&plan.shape, x.dtype())?;
        with_bits!(x.dtype(), T => index::take::<T>(
            out.as_mut_slice()?,
            x.as_slice()?,
            [plan.rows, plan.width],
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

/// The number of elements of a strided tensor that are copied while one is looked up.
const FAR: usize = 4;

/// Looks up the elements of a strided tensor where they are; `None` if an index is out of range.
fn gather_in_place<T: Element>(op: &Gather) -> Result<Option<Tensor>> {
    let (layout, dim) = (op.x.layout(), op.dim);
    let (Some(&size), Some(&stride)) = (op.x.shape().get(dim), layout.strides().get(dim)) else {
        return Ok(None);
    };
    let mut strides = layout.strides().to_vec();
    strides[dim] = 0;
    let starts = Layout::strided(op.index.shape(), &strides, layout.offset())?;
    let (index, data) = (op.index.contiguous()?, op.x.storage_slice::<T>()?);
    let index = index.as_slice::<i64>()?;
    let is_inside = |&i: &i64| usize::try_from(i).is_ok_and(|i| i < size);
    if !index.iter().all(is_inside) {
        return Ok(None);
    }
    let mut found = Tensor::scratch(op.index.shape(), op.x.dtype())?;
    parallel::pieces(found.as_mut_slice::<T>()?, |first, out| {
        let places = starts.positions_from(first).zip(&index[first..]);
        for (out, (start, &i)) in out.iter_mut().zip(places) {
            *out = data[start + i as usize * stride];
        }
    });
    Ok(Some(found))
}

fn register_assignments() {
    register(Kernel::portable("last", &DType::ALL, LAST, |op: &IndexCopy, &split| {
        let IndexCopy { input, index, source, .. } = op;
        with_bits!(input.dtype(), T => {
            to_slices(input, split, index, source, false, index::index_copy::<T>)
        })
    }));
    register(Kernel::portable("last", &DType::ALL, LAST, |op: &Scatter, plan| {
        let Scatter { input, index, source, .. } = op;
        with_bits!(input.dtype(), T => {
            to_elements(Scatter::NAME, plan, input, index, source, false, index::scatter::<T>)
        })
    }));
    register(Kernel::portable("last", &DType::ALL, LAST, |op: &IndexPut, plan| {
        with_bits!(op.input.dtype(), T => {
            put(plan, &op.input, &op.indices, &op.values, false, index::put::<T>)
        })
    }));
}

fn register_sums() {
    // Registered before the atomic variants, because it is the faster of the two: see
    // docs/book/benchmarks.md.
    register(Kernel::portable("exact", FLOATS, EXACT, |op: &IndexAdd, &split| {
        let IndexAdd { input, index, source, alpha, .. } = op;
        let fresh = is_zero(input)?;
        with_float!(input.dtype(), T => {
            to_slices(input, split, index, source, fresh, |out, shape, index, source: &[T]| {
                scatter::index_add_to(IndexAdd::NAME, out, fresh, shape, index, source, *alpha as T)
            })
        })
    }));
    register(Kernel::fast("atomic", F32, ATOMIC, |op: &IndexAdd, &split| {
        let IndexAdd { input, index, source, alpha, .. } = op;
        to_slices(input, split, index, source, false, |out, shape, index, source| {
            scatter::index_add_fast(out, shape, index, source, *alpha as f32)
        })
    }));
    register(Kernel::portable("exact", FLOATS, EXACT, |op: &IndexPutAdd, plan| {
        let IndexPutAdd { input, indices, values } = op;
        let fresh = is_zero(input)?;
        with_float!(input.dtype(), T => {
            put(plan, input, indices, values, fresh, |out: &mut [T], shape, index, values| {
                scatter::put_add_to(out, fresh, shape, index, values)
            })
        })
    }));
    register(Kernel::fast("atomic", F32, ATOMIC, |op: &IndexPutAdd, plan| {
        put(plan, &op.input, &op.indices, &op.values, false, scatter::put_add_fast)
    }));
    register(Kernel::portable("integers", INTEGERS, WRAPS, |op: &IndexAdd, &split| {
        let IndexAdd { input, index, source, alpha, .. } = op;
        to_slices(input, split, index, source, false, |out, shape, index, source| {
            scatter::integer::index_add(out, shape, index, source, *alpha as i64)
        })
    }));
    register(Kernel::portable("integers", INTEGERS, WRAPS, |op: &IndexPutAdd, plan| {
        put(plan, &op.input, &op.indices, &op.values, false, scatter::integer::put_add)
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
    split: Split,
    index: &Tensor,
    source: &Tensor,
    fresh: bool,
    f: impl Fn(&mut [T], [usize; 3], &[i64], &[T]) -> crate::Result<()>,
) -> Result<Tensor> {
    let index = index.contiguous()?;
    let mut out = start(input, fresh)?;
    let (whole, index) = (out.as_mut_slice()?, index.as_slice()?);
    let pieces = if split.size > 0 { pieces(source, split.outer)? } else { None };
    if let Some(Pieces { len, starts }) = pieces {
        let shape = [split.outer / starts.numel(), split.size, split.inner];
        let data = source.storage_slice::<T>()?;
        let outs = whole.chunks_exact_mut(shape.iter().product());
        for (out, start) in outs.zip(starts.positions()) {
            f(out, shape, index, &data[start..][..len])?;
        }
    } else {
        f(whole, split.into(), index, source.contiguous()?.as_slice()?)?;
    }
    Ok(out)
}

/// Long contiguous pieces of a tensor.
struct Pieces {
    /// The number of elements of a piece.
    len: usize,
    /// Where the pieces start.
    starts: Layout,
}

/// Returns the long pieces of a tensor that is not contiguous, so that they need not be copied. Each
/// is a part of a product of leading dimensions of `outer`.
fn pieces(x: &Tensor, outer: usize) -> Result<Option<Pieces>> {
    const LONG: usize = 1 << 16;
    let (layout, mut len) = (x.layout(), 1);
    let dims = layout.shape().iter().zip(layout.strides()).rev();
    let dense = dims
        .take_while(|&(&size, &stride)| {
            let dense = size == 1 || stride == len;
            len *= if dense { size } else { 1 };
            dense
        })
        .count();
    let leading = layout.shape().len() - dense;
    let count: usize = layout.shape()[..leading].iter().product();
    if leading == 0 || len < LONG || count == 0 || !outer.is_multiple_of(count) {
        return Ok(None);
    }
    let [shape, strides] = [layout.shape(), layout.strides()].map(|list| &list[..leading]);
    let starts = Layout::strided(shape, strides, layout.offset())?;
    Ok(Some(Pieces { len, starts }))
}

/// Runs `f(out, (outer, dim, inner), index, source)` on a copy of the input, for an index of
/// elements. A `fresh` output has no meaningful content.
pub(super) fn to_elements<T: Element>(
    op: &'static str,
    plan: &IndexedElements,
    input: &Tensor,
    index: &Tensor,
    source: &Tensor,
    fresh: bool,
    f: impl FnOnce(&mut [T], [usize; 3], &[i64], &[T]) -> crate::Result<()>,
) -> Result<Tensor> {
    let source = source.leading(index.shape())?.contiguous()?;
    let (shape, index) = places(op, plan, index)?;
    let mut out = start(input, fresh)?;
    f(out.as_mut_slice()?, shape, index.as_slice()?, source.as_slice()?)?;
    Ok(out)
}

/// Returns the shape (outer, dim, inner) and the index for an index of elements. If the index
/// covers only a part of the tensor, it is converted to places in the flattened tensor.
fn places(
    op: &'static str,
    plan: &IndexedElements,
    index: &Tensor,
) -> Result<([usize; 3], Tensor)> {
    let index = index.contiguous()?;
    if plan.whole {
        return Ok((plan.split.into(), index));
    }
    scatter::check(op, index.as_slice()?, plan.split.size)?;
    let mut strides = plan.strides.clone();
    let stride = std::mem::take(&mut strides[plan.dim]);
    let lines = Layout::strided(index.shape(), &strides, 0)?;
    let pairs = lines.positions().zip(index.as_slice::<i64>()?);
    let index = filled(index.shape(), |linear| {
        for (place, (line, &i)) in linear.iter_mut().zip(pairs) {
            *place = line as i64 + i * stride as i64;
        }
        Ok(())
    })?;
    Ok((plan.flat().into(), index))
}

/// Runs `f(out, (rows, width), index, values)` on a copy of the input. A `fresh` output has no
/// meaningful content.
fn put<T: Element>(
    plan: &IndexedSlices,
    input: &Tensor,
    indices: &[Tensor],
    values: &Tensor,
    fresh: bool,
    f: impl FnOnce(&mut [T], [usize; 2], &[i64], &[T]) -> crate::Result<()>,
) -> Result<Tensor> {
    let index = linear(IndexPut::NAME, plan, input, indices)?;
    let values = values.expand(&plan.shape)?.contiguous()?;
    let mut out = start(input, fresh)?;
    f(out.as_mut_slice()?, [plan.rows, plan.width], &index, values.as_slice()?)?;
    Ok(out)
}

/// Returns the rows that indices of the first dimensions name.
fn linear(
    op: &'static str,
    plan: &IndexedSlices,
    x: &Tensor,
    indices: &[Tensor],
) -> Result<Vec<i64>> {
    let broadcast = indices
        .iter()
        .map(|index| index.expand(plan.index_shape())?.contiguous())
        .collect::<Result<Vec<_>>>()?;
    let slices =
        broadcast.iter().map(|index| index.as_slice::<i64>()).collect::<Result<Vec<_>>>()?;
    Ok(index::linear_index(op, &slices, &x.shape()[..indices.len()])?)
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
