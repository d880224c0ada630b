//! Learning rates as functions of the step.

use samebits_numerics::math::f64::{cospi, powi};
use samebits_tensor_core::{Error, Result};

use super::{Optimizer, Rate};

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

    /// Sets the rates that the optimiser's groups have in step `step`.
    ///
    /// # Errors
    ///
    /// As [`lr`](Schedule::lr). The rates are unchanged then.
    fn apply(&self, step: u64, optimizer: &mut dyn Optimizer) -> Result<()> {
        let rates = optimizer
            .rates()
            .iter()
            .map(|&rate| Ok(Rate { current: self.lr(rate.initial, step)?, ..rate }))
            .collect::<Result<Vec<_>>>()?;
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

/// How [`OneCycleLr`] goes from one rate to another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Anneal {
    /// `end + (start - end) / 2 * (1 + cos(π * share))`.
    #[default]
    Cos,
    /// `(end - start) * share + start`.
    Linear,
}

/// Raises the rate to a peak and lets it fall far below its start. The optimiser's own rates do not
/// enter, and no momentum is cycled (PyTorch's `cycle_momentum=False`). After the last step the
/// rate stays as it is.
///
/// # References
///
/// PyTorch's `torch.optim.lr_scheduler.OneCycleLR`. L. Smith and N. Topin, *Super-Convergence*,
/// 2019.
#[derive(Clone, Copy, Debug)]
pub struct OneCycleLr {
    max_lr: f64,
    total_steps: u64,
    pct_start: f64,
    anneal: Anneal,
    div_factor: f64,
    final_div_factor: f64,
    three_phase: bool,
}

impl OneCycleLr {
    /// PyTorch's defaults: rises for 0.3 of the steps, from a 25th of `max_lr`, and falls to a
    /// 10,000th of that, along cosines.
    pub fn new(max_lr: f64, total_steps: u64) -> OneCycleLr {
        OneCycleLr {
            max_lr,
            total_steps,
            pct_start: 0.3,
            anneal: Anneal::Cos,
            div_factor: 25.0,
            final_div_factor: 1e4,
            three_phase: false,
        }
    }

    /// The share of the steps in which the rate rises.
    #[must_use]
    pub fn pct_start(mut self, share: f64) -> OneCycleLr {
        self.pct_start = share;
        self
    }

    /// How the rate goes from one value to the next.
    #[must_use]
    pub fn anneal_strategy(mut self, anneal: Anneal) -> OneCycleLr {
        self.anneal = anneal;
        self
    }

    /// The peak divided by the first rate.
    #[must_use]
    pub fn div_factor(mut self, factor: f64) -> OneCycleLr {
        self.div_factor = factor;
        self
    }

    /// The first rate divided by the last.
    #[must_use]
    pub fn final_div_factor(mut self, factor: f64) -> OneCycleLr {
        self.final_div_factor = factor;
        self
    }

    /// Falls as it rose, and only then to the last rate.
    #[must_use]
    pub fn three_phase(mut self, three_phase: bool) -> OneCycleLr {
        self.three_phase = three_phase;
        self
    }
}

impl Schedule for OneCycleLr {
    fn lr(&self, _: f64, step: u64) -> Result<f64> {
        if self.total_steps == 0 || !(0.0..=1.0).contains(&self.pct_start) {
            let message = format!(
                "expected at least 1 step and a share from 0 to 1, got {} and {}",
                self.total_steps, self.pct_start
            );
            return Err(Error::invalid("one_cycle_lr", message));
        }
        let low = self.max_lr / self.div_factor;
        let end = (low / self.final_div_factor, (self.total_steps - 1) as f64);
        let rise = self.pct_start * self.total_steps as f64;
        // Rates, and the steps at which they are reached.
        let corners: &[(f64, f64)] = if self.three_phase {
            &[(low, 0.0), (self.max_lr, rise - 1.0), (low, 2.0 * rise - 2.0), end]
        } else {
            &[(low, 0.0), (self.max_lr, rise - 1.0), end]
        };
        let step = step as f64;
        for phase in corners.windows(2) {
            let ((start, from), (end, to)) = (phase[0], phase[1]);
            if step <= to {
                // A phase without a step is passed over, unless all of it is the step.
                let share = if to > from { (step - from) / (to - from) } else { 1.0 };
                return Ok(match self.anneal {
                    Anneal::Cos => end + (start - end) / 2.0 * (1.0 + cospi(share)),
                    Anneal::Linear => (end - start) * share + start,
                });
            }
        }
        Ok(end.0)
    }
}
