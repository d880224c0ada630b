use samebits_tensor_core::geometry::Products;
use samebits_tensor_core::ops::Matmul;
use samebits_tensor_core::registry::{Kernel, register};
use samebits_tensor_core::{Error, Layout, Op, Result, Tensor};

use super::{FLOATS, filled, with_float};
use crate::matmul::{Matrix, matmul_batched};
use crate::memory;

pub(super) fn register_all() {
    register(Kernel::portable(
        "blocked",
        FLOATS,
        "each element is a chain of fma in ascending k within blocks of a fixed length",
        |op: &Matmul, Products { batch, shape, .. }| {
            with_float!(op.a.dtype(), T => {
                filled(shape, |out| {
                    if out.is_empty() {
                        // If the batch is empty, even the first matrix may lie outside its slice.
                        return Ok(());
                    }
                    let (a, b) = (Operand::new(&op.a, batch)?, Operand::new(&op.b, batch)?);
                    let matrix = |operand: &Operand, x| {
                        Matrix::with_strides(
                            x, operand.rows, operand.columns, operand.row_stride, operand.column_stride,
                        )
                    };
                    let (left, right) = (op.a.storage_slice::<T>()?, op.b.storage_slice::<T>()?);
                    matrix(&a, left)
                        .and_then(|left| {
                            matmul_batched(left, &a.offsets, matrix(&b, right)?, &b.offsets, out)
                        })
                        .map_err(Error::from)
                })
            })
        },
    ));
}

/// The matrices of one operand: their strides, and the start of each.
struct Operand {
    rows: usize,
    columns: usize,
    row_stride: usize,
    column_stride: usize,
    offsets: Vec<usize>,
}

impl Operand {
    fn new(x: &Tensor, batch: &[usize]) -> Result<Operand> {
        let (shape, strides) = (x.shape(), x.layout().strides());
        let first = x.rank() - 2;
        let outer = Layout::strided(&shape[..first], &strides[..first], x.layout().offset())?
            .expand(Matmul::NAME, batch)?;
        let mut offsets = memory::with_capacity(Matmul::NAME, outer.numel())?;
        offsets.extend(outer.positions());
        Ok(Operand {
            rows: shape[first],
            columns: shape[first + 1],
            row_stride: strides[first],
            column_stride: strides[first + 1],
            offsets,
        })
    }
}
