use samebits_tensor_core::geometry::Products;
use samebits_tensor_core::ops::{HalfMatmul, Matmul};
use samebits_tensor_core::registry::{Kernel, register};
use samebits_tensor_core::{DType, Error, Layout, Op, Result, Tensor, bf16, f16};

use super::{FLOATS, filled, with_float};
use crate::elementwise::halves::Half;
use crate::gemm::Source;
use crate::matmul::{Matrix, matmul_batched, matmul_halves};
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
                    let (left, right) = (op.a.storage_slice::<T>()?, op.b.storage_slice()?);
                    let (left, right) = (a.matrix(left)?, b.matrix(right)?);
                    Ok(matmul_batched(left, &a.offsets, right, &b.offsets, out)?)
                })
            })
        },
    ));
    register(Kernel::portable(
        "blocked",
        &[DType::F16, DType::BF16],
        "each element is a chain of f32 fma in ascending k within blocks of a fixed length, rounded once",
        |op: &HalfMatmul, products| match op.a.dtype() {
            DType::BF16 => of_halves::<bf16>(op, products),
            _ => of_halves::<f16>(op, products),
        },
    ));
}

fn of_halves<T: Source<f32> + Half + samebits_tensor_core::Element>(
    op: &HalfMatmul,
    Products { batch, shape, .. }: &Products,
) -> Result<Tensor> {
    let bias = op.bias.as_ref().map(Tensor::contiguous).transpose()?;
    filled(shape, |out| {
        if out.is_empty() {
            return Ok(());
        }
        let (a, b) = (Operand::new(&op.a, batch)?, Operand::new(&op.b, batch)?);
        let (left, right) = (op.a.storage_slice::<T>()?, op.b.storage_slice()?);
        let (left, right) = (a.matrix(left)?, b.matrix(right)?);
        let bias = bias.as_ref().map(Tensor::as_slice).transpose()?;
        Ok(matmul_halves(left, &a.offsets, right, &b.offsets, bias, out)?)
    })
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
        match (outer.shape(), outer.strides()) {
            (&[count], &[stride]) => {
                offsets.extend((0..count).map(|index| outer.offset() + index * stride));
            }
            _ => offsets.extend(outer.positions()),
        }
        Ok(Operand {
            rows: shape[first],
            columns: shape[first + 1],
            row_stride: strides[first],
            column_stride: strides[first + 1],
            offsets,
        })
    }

    /// Returns the first matrix, in its storage.
    fn matrix<'a, T: Copy>(&self, x: &'a [T]) -> Result<Matrix<'a, T>> {
        let Operand { rows, columns, row_stride, column_stride, .. } = *self;
        Matrix::with_strides(x, rows, columns, row_stride, column_stride).map_err(Error::from)
    }
}
