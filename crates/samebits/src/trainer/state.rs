//! Contents of a run's checkpoint.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::micro::together;
use super::step::Before;
use super::{Error, Loader, Result, Trainer};
use crate::data::LoaderState;
use crate::io::{Checkpoint, Tensors};
use crate::nn::Module;
use crate::optim::{GradScaler, Optimizers};
use crate::{Generator, Tensor};

/// State of a run without its tensors. `S` is the position of its loader: [`Loader::State`].
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrainerState<S = LoaderState> {
    /// The description of the run; see [`Trainer::run`].
    pub run: String,
    /// The generator from which those of all micro-batches are derived.
    generator: Generator,
    /// The loader's position, once it has begun.
    loader: Option<S>,
    /// The losses as bits, because JSON could change them or lose a NaN.
    losses: Vec<u32>,
    metrics: Vec<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    scaler: Option<GradScaler>,
}

const MODEL: &str = "model.";
const OPTIMIZER: &str = "optimizer.";
const PLATEAU: &str = "plateau.";

impl<M, O, D> Trainer<'_, M, O, D>
where
    M: Module,
    O: Optimizers,
    D: Loader,
{
    /// Returns the state of the run.
    ///
    /// # Errors
    ///
    /// If memory runs out.
    pub fn state(&self) -> Result<Checkpoint<TrainerState<D::State>>> {
        let mut parts = vec![(MODEL.to_owned(), Ok(self.model.state_dict()))];
        self.optimizer.each("", &mut |path, optimizer| {
            parts.push((of_optimizer(path), optimizer.state()));
        });
        if let Some(plateau) = &self.plateau {
            parts.push((PLATEAU.to_owned(), plateau.state()));
        }
        let mut tensors = Tensors::new();
        for (part, state) in parts {
            tensors.extend(state?.into_iter().map(|(name, tensor)| (part.clone() + &name, tensor)));
        }
        let state = TrainerState {
            run: self.run.clone(),
            generator: self.generator.clone(),
            loader: self.position.clone(),
            losses: self.losses.iter().map(|loss| loss.to_bits()).collect(),
            metrics: self.metrics.iter().map(|metric| metric.to_bits()).collect(),
            scaler: self.scaler,
        };
        Ok(Checkpoint { state, tensors })
    }

    /// Continues from a state returned by an identical trainer.
    ///
    /// # Errors
    ///
    /// [`Error::OtherRun`] if the run's description differs; if the tensors do not match, the error
    /// of the model or the optimiser, or [`Error::Invalid`]. The run is then unchanged.
    pub fn load_state(&mut self, checkpoint: Checkpoint<TrainerState<D::State>>) -> Result<()> {
        let Checkpoint { state, tensors } = checkpoint;
        if state.run != self.run {
            return Err(Error::OtherRun { expected: self.run.clone(), found: state.run });
        }
        if state.scaler.is_some() != self.scaler.is_some() {
            let (own, other) = if self.scaler.is_some() { ("a", "none") } else { ("no", "one") };
            let message = format!("expected a checkpoint with {own} gradient scaler, got {other}");
            return Err(Error::Invalid(message));
        }
        let before = Before::of(&self.model, &self.optimizer)?;
        if let Err(error) = self.load_tensors(tensors) {
            before.restore(&mut self.model, &mut self.optimizer)?;
            return Err(error);
        }
        (self.generator, self.position) = (state.generator, state.loader);
        self.scaler = state.scaler;
        self.losses = state.losses.into_iter().map(f32::from_bits).collect();
        self.metrics = state.metrics.into_iter().map(f64::from_bits).collect();
        Ok(())
    }

    fn load_tensors(&mut self, mut tensors: Tensors) -> Result<()> {
        self.model.load_state_dict(&part(&mut tensors, MODEL), true)?;
        let mut result = Ok(());
        self.optimizer.each_mut("", &mut |path, optimizer| {
            if result.is_ok() {
                result = optimizer.load_state(part(&mut tensors, &of_optimizer(path)));
            }
        });
        result?;
        let plateau = self.plateau.is_some().then(|| part(&mut tensors, PLATEAU));
        if let Some(name) = tensors.keys().next() {
            let message = format!("the checkpoint holds {name}, for which this run has no place");
            return Err(Error::Invalid(message));
        }
        // Last, because it cannot be undone.
        if let (Some(plateau), Some(state)) = (&mut self.plateau, plateau) {
            plateau.load_state(state)?;
        }
        Ok(())
    }

    /// Continues from a checkpoint.
    ///
    /// # Errors
    ///
    /// As for [`Checkpoint::load`] and [`load_state`](Trainer::load_state).
    pub fn resume(&mut self, path: impl AsRef<Path>) -> Result<()> {
        self.load_state(Checkpoint::load(path)?)
    }

    /// Saves the checkpoint, if one is configured. The first rank writes it, and all ranks learn
    /// the outcome.
    pub(super) fn save(&self) -> Result<()> {
        let Some(path) = &self.checkpoint else { return Ok(()) };
        let write = || Ok(self.state()?.save(path)?);
        match &self.ranks {
            None => write(),
            Some(ranks) if ranks.rank() == 0 => together(ranks, write()).map(|_| ()),
            Some(ranks) => together(ranks, Ok(())).map(|_| ()),
        }
    }
}

/// Returns the prefix of the tensor names of the optimiser at `path`.
fn of_optimizer(path: &str) -> String {
    if path.is_empty() { OPTIMIZER.to_owned() } else { format!("{OPTIMIZER}{path}.") }
}

/// Removes and returns the tensors of one part, by their names in it.
fn part(tensors: &mut Tensors, part: &str) -> Vec<(String, Tensor)> {
    let taken = tensors.extract_if(.., |name, _| name.starts_with(part));
    taken.map(|(name, tensor)| (name[part.len()..].to_owned(), tensor)).collect()
}
