use samebits_tensor_core::{Result, Tensor as Value};

use super::descent::{check_setting, step_of_all};
use super::formulas::{for_each, keep, write_averaged, write_decayed, write_root, write_scale_add};
use super::{Descent, Options, Rule, Turn};
use crate::functional::{Steps, Symbol};
use crate::nn::options::setters;

/// The RMSprop optimiser: divides each gradient by the root of the mean square of recent gradients.
/// PyTorch's defaults are a rate of 0.01, an `alpha` of 0.99, an `eps` of 1e-8, and the other
/// settings off.
///
/// # Determinism
///
/// `Portable`: each element by itself, each operation rounded once, each constant computed in f64
/// and rounded to the element type; `v`, `m` and `b` start from 0:
///
/// 1. `g = decay · p + g`, if the decay is not 0;
/// 2. `v = α · v + (1 − α) · (g · g)`;
/// 3. if centered, `m = α · m + (1 − α) · g` and `d = √(v − m · m) + eps`, else `d = √v + eps`;
/// 4. `s = g / d`; with momentum, `b = momentum · b + s` and `s = b`;
/// 5. `p = −lr · s + p`.
///
/// # Examples
///
/// ```
/// use samebits_autograd::optim::RmsProp;
///
/// let optimizer = RmsProp::options(0.01).momentum(0.9).centered(true).init()?;
/// # Ok::<(), samebits_autograd::Error>(())
/// ```
///
/// # References
///
/// PyTorch's `torch.optim.RMSprop`.
pub type RmsProp = Descent<RmsPropRule>;

/// The rule of [`RmsProp`].
#[derive(Clone, Copy, Debug)]
pub struct RmsPropRule {
    alpha: f64,
    eps: f64,
    weight_decay: f64,
    momentum: f64,
    centered: bool,
}

impl Default for RmsPropRule {
    fn default() -> RmsPropRule {
        RmsPropRule { alpha: 0.99, eps: 1e-8, weight_decay: 0.0, momentum: 0.0, centered: false }
    }
}

impl Options<RmsPropRule> {
    setters! {
        in rule;
        /// Sets the decay rate of the running mean square (default 0.99).
        alpha: f64;
        /// Sets the number added to the root, so that the divisor is not 0 (default 1e-8).
        eps: f64;
        /// Sets the weight decay: adds `weight_decay * parameter` to the gradient (default 0).
        weight_decay: f64;
        /// Sets the momentum: the share of the last step that is added to the next (default 0).
        momentum: f64;
        /// Sets whether to divide by the root of the gradients' variance instead of their mean
        /// square (default false).
        centered: bool;
    }
}

impl Rule for RmsPropRule {
    const NAME: &'static str = "rmsprop";
    const LR: f64 = 1e-2;

    fn with_momentum(&self, momentum: f64) -> Option<RmsPropRule> {
        Some(RmsPropRule { momentum, ..*self })
    }

    fn kept(&self) -> Vec<&'static str> {
        let optional = [(self.centered, MEAN), (self.momentum != 0.0, VELOCITY)];
        let optional = optional.into_iter().filter(|(wanted, _)| *wanted).map(|(_, name)| name);
        [SQUARE].into_iter().chain(optional).collect()
    }

    fn check(&self) -> Result<()> {
        check_setting(Self::NAME, "alpha", self.alpha)?;
        check_setting(Self::NAME, "eps", self.eps)?;
        check_setting(Self::NAME, "the weight decay", self.weight_decay)?;
        check_setting(Self::NAME, "the momentum", self.momentum)
    }

    step_of_all!();

    fn step_all(&self, lr: f64, turns: &mut [Turn]) -> Result<Vec<Value>> {
        let decay = self.weight_decay;
        let average = |turns: &[Turn], name, is_square: bool| {
            for_each(turns, [name], |f, _, [g, parameter], [old]| {
                let g = write_decayed(f, g, decay, parameter);
                let new = if is_square { f.mul(g, g) } else { g };
                write_averaged(f, old, self.alpha, new)
            })
        };
        let squares = average(turns, SQUARE, true)?;
        keep(turns, SQUARE, squares);
        if self.centered {
            let means = average(turns, MEAN, false)?;
            keep(turns, MEAN, means);
        }
        let direction = |f: &mut Steps, [g, parameter]: [Symbol; 2], square, mean| {
            let g = write_decayed(f, g, decay, parameter);
            let mut spread = square;
            if self.centered {
                let mean = f.mul(mean, mean);
                spread = f.sub(square, mean);
            }
            let root = write_root(f, spread, 1.0, self.eps);
            f.div(g, root)
        };
        if self.momentum == 0.0 {
            return for_each(turns, [SQUARE, MEAN], |f, _, own, [square, mean]| {
                let direction = direction(f, own, square, mean);
                write_scale_add(f, direction, -lr, own[1])
            });
        }
        let names = [SQUARE, MEAN, VELOCITY];
        let velocities = for_each(turns, names, |f, _, own, [square, mean, old]| {
            let direction = direction(f, own, square, mean);
            write_scale_add(f, old, self.momentum, direction)
        })?;
        keep(turns, VELOCITY, velocities);
        for_each(turns, [VELOCITY], |f, _, [_, parameter], [velocity]| {
            write_scale_add(f, velocity, -lr, parameter)
        })
    }
}

const SQUARE: &str = "square";
const MEAN: &str = "mean";
const VELOCITY: &str = "velocity";
