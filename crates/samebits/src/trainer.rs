//! Training loop whose runs can be interrupted, resumed and repeated.

mod ctrl_c;
mod measure;
mod micro;
mod progress;
mod record;
mod source;
mod state;
mod step;
mod tensors;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::distributed::Ranks;
use crate::ledger::{self, Ledger};
use crate::nn::Module;
use crate::optim::{GradScaler, Mode, Optimizer, Optimizers, ReduceLrOnPlateau, Schedule};
use crate::{Generator, Tensor, inherit, io};

use ctrl_c::CtrlC;
use measure::Measure;
use progress::Progress;
use source::{Share, Steps};
use step::{Taken, Turn};

pub use source::Loader;
pub use state::TrainerState;
pub use step::Losses;
pub use tensors::{IntoTensors, StackRows, StackTensors, TensorDataset};

/// Result with this module's [`enum@Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Error of a training run.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An operation on tensors failed.
    #[error(transparent)]
    Tensor(#[from] crate::Error),
    /// The loader or its dataset failed.
    #[error(transparent)]
    Data(#[from] crate::data::Error),
    /// A checkpoint could not be read or written.
    #[error(transparent)]
    File(#[from] io::Error),
    /// The ledger failed.
    #[error(transparent)]
    Ledger(#[from] ledger::Error),
    /// The checkpoint belongs to another run.
    #[error("trainer: the checkpoint is of the run {found}, this is the run {expected}")]
    OtherRun {
        /// This run's description.
        expected: String,
        /// The checkpoint's.
        found: String,
    },
    /// An epoch has no batch, so the run would never learn anything.
    #[error("trainer: epoch {epoch} has no batch; is the batch size larger than the dataset?")]
    NoBatch {
        /// The epoch.
        epoch: u64,
    },
    /// A step resulted in NaN or infinity and [`Nan::Stop`] rejected it. The run stands before it.
    #[error(
        "trainer: step {step}, in epoch {epoch}: {}; the run stands before this step, and \
         `Trainer::nan(Nan::Continue)` would take it",
        not_finite(*loss, parameter.as_deref())
    )]
    NotFinite {
        /// The epoch, from 0.
        epoch: u64,
        /// The step, from 1: the value that [`Step::steps`] would have had.
        step: u64,
        /// The first loss that is not finite, if any.
        loss: Option<f64>,
        /// The first parameter that has a non-finite gradient, or is non-finite after the step.
        parameter: Option<String>,
    },
    /// The system refused a handler for Ctrl-C.
    #[error("trainer: cannot listen for Ctrl-C: {0}")]
    CtrlC(std::io::Error),
    /// Another rank, or the transport to it, failed.
    #[error("trainer: {0}")]
    Ranks(#[from] crate::distributed::Error),
    /// A setting is invalid.
    #[error("trainer: {0}")]
    Invalid(String),
}

crate::numerics::debug_is_message!(Error);

fn not_finite(loss: Option<f64>, parameter: Option<&str>) -> String {
    let loss = loss.map_or_else(String::new, |loss| format!("the loss is {loss}"));
    match parameter {
        None => loss,
        Some(name) => format!("{loss}, and {name} or its gradient holds NaN or an infinity"),
    }
}

/// Training of a model: loads batches, computes losses and gradients, takes steps, saves
/// checkpoints.
///
/// [`fit`](Trainer::fit) takes a function that returns the loss of a batch;
/// [`fit_steps`](Trainer::fit_steps) takes a function that performs the whole step, with any number
/// of optimisers and losses. The state of a run consists of the model, the optimisers, the
/// schedule, the loader's position, the generator that layers draw from, the losses and the
/// metrics; nothing else affects a step. A run that is saved and resumed, repeatedly and at any
/// point of an epoch, therefore ends in the same bits as an uninterrupted run, if the function
/// depends on its arguments alone.
///
/// A step is taken as a whole or not at all. After an error, or after a non-finite step ([`Nan`]),
/// the model with its buffers, the optimisers, the generator and the position in the data are those
/// after the last step, so a second call of [`fit`](Trainer::fit) continues as if nothing had
/// happened. Fields of the model that visitors do not see (`#[module(skip)]`) stay as the failed
/// step left them.
///
/// # Determinism
///
/// The guarantee is that of the operations in the function. Layers draw from a generator of the
/// batch: the run's generator by `derive("micro-batch")`, then `fold_in` of the number of earlier
/// steps and of the batch's number in its step (of a stream: its lane).
///
/// With [`accumulate`](Trainer::accumulate), each batch of a step starts from the buffers at the
/// start of the step. The gradients are added in the order of [`TreeSum`](crate::optim::TreeSum),
/// then multiplied by one over the number of batches, rounded. The losses, and the results for each
/// float buffer that a batch replaced, are averaged in the same way. Other buffers are those of the
/// first batch. The result does not depend on which rank computes which batch
/// ([`ranks`](Trainer::ranks)).
#[allow(missing_debug_implementations, reason = "it holds functions")]
pub struct Trainer<'a, M, O, D: Loader> {
    /// The model.
    pub model: M,
    /// The optimiser, or several (see [`Optimizers`]).
    pub optimizer: O,
    loader: D,
    run: String,
    epochs: u64,
    max_steps: Option<u64>,
    batches_per_step: u64,
    clip: Option<(f64, f64)>,
    scaler: Option<GradScaler>,
    schedule: Option<(Per, Box<dyn Schedule + Send + 'a>)>,
    plateau: Option<ReduceLrOnPlateau>,
    metric: Option<Measure<'a, M>>,
    early_stop: Option<(Mode, u64)>,
    checkpoint: Option<PathBuf>,
    checkpoint_every: Option<u64>,
    nan: Nan,
    stop: Option<Arc<AtomicBool>>,
    stop_on_ctrl_c: bool,
    quiet: bool,
    on_step: Option<Tell<'a>>,
    ledger: Option<Ledger>,
    ranks: Option<Ranks>,
    generator: Generator,
    position: Option<D::State>,
    losses: Vec<f32>,
    metrics: Vec<f64>,
}

/// Function that is called after a step.
type Tell<'a> = Box<dyn FnMut(&Step) + Send + 'a>;

/// Listeners and display of one call of [`Trainer::fit`].
struct View {
    ctrl_c: Option<CtrlC>,
    progress: Progress,
}

/// Unit of a schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Per {
    /// Optimiser steps.
    Step,
    /// Epochs.
    Epoch,
}

/// Treatment of a step that results in NaN or infinity in a loss, in a gradient, or in a parameter
/// that the step has changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Nan {
    /// The step is rejected: [`Error::NotFinite`] names the step and the parameter, and none of its
    /// changes remain.
    #[default]
    Stop,
    /// The step is taken like any other, as in a PyTorch loop.
    Continue,
}

