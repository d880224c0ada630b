//! A training loop whose runs can be interrupted, resumed and repeated.

mod ctrl_c;
mod progress;
mod record;
mod state;
mod tensors;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::data::{Collate, DataLoader, Dataset, LoaderState};
use crate::ledger::{self, Ledger};
use crate::nn::{Module, train_with};
use crate::optim::{Mode, Optimizer, ReduceLrOnPlateau, Schedule, clip_grad_norm};
use crate::tensor_core::observe::Phase;
use crate::{Generator, Gradients, Tensor, inherit, io};

use ctrl_c::CtrlC;
use progress::Progress;
use record::recorded;

pub use state::TrainerState;
pub use tensors::{IntoTensors, StackTensors};

/// A result whose error is this module's [`enum@Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What can go wrong in a training.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An operation on tensors.
    #[error(transparent)]
    Tensor(#[from] crate::Error),
    /// The loader or its dataset.
    #[error(transparent)]
    Data(#[from] crate::data::Error),
    /// A checkpoint.
    #[error(transparent)]
    File(#[from] io::Error),
    /// The ledger.
    #[error(transparent)]
    Ledger(#[from] ledger::Error),
    /// A checkpoint of another run.
    #[error("trainer: the checkpoint is of the run {found}, this is the run {expected}")]
    OtherRun {
        /// This run's description.
        expected: String,
        /// The checkpoint's.
        found: String,
    },
    /// An epoch without a batch: nothing would ever be learnt.
    #[error("trainer: epoch {epoch} has no batch; is the batch size larger than the dataset?")]
    NoBatch {
        /// The epoch.
        epoch: u64,
    },
    /// The system refuses a handler of Ctrl-C.
    #[error("trainer: cannot listen for Ctrl-C: {0}")]
    CtrlC(std::io::Error),
    /// A setting that the trainer cannot work with.
    #[error("trainer: {0}")]
    Invalid(String),
}

/// Trains a model: loads batches, computes losses and gradients, takes steps, saves checkpoints.
///
/// [`fit`](Trainer::fit) needs a function that returns the loss of a batch. The state of a run is
/// the model, the optimiser, the schedule, where the loader stands, the generator that layers draw
/// from, the losses and the metrics; nothing else enters a step. A run that is saved and
/// resumed, as often as you like and anywhere in an epoch, therefore ends in the bits of one that
/// was not interrupted, if the function depends on its arguments alone.
///
/// # Determinism
///
/// As that of the operations that the function runs. With [`accumulate`](Trainer::accumulate) the
/// gradients of the batches are added in the batches' order, then multiplied by one over their
/// number.
#[allow(missing_debug_implementations, reason = "it holds functions")]
pub struct Trainer<'a, M, O, D: Dataset, C: Collate<D::Item>> {
    /// The model.
    pub model: M,
    /// The optimiser.
    pub optimizer: O,
    loader: DataLoader<D, C>,
    run: String,
    epochs: u64,
    max_steps: Option<u64>,
    batches_per_step: u64,
    clip: Option<(f64, f64)>,
    schedule: Option<(Per, Box<dyn Schedule + Send + 'a>)>,
    plateau: Option<ReduceLrOnPlateau>,
    metric: Option<Measure<'a, M>>,
    early_stop: Option<(Mode, u64)>,
    checkpoint: Option<PathBuf>,
    stop: Option<Arc<AtomicBool>>,
    stop_on_ctrl_c: bool,
    quiet: bool,
    on_step: Option<Tell<'a>>,
    ledger: Option<Ledger>,
    generator: Generator,
    position: Option<LoaderState>,
    losses: Vec<f32>,
    metrics: Vec<f64>,
}

/// Measures a model.
type Measure<'a, M> = Box<dyn FnMut(&M) -> Result<f64> + Send + 'a>;
/// Is told of a step.
type Tell<'a> = Box<dyn FnMut(&Step) + Send + 'a>;

/// What one call of [`Trainer::fit`] hears and shows.
struct View {
    ctrl_c: Option<CtrlC>,
    progress: Progress,
}

/// What a schedule counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Per {
    /// Optimiser steps.
    Step,
    /// Epochs.
    Epoch,
}

/// A step that was taken.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    /// The epoch, from 0.
    pub epoch: u64,
    /// How many steps the run has taken.
    pub steps: u64,
    /// The loss, the mean of the batches' if there are several.
    pub loss: f32,
    /// The norm of the gradients before clipping.
    pub norm: Option<f64>,
}

/// Why [`Trainer::fit`] returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// All epochs are done.
    Finished,
    /// The largest number of steps is taken.
    MaxSteps,
    /// The stop flag is set, or Ctrl-C was pressed.
    Interrupted,
    /// The metric has not got better for too long.
    EarlyStopped,
}

