//! Learning rate schedules.

mod cycle;

use samebits_numerics::math::f64::{cospi, pow, powi};
use samebits_tensor_core::{Error, Result};

use super::{Optimizer, Rate};

pub use cycle::{Anneal, CyclicLr, CyclicMode, OneCycleLr};

/// A learning rate as a function of the step alone, so resuming a run needs no state.
///
/// A step is any count from 0, of optimiser steps or of epochs.
///
/// # Determinism
///
/// `Portable`: f64 arithmetic in the order in which each schedule's formula is written; powers are
/// repeated products. PyTorch computes the same formulas, mostly recursively from step to step, so
/// its results may differ in the last digits.
///
/// # Examples
///
/// ```
/// use samebits_autograd::optim::{CosineAnnealingLr, LinearLr, Schedule};
///
/// // Five steps of warm-up, then half a cosine of 95 steps.
/// let schedule = LinearLr::new().start_factor(0.2).then(5, CosineAnnealingLr::new(95));
/// assert_eq!(schedule.lr(0.1, 0)?, 0.020000000000000004);
/// assert_eq!(schedule.lr(0.1, 5)?, 0.1);
/// assert_eq!(schedule.lr(0.1, 100)?, 0.0);
/// # Ok::<(), samebits_autograd::Error>(())
/// ```
pub trait Schedule {
    /// Returns the learning rate of step `step` for an optimiser created with the rate `initial`.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] if the settings are invalid, for example a period of 0 steps.
    fn lr(&self, initial: f64, step: u64) -> Result<f64>;

    /// Returns the momentum of step `step` (for Adam, beta 1), or `None` if the schedule leaves it
    /// alone.
    ///
    /// # Errors
    ///
    /// As [`lr`](Schedule::lr).
    fn momentum(&self, step: u64) -> Result<Option<f64>> {
        let _ = step;
        Ok(None)
    }

    /// Sets the rates of the optimiser's groups for step `step`, and their momentum if the schedule
    /// changes it. If the optimiser has no momentum, its next step returns an error then.
    ///
    /// # Errors
    ///
    /// Errors of [`lr`](Schedule::lr); the rates are unchanged then.
    fn apply(&self, step: u64, optimizer: &mut dyn Optimizer) -> Result<()> {
        let momentum = self.momentum(step)?;
        let now = |&rate: &Rate| {
            let current = self.lr(rate.initial, step)?;
            Ok(Rate { current, momentum: momentum.or(rate.momentum), ..rate })
        };
        let rates = optimizer.rates().iter().map(now).collect::<Result<Vec<_>>>()?;
        optimizer.rates_mut().copy_from_slice(&rates);
        Ok(())
    }

    /// Returns a schedule that follows `self` before step `at`, then `next`, which counts its steps
    /// from `at`.
    #[doc(alias = "SequentialLR")]
    fn then<S: Schedule>(self, at: u64, next: S) -> Then<Self, S>
    where
        Self: Sized,
    {
        Then { first: self, at, next }
    }
}

impl<S: Schedule + ?Sized> Schedule for Box<S> {
    fn lr(&self, initial: f64, step: u64) -> Result<f64> {
        (**self).lr(initial, step)
    }

    fn momentum(&self, step: u64) -> Result<Option<f64>> {
        (**self).momentum(step)
    }
}

/// Two schedules in sequence; see [`Schedule::then`]. PyTorch's `SequentialLR`.
#[doc(alias = "SequentialLR")]
#[derive(Clone, Copy, Debug)]
pub struct Then<A, B> {
    first: A,
    at: u64,
    next: B,
}

impl<A: Schedule, B: Schedule> Schedule for Then<A, B> {
    fn lr(&self, initial: f64, step: u64) -> Result<f64> {
        match step.checked_sub(self.at) {
            None => self.first.lr(initial, step),
            Some(step) => self.next.lr(initial, step),
        }
    }

    fn momentum(&self, step: u64) -> Result<Option<f64>> {
        match step.checked_sub(self.at) {
            None => self.first.momentum(step),
            Some(step) => self.next.momentum(step),
        }
    }
}

/// A schedule that multiplies the initial rate by a function of the step.
///
/// # Examples
///
/// ```
/// use samebits_autograd::optim::{LambdaLr, Schedule};
///
/// let schedule = LambdaLr(|step| 1.0 / (1 + step) as f64);
/// assert_eq!(schedule.lr(0.1, 3)?, 0.025);
/// # Ok::<(), samebits_autograd::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct LambdaLr<F>(
    /// The function.
    pub F,
);

impl<F: Fn(u64) -> f64> Schedule for LambdaLr<F> {
    fn lr(&self, initial: f64, step: u64) -> Result<f64> {
        Ok(initial * (self.0)(step))
    }
}

/// A schedule that multiplies the rate by `gamma` every `step_size` steps:
/// `initial * gamma^(step / step_size)`, with the quotient rounded down.
#[derive(Clone, Copy, Debug)]
pub struct StepLr {
    step_size: u64,
    gamma: f64,
}

