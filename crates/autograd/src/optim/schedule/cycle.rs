//! Schedules that raise and lower the rate, and move the momentum the opposite way.

use samebits_numerics::math::f64::{cospi, powi};
use samebits_tensor_core::{Error, Result};

use super::Schedule;

/// The curve by which [`OneCycleLr`] goes from one rate to another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Anneal {
    /// `end + (start - end) / 2 * (1 + cos(π * share))`.
    #[default]
    Cos,
    /// `(end - start) * share + start`.
    Linear,
}

/// A schedule that raises the rate to a peak, then lowers it far below its start; the momentum (for
/// Adam, beta 1) moves the opposite way. It ignores the optimiser's own rates. After the last step,
/// rate and momentum stay constant.
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
    cycle_momentum: bool,
    base_momentum: f64,
    max_momentum: f64,
}

impl OneCycleLr {
    /// Creates a schedule with PyTorch's defaults: for 30 % of the steps the rate rises from
    /// `max_lr / 25`, then it falls to a 10,000th of its start, both along cosines. The momentum
    /// goes from 0.95 to 0.85 and back.
    pub fn new(max_lr: f64, total_steps: u64) -> OneCycleLr {
        OneCycleLr {
            max_lr,
            total_steps,
            pct_start: 0.3,
            anneal: Anneal::Cos,
            div_factor: 25.0,
            final_div_factor: 1e4,
            three_phase: false,
            cycle_momentum: true,
            base_momentum: 0.85,
            max_momentum: 0.95,
        }
    }

    /// Sets the share of the steps in which the rate rises (default 0.3).
    #[must_use]
    pub fn pct_start(mut self, share: f64) -> OneCycleLr {
        self.pct_start = share;
        self
    }

    /// Sets the curve between two rates (default [`Anneal::Cos`]).
    #[must_use]
    pub fn anneal_strategy(mut self, anneal: Anneal) -> OneCycleLr {
        self.anneal = anneal;
        self
    }

    /// Sets the ratio of the peak to the first rate (default 25).
    #[must_use]
    pub fn div_factor(mut self, factor: f64) -> OneCycleLr {
        self.div_factor = factor;
        self
    }

    /// Sets the ratio of the first rate to the last (default 1e4).
    #[must_use]
    pub fn final_div_factor(mut self, factor: f64) -> OneCycleLr {
        self.final_div_factor = factor;
        self
    }

    /// Sets whether the rate falls symmetrically to its rise first, and then to the last rate
    /// (default false).
    #[must_use]
    pub fn three_phase(mut self, three_phase: bool) -> OneCycleLr {
        self.three_phase = three_phase;
        self
    }

    /// Sets whether the momentum changes, too (default true).
    #[must_use]
    pub fn cycle_momentum(mut self, cycle: bool) -> OneCycleLr {
        self.cycle_momentum = cycle;
        self
    }

    /// Sets the momentum at the peak of the rate (default 0.85).
    #[must_use]
    pub fn base_momentum(mut self, momentum: f64) -> OneCycleLr {
        self.base_momentum = momentum;
        self
    }

    /// Sets the momentum at the start and at the end (default 0.95).
    #[must_use]
    pub fn max_momentum(mut self, momentum: f64) -> OneCycleLr {
        self.max_momentum = momentum;
        self
    }

