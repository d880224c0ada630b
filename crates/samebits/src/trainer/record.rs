//! Recording of a run to its ledger.

use super::source::Micro;
use super::{Loader, Result, Trainer};
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

impl<M, O, D> Trainer<'_, M, O, D>
where
    M: Module,
    O: Optimizers,
    D: Loader,
{
    /// Names the parameters before a step, also on a rank that has no batch of it.
    pub(super) fn record_begin(&self) {
        if let Some(ledger) = &self.ledger {
            ledger.watch(&self.model);
        }
    }

    /// Records the next batch; a step may have several.
    pub(super) fn record_batch(&self, step: u64, micro: &Micro<D::Batch>) -> Result<()> {
        let Some(ledger) = &self.ledger else { return Ok(()) };
        ledger.at(step, micro.number)?;
        let (count, columns) = (micro.indices.len(), micro.columns);
        let shape = if columns == 1 { vec![count] } else { vec![count / columns, columns] };
        let indices = Tensor::from_slice(&micro.indices, &shape)?;
        Ok(ledger.batch(&[], Some(&indices))?)
    }

    /// Records the completed step.
    pub(super) fn record_step(&self, loss: f32, gradients: &Gradients) -> Result<()> {
        let Some(ledger) = &self.ledger else { return Ok(()) };
        let loss = Tensor::scalar(loss);
        Ok(ledger.step(Some(&loss), &self.model, gradients, Some(&self.generator))?)
    }
}
