use samebits_tensor_core::geometry::Split;
use samebits_tensor_core::ops::{Cat, Flip};
use samebits_tensor_core::registry::{Kernel, register};
use samebits_tensor_core::{DType, Element, Op, Result, Tensor};

use super::with_bits;
use crate::{flip, parallel};

pub(super) fn register_all() {
    const COPY: &str = "each element is copied";
    register(Kernel::portable(
        "copy",
        &DType::ALL,
        COPY,
        |op: &Cat, (split, shape)| with_bits!(op.dtype(), T => cat::<T>(op, *split, shape)),
    ));
    register(Kernel::portable("copy", &DType::ALL, COPY, |op: &Flip, groups| {
        let x = op.x.contiguous()?;
        let mut out = Tensor::scratch(x.shape(), x.dtype())?;
        with_bits!(x.dtype(), T => flip::flip::<T>(out.as_mut_slice()?, x.as_slice()?, groups)?);
        Ok(out)
    }));
}

fn cat<T: Element>(op: &Cat, split: Split, shape: &[usize]) -> Result<Tensor> {
    let mut out = Tensor::scratch(shape, op.dtype())?;
    let Split { size, inner, .. } = split;
    let row = size * inner;
    let inputs = op.inputs.iter().map(dense_or_same).collect::<Result<Vec<_>>>()?;
    let parts = inputs
        .iter()
        .map(|input| {
            let width = input.shape()[op.dim] * inner;
            let part = match input.is_contiguous() {
                true => Part::Each(input.as_slice::<T>()?),
                false => Part::Same(input.storage_slice::<T>()?[input.layout().offset()]),
            };
            Ok((part, width))
        })
        .collect::<Result<Vec<_>>>()?;
    // A piece may begin and end within a row, which may be all there is.
    parallel::pieces(out.as_mut_slice::<T>()?, |start, mut to| {
        let (mut i, mut skipped) = (start / row, start % row);
        while !to.is_empty() {
            for &(from, width) in &parts {
                let first = skipped.min(width);
                skipped -= first;
                let (part, rest) = to.split_at_mut((width - first).min(to.len()));
                match from {
                    Part::Each(from) => {
                        part.copy_from_slice(&from[i * width + first..][..part.len()])
                    }
                    Part::Same(value) => part.fill(value),
                }
                to = rest;
            }
            i += 1;
        }
    });
    Ok(out)
}

/// The elements of an input.
#[derive(Clone, Copy)]
enum Part<'a, T> {
    Each(&'a [T]),
    /// One element, repeated.
    Same(T),
}

/// Returns the input as a contiguous piece, or unchanged if it repeats one element, so that padding
/// with zeros writes them only once.
fn dense_or_same(input: &Tensor) -> Result<Tensor> {
    let layout = input.layout();
    let same = input.numel() > 0 && layout.extent() == layout.offset() + 1;
    if same { Ok(input.clone()) } else { input.contiguous() }
}
