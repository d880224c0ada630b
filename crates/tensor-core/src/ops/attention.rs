//! Scaled dot-product attention.

use samebits_rng::Generator;

use super::{expect_dtype, expect_float, expect_shape};
use crate::geometry::AttentionSizes;
use crate::layout::numel;
use crate::{DType, Error, Op, Pass, Result, Tensor};

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
    /// Drops exponentials after they are summed, if there is one.
    pub dropout: Option<AttentionDropout>,
}

/// The dropout of an attention: exponential number i, in row-major order of `[batch.., queries, keys]`,
/// is dropped as element i of [`Dropout`](super::Dropout).
#[derive(Clone, Debug)]
pub struct AttentionDropout {
    /// The probability of dropping an exponential.
    pub p: f64,
    /// The generator, at the start of the draw.
    pub generator: Generator,
}

impl AttentionDropout {
    fn check(&self, op: &'static str) -> Result<()> {
        if (0.0..=1.0).contains(&self.p) {
            return Ok(());
        }
        Err(Error::invalid(op, format!("expected 0 <= p <= 1, got {}", self.p)))
    }
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

    fn generator(&self) -> Option<&Generator> {
        self.dropout.as_ref().map(|dropout| &dropout.generator)
    }

    fn plan(&self) -> Result<AttentionSizes> {
        plan(Self::NAME, [&self.query, &self.key, &self.value], &self.masks, self.dropout.as_ref())
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
    /// As in the forward pass.
    pub dropout: Option<AttentionDropout>,
}

impl Op for AttentionGrad {
    const NAME: &'static str = "scaled_dot_product_attention";
    const PASS: Pass = Pass::Backward;
    type Plan = AttentionSizes;
    type Output = (Tensor, Tensor, Tensor);

    crate::inputs![grad, shared, largest, query, key, value, masks.added, masks.hidden];
    crate::parameters![masks.causal];

    fn generator(&self) -> Option<&Generator> {
        self.dropout.as_ref().map(|dropout| &dropout.generator)
    }

    fn plan(&self) -> Result<AttentionSizes> {
        let inputs = [&self.query, &self.key, &self.value];
        let sizes = plan(Self::NAME, inputs, &self.masks, self.dropout.as_ref())?;
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
    dropout: Option<&AttentionDropout>,
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
    if let Some(dropout) = dropout {
        dropout.check(op)?;
        numel(op, &scores)?;
    }
    Ok(sizes)
}
