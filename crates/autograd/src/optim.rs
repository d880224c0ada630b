//! Optimisers, gradient clipping and learning-rate schedules, with PyTorch's defaults.
//!
//! | optimiser | rule |
//! |---|---|
//! | [`Sgd`] | gradient descent, perhaps with momentum |
//! | [`Adam`], [`AdamW`] | adaptive moments; [`AdamW`] decouples the weight decay |
//! | [`RmsProp`] | root mean square of recent gradients |
//! | [`Adagrad`] | root of the sum of all squared gradients |
//!
//! Each is a [`Descent`] by another [`Rule`]; write a rule to add an optimiser.
//!
//! An optimiser owns its state by parameter name, so that it can be saved beside the model and
//! loaded into another process. A parameter that several layers share is one parameter: it takes
//! one step, and its state and group are those of the name that is visited first.
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
mod adagrad;
mod adam;
mod arithmetic;
mod clip;
mod descent;
mod finite;
mod plateau;
mod rmsprop;
mod schedule;
mod several;
mod sgd;
mod tree;

pub use adagrad::{Adagrad, AdagradRule};
pub use adam::{Adam, AdamRule, AdamW};
pub use clip::{clip_grad_norm, clip_grad_value};
pub use descent::{Descent, Kept, Options, Rule};
pub use finite::first_not_finite;
pub use plateau::{Mode, ReduceLrOnPlateau, Threshold};
pub use rmsprop::{RmsProp, RmsPropRule};
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

/// Changes a model's parameters along their gradients.
pub trait Optimizer {
    /// Takes one step. A parameter that the loss does not depend on stays as it is.
    ///
    /// # Errors
    ///
    /// A gradient or state does not fit its parameter, a gradient was taken before its parameter
    /// was replaced (by another step, for example), the layers that share a parameter do not hold it
    /// alike (one of them was frozen alone, for example), a learning rate is not a finite number
    /// of at least 0, or the state that was loaded last was saved without a parameter that has a
    /// gradient. The model and the optimiser are unchanged then.
    fn step(&mut self, model: &mut dyn Module, gradients: &Gradients) -> Result<()>;

    /// The number of steps taken.
    fn steps(&self) -> u64;

    /// The learning rates: the general one first, then that of each group.
    fn rates(&self) -> &[Rate];

    /// The same, to be changed.
    fn rates_mut(&mut self) -> &mut [Rate];

    /// The learning rate of the next step, for parameters that are in no group.
    fn lr(&self) -> f64 {
        self.rates().first().map_or(0.0, |rate| rate.current)
    }

    /// Sets the learning rate of the next steps, for all groups.
    fn set_lr(&mut self, lr: f64) {
        for rate in self.rates_mut() {
            rate.current = lr;
        }
    }

    /// Everything that later steps depend on and that [`load_state`](Optimizer::load_state) needs,
    /// as tensors by name, in a fixed order: `steps`, `lr` and `initial_lr`, `momentum` if a schedule
    /// has set it, then each parameter's.
    ///
    /// # Errors
    ///
    /// There is no memory for it.
    fn state(&self) -> Result<Vec<(String, Tensor)>>;

    /// Replaces the state by what [`state`](Optimizer::state) returned.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidState`](crate::Error::InvalidState) if a tensor is missing or is none that
    /// this optimiser uses. The optimiser is unchanged then. That all tensors of a parameter are
    /// missing shows when the next step meets it, and is the same error.
    fn load_state(&mut self, state: Vec<(String, Tensor)>) -> Result<()>;

    /// Where this optimiser stands, to go back to within this process if what follows fails.
    ///
    /// # Errors
    ///
    /// As [`state`](Optimizer::state).
    fn snapshot(&self) -> Result<Snapshot> {
        Ok(Snapshot::new(self.state()?))
    }

    /// Goes back to where [`snapshot`](Optimizer::snapshot) was called.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidState`](crate::Error::InvalidState) if the snapshot is of another kind of
    /// optimiser. The optimiser is unchanged then.
    fn restore(&mut self, snapshot: Snapshot) -> Result<()> {
        match snapshot.content() {
            Some(state) => self.load_state(state),
            None => Err(Snapshot::foreign("restore")),
        }
    }
}

/// The learning rate of a group of parameters, and its momentum if that changes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate {
    /// What the optimiser was made with, which schedules start from.
    pub initial: f64,
    /// What the next step uses.
    pub current: f64,
    /// The momentum that a schedule has set in place of the optimiser's; beta 1 of Adam.
    pub momentum: Option<f64>,
}

impl Rate {
    /// The rate of an optimiser that was just made with `lr`.
    pub fn new(lr: f64) -> Rate {
        Rate { initial: lr, current: lr, momentum: None }
    }
}