impl StepLr {
    /// Creates a schedule with a `gamma` of 0.1.
    pub fn new(step_size: u64) -> StepLr {
        StepLr { step_size, gamma: 0.1 }
    }

    /// Sets the factor.
    #[must_use]
    pub fn gamma(mut self, gamma: f64) -> StepLr {
        self.gamma = gamma;
        self
    }
}

impl Schedule for StepLr {
    fn lr(&self, initial: f64, step: u64) -> Result<f64> {
        let times = step.checked_div(self.step_size).ok_or_else(|| {
            Error::invalid("step_lr", "the step size should be at least 1, got 0")
        })?;
        Ok(initial * powi(self.gamma, times))
    }
}

/// A schedule that multiplies the rate by `gamma` at each milestone: `initial * gamma^n`, where `n`
/// is the number of milestones up to and including `step`.
#[derive(Clone, Debug)]
pub struct MultiStepLr {
    milestones: Vec<u64>,
    gamma: f64,
}

impl MultiStepLr {
    /// Creates a schedule with a `gamma` of 0.1.
    pub fn new(milestones: impl Into<Vec<u64>>) -> MultiStepLr {
        MultiStepLr { milestones: milestones.into(), gamma: 0.1 }
    }

    /// Sets the factor.
    #[must_use]
    pub fn gamma(mut self, gamma: f64) -> MultiStepLr {
        self.gamma = gamma;
        self
    }
}

impl Schedule for MultiStepLr {
    fn lr(&self, initial: f64, step: u64) -> Result<f64> {
        let passed = self.milestones.iter().filter(|&&milestone| milestone <= step).count();
        Ok(initial * powi(self.gamma, passed as u64))
    }
}

/// A schedule that multiplies the rate by `gamma` in every step: `initial * gamma^step`.
#[derive(Clone, Copy, Debug)]
pub struct ExponentialLr {
    gamma: f64,
}

impl ExponentialLr {
    /// Creates a schedule with the given factor.
    pub fn new(gamma: f64) -> ExponentialLr {
        ExponentialLr { gamma }
    }
}

impl Schedule for ExponentialLr {
    fn lr(&self, initial: f64, step: u64) -> Result<f64> {
        Ok(initial * powi(self.gamma, step))
    }
}

/// A schedule that changes the rate's factor linearly, for example to warm up:
/// `initial * (start + (end - start) * min(step, total) / total)`.
#[derive(Clone, Copy, Debug)]
pub struct LinearLr {
    start_factor: f64,
    end_factor: f64,
    total_iters: u64,
}

impl Default for LinearLr {
    fn default() -> LinearLr {
        LinearLr { start_factor: 1.0 / 3.0, end_factor: 1.0, total_iters: 5 }
    }
}

impl LinearLr {
    /// Creates a schedule with PyTorch's defaults: from a third of the rate to the whole in 5
    /// steps.
    pub fn new() -> LinearLr {
        LinearLr::default()
    }

    /// Sets the first factor (default 1/3).
    #[must_use]
    pub fn start_factor(mut self, factor: f64) -> LinearLr {
        self.start_factor = factor;
        self
    }

    /// Sets the last factor (default 1).
    #[must_use]
    pub fn end_factor(mut self, factor: f64) -> LinearLr {
        self.end_factor = factor;
        self
    }

    /// Sets the number of steps from the first factor to the last (default 5).
    #[must_use]
    pub fn total_iters(mut self, steps: u64) -> LinearLr {
        self.total_iters = steps;
        self
    }
}

impl Schedule for LinearLr {
    fn lr(&self, initial: f64, step: u64) -> Result<f64> {
        if step >= self.total_iters {
            return Ok(initial * self.end_factor);
        }
        let change = self.end_factor - self.start_factor;
        Ok(initial * (self.start_factor + change * step as f64 / self.total_iters as f64))
    }
}

/// A schedule that multiplies the rate by a constant factor in the first steps.
#[derive(Clone, Copy, Debug)]
pub struct ConstantLr {
    factor: f64,
    total_iters: u64,
}

impl Default for ConstantLr {
    fn default() -> ConstantLr {
        ConstantLr { factor: 1.0 / 3.0, total_iters: 5 }
    }
}

impl ConstantLr {
    /// Creates a schedule with PyTorch's defaults: a third of the rate for 5 steps.
    pub fn new() -> ConstantLr {
        ConstantLr::default()
    }

    /// Sets the factor (default 1/3).
    #[must_use]
    pub fn factor(mut self, factor: f64) -> ConstantLr {
        self.factor = factor;
        self
    }

    /// Sets the number of steps (default 5).
    #[must_use]
    pub fn total_iters(mut self, steps: u64) -> ConstantLr {
        self.total_iters = steps;
        self
    }
}

