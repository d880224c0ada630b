//! Scaled dot-product attention.

use super::{expect_dtype, expect_float, expect_shape};
use crate::geometry::AttentionSizes;
use crate::{DType, Op, Pass, Result, Tensor};

/// Attention of queries that are multiplied by the scale already. Returns the averages of the
/// values, `[batch.., queries, features]`, then for each query the largest score and the sum of
/// the exponentials, `[batch.., queries]`.
///
/// *Attention* in `docs/book/numerics.md` defines the order of operations; the second and third result
/// are its `m` and `l`.
#[derive(Clone, Debug)]
pub struct Attention {
    /// `[batch.., queries, width]`.
    pub query: Tensor,
    /// `[batch.., keys, width]`.
    pub key: Tensor,
    /// `[batch.., keys, features]`.
    pub value: Tensor,
    /// The keys that queries attend to.
    pub masks: AttentionMasks,
}

/// The masks of an attention.
#[derive(Clone, Debug, Default)]
pub struct AttentionMasks {
    /// Numbers to add to the scores, `[batch.., queries, keys]`; −∞ excludes a key.
    pub added: Option<Tensor>,
    /// True for excluded keys, `[batch.., queries, keys]`.
    pub hidden: Option<Tensor>,
    /// Excludes keys after `i + offset` for query `i`.
    pub causal: Option<usize>,
}

impl Op for Attention {
    const NAME: &'static str = "scaled_dot_product_attention";
    type Plan = AttentionSizes;
    type Output = (Tensor, Tensor, Tensor);

    crate::inputs![query, key, value, masks.added, masks.hidden];
    crate::parameters![masks.causal];

    fn plan(&self) -> Result<AttentionSizes> {
        plan(Self::NAME, [&self.query, &self.key, &self.value], &self.masks)
    }
}

/// The gradients of [`Attention`] with respect to query, key and value.
#[derive(Clone, Debug)]
pub struct AttentionGrad {
    /// The gradient of the averages divided by the sum of the exponentials.
    pub grad: Tensor,
    /// For each query the sum of `grad` times the averages, `[batch.., queries]`.
    pub shared: Tensor,
    /// The largest score of each query, as in the forward pass.
    pub largest: Tensor,
    /// As in the forward pass.
    pub query: Tensor,
    /// As in the forward pass.
    pub key: Tensor,
    /// As in the forward pass.
    pub value: Tensor,
    /// As in the forward pass.
    pub masks: AttentionMasks,
}

impl Op for AttentionGrad {
    const NAME: &'static str = "scaled_dot_product_attention";
    const PASS: Pass = Pass::Backward;
    type Plan = AttentionSizes;
    type Output = (Tensor, Tensor, Tensor);

    crate::inputs![grad, shared, largest, query, key, value, masks.added, masks.hidden];
    crate::parameters![masks.causal];

    fn plan(&self) -> Result<AttentionSizes> {
        let sizes = plan(Self::NAME, [&self.query, &self.key, &self.value], &self.masks)?;
        let rank = self.query.rank();
        let rows = &self.query.shape()[..rank - 1];
        let dtype = self.query.dtype();
        let expected = [rows, &[sizes.features]].concat();
        expect_shape(Self::NAME, "the gradient", &self.grad, &expected)?;
        expect_shape(Self::NAME, "the shared gradient", &self.shared, rows)?;
        expect_shape(Self::NAME, "the largest scores", &self.largest, rows)?;
        for (what, x) in [
            ("the gradient", &self.grad),
            ("the shared gradient", &self.shared),
            ("the largest scores", &self.largest),
        ] {
            expect_dtype(Self::NAME, what, x, dtype)?;
        }
        Ok(sizes)
    }
}

fn plan(
    op: &'static str,
    [query, key, value]: [&Tensor; 3],
    masks: &AttentionMasks,
) -> Result<AttentionSizes> {
    expect_float(op, "the query", query)?;
    expect_dtype(op, "the key", key, query.dtype())?;
    expect_dtype(op, "the value", value, query.dtype())?;
    let sizes = AttentionSizes::new(op, query.shape(), key.shape(), value.shape())?;
    let rows = &query.shape()[..query.rank() - 1];
    let scores = [rows, &[sizes.keys]].concat();
    if let Some(added) = &masks.added {
        expect_dtype(op, "the mask of numbers", added, query.dtype())?;
        expect_shape(op, "the mask of numbers", added, &scores)?;
    }
    if let Some(hidden) = &masks.hidden {
        expect_dtype(op, "the mask of truth values", hidden, DType::Bool)?;
        expect_shape(op, "the mask of truth values", hidden, &scores)?;
    }
    Ok(sizes)
}
