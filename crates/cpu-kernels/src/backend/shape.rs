use samebits_tensor_core::layout::outer_dim_inner;
use samebits_tensor_core::ops::Cat;
use samebits_tensor_core::registry::{Kernel, register};
use samebits_tensor_core::{DType, Element, Op, Result, Tensor};

use super::with_bits;

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
    let to = out.as_mut_slice::<T>()?;
    let mut first = 0;
    for input in &op.inputs {
        let input = input.contiguous()?;
        let width = input.shape()[op.dim] * inner;
        if width == 0 {
            continue;
        }
        let from = input.as_slice::<T>()?.chunks_exact(width);
        for (to, from) in to.chunks_exact_mut(row).zip(from) {
            to[first..first + width].copy_from_slice(from);
        }
        first += width;
    }
    Ok(out)
}