impl<'a, M, O, D, C> Trainer<'a, M, O, D, C>
where
    M: Module,
    O: Optimizer,
    D: Dataset,
    C: Collate<D::Item>,
{
    /// A run of one epoch. Layers draw from `generator`.
    pub fn new(model: M, optimizer: O, loader: DataLoader<D, C>, generator: Generator) -> Self {
        Trainer {
            model,
            optimizer,
            loader,
            run: String::new(),
            epochs: 1,
            max_steps: None,
            batches_per_step: 1,
            clip: None,
            schedule: None,
            plateau: None,
            metric: None,
            early_stop: None,
            checkpoint: None,
            stop: None,
            stop_on_ctrl_c: false,
            quiet: false,
            on_step: None,
            ledger: ledger::of_process(),
            generator,
            position: None,
            losses: Vec::new(),
            metrics: Vec::new(),
        }
    }

    /// Describes the run by all that its bits depend on and that no checkpoint holds, for example
    /// its settings as JSON. A checkpoint of a run with another description is refused.
    #[must_use]
    pub fn run(mut self, description: impl Into<String>) -> Self {
        self.run = description.into();
        self
    }

    /// Ends the run after this many epochs in all.
    #[must_use]
    pub fn epochs(mut self, epochs: u64) -> Self {
        self.epochs = epochs;
        self
    }

    /// Returns from [`fit`](Trainer::fit) when this many steps are taken in all.
    #[must_use]
    pub fn max_steps(mut self, steps: u64) -> Self {
        self.max_steps = Some(steps);
        self
    }

    /// Takes a step for every `batches` batches, along the mean of their gradients. The last step of
    /// an epoch may have fewer.
    #[must_use]
    pub fn accumulate(mut self, batches: u64) -> Self {
        self.batches_per_step = batches;
        self
    }

    /// Clips the gradients by their `p`-norm; see [`clip_grad_norm`].
    #[must_use]
    pub fn clip_grad_norm(mut self, max_norm: f64, p: f64) -> Self {
        self.clip = Some((max_norm, p));
        self
    }

    /// Sets the learning rates before each step by a schedule of steps or epochs.
    #[must_use]
    pub fn schedule(mut self, per: Per, schedule: impl Schedule + Send + 'a) -> Self {
        self.schedule = Some((per, Box::new(schedule)));
        self
    }

    /// Lowers the learning rates when the metric stops getting better. Not together with a
    /// [`schedule`](Trainer::schedule), which would set them again.
    #[must_use]
    pub fn plateau(mut self, plateau: ReduceLrOnPlateau) -> Self {
        self.plateau = Some(plateau);
        self
    }

    /// Measures the model after each epoch, without recording a graph. Without this the metric is
    /// the mean loss of the epoch's steps.
    #[must_use]
    pub fn metric(mut self, metric: impl FnMut(&M) -> Result<f64> + Send + 'a) -> Self {
        self.metric = Some(Box::new(metric));
        self
    }

    /// Stops when the best metric is `patience` epochs old.
    #[must_use]
    pub fn early_stop(mut self, mode: Mode, patience: u64) -> Self {
        self.early_stop = Some((mode, patience));
        self
    }

    /// Saves a checkpoint here after every epoch, and whenever [`fit`](Trainer::fit) returns
    /// without an error.
    #[must_use]
    pub fn checkpoint(mut self, path: impl Into<PathBuf>) -> Self {
        self.checkpoint = Some(path.into());
        self
    }

    /// Returns from [`fit`](Trainer::fit) after the step in which Ctrl-C is pressed, with
    /// [`Outcome::Interrupted`] and the [`checkpoint`](Trainer::checkpoint) saved; a second Ctrl-C
    /// ends the process at once. Outside of [`fit`](Trainer::fit) Ctrl-C ends the process, as it does
    /// without a handler. Only a process that asks for this ever gets a handler.
    #[must_use]
    pub fn stop_on_ctrl_c(mut self) -> Self {
        self.stop_on_ctrl_c = true;
        self
    }

    /// Returns from [`fit`](Trainer::fit) after the step in which `flag` is set, by a thread or a
    /// handler of the caller's.
    #[must_use]
    pub fn stop_flag(mut self, flag: Arc<AtomicBool>) -> Self {
        self.stop = Some(flag);
        self
    }

    /// Shows no progress bar. Without this one is on standard error while [`fit`](Trainer::fit)
    /// runs, if that is a terminal.
    #[must_use]
    pub fn quiet(mut self) -> Self {
        self.quiet = true;
        self
    }

    /// Tells of every step, for example a log.
    #[must_use]
    pub fn on_step(mut self, tell: impl FnMut(&Step) + Send + 'a) -> Self {
        self.on_step = Some(Box::new(tell));
        self
    }

    /// Records batches, operations and steps. Without this the run records to the ledger of the
    /// process, if the environment variable `SAMEBITS_LEDGER` asks for one. The ledger is not
    /// finished: the run may go on.
    #[must_use]
    pub fn ledger(mut self, ledger: Ledger) -> Self {
        self.ledger = Some(ledger);
        self
    }

    /// The loss of every step so far.
    pub fn losses(&self) -> &[f32] {
        &self.losses
    }

    /// The metric of every epoch so far.
    pub fn metrics(&self) -> &[f64] {
        &self.metrics
    }

    /// Trains until the last epoch, or until something else of [`Outcome`]. A run that was resumed,
    /// or that returned before its end, goes on. `loss` returns the loss of a batch; it runs inside
    /// [`train_with`], so that layers train and draw from the run's generator.
    ///
    /// # Errors
    ///
    /// Those of the loader, of the operations and of the checkpoint. The parameters, the optimiser
    /// and the position in the data are then those of the last step; running statistics may have
    /// seen a batch more.
    pub fn fit(&mut self, mut loss: impl FnMut(&M, C::Batch) -> Result<Tensor>) -> Result<Outcome> {
        if self.batches_per_step == 0 {
            return Err(Error::Invalid("a step needs at least 1 batch, got 0".to_owned()));
        }
        if self.schedule.is_some() && self.plateau.is_some() {
            let message = "a schedule and a plateau cannot both set the learning rates";
            return Err(Error::Invalid(message.to_owned()));
        }
        inherit::reach_loaders();
        let ctrl_c = if self.stop_on_ctrl_c { Some(CtrlC::listen()) } else { None };
        let ctrl_c = ctrl_c.transpose().map_err(Error::CtrlC)?;
        let view = View { ctrl_c, progress: Progress::new(self.quiet) };
        let outcome = self.epochs_left(&view, &mut loss)?;
        self.save()?;
        Ok(outcome)
    }

    fn epochs_left(
        &mut self,
        view: &View,
        loss: &mut impl FnMut(&M, C::Batch) -> Result<Tensor>,
    ) -> Result<Outcome> {
        // An epoch is done when it has its metric.
        while (self.metrics.len() as u64) < self.epochs {
            if self.is_stale() {
                return Ok(Outcome::EarlyStopped);
            }
            let epoch = self.metrics.len() as u64;
            if let Some(outcome) = self.steps_left(epoch, view, loss)? {
                return Ok(outcome);
            }
            let metric = self.measured(epoch)?;
            if let Some(plateau) = &mut self.plateau {
                plateau.step(metric, &mut self.optimizer)?;
            }
            self.metrics.push(metric);
            self.save()?;
        }
        Ok(Outcome::Finished)
    }

    /// The rest of an epoch, or why it was not taken.
    fn steps_left(
        &mut self,
        epoch: u64,
        view: &View,
        loss: &mut impl FnMut(&M, C::Batch) -> Result<Tensor>,
    ) -> Result<Option<Outcome>> {
        let in_epoch = self.loader.batches_in(epoch)?;
        if in_epoch == 0 {
            return Err(Error::NoBatch { epoch });
        }
        let mut batches = match &self.position {
            Some(position) if position.epoch == epoch => self.loader.resume(position)?,
            _ => self.loader.epoch(epoch),
        };
        let begun = self.position.as_ref().filter(|position| position.epoch == epoch);
        let [taken, steps] = [begun.map_or(0, |position| position.batch), in_epoch]
            .map(|batches| batches.div_ceil(self.batches_per_step));
        view.progress.epoch(epoch, self.epochs, taken, steps);
        loop {
            // First of all: an epoch that has all its steps ends with its metric, also if the run
            // is to stop here.
            let taken = self.position.as_ref().filter(|position| position.epoch == epoch);
            if taken.is_some_and(|position| position.batch >= in_epoch) {
                return Ok(None);
            }
            let steps = self.losses.len() as u64;
            if self.max_steps.is_some_and(|max| steps >= max) {
                return Ok(Some(Outcome::MaxSteps));
            }
            let flagged = self.stop.as_ref().is_some_and(|stop| stop.load(Ordering::Relaxed));
            if flagged || view.ctrl_c.as_ref().is_some_and(CtrlC::is_pressed) {
                return Ok(Some(Outcome::Interrupted));
            }
            // What an error must leave as it is.
            let mut generator = self.generator.clone();
            let mut sum: Option<(Gradients, f32)> = None;
            let mut count = 0;
            for batch in batches.by_ref().take(self.batches_per_step as usize) {
                let batch = batch?;
                self.record_batch(steps, count, &batch.indices)?;
                let (gradients, loss) = recorded(&self.ledger, Phase::Forward, || {
                    let loss = train_with(&mut generator, || loss(&self.model, batch.data))?;
                    Ok::<_, Error>((loss.backward()?, loss.detach().item::<f32>()?))
                })?;
                sum = Some(match sum {
                    None => (gradients, loss),
                    Some((mut sum, losses)) => {
                        recorded(&self.ledger, Phase::Optimizer, || sum.accumulate(&gradients))?;
                        (sum, losses + loss)
                    }
                });
                count += 1;
            }
            let Some((mut gradients, losses)) = sum else { return Ok(None) };
            if count > 1 {
                let mean = || gradients.scale(1.0 / f64::from(count));
                recorded(&self.ledger, Phase::Optimizer, mean)?;
            }
            let clip = |(max_norm, p)| {
                clip_grad_norm(&self.model.parameters(), &mut gradients, max_norm, p)
            };
            let clip = || self.clip.map(clip).transpose();
            let norm = recorded(&self.ledger, Phase::Optimizer, clip)?;
            match &self.schedule {
                Some((Per::Step, schedule)) => schedule.apply(steps, &mut self.optimizer)?,
                Some((Per::Epoch, schedule)) => schedule.apply(epoch, &mut self.optimizer)?,
                None => {}
            }
            let position = batches.state()?;
            let step = || self.optimizer.step(&mut self.model, &gradients);
            recorded(&self.ledger, Phase::Optimizer, step)?;
            (self.position, self.generator) = (Some(position), generator);
            let loss = losses / count as f32;
            self.losses.push(loss);
            self.record_step(loss, &gradients)?;
            view.progress.step(loss);
            if let Some(tell) = &mut self.on_step {
                tell(&Step { epoch, steps: steps + 1, loss, norm });
            }
        }
    }

    fn measured(&mut self, epoch: u64) -> Result<f64> {
        if let Some(metric) = &mut self.metric {
            return crate::no_grad(|| metric(&self.model));
        }
        let batches = self.loader.batches_in(epoch)?.div_ceil(self.batches_per_step) as usize;
        let steps = &self.losses[self.losses.len().saturating_sub(batches)..];
        let sum = steps.iter().fold(0.0, |sum, &loss| sum + f64::from(loss));
        Ok(sum / steps.len().max(1) as f64)
    }

    /// Whether the best metric is too old.
    fn is_stale(&self) -> bool {
        let Some((mode, patience)) = self.early_stop else { return false };
        let better = |a: f64, b: f64| match mode {
            Mode::Min => a < b,
            Mode::Max => a > b,
        };
        let mut best: Option<(usize, f64)> = None;
        for (epoch, &metric) in self.metrics.iter().enumerate() {
            if best.is_none_or(|(_, best)| better(metric, best) || best.is_nan()) {
                best = Some((epoch, metric));
            }
        }
        best.is_some_and(|(epoch, _)| (self.metrics.len() - 1 - epoch) as u64 >= patience)
    }
}
