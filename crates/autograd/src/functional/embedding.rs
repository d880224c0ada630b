use std::sync::Arc;

use samebits_macros::named;
use samebits_tensor_core::geometry::BagBounds;
use samebits_tensor_core::ops::{
    BagMode, BagParams, CompareKind, EmbeddingBag, EmbeddingBagGrad, EmbeddingBagWeightsGrad,
    EmbeddingGrad, IndexSelect,
};
use samebits_tensor_core::{Error, Result};

use super::distance::norm;
use super::elementwise::{affine, div, equal, mul, relation, scalar_like, wanted};
use super::index::index_copy;
use super::support::masked_fill;
use super::{constant, index_select, once_differentiable, reshape, where_};
use crate::half::in_f32;
use crate::{Tensor, is_recording, run};

/// Looks up the rows of `weight` named by `index`.
///
/// # Shapes
///
/// `weight` is `[rows, width]`, `index` of any shape; the result is `[index.., width]`.
///
/// # Errors
///
/// An index is out of range.
#[named]
#[track_caller]
pub fn embedding(weight: &Tensor, index: &Tensor) -> Result<Tensor> {
    embedding_with(weight, index, None, false)
}

/// Looks up rows as [`embedding`] does, with options for the gradient: row `padding_idx` gets none,
/// and `scale_grad_by_freq` divides each row's gradient by the number of positions that look it up.
///
/// # Shapes
///
/// As [`embedding`].
///
/// # Determinism
///
/// Portable: the gradient of a row is an exact sum, rounded once (and again after a division).
///
/// # Errors
///
/// An index is out of range, or `padding_idx` is not a row.
///
/// # References
///
/// `torch.nn.functional.embedding`; for its `max_norm` see [`embedding_renorm`].
#[named]
#[track_caller]
pub fn embedding_with(
    weight: &Tensor,
    index: &Tensor,
    padding_idx: Option<usize>,
    scale_grad_by_freq: bool,
) -> Result<Tensor> {
    const OP: &str = "embedding";
    if weight.shape().len() != 2 {
        return Err(Error::invalid(
            OP,
            format!("expected a table with 2 dimensions, got shape {:?}", weight.shape()),
        ));
    }
    let rows = weight.shape()[0];
    if let Some(row) = padding_idx.filter(|&row| row >= rows) {
        return Err(Error::invalid(
            OP,
            format!("padding_idx {row} is not a row of a table with {rows} rows"),
        ));
    }
    let mut shape = index.shape().to_vec();
    shape.push(weight.shape()[1]);
    let flat = index.reshape([index.numel()])?;
    let value = run(&IndexSelect { x: weight.value().clone(), dim: 0, index: flat.into() })?;
    let index = index.clone();
    Ok(Tensor::computed(value.reshape(&shape)?, &[weight], move |grad| {
        let of = |grad: &Tensor| table_grad(grad, &index, rows, padding_idx, scale_grad_by_freq);
        Ok(vec![Some(in_f32(grad, of)?)])
    }))
}

