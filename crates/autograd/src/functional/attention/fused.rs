//! Attention by the kernels of the device, which have the bits of the definition.

use samebits_tensor_core::ops::{self, AttentionDropout, AttentionGrad, AttentionMasks};
use samebits_tensor_core::{Result, Tensor as Value};

use super::Attention;
use crate::functional::broadcast::{sum, sum_to};
use crate::functional::elementwise::{div, mul, times, wanted};
use crate::{Tensor, is_recording, no_grad, run};

impl Attention {
    /// Computes the averages of the values.
    pub(super) fn fused(self) -> Result<Tensor> {
        let query = no_grad(|| times(&self.query, self.scale))?;
        let (queries, keys) = self.lengths();
        let batch = &self.scores[..self.scores.len() - 2];
        let matrices = |x: &Tensor, rows: usize| -> Result<Value> {
            let columns = x.shape().last().copied().unwrap_or(0);
            x.value().expand(&[batch, &[rows, columns]].concat())
        };
        let masks = AttentionMasks {
            added: self.masks.added().map(|x| x.value().expand(&self.scores)).transpose()?,
            hidden: self.masks.explicit().map(|x| x.value().expand(&self.scores)).transpose()?,
            causal: self.masks.offset(),
        };
        let op = ops::Attention {
            query: matrices(&query, queries)?,
            key: matrices(&self.key, keys)?,
            value: matrices(&self.value, keys)?,
            masks,
            dropout: self.dropout.clone().map(|(p, generator)| AttentionDropout { p, generator }),
        };
        let (output, largest, sums) = run(&op)?;
        let (inputs, value) = (self.clone(), output.clone());
        Ok(Tensor::computed(value, &inputs.inputs(), move |grad| {
            if is_recording() || self.masks.added().is_some_and(Tensor::requires_grad) {
                return self.gradients(grad);
            }
            let grad = div(grad, &Tensor::from(sums.unsqueeze(sums.rank())?))?;
            let shared = sum(&mul(&grad, &Tensor::from(output.clone()))?, [-1], false)?;
            let (query, key, value) = run(&AttentionGrad {
                grad: grad.value().clone(),
                shared: shared.value().clone(),
                largest: largest.clone(),
                query: op.query.clone(),
                key: op.key.clone(),
                value: op.value.clone(),
                masks: op.masks.clone(),
                dropout: op.dropout.clone(),
            })?;
            let own = |of: &Tensor, grad: Value| wanted(of, || sum_to(&grad.into(), of.shape()));
            let of_query = own(&self.query, query)?;
            let mut all = vec![
                of_query.map(|grad| times(&grad, self.scale)).transpose()?,
                own(&self.key, key)?,
                own(&self.value, value)?,
            ];
            all.extend(self.masks.added().map(|_| None));
            Ok(all)
        }))
    }
}
