use samebits_tensor_core::ops::{
    BagMode, EmbeddingBag, EmbeddingBagGrad, EmbeddingBagWeightsGrad, EmbeddingGrad,
};
use samebits_tensor_core::registry::{Kernel, register};
use samebits_tensor_core::{DType, Element, Error, Op, Result, Tensor};

use super::{F32, FLOATS, filled, with_float};
use crate::embedding::{self, Bags};

const PLACES: &str =
    "the rows of a bag are added in f64 in ascending order of places and rounded once";
const EXACT: &str = "f32: the sum is exact and rounded once; f64: added in ascending source order";
const ATOMIC: &str = "float atomics add in the order in which threads arrive";
const TREE: &str =
    "each weight is a scalar product over a tree that depends on the row's width alone";

pub(super) fn register_all() {
    // Registered before the atomic variants, because it is the faster of the two: see
    // docs/book/benchmarks.md.
    register(Kernel::portable(
        "exact",
        FLOATS,
        EXACT,
        |op: &EmbeddingGrad, &shape| with_float!(op.grad.dtype(), T => table_grad(op, shape, embedding::embedding_backward::<T>)),
    ));
    register(Kernel::fast("atomic", F32, ATOMIC, |op: &EmbeddingGrad, &shape| {
        table_grad(op, shape, embedding::embedding_backward_fast)
    }));
    register(Kernel::portable(
        "places",
        FLOATS,
        PLACES,
        |op: &EmbeddingBag, &shape| with_float!(op.weight.dtype(), T => bag::<T>(op, shape)),
    ));
    register(Kernel::portable(
        "exact",
        FLOATS,
        EXACT,
        |op: &EmbeddingBagGrad, &shape| with_float!(op.grad.dtype(), T => bag_grad(op, shape, embedding::embedding_bag_backward::<T>)),
    ));
    register(Kernel::fast("atomic", F32, ATOMIC, |op: &EmbeddingBagGrad, &shape| {
        bag_grad(op, shape, embedding::embedding_bag_backward_fast)
    }));
    register(Kernel::portable(
        "tree",
        FLOATS,
        TREE,
        |op: &EmbeddingBagWeightsGrad, &shape| with_float!(op.grad.dtype(), T => weights_grad::<T>(op, shape)),
    ));
}

fn table_grad<T: Element>(
    op: &EmbeddingGrad,
    shape: [usize; 2],
    f: impl FnOnce(&mut [T], [usize; 2], &[i64], &[T], Option<usize>, bool) -> crate::Result<()>,
) -> Result<Tensor> {
    let (grad, index) = (op.grad.contiguous()?, op.index.contiguous()?);
    filled(&shape, |out| {
        let (index, grad) = (index.as_slice()?, grad.as_slice()?);
        Ok(f(out, shape, index, grad, op.padding_idx, op.scale_grad_by_freq)?)
    })
}

fn bag<T: super::Element>(
    op: &EmbeddingBag,
    [rows, width]: [usize; 2],
) -> Result<(Tensor, Option<Tensor>)> {
    let (index, weight) = (op.index.contiguous()?, op.weight.contiguous()?);
    let bags = Bags::new(rows, index.as_slice()?, &op.bags, op.params.padding_idx)?;
    let weights = dense(op.per_sample_weights.as_ref())?;
    let weights = weights.as_ref().map(|weights| weights.as_slice::<T>()).transpose()?;
    let mut out = Tensor::scratch(&[bags.len(), width], weight.dtype())?;
    let mut max_rows = match op.params.mode {
        BagMode::Max => Some(Tensor::scratch(out.shape(), DType::I64)?),
        _ => None,
    };
    embedding::embedding_bag(
        out.as_mut_slice()?,
        max_rows.as_mut().map(|max_rows| max_rows.as_mut_slice()).transpose()?,
        weight.as_slice()?,
        width,
        &bags,
        op.params.mode,
        weights,
    )?;
    Ok((out, max_rows))
}

/// A slice function for the gradient of the table.
type BagGrad<T> = fn(
    &mut [T],
    usize,
    &[T],
    &Bags<'_>,
    BagMode,
    Option<&[i64]>,
    Option<&[T]>,
    bool,
) -> crate::Result<()>;

fn bag_grad<T: Element>(
    op: &EmbeddingBagGrad,
    [rows, width]: [usize; 2],
    f: BagGrad<T>,
) -> Result<Tensor> {
    let (index, grad) = (op.index.contiguous()?, op.grad.contiguous()?);
    let bags = Bags::new(rows, index.as_slice()?, &op.bags, op.params.padding_idx)?;
    let max_rows = dense(op.max_rows.as_ref())?;
    let max_rows = max_rows.as_ref().map(|max_rows| max_rows.as_slice()).transpose()?;
    let weights = dense(op.per_sample_weights.as_ref())?;
    let weights = weights.as_ref().map(|weights| weights.as_slice::<T>()).transpose()?;
    filled(&[rows, width], |out| {
        let (grad, scale) = (grad.as_slice()?, op.scale_grad_by_freq);
        Ok(f(out, width, grad, &bags, op.params.mode, max_rows, weights, scale)?)
    })
}

fn weights_grad<T: super::Element>(
    op: &EmbeddingBagWeightsGrad,
    [rows, width]: [usize; 2],
) -> Result<Tensor> {
    let named = |error: Error| error.called(EmbeddingBagWeightsGrad::NAME);
    let index = op.index.contiguous()?;
    let (grad, weight) = (op.grad.contiguous()?, op.weight.contiguous()?);
    let bags = Bags::new(rows, index.as_slice()?, &op.bags, op.params.padding_idx);
    let bags = bags.map_err(|error| named(error.into()))?;
    filled(&[index.numel()], |out: &mut [T]| {
        let (grad, weight) = (grad.as_slice()?, weight.as_slice()?);
        embedding::embedding_bag_weights_backward(out, width, grad, weight, &bags)
            .map_err(|error| named(error.into()))
    })
}

fn dense(x: Option<&Tensor>) -> Result<Option<Tensor>> {
    x.map(Tensor::contiguous).transpose()
}
