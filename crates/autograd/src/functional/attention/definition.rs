//! The definition of attention, as a composition of operators, and its gradient.

use samebits_tensor_core::Result;
use samebits_tensor_core::ops::CompareKind;

use super::Attention;
use crate::functional::broadcast::{expand, sum, sum_to};
use crate::functional::dropout::dropout_with;
use crate::functional::elementwise::{add, compare, div, exp, mul, sub, times, wanted};
use crate::functional::linear::matmul;
use crate::functional::support::masked_fill;
use crate::functional::{amax, transpose};
use crate::{Tensor, no_grad};

/// The scores of a call, and what follows from them.
struct Scored {
    /// The scaled queries.
    query: Tensor,
    /// True for the keys that a query does not attend to.
    hidden: Option<Tensor>,
    /// `exp(score − largest)`, 0 for hidden keys.
    exps: Tensor,
    /// The sum of `exps` over the keys, 1 if all are hidden.
    sum: Tensor,
}

impl Attention {
    /// Computes the weights of the keys.
    pub(super) fn composed_weights(&self) -> Result<Tensor> {
        let scored = self.scored()?;
        div(&self.dropout(&scored.exps)?, &scored.sum)
    }

    /// Computes the gradients of [`inputs`](Self::inputs), given that of the averages.
    pub(super) fn gradients(&self, grad: &Tensor) -> Result<Vec<Option<Tensor>>> {
        let scored = self.scored()?;
        let dropped = self.dropout(&scored.exps)?;
        let output = div(&matmul(&dropped, &self.value)?, &scored.sum)?;
        let grad = div(grad, &scored.sum)?;
        let shared = sum(&mul(&grad, &output)?, [-1], true)?;
        let of_value = wanted(&self.value, || {
            sum_to(&matmul(&transpose(&dropped, -2, -1)?, &grad)?, self.value.shape())
        })?;
        let of_exps = matmul(&grad, &transpose(&self.value, -2, -1)?)?;
        self.through_scores(&scored, &of_exps, &shared, of_value)
    }

    /// Computes the gradients of [`inputs`](Self::inputs), given that of the weights.
    pub(super) fn gradients_of_weights(&self, grad: &Tensor) -> Result<Vec<Option<Tensor>>> {
        let scored = self.scored()?;
        let weights = div(&self.dropout(&scored.exps)?, &scored.sum)?;
        let grad = div(grad, &scored.sum)?;
        let shared = sum(&mul(&grad, &weights)?, [-1], true)?;
        self.through_scores(&scored, &grad, &shared, None)
    }

    /// Computes the gradients from that of the exponentials after dropout. `shared` is the sum of
    /// the gradient over all keys, which each exponential receives through the divisor.
    fn through_scores(
        &self,
        scored: &Scored,
        of_exps: &Tensor,
        shared: &Tensor,
        of_value: Option<Tensor>,
    ) -> Result<Vec<Option<Tensor>>> {
        let mut scores = mul(&scored.exps, &sub(&self.dropout(of_exps)?, shared)?)?;
        if let Some(hidden) = &scored.hidden {
            scores = masked_fill(&scores, hidden, 0.0)?;
        }
        let of_query = wanted(&self.query, || {
            times(&sum_to(&matmul(&scores, &self.key)?, self.query.shape())?, self.scale)
        })?;
        let of_key = wanted(&self.key, || {
            sum_to(&matmul(&transpose(&scores, -2, -1)?, &scored.query)?, self.key.shape())
        })?;
        let mut all = vec![of_query, of_key, of_value];
        if let Some(added) = self.masks.added() {
            all.push(wanted(added, || sum_to(&scores, added.shape()))?);
        }
        Ok(all)
    }

    fn scored(&self) -> Result<Scored> {
        let (queries, keys) = self.lengths();
        let hidden = self.masks.hidden(queries, keys, self.query.device())?;
        // With the batch of all arguments, because dropout draws for each weight.
        let mut shape = self.scores.clone();
        shape.pop();
        shape.extend(self.query.shape().last());
        let query = expand(&times(&self.query, self.scale)?, &shape)?;
        let mut scores = matmul(&query, &transpose(&self.key, -2, -1)?)?;
        if let Some(added) = self.masks.added() {
            scores = add(&scores, added)?;
        }
        if let Some(hidden) = &hidden {
            scores = masked_fill(&scores, hidden, f64::NEG_INFINITY)?;
        }
        if keys > 0 {
            // Any number in place of the largest score gives the same quotients, so it has no
            // gradient.
            let largest = no_grad(|| amax(&scores, [-1], true))?;
            scores = sub(&scores, &largest)?;
        }
        let mut exps = exp(&scores)?;
        if let Some(hidden) = &hidden {
            exps = masked_fill(&exps, hidden, 0.0)?;
        }
        let total = sum(&exps, [-1], true)?;
        let none = compare(CompareKind::Eq, &total, 0.0)?;
        let sum = masked_fill(&total, &none, 1.0)?;
        Ok(Scored { query, hidden, exps, sum })
    }

    /// Applies dropout, always with the numbers of this call.
    fn dropout(&self, x: &Tensor) -> Result<Tensor> {
        match &self.dropout {
            Some((p, generator)) => dropout_with(x, *p, &mut generator.clone()),
            None => Ok(x.clone()),
        }
    }
}