impl Schedule for ConstantLr {
    fn lr(&self, initial: f64, step: u64) -> Result<f64> {
        Ok(if step < self.total_iters { initial * self.factor } else { initial })
    }
}

/// A schedule that lowers the rate to 0 along a power:
/// `initial * (1 - min(step, total) / total)^power`.
#[derive(Clone, Copy, Debug)]
pub struct PolynomialLr {
    total_iters: u64,
    power: f64,
}

impl Default for PolynomialLr {
    fn default() -> PolynomialLr {
        PolynomialLr { total_iters: 5, power: 1.0 }
    }
}

impl PolynomialLr {
    /// Creates a schedule with PyTorch's defaults: linearly to 0 in 5 steps.
    pub fn new() -> PolynomialLr {
        PolynomialLr::default()
    }

    /// Sets the number of steps (default 5).
    #[must_use]
    pub fn total_iters(mut self, steps: u64) -> PolynomialLr {
        self.total_iters = steps;
        self
    }

    /// Sets the exponent (default 1).
    #[must_use]
    pub fn power(mut self, power: f64) -> PolynomialLr {
        self.power = power;
        self
    }
}

impl Schedule for PolynomialLr {
    fn lr(&self, initial: f64, step: u64) -> Result<f64> {
        if self.total_iters == 0 {
            let message = "total_iters should be at least 1, got 0";
            return Err(Error::invalid("polynomial_lr", message));
        }
        let share = step.min(self.total_iters) as f64 / self.total_iters as f64;
        Ok(initial * pow(1.0 - share, self.power))
    }
}

/// A schedule that lowers the rate along half a cosine and restarts it, periodically:
/// `eta_min + (initial - eta_min) * (1 + cos(π * t / t_i)) / 2` in step `t` of a period of `t_i`
/// steps.
#[derive(Clone, Copy, Debug)]
pub struct CosineAnnealingWarmRestarts {
    t_0: u64,
    t_mult: u64,
    eta_min: f64,
}

impl CosineAnnealingWarmRestarts {
    /// Creates a schedule whose periods all have `t_0` steps and end at 0.
    pub fn new(t_0: u64) -> CosineAnnealingWarmRestarts {
        CosineAnnealingWarmRestarts { t_0, t_mult: 1, eta_min: 0.0 }
    }

    /// Sets the ratio of each period's length to the previous one's (default 1).
    #[must_use]
    pub fn t_mult(mut self, factor: u64) -> CosineAnnealingWarmRestarts {
        self.t_mult = factor;
        self
    }

    /// Sets the smallest rate (default 0).
    #[must_use]
    pub fn eta_min(mut self, lr: f64) -> CosineAnnealingWarmRestarts {
        self.eta_min = lr;
        self
    }
}

impl Schedule for CosineAnnealingWarmRestarts {
    fn lr(&self, initial: f64, step: u64) -> Result<f64> {
        if self.t_0 == 0 || self.t_mult == 0 {
            let message = format!(
                "t_0 and t_mult should be at least 1, got {} and {}",
                self.t_0, self.t_mult
            );
            return Err(Error::invalid("cosine_annealing_warm_restarts", message));
        }
        let (mut t, mut fall) = (step, self.t_0);
        if self.t_mult == 1 {
            t %= fall;
        }
        while t >= fall {
            t -= fall;
            fall = fall.saturating_mul(self.t_mult);
        }
        let cosine = cospi(t as f64 / fall as f64);
        Ok(self.eta_min + (initial - self.eta_min) * (1.0 + cosine) / 2.0)
    }
}

/// A schedule that lowers the rate along half a cosine and, if the run continues, raises it again:
/// `eta_min + (initial - eta_min) * (1 + cos(π * step / t_max)) / 2`.
#[derive(Clone, Copy, Debug)]
pub struct CosineAnnealingLr {
    t_max: u64,
    eta_min: f64,
}

impl CosineAnnealingLr {
    /// Creates a schedule that reaches 0 after `t_max` steps.
    pub fn new(t_max: u64) -> CosineAnnealingLr {
        CosineAnnealingLr { t_max, eta_min: 0.0 }
    }

    /// Sets the smallest rate (default 0).
    #[must_use]
    pub fn eta_min(mut self, lr: f64) -> CosineAnnealingLr {
        self.eta_min = lr;
        self
    }
}

impl Schedule for CosineAnnealingLr {
    fn lr(&self, initial: f64, step: u64) -> Result<f64> {
        if self.t_max == 0 {
            return Err(Error::invalid("cosine_annealing_lr", "t_max should be at least 1, got 0"));
        }
        // The cosine has a period of 2 t_max steps. Reducing the step first keeps the quotient
        // precise.
        let turn = u128::from(step) % (2 * u128::from(self.t_max));
        let cosine = cospi(turn as f64 / self.t_max as f64);
        Ok(self.eta_min + (initial - self.eta_min) * (1.0 + cosine) / 2.0)
    }
}
