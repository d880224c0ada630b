//! What a checkpoint of a run holds.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::{Error, Result, Trainer};
use crate::data::{Collate, Dataset, LoaderState};
use crate::io::{Checkpoint, Tensors};
use crate::nn::Module;
use crate::optim::Optimizer;
use crate::{Generator, Tensor};

/// Where a run stands, but for its tensors.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrainerState {
    /// The description of the run; see [`Trainer::run`].
    pub run: String,
    /// Where layers draw from.
    generator: Generator,
    /// Where the loader goes on, once it has begun.
    loader: Option<LoaderState>,
    /// As bits, of which JSON loses none, not even those of NaN.
    losses: Vec<u32>,
    metrics: Vec<u64>,
}

const MODEL: &str = "model.";
const OPTIMIZER: &str = "optimizer.";
const PLATEAU: &str = "plateau.";

impl<M, O, D, C> Trainer<'_, M, O, D, C>
where
    M: Module,
    O: Optimizer,
    D: Dataset,
    C: Collate<D::Item>,
{
    /// The state of the run.
    ///
    /// # Errors
    ///
    /// There is no memory for it.
    pub fn state(&self) -> Result<Checkpoint<TrainerState>> {
        let plateau = match &self.plateau {
            Some(plateau) => plateau.state()?,
            None => Vec::new(),
        };
        let parts = [
            (MODEL, self.model.state_dict()),
            (OPTIMIZER, self.optimizer.state()?),
            (PLATEAU, plateau),
        ];
        let tensors = parts.into_iter().flat_map(|(part, tensors)| {
            tensors.into_iter().map(move |(name, tensor)| (format!("{part}{name}"), tensor))
        });
        let state = TrainerState {
            run: self.run.clone(),
            generator: self.generator.clone(),
            loader: self.position.clone(),
            losses: self.losses.iter().map(|loss| loss.to_bits()).collect(),
            metrics: self.metrics.iter().map(|metric| metric.to_bits()).collect(),
        };
        Ok(Checkpoint { state, tensors: tensors.collect() })
    }

    /// Goes on from a state that a trainer like this one returned.
    ///
    /// # Errors
    ///
    /// [`Error::OtherRun`] if the run's description is another; if the tensors do not fit, what the
    /// model or the optimiser says, after which the run is not to be gone on with.
    pub fn load_state(&mut self, checkpoint: Checkpoint<TrainerState>) -> Result<()> {
        let Checkpoint { state, tensors } = checkpoint;
        if state.run != self.run {
            return Err(Error::OtherRun { expected: self.run.clone(), found: state.run });
        }
        self.model.load_state_dict(&part(&tensors, MODEL), true)?;
        self.optimizer.load_state(part(&tensors, OPTIMIZER))?;
        if let Some(plateau) = &mut self.plateau {
            plateau.load_state(part(&tensors, PLATEAU))?;
        }
        (self.generator, self.position) = (state.generator, state.loader);
        self.losses = state.losses.into_iter().map(f32::from_bits).collect();
        self.metrics = state.metrics.into_iter().map(f64::from_bits).collect();
        Ok(())
    }

    /// Goes on from a checkpoint.
    ///
    /// # Errors
    ///
    /// As [`Checkpoint::load`] and [`load_state`](Trainer::load_state).
    pub fn resume(&mut self, path: impl AsRef<Path>) -> Result<()> {
        self.load_state(Checkpoint::load(path)?)
    }

    pub(super) fn save(&self) -> Result<()> {
        if let Some(path) = &self.checkpoint {
            self.state()?.save(path)?;
        }
        Ok(())
    }
}

/// The tensors of one part, by their names in it.
fn part(tensors: &Tensors, part: &str) -> Vec<(String, Tensor)> {
    let named = |(name, tensor): (&String, &Tensor)| {
        Some((name.strip_prefix(part)?.to_owned(), tensor.clone()))
    };
    tensors.iter().filter_map(named).collect()
}
