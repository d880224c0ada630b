use samebits_numerics::math::f64::powi;
use samebits_tensor_core::{Result, Tensor as Value};

use super::descent::{check_setting, check_share, step_of_all};
use super::formulas::{for_each, keep, write_averaged, write_decayed, write_scale_add};
use super::{Descent, Options, Rule, Turn};
use crate::nn::options::setters;

/// The Adamax optimiser: Adam with the largest recent gradient in place of the root of the mean
/// square. PyTorch's defaults are a rate of 2e-3, betas of 0.9 and 0.999, an `eps` of 1e-8, and no
/// decay.
///
/// # Determinism
///
/// `Portable`: each element by itself, each operation rounded once, each constant computed in f64
/// and rounded to the element type; `m` and `u` start from 0:
///
/// 1. `g = decay · p + g`, if the decay is not 0;
/// 2. `m = β1 · m + (1 − β1) · g`;
/// 3. `u = max(β2 · u, |g| + eps)`, where NaN counts as the largest;
/// 4. `p = (−lr / (1 − β1^t)) · (m / u) + p` in step `t`, from 1.
///
/// # Examples
///
/// ```
/// use samebits_autograd::optim::Adamax;
///
/// let optimizer = Adamax::options(2e-3).betas(0.9, 0.99).init()?;
/// # Ok::<(), samebits_autograd::Error>(())
/// ```
///
/// # References
///
/// PyTorch's `torch.optim.Adamax`. D. Kingma and J. Ba, *Adam: A Method for Stochastic
/// Optimization*, 2015, section 7.1.
pub type Adamax = Descent<AdamaxRule>;

/// The rule of [`Adamax`].
#[derive(Clone, Copy, Debug)]
pub struct AdamaxRule {
    beta1: f64,
    beta2: f64,
    eps: f64,
    weight_decay: f64,
}

impl Default for AdamaxRule {
    fn default() -> AdamaxRule {
        AdamaxRule { beta1: 0.9, beta2: 0.999, eps: 1e-8, weight_decay: 0.0 }
    }
}

impl Options<AdamaxRule> {
    /// Sets the decay rates of the running mean and of the largest gradient (defaults 0.9 and
    /// 0.999).
    #[must_use]
    pub fn betas(mut self, mean: f64, largest: f64) -> Self {
        (self.rule.beta1, self.rule.beta2) = (mean, largest);
        self
    }

    setters! {
        in rule;
        /// Sets the number added to each magnitude, so that the divisor is not 0 (default 1e-8).
        eps: f64;
        /// Sets the weight decay: adds `weight_decay * parameter` to the gradient (default 0).
        weight_decay: f64;
    }
}

impl Rule for AdamaxRule {
    const NAME: &'static str = "adamax";
    const LR: f64 = 2e-3;

    fn with_momentum(&self, momentum: f64) -> Option<AdamaxRule> {
        Some(AdamaxRule { beta1: momentum, ..*self })
    }

    fn kept(&self) -> Vec<&'static str> {
        vec![MEAN, LARGEST]
    }

    fn check(&self) -> Result<()> {
        check_share(Self::NAME, "beta 1", self.beta1)?;
        check_share(Self::NAME, "beta 2", self.beta2)?;
        check_setting(Self::NAME, "eps", self.eps)?;
        check_setting(Self::NAME, "the weight decay", self.weight_decay)
    }

    step_of_all!();

    fn step_all(&self, lr: f64, turns: &mut [Turn]) -> Result<Vec<Value>> {
        let means = for_each(turns, [MEAN], |f, _, [g, parameter], [old]| {
            let g = write_decayed(f, g, self.weight_decay, parameter);
            write_averaged(f, old, self.beta1, g)
        })?;
        let largest = for_each(turns, [LARGEST], |f, _, [g, parameter], [old]| {
            let g = write_decayed(f, g, self.weight_decay, parameter);
            let old = f.times(old, self.beta2);
            let magnitude = f.abs(g);
            let magnitude = f.affine(magnitude, 1.0, self.eps);
            f.maximum(old, magnitude)
        })?;
        keep(turns, MEAN, means);
        keep(turns, LARGEST, largest);
        for_each(turns, [MEAN, LARGEST], |f, turn, [_, parameter], [mean, largest]| {
            let direction = f.div(mean, largest);
            let rate = -lr / (1.0 - powi(self.beta1, turn.step));
            write_scale_add(f, direction, rate, parameter)
        })
    }
}

const MEAN: &str = "mean";
const LARGEST: &str = "largest";
