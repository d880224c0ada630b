use samebits_tensor_core::geometry::Split;
use samebits_tensor_core::ops::Cat;
use samebits_tensor_core::registry::register;
use samebits_tensor_core::{DType, Op, Tensor};

use super::{Failure, Tensors, on, portable, with_word};
use crate::elementwise;

pub(super) fn register_all() {
    register(portable("copy", &DType::ALL, "each element is copied", cat));
}

fn cat(op: &Cat, (split, shape): &(Split, Vec<usize>)) -> Tensors<Tensor> {
    on(op, |gpu| {
        let Split { outer, inner, .. } = *split;
        let widths: Vec<usize> =
            op.inputs.iter().map(|input| input.shape()[op.dim] * inner).collect();
        with_word!(op.dtype(), T => {
            let inputs = op.inputs.iter().map(|input| gpu.input::<T>(input));
            let inputs = inputs.collect::<Result<Vec<_>, Failure>>()?;
            let inputs: Vec<_> = inputs.iter().map(|input| &**input).collect();
            gpu.typed(elementwise::cat(gpu.device, &inputs, outer, &widths)?, shape, op.dtype())
        })
    })
}