    /// Returns the value at `step` on the curve from `start` over `peak` to `end`; with three
    /// phases it returns to `start` before `end`.
    fn at(&self, step: u64, start: f64, peak: f64, end: f64) -> Result<f64> {
        if self.total_steps == 0 || !(0.0..=1.0).contains(&self.pct_start) {
            let message = format!(
                "expected at least 1 step and a share from 0 to 1, got {} and {}",
                self.total_steps, self.pct_start
            );
            return Err(Error::invalid("one_cycle_lr", message));
        }
        let end = (end, (self.total_steps - 1) as f64);
        let rise = self.pct_start * self.total_steps as f64;
        // Pairs of a value and the step that reaches it.
        let corners: &[(f64, f64)] = if self.three_phase {
            &[(start, 0.0), (peak, rise - 1.0), (start, 2.0 * rise - 2.0), end]
        } else {
            &[(start, 0.0), (peak, rise - 1.0), end]
        };
        let step = step as f64;
        for phase in corners.windows(2) {
            let ((start, from), (end, to)) = (phase[0], phase[1]);
            if step <= to {
                // Skip a phase without steps, unless it is the only one at this step.
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

impl Schedule for OneCycleLr {
    fn lr(&self, _: f64, step: u64) -> Result<f64> {
        let low = self.max_lr / self.div_factor;
        self.at(step, low, self.max_lr, low / self.final_div_factor)
    }

    fn momentum(&self, step: u64) -> Result<Option<f64>> {
        if !self.cycle_momentum {
            return Ok(None);
        }
        self.at(step, self.max_momentum, self.base_momentum, self.max_momentum).map(Some)
    }
}

/// The amplitude of the cycles of [`CyclicLr`].
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum CyclicMode {
    /// Constant.
    #[default]
    Triangular,
    /// Halved in each cycle.
    Triangular2,
    /// Multiplied by `gamma` in each step.
    ExpRange {
        /// The factor.
        gamma: f64,
    },
}

/// A schedule that raises and lowers the rate linearly, in cycles; the momentum (for Adam, beta 1)
/// moves the opposite way. It ignores the optimiser's own rates.
///
/// # References
///
/// PyTorch's `torch.optim.lr_scheduler.CyclicLR`. L. Smith, *Cyclical Learning Rates for Training
/// Neural Networks*, 2017.
#[derive(Clone, Copy, Debug)]
pub struct CyclicLr {
    base_lr: f64,
    max_lr: f64,
    step_size_up: u64,
    step_size_down: Option<u64>,
    mode: CyclicMode,
    cycle_momentum: bool,
    base_momentum: f64,
    max_momentum: f64,
}

impl CyclicLr {
    /// Creates a schedule with PyTorch's defaults: 2000 steps up, 2000 down, and a momentum from
    /// 0.9 to 0.8 and back.
    pub fn new(base_lr: f64, max_lr: f64) -> CyclicLr {
        CyclicLr {
            base_lr,
            max_lr,
            step_size_up: 2000,
            step_size_down: None,
            mode: CyclicMode::Triangular,
            cycle_momentum: true,
            base_momentum: 0.8,
            max_momentum: 0.9,
        }
    }

    /// Sets the number of steps in which the rate rises (default 2000).
    #[must_use]
    pub fn step_size_up(mut self, steps: u64) -> CyclicLr {
        self.step_size_up = steps;
        self
    }

    /// Sets the number of steps in which the rate falls (default: as many as it rises).
    #[must_use]
    pub fn step_size_down(mut self, steps: u64) -> CyclicLr {
        self.step_size_down = Some(steps);
        self
    }

    /// Sets the amplitude of the cycles (default [`CyclicMode::Triangular`]).
    #[must_use]
    pub fn mode(mut self, mode: CyclicMode) -> CyclicLr {
        self.mode = mode;
        self
    }

    /// Sets whether the momentum changes, too (default true).
    #[must_use]
    pub fn cycle_momentum(mut self, cycle: bool) -> CyclicLr {
        self.cycle_momentum = cycle;
        self
    }

    /// Sets the smallest momentum (default 0.8).
    #[must_use]
    pub fn base_momentum(mut self, momentum: f64) -> CyclicLr {
        self.base_momentum = momentum;
        self
    }

    /// Sets the largest momentum (default 0.9).
    #[must_use]
    pub fn max_momentum(mut self, momentum: f64) -> CyclicLr {
        self.max_momentum = momentum;
        self
    }

    /// Returns the distance from the base to the peak at `step`, as a share.
    fn share(&self, step: u64) -> Result<f64> {
        let (up, down) = (self.step_size_up, self.step_size_down.unwrap_or(self.step_size_up));
        if up == 0 || down == 0 {
            let message = format!("the steps should be at least 1, got {up} up and {down} down");
            return Err(Error::invalid("cyclic_lr", message));
        }
        let whole = u128::from(up) + u128::from(down);
        let (cycle, place) = (u128::from(step) / whole, u128::from(step) % whole);
        let share = if place <= u128::from(up) {
            place as f64 / up as f64
        } else {
            (whole - place) as f64 / down as f64
        };
        Ok(share
            * match self.mode {
                CyclicMode::Triangular => 1.0,
                CyclicMode::Triangular2 => powi(0.5, cycle as u64),
                CyclicMode::ExpRange { gamma } => powi(gamma, step),
            })
    }
}

impl Schedule for CyclicLr {
    fn lr(&self, _: f64, step: u64) -> Result<f64> {
        Ok(self.base_lr + (self.max_lr - self.base_lr) * self.share(step)?)
    }

    fn momentum(&self, step: u64) -> Result<Option<f64>> {
        if !self.cycle_momentum {
            return Ok(None);
        }
        let share = self.share(step)?;
        Ok(Some(self.max_momentum - (self.max_momentum - self.base_momentum) * share))
    }
}
