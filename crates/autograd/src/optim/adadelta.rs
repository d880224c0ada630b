use samebits_tensor_core::{Result, Tensor as Value};

use super::arithmetic::{averaged, decayed, div, mul, offset, scale_add, sqrt};
use super::descent::{check_setting, check_share, kept_or_zeros};
use super::{Descent, Kept, Options, Rule};
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

    fn step(
        &self,
        lr: f64,
        _: u64,
        parameter: &Value,
        gradient: &Value,
        kept: &mut Kept,
    ) -> Result<Value> {
        let g = decayed(gradient, self.weight_decay, parameter)?;
        let old = kept_or_zeros(kept, SQUARE, parameter)?;
        let square = averaged(&old, self.rho, &mul(&g, &g)?)?;
        let steps = kept_or_zeros(kept, STEPS, parameter)?;
        let root = |x: &Value| sqrt(&offset(x, self.eps)?);
        let direction = mul(&div(&root(&steps)?, &root(&square)?)?, &g)?;
        let steps = averaged(&steps, self.rho, &mul(&direction, &direction)?)?;
        kept.insert(SQUARE, square);
        kept.insert(STEPS, steps);
        scale_add(&direction, -lr, parameter)
    }
}

const SQUARE: &str = "square";
const STEPS: &str = "square_of_steps";