/// Scales down the rows of `weight` named by `index` whose norm exceeds `max_norm`, to that norm.
/// Returns the whole table.
///
/// # Determinism
///
/// Portable: the norm is that of [`norm`](super::norm); a row that exceeds it is multiplied by
/// `max_norm / (norm + 1e-7)`, each operation rounded.
///
/// # Errors
///
/// An index is out of range, or the shapes do not match.
///
/// # Examples
///
/// ```
/// use samebits_autograd::{Tensor, functional};
///
/// let weight = Tensor::from_slice(&[3.0f64, 4.0, 3.0, 4.0], &[2, 2])?;
/// let index = Tensor::from_slice(&[1i64], &[1])?;
/// let weight = functional::embedding_renorm(&weight, &index, 1.0, 2.0)?.to_vec::<f64>()?;
/// assert_eq!(weight[..2], [3.0, 4.0]);
/// assert!((weight[3] - 0.8).abs() < 1e-6);
/// # Ok::<(), samebits_tensor_core::Error>(())
/// ```
///
/// # References
///
/// The `max_norm` of `torch.nn.functional.embedding`.
#[named]
#[track_caller]
pub fn embedding_renorm(
    weight: &Tensor,
    index: &Tensor,
    max_norm: f64,
    norm_type: f64,
) -> Result<Tensor> {
    let index = index.reshape([index.numel()])?;
    let rows = index_select(&weight.detach(), 0, &index)?;
    if rows.numel() == 0 {
        return Ok(weight.clone());
    }
    let dims: Vec<usize> = (1..rows.shape().len()).collect();
    let norms = norm(&rows, norm_type, &dims, true)?;
    let limit = scalar_like(&rows, max_norm)?;
    let large = relation(CompareKind::Gt, &norms, &limit)?;
    let factor = div(&limit, &affine(&norms, 1.0, 1e-7)?)?;
    let source = where_(&large, &mul(&rows, &factor)?, &rows)?;
    // A row that is named twice is written twice with the same values.
    let value = index_copy(&weight.detach(), 0, &index, &source)?;
    Ok(constant("embedding_renorm", value.into(), &[weight]))
}

/// Options of [`embedding_bag`].
#[derive(Clone, Copy, Debug)]
pub struct BagOptions {
    /// The reduction of a bag's rows: the mean by default.
    pub mode: BagMode,
    /// If true, divides each row's gradient by the number of positions that look it up.
    pub scale_grad_by_freq: bool,
    /// If true, the last offset marks the end of the last bag instead of starting a bag.
    pub include_last_offset: bool,
    /// Positions with this row belong to no bag.
    pub padding_idx: Option<usize>,
}

impl Default for BagOptions {
    fn default() -> BagOptions {
        BagOptions {
            mode: BagMode::Mean,
            scale_grad_by_freq: false,
            include_last_offset: false,
            padding_idx: None,
        }
    }
}

/// Reduces bags of rows of `weight` to one row each.
///
/// # Shapes
///
/// `weight` is `[rows, width]`. `index` is `[positions]` with `offsets` (the start of each bag), or
/// `[bags, size]` without. `per_sample_weights` has the shape of `index` and requires mode `Sum`.
/// The result is `[bags, width]`. The host reads the offsets, which may lie on the CPU: then no GPU is
/// waited for.
///
/// # Determinism
///
/// Portable. The rows of a bag are added in f64 in ascending position and rounded once. Of equal
/// maxima, the first is taken. The gradient of the table is an exact sum, rounded once.
///
/// # Errors
///
/// An index is out of range, the offsets do not start at 0 or they decrease, or the shapes do not
/// match.
///
/// # Examples
///
/// ```
/// use samebits_autograd::{Tensor, functional};
/// use samebits_autograd::functional::BagOptions;
///
/// let weight = Tensor::from_slice(&[10.0f32, 20.0], &[2, 1])?;
/// let index = Tensor::from_slice(&[0i64, 1, 1], &[3])?;
/// let offsets = Tensor::from_slice(&[0i64, 2], &[2])?;
/// let options = BagOptions::default();
/// let y = functional::embedding_bag(&weight, &index, Some(&offsets), None, options)?;
/// assert_eq!(y.to_vec::<f32>()?, [15.0, 20.0]);
/// # Ok::<(), samebits_tensor_core::Error>(())
/// ```
///
/// # References
///
/// `torch.nn.functional.embedding_bag`; for its `max_norm` see [`embedding_renorm`].
#[named]
#[track_caller]
pub fn embedding_bag(
    weight: &Tensor,
    index: &Tensor,
    offsets: Option<&Tensor>,
    per_sample_weights: Option<&Tensor>,
    options: BagOptions,
) -> Result<Tensor> {
    let bags = Arc::new(bags(index, offsets, options.include_last_offset)?);
    let index = index.reshape([index.numel()])?;
    let psw = match per_sample_weights {
        // Without offsets they have the two dimensions of the index.
        Some(weights) => Some(reshape(weights, [weights.numel()])?),
        None => None,
    };
    let params = BagParams { mode: options.mode, padding_idx: options.padding_idx };
    let (value, max_rows) = run(&EmbeddingBag {
        weight: weight.value().clone(),
        index: index.value().clone(),
        bags: bags.clone(),
        per_sample_weights: psw.as_ref().map(|weights| weights.value().clone()),
        params: params.clone(),
    })?;
    let (table, factors) = (weight.clone(), psw.clone());
    let inputs: Vec<&Tensor> = std::iter::once(weight).chain(&psw).collect();
    Ok(Tensor::computed(value, &inputs, move |grad| {
        let table_grad = wanted(&table, || {
            let value = run(&EmbeddingBagGrad {
                grad: grad.value().clone(),
                index: index.value().clone(),
                bags: bags.clone(),
                per_sample_weights: factors.as_ref().map(|weights| weights.value().clone()),
                max_rows: max_rows.clone(),
                params: params.clone(),
                rows: table.shape()[0],
                scale_grad_by_freq: options.scale_grad_by_freq,
            })?;
            let sources: Vec<&Tensor> = std::iter::once(grad).chain(&factors).collect();
            Ok(once_differentiable("embedding_bag", value, &sources))
        })?;
        let mut grads = vec![table_grad];
        if let Some(factors) = &factors {
            grads.push(wanted(factors, || {
                let value = run(&EmbeddingBagWeightsGrad {
                    grad: grad.value().clone(),
                    weight: table.value().clone(),
                    index: index.value().clone(),
                    bags: bags.clone(),
                    params: params.clone(),
                })?;
                Ok(once_differentiable("embedding_bag", value, &[grad, &table]))
            })?);
        }
        Ok(grads)
    }))
}

