use samebits_tensor_core::ops::{SampledProduct, SparseMm};
use samebits_tensor_core::registry::{Kernel, register};
use samebits_tensor_core::{Result, Tensor};

use super::{Element, F32, FLOATS, filled, with_float};
use crate::sparse::{self, Elements};

pub(super) fn register_all() {
    // Registered before the atomic variant, because it is the faster of the two: see
    // docs/book/benchmarks.md.
    register(Kernel::portable(
        "rows",
        FLOATS,
        "each element is a chain of fma in ascending columns within blocks of a fixed length",
        |op: &SparseMm, ()| with_float!(op.values.dtype(), T => product(op, sparse::mm::<T>)),
    ));
    register(Kernel::fast(
        "atomic",
        F32,
        "float atomics add in the order in which threads arrive",
        |op: &SparseMm, ()| product(op, sparse::mm_fast),
    ));
    register(Kernel::portable(
        "tree",
        FLOATS,
        "each dot product runs in f64 over a tree that depends on the length alone",
        |op: &SampledProduct, ()| with_float!(op.left.dtype(), T => sampled::<T>(op)),
    ));
}

/// A product of a sparse and a dense matrix, with the number of columns of the dense one.
type Product<T> = fn(Elements<'_, T>, &[T], usize, &mut [T]) -> crate::Result<()>;

fn product<T: Element>(op: &SparseMm, mm: Product<T>) -> Result<Tensor> {
    let (rows, columns) = (op.rows.contiguous()?, op.columns.contiguous()?);
    let (values, dense) = (op.values.contiguous()?, op.dense.contiguous()?);
    let width = dense.shape()[1];
    let elements = Elements {
        rows: rows.as_slice()?,
        columns: columns.as_slice()?,
        values: values.as_slice::<T>()?,
        size: [op.size, dense.shape()[0]],
        period: op.period,
    };
    filled(&[op.size, width], |out| Ok(mm(elements, dense.as_slice()?, width, out)?))
}

fn sampled<T: Element>(op: &SampledProduct) -> Result<Tensor> {
    let (rows, columns) = (op.rows.contiguous()?, op.columns.contiguous()?);
    let (left, right) = (op.left.contiguous()?, op.right.contiguous()?);
    filled(rows.shape(), |out| {
        Ok(sparse::sampled_product::<T>(
            [rows.as_slice()?, columns.as_slice()?],
            [left.as_slice()?, right.as_slice()?],
            [left.shape()[0], right.shape()[0]],
            left.shape()[1],
            out,
        )?)
    })
}
