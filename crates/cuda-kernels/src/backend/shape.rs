use samebits_tensor_core::geometry::Split;
use samebits_tensor_core::ops::{Cat, Flip, FlipGroup};
use samebits_tensor_core::registry::register;
use samebits_tensor_core::{DType, Op, Tensor};

use super::{Failure, Gpu, Tensors, on, portable, with_word};
use crate::elementwise::{self, MAX_RANK, View};

pub(super) fn register_all() {
    const COPY: &str = "each element is copied";
    register(portable("copy", &DType::ALL, COPY, cat));
    register(portable("copy", &DType::ALL, COPY, |op: &Flip, groups| flip(op, groups)));
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

fn flip(op: &Flip, groups: &[FlipGroup]) -> Tensors<Tensor> {
    on(op, |gpu| {
        let x = op.x.contiguous()?;
        if groups.len() <= MAX_RANK {
            return flip_groups(&gpu, &x, groups);
        }
        // One group after the other.
        let mut flipped = x;
        for (i, group) in groups.iter().enumerate().filter(|(_, group)| group.is_flipped) {
            let together = |groups: &[FlipGroup]| FlipGroup {
                size: groups.iter().map(|group| group.size).product(),
                is_flipped: false,
            };
            let sides = [together(&groups[..i]), *group, together(&groups[i + 1..])];
            flipped = flip_groups(&gpu, &flipped, &sides)?;
        }
        Ok(flipped)
    })
}

/// Copies the elements of a dense tensor in reverse order along some groups of dimensions.
fn flip_groups(gpu: &Gpu<'_>, x: &Tensor, groups: &[FlipGroup]) -> Result<Tensor, Failure> {
    let shape: Vec<usize> = groups.iter().map(|group| group.size).collect();
    let (mut strides, mut offset) = (vec![0; groups.len()], 0);
    let mut stride = 1;
    for (to, group) in strides.iter_mut().zip(groups).rev() {
        *to = stride as isize;
        if group.is_flipped {
            offset += group.size.saturating_sub(1) * stride;
            *to = -*to;
        }
        stride *= group.size;
    }
    let view = View { strides: &strides, offset };
    with_word!(x.dtype(), T => {
        let source = gpu.input::<T>(x)?;
        gpu.typed(elementwise::copy(gpu.device, &source, &shape, view)?, x.shape(), x.dtype())
    })
}
