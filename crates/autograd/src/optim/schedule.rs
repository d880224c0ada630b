//! Learning rates as functions of the step.

mod cycle;

use samebits_numerics::math::f64::{cospi, pow, powi};
use samebits_tensor_core::{Error, Result};

use super::{Optimizer, Rate};

pub use cycle::{Anneal, CyclicLr, CyclicMode, OneCycleLr};

/// A learning rate as a function of the step alone: a run that is resumed needs no state of it.
///
/// A step is whatever the caller counts, from 0: optimiser steps or epochs.
///
/// # Determinism
///
/// `Portable`: f64 arithmetic in the order that each schedule's formula is written in; powers are
/// repeated products. PyTorch computes the same formulas, mostly from one step to the next, so its
/// figures may differ in the last digits.
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
    /// The learning rate of step `step`, if the optimiser was made with the rate `initial`.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] if the schedule has no meaning.
    fn lr(&self, initial: f64, step: u64) -> Result<f64>;

    /// The momentum of step `step`, beta 1 of Adam, if the schedule changes it.
    ///
    /// # Errors
    ///
    /// As [`lr`](Schedule::lr).
    fn momentum(&self, step: u64) -> Result<Option<f64>> {
        let _ = step;
        Ok(None)
    }

    /// Sets the rates, and perhaps the momentum, that the optimiser's groups have in step `step`. An
    /// optimiser without momentum refuses the next step then.
    ///
    /// # Errors
    ///
    /// As [`lr`](Schedule::lr). The rates are unchanged then.
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

    /// This schedule before step `at`, and from there on `next`, which counts its steps from there.
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

/// One schedule after another; see [`Schedule::then`]. PyTorch's `SequentialLR`.
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

/// The initial rate times a function of the step.
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

/// Multiplies the rate by gamma every few steps: `initial * gamma^(step / step_size)`, the quotient
/// rounded down.
#[derive(Clone, Copy, Debug)]
pub struct StepLr {
    step_size: u64,
    gamma: f64,
}

impl StepLr {
    /// With a gamma of 0.1.
    pub fn new(step_size: u64) -> StepLr {
        StepLr { step_size, gamma: 0.1 }
    }

    /// The factor.
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

/// Multiplies the rate by gamma at each milestone: `initial * gamma^n`, where `n` milestones are at
/// most `step`.
#[derive(Clone, Debug)]
pub struct MultiStepLr {
    milestones: Vec<u64>,
    gamma: f64,
}

impl MultiStepLr {
    /// With a gamma of 0.1.
    pub fn new(milestones: impl Into<Vec<u64>>) -> MultiStepLr {
        MultiStepLr { milestones: milestones.into(), gamma: 0.1 }
    }

    /// The factor.
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

/// Multiplies the rate by gamma in every step: `initial * gamma^step`.
#[derive(Clone, Copy, Debug)]
pub struct ExponentialLr {
    gamma: f64,
}

impl ExponentialLr {
    /// With the given factor.
    pub fn new(gamma: f64) -> ExponentialLr {
        ExponentialLr { gamma }
    }
}

impl Schedule for ExponentialLr {
    fn lr(&self, initial: f64, step: u64) -> Result<f64> {
        Ok(initial * powi(self.gamma, step))
    }
}

/// Changes the factor of the rate linearly, for example to warm up:
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
    /// PyTorch's defaults: from a third to the whole rate in 5 steps.
    pub fn new() -> LinearLr {
        LinearLr::default()
    }

    /// The first factor.
    #[must_use]
    pub fn start_factor(mut self, factor: f64) -> LinearLr {
        self.start_factor = factor;
        self
    }

    /// The last factor.
    #[must_use]
    pub fn end_factor(mut self, factor: f64) -> LinearLr {
        self.end_factor = factor;
        self
    }

    /// In how many steps the factor goes from the first to the last.
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

/// Multiplies the rate by a factor in the first steps.
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
    /// PyTorch's defaults: a third of the rate for 5 steps.
    pub fn new() -> ConstantLr {
        ConstantLr::default()
    }

    /// The factor.
    #[must_use]
    pub fn factor(mut self, factor: f64) -> ConstantLr {
        self.factor = factor;
        self
    }

    /// For how many steps.
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

/// Lets the rate fall to 0: `initial * (1 - min(step, total) / total)^power`.
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
    /// PyTorch's defaults: along a line, in 5 steps.
    pub fn new() -> PolynomialLr {
        PolynomialLr::default()
    }

    /// In how many steps.
    #[must_use]
    pub fn total_iters(mut self, steps: u64) -> PolynomialLr {
        self.total_iters = steps;
        self
    }

    /// The exponent.
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

/// Lets the rate fall along half a cosine, again and again, each time from the start:
/// `eta_min + (initial - eta_min) * (1 + cos(π * t / t_i)) / 2` in step `t` of a fall of `t_i` steps.
#[derive(Clone, Copy, Debug)]
pub struct CosineAnnealingWarmRestarts {
    t_0: u64,
    t_mult: u64,
    eta_min: f64,
}

impl CosineAnnealingWarmRestarts {
    /// Down to 0 in `t_0` steps each time.
    pub fn new(t_0: u64) -> CosineAnnealingWarmRestarts {
        CosineAnnealingWarmRestarts { t_0, t_mult: 1, eta_min: 0.0 }
    }

    /// How many times as long as the last each fall is.
    #[must_use]
    pub fn t_mult(mut self, factor: u64) -> CosineAnnealingWarmRestarts {
        self.t_mult = factor;
        self
    }

    /// The smallest rate.
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

/// Lets the rate fall along half a cosine and, if the run goes on, rise again:
/// `eta_min + (initial - eta_min) * (1 + cos(π * step / t_max)) / 2`.
#[derive(Clone, Copy, Debug)]
pub struct CosineAnnealingLr {
    t_max: u64,
    eta_min: f64,
}

impl CosineAnnealingLr {
    /// Down to 0 in `t_max` steps.
    pub fn new(t_max: u64) -> CosineAnnealingLr {
        CosineAnnealingLr { t_max, eta_min: 0.0 }
    }

    /// The smallest rate.
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
        // The cosine repeats every 2 t_max steps; reduced, the quotient keeps its precision.
        let turn = u128::from(step) % (2 * u128::from(self.t_max));
        let cosine = cospi(turn as f64 / self.t_max as f64);
        Ok(self.eta_min + (initial - self.eta_min) * (1.0 + cosine) / 2.0)
    }
}
