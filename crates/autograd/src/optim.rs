//! Optimisers, gradient clipping and learning-rate schedules, with PyTorch's defaults.
//!
//! | optimiser | rule |
//! |---|---|
//! | [`Sgd`] | gradient descent, optionally with momentum |
//! | [`Adam`], [`AdamW`] | adaptive moments; [`AdamW`] decouples the weight decay |
//! | [`RmsProp`] | root mean square of recent gradients |
//! | [`RAdam`] | adaptive moments once they are reliable |
//! | [`Adamax`] | the largest recent gradient |
//! | [`Adagrad`] | root of the sum of all squared gradients |
//! | [`Adadelta`] | ratio of recent steps to recent gradients |
//!
//! Each is a [`Descent`] with another [`Rule`]. Implement [`Rule`] to add an optimiser.
//!
//! An optimiser owns its state by parameter name, so you can save it beside the model and load it
//! in another process. A parameter that several layers share takes one step; its state and group
//! are those of the name visited first.
//!
//! A parameter in half precision is rounded from a master weight in f32, which takes the steps and is
//! kept with the state, all of which is in f32. An element of the parameter that you replace, for
//! example by loading other weights, replaces that of the master.
//!
//! # Examples
//!
//! ```
//! use samebits_autograd::optim::{AdamW, CosineAnnealingLr, Optimizer, Schedule, Sgd};
//!
//! let plain = Sgd::new(0.1)?; // `Sgd::default()` has PyTorch's rate, too
//! let nesterov = Sgd::options(0.1).momentum(0.9).nesterov(true).init()?;
//! // Biases and the factors of norms do not decay, nor do embeddings.
//! let mut adamw = AdamW::options(1e-3)
//!     .group(|_, parameter| parameter.rank() == 1, |options| options.weight_decay(0.0))
//!     .group(|name, _| name.contains("embedding"), |options| options.weight_decay(0.0))
//!     .init()?;
//!
//! CosineAnnealingLr::new(100).apply(50, &mut adamw)?;
//! assert_eq!(adamw.lr(), 5e-4);
//! # Ok::<(), samebits_autograd::Error>(())
//! ```

mod accumulate;
mod adadelta;
mod adagrad;
mod adam;
mod adamax;
mod arithmetic;
mod clip;
mod descent;
mod finite;
mod formulas;
mod plateau;
mod radam;
mod rmsprop;
mod scaler;
mod schedule;
mod several;
mod sgd;
mod totals;
mod tree;

pub use adadelta::{Adadelta, AdadeltaRule};
pub use adagrad::{Adagrad, AdagradRule};
pub use adam::{Adam, AdamRule, AdamW};
pub use adamax::{Adamax, AdamaxRule};
pub use clip::{clip_grad_norm, clip_grad_value};
pub use descent::{Descent, Kept, Options, Rule, Turn};
pub use finite::first_not_finite;
pub use plateau::{Mode, ReduceLrOnPlateau, Threshold};
pub use radam::{RAdam, RAdamRule};
pub use rmsprop::{RmsProp, RmsPropRule};
pub use scaler::GradScaler;
pub use schedule::{
    Anneal, ConstantLr, CosineAnnealingLr, CosineAnnealingWarmRestarts, CyclicLr, CyclicMode,
    ExponentialLr, LambdaLr, LinearLr, MultiStepLr, OneCycleLr, PolynomialLr, Schedule, StepLr,
    Then,
};
pub use several::{Optimizers, Snapshot};
pub use sgd::{Sgd, SgdRule};
pub use tree::{TreeNode, TreeSum};

use crate::nn::Module;
use crate::{Gradients, Result, Tensor};

/// An algorithm that updates a model's parameters from their gradients.
pub trait Optimizer {
    /// Takes one step. Parameters that the loss does not depend on stay unchanged.
    ///
    /// # Errors
    ///
    /// The model and the optimiser are unchanged after an error. Errors:
    ///
    /// - A gradient or state does not match its parameter.
    /// - A gradient was computed before its parameter was replaced, for example by another step.
    /// - Layers that share a parameter disagree about it, for example because only one was frozen.
    /// - A learning rate is not a finite number of at least 0.
    /// - The state loaded last has no entry for a parameter that has a gradient.
    fn step(&mut self, model: &mut dyn Module, gradients: &Gradients) -> Result<()>;

    /// Returns the number of steps taken.
    fn steps(&self) -> u64;

    /// Returns the learning rates: the default first, then that of each group.
    fn rates(&self) -> &[Rate];

    /// Returns the learning rates for modification, in the order of [`rates`](Optimizer::rates).
    fn rates_mut(&mut self) -> &mut [Rate];

    /// Returns the learning rate of the next step for parameters in no group.
    fn lr(&self) -> f64 {
        self.rates().first().map_or(0.0, |rate| rate.current)
    }

    /// Sets the learning rate of all groups for the next steps.
    fn set_lr(&mut self, lr: f64) {
        for rate in self.rates_mut() {
            rate.current = lr;
        }
    }

    /// Returns the state that later steps depend on, for [`load_state`](Optimizer::load_state). It
    /// is a list of named tensors in a fixed order: `steps`, `lr` and `initial_lr`, `momentum` if a
    /// schedule has set it, then those of each parameter.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfMemory`](crate::Error::OutOfMemory) if there is no memory for the state.
    #[doc(alias = "state_dict")]
    fn state(&self) -> Result<Vec<(String, Tensor)>>;

    /// Replaces the state with one returned by [`state`](Optimizer::state).
    ///
    /// # Errors
    ///
    /// [`Error::InvalidState`](crate::Error::InvalidState) if a tensor is missing or this optimiser
    /// does not use it; the optimiser is unchanged then. If all tensors of a parameter are missing,
    /// the next step that meets the parameter returns this error.
    #[doc(alias = "load_state_dict")]
    fn load_state(&mut self, state: Vec<(String, Tensor)>) -> Result<()>;

    /// Saves the state of this optimiser within this process, to restore it if a later operation
    /// fails.
    ///
    /// # Errors
    ///
    /// As [`state`](Optimizer::state).
    fn snapshot(&self) -> Result<Snapshot> {
        Ok(Snapshot::new(self.state()?))
    }

    /// Restores the state saved by [`snapshot`](Optimizer::snapshot).
    ///
    /// # Errors
    ///
    /// [`Error::InvalidState`](crate::Error::InvalidState) if the snapshot comes from another kind
    /// of optimiser; this one is unchanged then.
    fn restore(&mut self, snapshot: Snapshot) -> Result<()> {
        match snapshot.content() {
            Some(state) => self.load_state(state),
            None => Err(Snapshot::foreign("restore")),
        }
    }
}

/// The learning rate of a group of parameters, and its momentum if a schedule sets it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate {
    /// The rate that the optimiser was created with; schedules start from it.
    pub initial: f64,
    /// The rate of the next step.
    pub current: f64,
    /// The momentum set by a schedule, in place of the optimiser's; for Adam, beta 1.
    pub momentum: Option<f64>,
}

impl Rate {
    /// Returns the rate of an optimiser created with `lr`.
    pub fn new(lr: f64) -> Rate {
        Rate { initial: lr, current: lr, momentum: None }
    }
}
