use samebits_tensor_core::{Result, Tensor as Value};

use super::descent::{check_setting, step_of_all};
use super::formulas::{for_each, keep, write_decayed, write_root, write_scale_add};
use super::{Descent, Options, Rule, Turn};
use crate::nn::options::setters;

/// The Adagrad optimiser: divides each gradient by the root of the sum of all squared gradients so
/// far. PyTorch's defaults are a rate of 0.01, an `eps` of 1e-10, and 0 for the other settings.
///
/// # Determinism
///
/// `Portable`: each element by itself, each operation rounded once, each constant computed in f64
/// and rounded to the element type; `s` starts from the initial accumulator:
///
/// 1. `g = decay · p + g`, if the decay is not 0;
/// 2. `s = s + g · g`;
/// 3. `p = (−lr / (1 + (t − 1) · lr_decay)) · (g / (√s + eps)) + p` in step `t`, from 1.
///
/// # Examples
///
/// ```
/// use samebits_autograd::optim::Adagrad;
///
/// let optimizer = Adagrad::options(0.01).lr_decay(1e-3).init()?;
/// # Ok::<(), samebits_autograd::Error>(())
/// ```
///
/// # References
///
/// PyTorch's `torch.optim.Adagrad`.
pub type Adagrad = Descent<AdagradRule>;

/// The rule of [`Adagrad`].
#[derive(Clone, Copy, Debug)]
pub struct AdagradRule {
    lr_decay: f64,
    weight_decay: f64,
    initial_accumulator_value: f64,
    eps: f64,
}

impl Default for AdagradRule {
    fn default() -> AdagradRule {
        AdagradRule { lr_decay: 0.0, weight_decay: 0.0, initial_accumulator_value: 0.0, eps: 1e-10 }
    }
}

impl Options<AdagradRule> {
    setters! {
        in rule;
        /// Sets the decay of the rate: in step `t` it is `lr / (1 + (t - 1) * lr_decay)` (default
        /// 0).
        lr_decay: f64;
        /// Sets the weight decay: adds `weight_decay * parameter` to the gradient (default 0).
        weight_decay: f64;
        /// Sets the initial sum of squares (default 0).
        initial_accumulator_value: f64;
        /// Sets the number added to the root, so that the divisor is not 0 (default 1e-10).
        eps: f64;
    }
}

impl Rule for AdagradRule {
    const NAME: &'static str = "adagrad";
    const LR: f64 = 1e-2;

    fn kept(&self) -> Vec<&'static str> {
        vec![SUM]
    }

    fn check(&self) -> Result<()> {
        check_setting(Self::NAME, "the decay of the learning rate", self.lr_decay)?;
        check_setting(Self::NAME, "the weight decay", self.weight_decay)?;
        check_setting(Self::NAME, "the initial accumulator value", self.initial_accumulator_value)?;
        check_setting(Self::NAME, "eps", self.eps)
    }

    step_of_all!();

    fn step_all(&self, lr: f64, turns: &mut [Turn]) -> Result<Vec<Value>> {
        let sums = for_each(turns, [SUM], |f, turn, [g, parameter], [old]| {
            let is_first = !turn.kept.contains_key(SUM);
            let old = if is_first { f.number(self.initial_accumulator_value) } else { old };
            let g = write_decayed(f, g, self.weight_decay, parameter);
            let square = f.mul(g, g);
            f.add(old, square)
        })?;
        keep(turns, SUM, sums);
        for_each(turns, [SUM], |f, turn, [g, parameter], [sum]| {
            let rate = lr / (1.0 + (turn.step - 1) as f64 * self.lr_decay);
            let g = write_decayed(f, g, self.weight_decay, parameter);
            let root = write_root(f, sum, 1.0, self.eps);
            let direction = f.div(g, root);
            write_scale_add(f, direction, -rate, parameter)
        })
    }
}

const SUM: &str = "sum";