/// Returns the places of each bag. Reads the offsets, which waits for a device that holds them.
fn bags(index: &Tensor, offsets: Option<&Tensor>, include_last_offset: bool) -> Result<BagBounds> {
    const OP: &str = "embedding_bag";
    let shape = index.shape();
    let starts = match (offsets, shape) {
        (Some(offsets), [_]) if offsets.rank() == 1 => offsets.to_vec::<i64>()?,
        (None, &[count, size]) => {
            return BagBounds::of_size(OP, count, size);
        }
        (Some(offsets), _) => {
            let message = format!(
                "expected offsets and an index with 1 dimension each, got shapes {:?} and {shape:?}",
                offsets.shape()
            );
            return Err(Error::invalid(OP, message));
        }
        (None, _) => {
            let message =
                format!("expected an index with 2 dimensions without offsets, got shape {shape:?}");
            return Err(Error::invalid(OP, message));
        }
    };
    BagBounds::new(OP, index.numel(), &starts, include_last_offset)
}

/// Returns the gradient of the table. It is linear in `grad`: without a division, its second
/// derivative is itself.
fn table_grad(
    grad: &Tensor,
    index: &Tensor,
    rows: usize,
    padding_idx: Option<usize>,
    scale_grad_by_freq: bool,
) -> Result<Tensor> {
    let value = run(&EmbeddingGrad {
        grad: grad.value().clone(),
        index: index.value().clone(),
        rows,
        padding_idx,
        scale_grad_by_freq,
    })?;
    if !is_recording() || scale_grad_by_freq {
        return Ok(once_differentiable("embedding", value, &[grad]));
    }
    let index = index.clone();
    Ok(Tensor::computed(value, &[grad], move |outer| {
        let flat = index.reshape([index.numel()])?;
        let mut shape = index.shape().to_vec();
        shape.push(outer.shape()[1]);
        let read = reshape(&index_select(outer, 0, &flat)?, &shape)?;
        let Some(row) = padding_idx else { return Ok(vec![Some(read)]) };
        let padding = equal(&index, &Tensor::scalar(row as i64).to(index.device())?)?;
        Ok(vec![Some(masked_fill(&read, &padding.unsqueeze(index.rank())?, 0.0)?)])
    }))
}
