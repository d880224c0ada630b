//! Attention by the kernels of the device, which have the bits of the definition.

use std::cmp::Reverse;

use samebits_tensor_core::ops::{self, AttentionDropout, AttentionGrad, AttentionMasks};
use samebits_tensor_core::{Result, Tensor as Value};

use super::Attention;
use crate::functional::broadcast::{sum, sum_to};
use crate::functional::elementwise::{div, mul, times, wanted};
use crate::{Tensor, is_recording, no_grad, run};

impl Attention {
    /// Computes the averages of the values.
    pub(super) fn fused(self) -> Result<Tensor> {
        let query = scaled(&self.query, self.scale)?;
        let (queries, keys) = self.lengths();
        let batch = &self.scores[..self.scores.len() - 2];
        let matrices = |x: &Value, rows: usize| -> Result<Value> {
            let columns = x.shape().last().copied().unwrap_or(0);
            x.expand(&[batch, &[rows, columns]].concat())
        };
        let masks = AttentionMasks {
            added: self.masks.added().map(|x| x.value().expand(&self.scores)).transpose()?,
            hidden: self.masks.explicit().map(|x| x.value().expand(&self.scores)).transpose()?,
            causal: self.masks.offset(),
        };
        let op = ops::Attention {
            query: matrices(&query, queries)?,
            key: matrices(self.key.value(), keys)?,
            value: matrices(self.value.value(), keys)?,
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

/// Multiplies queries by the scale, in the order of memory: any other copies them first.
fn scaled(query: &Tensor, scale: f64) -> Result<Value> {
    let value = query.value();
    let strides = value.layout().strides();
    let mut order: Vec<usize> = (0..value.rank()).collect();
    order.sort_by_key(|&dim| Reverse(strides[dim]));
    let dense = value.permute(&order)?;
    if !dense.is_contiguous() {
        return Ok(no_grad(|| times(query, scale))?.value().clone());
    }
    let dense = no_grad(|| times(&Tensor::from(dense), scale))?;
    let mut back = vec![0; order.len()];
    for (place, dim) in order.into_iter().enumerate() {
        back[dim] = place;
    }
    dense.value().permute(&back)
}
