use samebits_numerics::math::f64::powi;
use samebits_tensor_core::{Result, Tensor as Value};

use super::descent::{check_setting, check_share, step_of_all};
use super::formulas::{for_each, keep, write_averaged, write_decayed, write_root, write_scale_add};
use super::{Descent, Options, Rule, Turn};
use crate::nn::options::setters;

/// The RAdam optimiser: Adam that adapts only once enough gradients have been seen for their mean
/// square to be reliable. PyTorch's defaults are a rate of 1e-3, betas of 0.9 and 0.999, an `eps`
/// of 1e-8, and no decay.
///
/// # Determinism
///
/// `Portable`: each element by itself, each operation rounded once, each constant computed in f64
/// and rounded to the element type; `m` and `v` start from 0. In step `t`, from 1:
///
/// 1. `g = decay · p + g` if the decay is coupled and not 0; `p = p · (1 − lr · decay)` if it is
///    decoupled and not 0;
/// 2. `m = β1 · m + (1 − β1) · g` and `v = β2 · v + (1 − β2) · (g · g)`;
/// 3. `ρ∞ = 2 / (1 − β2) − 1` and `ρ = ρ∞ − 2 · t · β2^t / (1 − β2^t)`, in f64;
/// 4. if `ρ > 5`, `p = (−lr / (1 − β1^t) · r · √(1 − β2^t)) · (m / (√v + eps)) + p` with
///    `r = √((ρ − 4) · (ρ − 2) · ρ∞ / ((ρ∞ − 4) · (ρ∞ − 2) · ρ))`, else
///    `p = (−lr / (1 − β1^t)) · m + p`.
///
/// # Examples
///
/// ```
/// use samebits_autograd::optim::RAdam;
///
/// let optimizer = RAdam::options(1e-3).weight_decay(0.01).decoupled_weight_decay(true).init()?;
/// # Ok::<(), samebits_autograd::Error>(())
/// ```
///
/// # References
///
/// PyTorch's `torch.optim.RAdam`. L. Liu et al., *On the Variance of the Adaptive Learning Rate and
/// Beyond*, 2020.
pub type RAdam = Descent<RAdamRule>;

/// The rule of [`RAdam`].
#[derive(Clone, Copy, Debug)]
pub struct RAdamRule {
    beta1: f64,
    beta2: f64,
    eps: f64,
    weight_decay: f64,
    decoupled_weight_decay: bool,
}

impl Default for RAdamRule {
    fn default() -> RAdamRule {
        let (beta1, beta2, eps) = (0.9, 0.999, 1e-8);
        RAdamRule { beta1, beta2, eps, weight_decay: 0.0, decoupled_weight_decay: false }
    }
}

impl Options<RAdamRule> {
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
        /// Sets the weight decay (default 0).
        weight_decay: f64;
        /// Sets whether the weight decay shrinks the parameter, as in
        /// [`AdamW`](crate::optim::AdamW), instead of adding to the gradient (default false).
        decoupled_weight_decay: bool;
    }
}

impl RAdamRule {
    /// Returns the factor of `m / (√v + eps)` that stands for the bias of `v` and for its
    /// reliability in a step, or `None` if too few gradients have been seen.
    fn rectified(&self, step: u64) -> Option<f64> {
        let power = powi(self.beta2, step);
        let most = 2.0 / (1.0 - self.beta2) - 1.0;
        let length = most - 2.0 * step as f64 * power / (1.0 - power);
        let reliable = (length - 4.0) * (length - 2.0) * most;
        let scale = reliable / ((most - 4.0) * (most - 2.0) * length);
        (length > 5.0).then(|| scale.sqrt() * (1.0 - power).sqrt())
    }
}

impl Rule for RAdamRule {
    const NAME: &'static str = "radam";
    const LR: f64 = 1e-3;

    fn with_momentum(&self, momentum: f64) -> Option<RAdamRule> {
        Some(RAdamRule { beta1: momentum, ..*self })
    }

    fn kept(&self) -> Vec<&'static str> {
        vec![MEAN, SQUARE]
    }

    fn check(&self) -> Result<()> {
        check_share(Self::NAME, "beta 1", self.beta1)?;
        check_share(Self::NAME, "beta 2", self.beta2)?;
        check_setting(Self::NAME, "eps", self.eps)?;
        check_setting(Self::NAME, "the weight decay", self.weight_decay)
    }

    step_of_all!();

    fn step_all(&self, lr: f64, turns: &mut [Turn]) -> Result<Vec<Value>> {
        let (coupled, decoupled) = match self.decoupled_weight_decay {
            true => (0.0, self.weight_decay),
            false => (self.weight_decay, 0.0),
        };
        let means = for_each(turns, [MEAN], |f, _, [g, parameter], [old]| {
            let g = write_decayed(f, g, coupled, parameter);
            write_averaged(f, old, self.beta1, g)
        })?;
        let squares = for_each(turns, [SQUARE], |f, _, [g, parameter], [old]| {
            let g = write_decayed(f, g, coupled, parameter);
            let square = f.mul(g, g);
            write_averaged(f, old, self.beta2, square)
        })?;
        keep(turns, MEAN, means);
        keep(turns, SQUARE, squares);
        for_each(turns, [MEAN, SQUARE], |f, turn, [_, mut parameter], [mean, square]| {
            if decoupled != 0.0 {
                parameter = f.times(parameter, 1.0 - lr * decoupled);
            }
            let rate = -lr / (1.0 - powi(self.beta1, turn.step));
            let Some(factor) = self.rectified(turn.step) else {
                return write_scale_add(f, mean, rate, parameter);
            };
            let root = write_root(f, square, 1.0, self.eps);
            let direction = f.div(mean, root);
            write_scale_add(f, direction, rate * factor, parameter)
        })
    }
}

const MEAN: &str = "mean";
const SQUARE: &str = "square";
