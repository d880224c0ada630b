use samebits_tensor_core::{Result, Tensor as Value};

use super::descent::{check_setting, check_share, step_of_all};
use super::formulas::{for_each, keep, write_averaged, write_decayed, write_scale_add};
use super::{Descent, Options, Rule, Turn};
use crate::functional::{Steps, Symbol};
use crate::nn::options::setters;

/// The Adadelta optimiser: scales each gradient by the ratio of recent steps to recent gradients.
/// PyTorch's defaults are a rate of 1, a `rho` of 0.9, an `eps` of 1e-6, and no decay.
///
/// # Determinism
///
/// `Portable`: each element by itself, each operation rounded once, each constant computed in f64
/// and rounded to the element type; `v` and `u` start from 0:
///
/// 1. `g = decay · p + g`, if the decay is not 0;
/// 2. `v = ρ · v + (1 − ρ) · (g · g)`;
/// 3. `d = (√(u + eps) / √(v + eps)) · g`;
/// 4. `u = ρ · u + (1 − ρ) · (d · d)`;
/// 5. `p = −lr · d + p`.
///
/// # Examples
///
/// ```
/// use samebits_autograd::optim::Adadelta;
///
/// let optimizer = Adadelta::options(0.5).rho(0.95).init()?;
/// # Ok::<(), samebits_autograd::Error>(())
/// ```
///
/// # References
///
/// PyTorch's `torch.optim.Adadelta`. M. Zeiler, *ADADELTA: An Adaptive Learning Rate Method*, 2012.
pub type Adadelta = Descent<AdadeltaRule>;

/// The rule of [`Adadelta`].
#[derive(Clone, Copy, Debug)]
pub struct AdadeltaRule {
    rho: f64,
    eps: f64,
    weight_decay: f64,
}

impl Default for AdadeltaRule {
    fn default() -> AdadeltaRule {
        AdadeltaRule { rho: 0.9, eps: 1e-6, weight_decay: 0.0 }
    }
}

impl Options<AdadeltaRule> {
    setters! {
        in rule;
        /// Sets the decay rate of both running mean squares (default 0.9).
        rho: f64;
        /// Sets the number added below both roots (default 1e-6).
        eps: f64;
        /// Sets the weight decay: adds `weight_decay * parameter` to the gradient (default 0).
        weight_decay: f64;
    }
}

impl Rule for AdadeltaRule {
    const NAME: &'static str = "adadelta";
    const LR: f64 = 1.0;

    fn kept(&self) -> Vec<&'static str> {
        vec![SQUARE, STEPS]
    }

    fn check(&self) -> Result<()> {
        check_share(Self::NAME, "rho", self.rho)?;
        check_setting(Self::NAME, "eps", self.eps)?;
        check_setting(Self::NAME, "the weight decay", self.weight_decay)
    }

    step_of_all!();

    fn step_all(&self, lr: f64, turns: &mut [Turn]) -> Result<Vec<Value>> {
        let squares = for_each(turns, [SQUARE], |f, _, [g, parameter], [old]| {
            let g = write_decayed(f, g, self.weight_decay, parameter);
            let square = f.mul(g, g);
            write_averaged(f, old, self.rho, square)
        })?;
        keep(turns, SQUARE, squares);
        let direction =
            |f: &mut Steps, [g, parameter]: [Symbol; 2], [square, steps]: [Symbol; 2]| {
                let g = write_decayed(f, g, self.weight_decay, parameter);
                let [steps, square] = [steps, square].map(|x| {
                    let x = f.affine(x, 1.0, self.eps);
                    f.sqrt(x)
                });
                let ratio = f.div(steps, square);
                f.mul(ratio, g)
            };
        let moved = for_each(turns, [SQUARE, STEPS], |f, _, own, kept| {
            let direction = direction(f, own, kept);
            write_scale_add(f, direction, -lr, own[1])
        })?;
        let steps = for_each(turns, [SQUARE, STEPS], |f, _, own, kept| {
            let direction = direction(f, own, kept);
            let square = f.mul(direction, direction);
            write_averaged(f, kept[1], self.rho, square)
        })?;
        keep(turns, STEPS, steps);
        Ok(moved)
    }
}

const SQUARE: &str = "square";
const STEPS: &str = "square_of_steps";
