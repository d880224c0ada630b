use samebits_tensor_core::ops::{SgdParams, SgdStep};
use samebits_tensor_core::{Error, Result, Tensor as Value};

use super::descent::{check_setting, step_of_all};
use super::{Descent, Options, Rule, Turn};
use crate::nn::options::setters;
use crate::run_all;

/// Stochastic gradient descent, optionally with momentum. PyTorch's defaults are a rate of 1e-3 and
/// all other settings off.
///
/// # Determinism
///
/// `Portable`: each element by itself, in the order that
/// [`SgdStep`](samebits_tensor_core::ops::SgdStep) states.
///
/// # Examples
///
/// ```
/// use samebits_autograd::optim::Sgd;
///
/// let plain = Sgd::new(0.1)?;
/// let nesterov = Sgd::options(0.1).momentum(0.9).weight_decay(1e-4).nesterov(true).init()?;
/// # Ok::<(), samebits_autograd::Error>(())
/// ```
///
/// # References
///
/// PyTorch's `torch.optim.SGD`.
pub type Sgd = Descent<SgdRule>;

/// The rule of [`Sgd`].
#[derive(Clone, Copy, Debug, Default)]
pub struct SgdRule {
    momentum: f64,
    dampening: f64,
    weight_decay: f64,
    nesterov: bool,
}

impl Options<SgdRule> {
    setters! {
        in rule;
        /// Sets the momentum: the share of the last step that is added to the next (default 0).
        momentum: f64;
        /// Sets the dampening: momentum adds `(1 - dampening) * gradient` (default 0).
        dampening: f64;
        /// Sets the weight decay: adds `weight_decay * parameter` to the gradient (default 0).
        weight_decay: f64;
        /// Sets whether to use Nesterov momentum, which needs a momentum and no dampening (default
        /// false).
        nesterov: bool;
    }
}

impl Rule for SgdRule {
    const NAME: &'static str = "sgd";

    fn with_momentum(&self, momentum: f64) -> Option<SgdRule> {
        Some(SgdRule { momentum, ..*self })
    }

    fn kept(&self) -> Vec<&'static str> {
        if self.momentum == 0.0 { Vec::new() } else { vec![VELOCITY] }
    }

    fn check(&self) -> Result<()> {
        check_setting(Self::NAME, "the momentum", self.momentum)?;
        check_setting(Self::NAME, "the weight decay", self.weight_decay)?;
        if !self.dampening.is_finite() {
            let message = format!("the dampening should be finite, got {}", self.dampening);
            return Err(Error::invalid(Self::NAME, message));
        }
        if self.nesterov && (self.momentum == 0.0 || self.dampening != 0.0) {
            let message = format!(
                "nesterov needs a momentum and no dampening, got momentum {} and dampening {}",
                self.momentum, self.dampening
            );
            return Err(Error::invalid(Self::NAME, message));
        }
        Ok(())
    }

    step_of_all!();

    fn step_all(&self, lr: f64, turns: &mut [Turn]) -> Result<Vec<Value>> {
        let params = SgdParams {
            lr,
            momentum: self.momentum,
            dampening: self.dampening,
            weight_decay: self.weight_decay,
            nesterov: self.nesterov,
        };
        let op = |turn: &Turn| SgdStep {
            param: turn.parameter.clone(),
            grad: turn.gradient.clone(),
            velocity: turn.kept.get(VELOCITY).cloned(),
            params,
        };
        let stepped = run_all(&turns.iter().map(op).collect::<Vec<_>>())?;
        let keep = |((parameter, velocity), turn): ((Value, Option<Value>), &mut Turn)| {
            turn.kept.extend(velocity.map(|velocity| (VELOCITY, velocity)));
            parameter
        };
        Ok(stepped.into_iter().zip(turns).map(keep).collect())
    }
}

const VELOCITY: &str = "velocity";
