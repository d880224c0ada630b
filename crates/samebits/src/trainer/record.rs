//! Recording of a run to its ledger.

use super::{Result, Trainer};
use crate::data::{Collate, Dataset};
use crate::ledger::Ledger;
use crate::nn::Module;
use crate::optim::Optimizers;
use crate::tensor_core::observe::{self, Phase};
use crate::{Gradients, Tensor};

/// Runs a part of a step, and records it if there is a ledger.
pub(super) fn recorded<R>(ledger: &Option<Ledger>, phase: Phase, f: impl FnOnce() -> R) -> R {
    let part = || observe::in_phase(phase, f);
    match ledger {
        Some(ledger) => ledger.record(part),
        None => part(),
    }
}

impl<M, O, D, C> Trainer<'_, M, O, D, C>
where
    M: Module,
    O: Optimizers,
    D: Dataset,
    C: Collate<D::Item>,
{
    /// Names the parameters before a step, also on a rank that has no batch of it.
    pub(super) fn record_begin(&self) {
        if let Some(ledger) = &self.ledger {
            ledger.watch(&self.model);
        }
    }

    /// Records the next batch; a step may have several.
    pub(super) fn record_batch(&self, step: u64, number: u64, indices: &[usize]) -> Result<()> {
        let Some(ledger) = &self.ledger else { return Ok(()) };
        ledger.at(step, number)?;
        let indices: Vec<i64> = indices.iter().map(|&index| index as i64).collect();
        let indices = Tensor::from_slice(&indices, &[indices.len()])?;
        Ok(ledger.batch(&[], Some(&indices))?)
    }

    /// Records the completed step.
    pub(super) fn record_step(&self, loss: f32, gradients: &Gradients) -> Result<()> {
        let Some(ledger) = &self.ledger else { return Ok(()) };
        let loss = Tensor::scalar(loss);
        Ok(ledger.step(Some(&loss), &self.model, gradients, Some(&self.generator))?)
    }
}
