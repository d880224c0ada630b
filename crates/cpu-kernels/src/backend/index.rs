use samebits_tensor_core::layout::outer_dim_inner;
use samebits_tensor_core::ops::{IndexAdd, IndexSelect};
use samebits_tensor_core::registry::{Kernel, register};
use samebits_tensor_core::{DType, Error, Op, Result, Tensor};

use super::{F32, FLOATS, with_float};
use crate::scatter;

pub(super) fn register_all() {
    register(Kernel::portable(
        "copy",
        &DType::ALL,
        "each element is copied",
        |op: &IndexSelect| match op.x.dtype() {
            DType::F32 => index_select::<f32>(op),
            DType::F64 => index_select::<f64>(op),
            DType::I64 => index_select::<i64>(op),
            _ => index_select::<u8>(op),
        },
    ));
    // Before the atomic variant, because it is the faster of the two: see docs/benchmarks.md.
    register(Kernel::portable(
        "exact",
        FLOATS,
        "f32: the sum is exact and rounded once; f64: added in ascending source order",
        |op: &IndexAdd| {
            with_float!(op.input.dtype(), T => {
                index_add(op, |out: &mut [T], shape, index, source| {
                    scatter::index_add(out, shape, index, source, op.alpha as T)
                })
            })
        },
    ));
    register(Kernel::fast(
        "atomic",
        F32,
        "float atomics add in the order in which threads arrive",
        |op: &IndexAdd| {
            index_add(op, |out, shape, index, source| {
                scatter::index_add_fast(out, shape, index, source, op.alpha as f32)
            })
        },
    ));
}

fn index_add<T: samebits_tensor_core::Element>(
    op: &IndexAdd,
    add: impl FnOnce(&mut [T], [usize; 3], &[i64], &[T]) -> crate::Result<()>,
) -> Result<Tensor> {
    let (outer, size, inner) = outer_dim_inner(IndexAdd::NAME, op.input.shape(), op.dim)?;
    let (index, source) = (op.index.contiguous()?, op.source.contiguous()?);
    let mut out = op.input.contiguous()?;
    add(out.as_mut_slice()?, [outer, size, inner], index.as_slice()?, source.as_slice()?)?;
    Ok(out)
}

fn index_select<T: samebits_tensor_core::Element>(op: &IndexSelect) -> Result<Tensor> {
    let (x, index) = (op.x.contiguous()?, op.index.contiguous()?);
    let (outer, size, inner) = outer_dim_inner(IndexSelect::NAME, x.shape(), op.dim)?;
    let index = index.as_slice::<i64>()?;
    let inside = |&i: &i64| usize::try_from(i).is_ok_and(|i| i < size);
    if let Some(position) = index.iter().position(|i| !inside(i)) {
        return Err(Error::IndexOutOfRange {
            op: IndexSelect::NAME,
            position,
            index: index[position],
            size,
        });
    }
    let mut shape = x.shape().to_vec();
    shape[op.dim] = index.len();
    let mut out = Tensor::scratch(&shape, x.dtype());
    if inner == 0 {
        return Ok(out);
    }
    let from = x.as_slice::<T>()?;
    let to = out.as_mut_slice::<T>()?;
    let rows = (0..outer).flat_map(|o| index.iter().map(move |&i| o * size + i as usize));
    for (row, to) in rows.zip(to.chunks_exact_mut(inner)) {
        to.copy_from_slice(&from[row * inner..][..inner]);
    }
    Ok(out)
}
