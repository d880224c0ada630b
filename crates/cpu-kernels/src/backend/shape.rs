use samebits_tensor_core::layout::outer_dim_inner;
use samebits_tensor_core::ops::Cat;
use samebits_tensor_core::registry::{Kernel, register};
use samebits_tensor_core::{DType, Element, Op, Result, Tensor};

use super::with_bits;
use crate::parallel;

pub(super) fn register_all() {
    register(Kernel::portable(
        "copy",
        &DType::ALL,
        "each element is copied",
        |op: &Cat, ()| with_bits!(op.dtype(), T => cat::<T>(op)),
    ));
}

fn cat<T: Element>(op: &Cat) -> Result<Tensor> {
    let shape = op.output_shape()?;
    let mut out = Tensor::scratch(&shape, op.dtype())?;
    let (_, size, inner) = outer_dim_inner(Cat::NAME, &shape, op.dim)?;
    let row = size * inner;
    let inputs = op.inputs.iter().map(Tensor::contiguous).collect::<Result<Vec<_>>>()?;
    let parts = inputs
        .iter()
        .map(|input| Ok((input.as_slice::<T>()?, input.shape()[op.dim] * inner)))
        .collect::<Result<Vec<_>>>()?;
    parallel::rows(row, out.as_mut_slice::<T>()?, |start, piece| {
        for (i, mut to) in (start / row..).zip(piece.chunks_exact_mut(row)) {
            for &(from, width) in &parts {
                let (part, rest) = to.split_at_mut(width);
                part.copy_from_slice(&from[i * width..][..width]);
                to = rest;
            }
        }
    });
    Ok(out)
}
