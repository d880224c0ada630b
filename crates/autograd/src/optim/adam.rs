use samebits_numerics::math::f64::powi;
use samebits_tensor_core::ops::{AdamParams, AdamStep};
use samebits_tensor_core::{Result, Tensor as Value};

use super::descent::{check_setting, check_share, kept_or_zeros, step_of_all};
use super::formulas::{for_each, keep, write_root, write_scale_add};
use super::{Descent, Options, Rule, Turn};
use crate::nn::options::setters;
use crate::run_all;

/// The Adam optimiser: adapts each element's step to the mean and the mean square of its gradients.
/// PyTorch's defaults are a rate of 1e-3, betas of 0.9 and 0.999, an `eps` of 1e-8, no decay and no
/// AMSGrad.
///
/// # Determinism
///
/// `Portable`: each element by itself, in the order that
/// [`AdamStep`](samebits_tensor_core::ops::AdamStep) states. With AMSGrad, `v̂ = max(v̂, v)`, where
/// NaN counts as the largest; then
/// `p = p · keep + (−lr / (1 − β1^t)) · m / (√v̂ · (1 / √(1 − β2^t)) + eps)`, with
/// `keep = 1 − lr · decay` if the decay is decoupled, else 1. Each operation is rounded once; each
/// constant is computed in f64 and rounded to the element type.
///
/// # References
///
/// PyTorch's `torch.optim.Adam`. D. Kingma and J. Ba, *Adam: A Method for Stochastic Optimization*,
/// 2015.
pub type Adam = Descent<AdamRule<false>>;

/// The AdamW optimiser: Adam with decoupled weight decay, which shrinks the parameter instead of
/// adding to the gradient. PyTorch's defaults are those of [`Adam`] with a decay of 0.01.
///
/// # Determinism
///
/// As [`Adam`].
///
/// # References
///
/// PyTorch's `torch.optim.AdamW`. I. Loshchilov and F. Hutter, *Decoupled Weight Decay
/// Regularization*, 2019.
pub type AdamW = Descent<AdamRule<true>>;

/// The rule of [`Adam`] and, with `DECOUPLED` weight decay, of [`AdamW`].
#[derive(Clone, Copy, Debug)]
pub struct AdamRule<const DECOUPLED: bool> {
    beta1: f64,
    beta2: f64,
    eps: f64,
    weight_decay: f64,
    amsgrad: bool,
}

impl<const DECOUPLED: bool> Default for AdamRule<DECOUPLED> {
    fn default() -> Self {
        let weight_decay = if DECOUPLED { 0.01 } else { 0.0 };
        AdamRule { beta1: 0.9, beta2: 0.999, eps: 1e-8, weight_decay, amsgrad: false }
    }
}

impl<const DECOUPLED: bool> Options<AdamRule<DECOUPLED>> {
    /// Sets the decay rates of the running mean and mean square (defaults 0.9 and 0.999).
    #[must_use]
    pub fn betas(mut self, mean: f64, square: f64) -> Self {
        (self.rule.beta1, self.rule.beta2) = (mean, square);
        self
    }

    setters! {
        in rule;
        /// Sets the number added to the root, so that the divisor is not 0 (default 1e-8).
        eps: f64;
        /// Sets the weight decay (default 0 for [`Adam`], 0.01 for [`AdamW`]).
        weight_decay: f64;
        /// Sets whether to use AMSGrad, which divides by the root of the largest mean square so far
        /// (default false).
        amsgrad: bool;
    }
}

impl<const DECOUPLED: bool> Rule for AdamRule<DECOUPLED> {
    const NAME: &'static str = if DECOUPLED { "adamw" } else { "adam" };

    fn with_momentum(&self, momentum: f64) -> Option<Self> {
        Some(AdamRule { beta1: momentum, ..*self })
    }

    fn kept(&self) -> Vec<&'static str> {
        if self.amsgrad { vec![MEAN, SQUARE, MAX_SQUARE] } else { vec![MEAN, SQUARE] }
    }

    fn check(&self) -> Result<()> {
        check_share(Self::NAME, "beta 1", self.beta1)?;
        check_share(Self::NAME, "beta 2", self.beta2)?;
        check_setting(Self::NAME, "eps", self.eps)?;
        check_setting(Self::NAME, "the weight decay", self.weight_decay)
    }

    step_of_all!();

    fn step_all(&self, lr: f64, turns: &mut [Turn]) -> Result<Vec<Value>> {
        let params = AdamParams {
            lr,
            beta1: self.beta1,
            beta2: self.beta2,
            eps: self.eps,
            weight_decay: self.weight_decay,
            decoupled: DECOUPLED,
        };
        let op = |Turn { step, parameter, gradient, kept }: &Turn| {
            Ok(AdamStep {
                param: parameter.clone(),
                grad: gradient.clone(),
                mean: kept_or_zeros(kept, MEAN, parameter)?,
                square: kept_or_zeros(kept, SQUARE, parameter)?,
                step: *step,
                params,
            })
        };
        let stepped = run_all(&turns.iter().map(op).collect::<Result<Vec<_>>>()?)?;
        let keep = |((moved, mean, square), turn): ((Value, Value, Value), &mut Turn)| {
            turn.kept.extend([(MEAN, mean), (SQUARE, square)]);
            moved
        };
        let moved = stepped.into_iter().zip(turns.iter_mut()).map(keep).collect();
        if self.amsgrad { self.by_largest(lr, turns) } else { Ok(moved) }
    }
}

impl<const DECOUPLED: bool> AdamRule<DECOUPLED> {
    /// Returns the parameters after a step of AMSGrad, whose means and mean squares are kept.
    fn by_largest(&self, lr: f64, turns: &mut [Turn]) -> Result<Vec<Value>> {
        let names = [SQUARE, MAX_SQUARE];
        let largest = for_each(turns, names, |f, _, _, [square, old]| f.maximum(old, square))?;
        keep(turns, MAX_SQUARE, largest);
        for_each(turns, [MEAN, MAX_SQUARE], |f, turn, [_, parameter], [mean, largest]| {
            let rate = -lr / (1.0 - powi(self.beta1, turn.step));
            let correction = 1.0 / (1.0 - powi(self.beta2, turn.step)).sqrt();
            let root = write_root(f, largest, correction, self.eps);
            let direction = f.div(mean, root);
            let keep = if DECOUPLED { 1.0 - lr * self.weight_decay } else { 1.0 };
            let parameter = f.times(parameter, keep);
            write_scale_add(f, direction, rate, parameter)
        })
    }
}

const MEAN: &str = "mean";
const SQUARE: &str = "square";
const MAX_SQUARE: &str = "max_square";