/// A completed step.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// The epoch, from 0.
    pub epoch: u64,
    /// The number of steps that the run has taken.
    pub steps: u64,
    /// The loss; the mean over the batches if there are several, and the sum of the losses if the
    /// step has several.
    pub loss: f32,
    /// Each loss of the step.
    pub losses: Vec<f64>,
    /// The norm of the gradients before clipping.
    pub norm: Option<f64>,
}

/// Reason why [`Trainer::fit`] returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// All epochs are done.
    Finished,
    /// The maximum number of steps was reached.
    MaxSteps,
    /// The stop flag is set, or Ctrl-C was pressed.
    Interrupted,
    /// The metric has not improved for too long.
    EarlyStopped,
}

impl<'a, M, O, D> Trainer<'a, M, O, D>
where
    M: Module,
    O: Optimizers,
    D: Loader,
{
    /// Creates a run of one epoch. Layers draw from `generator`.
    pub fn new(model: M, optimizer: O, loader: D, generator: Generator) -> Self {
        Trainer {
            model,
            optimizer,
            loader,
            run: String::new(),
            epochs: 1,
            max_steps: None,
            batches_per_step: 1,
            clip: None,
            scaler: None,
            schedule: None,
            plateau: None,
            metric: None,
            early_stop: None,
            checkpoint: None,
            checkpoint_every: None,
            nan: Nan::Stop,
            stop: None,
            stop_on_ctrl_c: false,
            quiet: false,
            on_step: None,
            ledger: ledger::of_process(),
            ranks: None,
            generator,
            position: None,
            losses: Vec::new(),
            metrics: Vec::new(),
        }
    }

    /// Describes the run: everything that affects its bits and is not in a checkpoint, for example
    /// its settings as JSON. A checkpoint with another description is rejected.
    #[must_use]
    pub fn run(mut self, description: impl Into<String>) -> Self {
        self.run = description.into();
        self
    }

    /// Sets the total number of epochs.
    #[must_use]
    pub fn epochs(mut self, epochs: u64) -> Self {
        self.epochs = epochs;
        self
    }

    /// Sets the total number of steps after which [`fit`](Trainer::fit) returns.
    #[must_use]
    pub fn max_steps(mut self, steps: u64) -> Self {
        self.max_steps = Some(steps);
        self
    }

    /// Takes one step per `batches` batches, along the mean of their gradients. The last step of an
    /// epoch may have fewer. A [`StreamLoader`](crate::data::StreamLoader) needs as many lanes as a step
    /// has batches, if more than one; its step is the next batch of every lane that has not ended.
    #[must_use]
    pub fn accumulate(mut self, batches: u64) -> Self {
        self.batches_per_step = batches;
        self
    }

    /// Shares the batches of each step among ranks. Give every rank an identical run, with its own
    /// end of a [`Transport`](crate::distributed::Transport). All ranks end with the same model,
    /// equal in every bit to that of a single rank; so are the checkpoints, which the first rank
    /// writes. A run can be continued with any number of ranks. A step needs at least as many
    /// batches as there are ranks: see [`accumulate`](Trainer::accumulate).
    ///
    /// The loss function and the other functions that the run calls run on every rank and should
    /// return the same everywhere. If a rank fails, the run ends on all.
    ///
    /// # Examples
    ///
    /// ```
    /// use samebits::data::{DataLoader, Table};
    /// use samebits::distributed::threads;
    /// use samebits::functional::{Reduction, mse_loss};
    /// use samebits::nn::{Layer, Linear};
    /// use samebits::optim::Sgd;
    /// use samebits::trainer::{Result, StackTensors, Trainer};
    /// use samebits::{Generator, digest};
    /// use samebits::nn::Module;
    ///
    /// let on = |world| {
    ///     threads::run(world, |transport| -> Result<String> {
    ///         let table = Table::new((0..48).map(|i| i as f32 / 48.0).collect(), 3, vec![0; 16])?;
    ///         let loader = DataLoader::builder_with(table, StackTensors).batch_size(2).build()?;
    ///         let model = Linear::options(3, 3).init_with(&mut Generator::new(0))?;
    ///         let mut run = Trainer::new(model, Sgd::new(0.1)?, loader, Generator::new(1))
    ///             .accumulate(4)
    ///             .ranks(transport);
    ///         run.fit(|model, (x, _)| Ok(mse_loss(&model.forward(&x)?, &x, Reduction::Mean)?))?;
    ///         Ok(digest(run.model.state_dict())?.to_string())
    ///     })
    /// };
    /// let (one, three) = (on(1)?, on(3)?);
    /// assert!(three.iter().all(|digest| *digest == one[0]));
    /// # Ok::<(), samebits::trainer::Error>(())
    /// ```
    #[must_use]
    #[doc(alias = "DistributedDataParallel")]
    pub fn ranks(mut self, ranks: impl Into<Ranks>) -> Self {
        self.ranks = Some(ranks.into());
        self
    }

    /// Clips the gradients by their `p`-norm; see [`clip_grad_norm`](crate::optim::clip_grad_norm).
    #[must_use]
    pub fn clip_grad_norm(mut self, max_norm: f64, p: f64) -> Self {
        self.clip = Some((max_norm, p));
        self
    }

    /// Scales the losses, for mixed precision in f16; see [`GradScaler`]. A step whose gradients
    /// are not finite is counted but changes no parameter, on every rank. The scaler is part of the
    /// run's state.
    #[must_use]
    pub fn grad_scaler(mut self, scaler: GradScaler) -> Self {
        self.scaler = Some(scaler);
        self
    }

    /// Sets the learning rates of every optimiser before each step, by a schedule of steps or
    /// epochs.
    #[must_use]
    pub fn schedule(mut self, per: Per, schedule: impl Schedule + Send + 'a) -> Self {
        self.schedule = Some((per, Box::new(schedule)));
        self
    }

    /// Lowers the learning rates when the metric stops improving. It cannot be combined with a
    /// [`schedule`](Trainer::schedule), which would overwrite the rates.
    #[must_use]
    pub fn plateau(mut self, plateau: ReduceLrOnPlateau) -> Self {
        self.plateau = Some(plateau);
        self
    }

    /// Stops when the best metric is `patience` epochs old. NaN is not an improvement.
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

    /// Saves the [`checkpoint`](Trainer::checkpoint) also after every `steps` steps, counted from
    /// the start of the run. If the process is killed within an epoch, at most these steps are
    /// lost.
    #[must_use]
    pub fn checkpoint_every(mut self, steps: u64) -> Self {
        self.checkpoint_every = Some(steps);
        self
    }

    /// Sets the treatment of a step that results in NaN or infinity. By default the run stops.
    #[must_use]
    pub fn nan(mut self, nan: Nan) -> Self {
        self.nan = nan;
        self
    }

    /// Returns from [`fit`](Trainer::fit) after the step during which Ctrl-C is pressed, with
    /// [`Outcome::Interrupted`] and the [`checkpoint`](Trainer::checkpoint) saved; a second Ctrl-C
    /// ends the process at once. Outside of [`fit`](Trainer::fit), Ctrl-C ends the process as
    /// usual. Without this setting no handler is installed.
    #[must_use]
    pub fn stop_on_ctrl_c(mut self) -> Self {
        self.stop_on_ctrl_c = true;
        self
    }

    /// Returns from [`fit`](Trainer::fit) after the step during which `flag` is set, by one of the
    /// caller's threads or handlers.
    #[must_use]
    pub fn stop_flag(mut self, flag: Arc<AtomicBool>) -> Self {
        self.stop = Some(flag);
        self
    }

    /// Hides the progress bar. By default it is shown on standard error while [`fit`](Trainer::fit)
    /// runs, if that is a terminal.
    #[must_use]
    pub fn quiet(mut self) -> Self {
        self.quiet = true;
        self
    }

    /// Calls `tell` after every step, for example to log it.
    #[must_use]
    pub fn on_step(mut self, tell: impl FnMut(&Step) + Send + 'a) -> Self {
        self.on_step = Some(Box::new(tell));
        self
    }

    /// Records batches, operations and steps. By default the run records to the ledger of the
    /// process, if the environment variable `SAMEBITS_LEDGER` requests one. The ledger is not
    /// finished, because the run may continue.
    #[must_use]
    pub fn ledger(mut self, ledger: Ledger) -> Self {
        self.ledger = Some(ledger);
        self
    }

    /// Returns the loss of every step so far.
    pub fn losses(&self) -> &[f32] {
        &self.losses
    }

    /// Returns the metric of every epoch so far.
    pub fn metrics(&self) -> &[f64] {
        &self.metrics
    }

    /// Trains until the last epoch, or until another [`Outcome`] ends the run. A run that was
    /// resumed, or that returned before its end, continues. `loss` returns the loss of a batch; it
    /// runs inside [`train_with`](crate::nn::train_with), so layers train and draw from the run's
    /// generator.
    ///
    /// # Errors
    ///
    /// The errors of the loader, of the operations and of the checkpoint, and [`Error::NotFinite`].
    /// The run is then at the end of its last step and can continue from there. A ledger keeps the
    /// records of the failed step; if the step is taken again, they are marked as abandoned.
    pub fn fit(&mut self, mut loss: impl FnMut(&M, D::Batch) -> Result<Tensor>) -> Result<Outcome>
    where
        O: Optimizer,
    {
        self.run_steps(&mut |run, turn| run.descend(turn, &mut loss))
    }

    /// Trains as [`fit`](Trainer::fit) does, with your own steps: `step` gets the model, the
    /// optimisers and a batch, and changes the model as it likes. It runs inside
    /// [`train_with`](crate::nn::train_with) and returns the [`Losses`], whose sum is displayed and
    /// kept. It must depend only on the run's state: count steps with [`Optimizer::steps`].
    ///
    /// # Errors
    ///
    /// As for [`fit`](Trainer::fit); [`Error::Invalid`] if the run is set to accumulate, to clip
    /// or to scale gradients, which `step` must do itself.
    ///
    /// # Examples
    ///
    /// A generator and a discriminator that learn in turns:
    ///
    /// ```
    /// use samebits::data::{DataLoader, Table};
    /// use samebits::functional::{Reduction, binary_cross_entropy_with_logits as bce, randn};
    /// use samebits::nn::{Layer, Linear, draw_from};
    /// use samebits::optim::{Adam, Optimizer};
    /// use samebits::trainer::{StackTensors, Trainer};
    /// use samebits::{Generator, Tensor};
    ///
    /// let root = Generator::new(0);
    /// let (g, d) = draw_from(&mut root.fold_in(0), || {
    ///     Ok::<_, samebits::Error>((Linear::new(2, 2)?, Linear::new(2, 1)?))
    /// })?;
    /// let table = Table::new((0..16).map(|i| i as f32 / 16.0).collect(), 2, vec![0; 8])?;
    /// let loader = DataLoader::builder_with(table, StackTensors).batch_size(4).build()?;
    /// let optimizers = (Adam::new(1e-3)?, Adam::new(1e-3)?);
    /// let mut run = Trainer::new((g, d), optimizers, loader, root.fold_in(1)).epochs(2);
    /// run.fit_steps(|(g, d), (of_g, of_d), (real, _)| {
    ///     let right = Tensor::ones(&[real.shape()[0], 1], real.dtype())?;
    ///     let wrong = right.zeros_like()?;
    ///     let judged = |d: &Linear, x: &Tensor, truth| {
    ///         bce(&d.forward(x)?, truth, None, None, Reduction::Mean)
    ///     };
    ///     let fake = g.forward(&randn(real.shape())?)?;
    ///     let loss_d = (judged(d, &real, &right)? + judged(d, &fake.detach(), &wrong)?)?;
    ///     of_d.step(d, &loss_d.backward()?)?;
    ///     let loss_g = judged(d, &fake, &right)?;
    ///     of_g.step(g, &loss_g.backward()?)?;
    ///     Ok((loss_g, loss_d))
    /// })?;
    /// assert_eq!((run.losses().len(), run.optimizer.0.steps()), (4, 4));
    /// # Ok::<(), samebits::trainer::Error>(())
    /// ```
    pub fn fit_steps<L: Losses>(
        &mut self,
        mut step: impl FnMut(&mut M, &mut O, D::Batch) -> Result<L>,
    ) -> Result<Outcome> {
        if self.ranks.is_some() {
            let message = "ranks share the batches of a step of `fit`; a step of your own has one";
            return Err(Error::Invalid(message.to_owned()));
        }
        if self.batches_per_step != 1 || self.clip.is_some() || self.scaler.is_some() {
            let message = "`accumulate`, `clip_grad_norm` and `grad_scaler` are of `fit`: a step of \
                           your own accumulates, clips and scales by itself";
            return Err(Error::Invalid(message.to_owned()));
        }
        self.run_steps(&mut |run, turn| run.call(turn, &mut step))
    }

    fn run_steps(
        &mut self,
        take: &mut impl FnMut(&mut Self, Turn<'_, D>) -> Result<Option<Taken>>,
    ) -> Result<Outcome> {
        let invalid = |message: &str| Err(Error::Invalid(message.to_owned()));
        if self.batches_per_step == 0 {
            return invalid("a step needs at least 1 batch, got 0");
        }
        if self.schedule.is_some() && self.plateau.is_some() {
            return invalid("a schedule and a plateau cannot both set the learning rates");
        }
        match (self.checkpoint_every, &self.checkpoint) {
            (Some(0), _) => return invalid("a checkpoint every 0 steps"),
            (Some(_), None) => return invalid("`checkpoint_every` needs the path of `checkpoint`"),
            _ => {}
        }
        inherit::reach_loaders();
        let ctrl_c = if self.stop_on_ctrl_c { Some(CtrlC::listen()) } else { None };
        let ctrl_c = ctrl_c.transpose().map_err(Error::CtrlC)?;
        let quiet = self.quiet || self.ranks.as_ref().is_some_and(|ranks| ranks.rank() > 0);
        let view = View { ctrl_c, progress: Progress::new(quiet) };
        let mut all = || {
            self.expect_ranks_alike()?;
            let outcome = self.epochs_left(&view, take)?;
            self.save()?;
            Ok(outcome)
        };
        let outcome = all();
        if let (Err(error), Some(ranks)) = (&outcome, &self.ranks)
            && !matches!(error, Error::Ranks(_) | Error::NotFinite { .. })
        {
            // Other ranks may not know about the error, and wait.
            ranks.transport().abort(&error.to_string());
        }
        outcome
    }

    fn epochs_left(
        &mut self,
        view: &View,
        take: &mut impl FnMut(&mut Self, Turn<'_, D>) -> Result<Option<Taken>>,
    ) -> Result<Outcome> {
        // An epoch is finished once it has its metric.
        while (self.metrics.len() as u64) < self.epochs {
            if self.is_stale() {
                return Ok(Outcome::EarlyStopped);
            }
            let epoch = self.metrics.len() as u64;
            if let Some(outcome) = self.steps_left(epoch, view, take)? {
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

    /// Returns the number of steps taken in `epoch`.
    fn steps_of(&self, epoch: u64) -> u64 {
        let place =
            self.position.as_ref().map(|position| D::place(position, self.batches_per_step));
        place.filter(|(of, _)| *of == epoch).map_or(0, |(_, steps)| steps)
    }

    /// Takes the remaining steps of an epoch, or returns the reason for stopping early.
    fn steps_left(
        &mut self,
        epoch: u64,
        view: &View,
        take: &mut impl FnMut(&mut Self, Turn<'_, D>) -> Result<Option<Taken>>,
    ) -> Result<Option<Outcome>> {
        let in_epoch = self.loader.batches(epoch)?;
        if in_epoch == Some(0) {
            return Err(Error::NoBatch { epoch });
        }
        let per_step = self.batches_per_step;
        let own = self.ranks.as_ref().map_or(0..per_step, |ranks| ranks.owned(per_step));
        let share = Share { per_step, own, is_shared: self.ranks.is_some() };
        let begun = self.position.as_ref().filter(|at| D::place(at, per_step).0 == epoch);
        let mut batches = self.loader.begin(epoch, begun, share)?;
        let steps = in_epoch.map(|batches| batches.div_ceil(per_step));
        view.progress.epoch(epoch, self.epochs, self.steps_of(epoch), steps);
        loop {
            // Check this first: an epoch with all its steps ends with its metric even if the run is
            // to stop here.
            if batches.is_over() {
                return Ok(None);
            }
            let steps = self.losses.len() as u64;
            if self.max_steps.is_some_and(|max| steps >= max) {
                return Ok(Some(Outcome::MaxSteps));
            }
            let flagged = self.stop.as_ref().is_some_and(|stop| stop.load(Ordering::Relaxed));
            let flagged = flagged || view.ctrl_c.as_ref().is_some_and(CtrlC::is_pressed);
            if self.any_rank(flagged)? {
                return Ok(Some(Outcome::Interrupted));
            }
            let Some(taken) = self.one_step(epoch, &mut batches, take)? else {
                return match self.steps_of(epoch) {
                    0 => Err(Error::NoBatch { epoch }),
                    _ => Ok(None),
                };
            };
            let Taken { losses, loss, norm, gradients } = taken;
            self.record_step(loss, &gradients)?;
            view.progress.step(loss);
            let steps = steps + 1;
            if let Some(tell) = &mut self.on_step {
                tell(&Step { epoch, steps, loss, losses, norm });
            }
            if self.checkpoint_every.is_some_and(|every| steps.is_multiple_of(every)) {
                self.save()?;
            }
        }
    }
}
