use super::Optimizers;
use super::descent::{MAX_COUNT, Saved, check_setting, count, next};
use crate::{Error, Result, Tensor};

/// A scheduler that lowers the learning rates when a metric stops improving.
///
/// # Determinism
///
/// `Portable`: a function of the metrics so far. To resume a run, save
/// [`state`](ReduceLrOnPlateau::state).
///
/// # Examples
///
/// ```
/// use samebits_autograd::optim::{Optimizer, ReduceLrOnPlateau, Sgd};
///
/// let mut optimizer = Sgd::new(0.1)?;
/// let mut plateau = ReduceLrOnPlateau::new().patience(1);
/// for loss in [0.5, 0.6, 0.5] {
///     plateau.step(loss, &mut optimizer)?;
/// }
/// assert_eq!(optimizer.lr(), 0.1 * 0.1);
/// # Ok::<(), samebits_autograd::Error>(())
/// ```
///
/// # References
///
/// PyTorch's `torch.optim.lr_scheduler.ReduceLROnPlateau`.
#[derive(Clone, Debug)]
pub struct ReduceLrOnPlateau {
    mode: Mode,
    factor: f64,
    patience: u64,
    threshold: Threshold,
    cooldown: u64,
    min_lr: f64,
    eps: f64,
    best: f64,
    bad: u64,
    cooling: u64,
}

/// The direction in which a metric improves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Smaller is better, as for a loss.
    Min,
    /// Larger is better, as for an accuracy.
    Max,
}

/// The minimum improvement that counts. PyTorch's `threshold_mode` and `threshold`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Threshold {
    /// This share of the best metric so far.
    Rel(f64),
    /// This amount.
    Abs(f64),
}

impl Mode {
    /// Returns a value worse than any metric.
    pub(crate) fn worst(self) -> f64 {
        match self {
            Mode::Min => f64::INFINITY,
            Mode::Max => f64::NEG_INFINITY,
        }
    }

    /// Returns whether `metric` is better than `best` by more than the threshold. NaN is never
    /// better.
    fn is_better(self, metric: f64, best: f64, threshold: Threshold) -> bool {
        match (self, threshold) {
            (Mode::Min, Threshold::Rel(share)) => metric < best * (1.0 - share),
            (Mode::Min, Threshold::Abs(amount)) => metric < best - amount,
            (Mode::Max, Threshold::Rel(share)) => metric > best * (share + 1.0),
            (Mode::Max, Threshold::Abs(amount)) => metric > best + amount,
        }
    }
}

impl Default for ReduceLrOnPlateau {
    fn default() -> ReduceLrOnPlateau {
        ReduceLrOnPlateau {
            mode: Mode::Min,
            factor: 0.1,
            patience: 10,
            threshold: Threshold::Rel(1e-4),
            cooldown: 0,
            min_lr: 0.0,
            eps: 1e-8,
            best: Mode::Min.worst(),
            bad: 0,
            cooling: 0,
        }
    }
}

impl ReduceLrOnPlateau {
    /// Creates a scheduler with PyTorch's defaults: it divides the rate by 10 after more than 10
    /// metrics in a row that are not smaller than the best one by 0.01 %.
    pub fn new() -> ReduceLrOnPlateau {
        ReduceLrOnPlateau::default()
    }

    /// Sets the direction in which the metric improves (default [`Mode::Min`]).
    #[must_use]
    pub fn mode(mut self, mode: Mode) -> Self {
        (self.mode, self.best) = (mode, mode.worst());
        self
    }

    /// Sets the factor that the rates are multiplied by (default 0.1).
    #[must_use]
    pub fn factor(mut self, factor: f64) -> Self {
        self.factor = factor;
        self
    }

    /// Sets how many metrics in a row may fail to improve (default 10).
    #[must_use]
    pub fn patience(mut self, patience: u64) -> Self {
        self.patience = patience;
        self
    }

    /// Sets the minimum improvement that counts (default `Threshold::Rel(1e-4)`).
    #[must_use]
    pub fn threshold(mut self, threshold: Threshold) -> Self {
        self.threshold = threshold;
        self
    }

    /// Sets how many metrics after a reduction do not count as bad (default 0).
    #[must_use]
    pub fn cooldown(mut self, cooldown: u64) -> Self {
        self.cooldown = cooldown;
        self
    }

    /// Sets the lower bound of all rates (default 0).
    #[must_use]
    pub fn min_lr(mut self, lr: f64) -> Self {
        self.min_lr = lr;
        self
    }

    /// Sets the smallest change of a rate: smaller or equal changes are skipped (default 1e-8).
    #[must_use]
    pub fn eps(mut self, eps: f64) -> Self {
        self.eps = eps;
        self
    }

    /// Records a metric and, if it has not improved for too long, lowers the rates of one or
    /// several optimisers. Returns whether it did. A NaN metric counts as not improved.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] if the factor is outside `[0, 1)`, or the smallest rate is not a
    /// finite number of at least 0.
    pub fn step(&mut self, metric: f64, optimizers: &mut dyn Optimizers) -> Result<bool> {
        if !(0.0..1.0).contains(&self.factor) {
            let message =
                format!("the factor should be at least 0 and less than 1, got {}", self.factor);
            return Err(Error::invalid(OP, message));
        }
        check_setting(OP, "the smallest rate", self.min_lr)?;
        if self.mode.is_better(metric, self.best, self.threshold) {
            (self.best, self.bad) = (metric, 0);
        } else {
            self.bad = next(self.bad);
        }
        if self.cooling > 0 {
            (self.cooling, self.bad) = (self.cooling - 1, 0);
        }
        let time = self.bad > self.patience;
        if time {
            optimizers.each_mut("", &mut |_, optimizer| {
                for rate in optimizer.rates_mut() {
                    let lowered = (rate.current * self.factor).max(self.min_lr);
                    if rate.current - lowered > self.eps {
                        rate.current = lowered;
                    }
                }
            });
            (self.cooling, self.bad) = (self.cooldown.min(MAX_COUNT), 0);
        }
        Ok(time)
    }

    /// Returns the state that later steps depend on, as named tensors.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfMemory`](crate::Error::OutOfMemory) if there is no memory for the state.
    pub fn state(&self) -> Result<Vec<(String, Tensor)>> {
        Ok(vec![
            (BEST.to_owned(), Tensor::from_slice(&[self.best], &[1])?),
            (BAD.to_owned(), count(self.bad)),
            (COOLING.to_owned(), count(self.cooling)),
        ])
    }

    /// Replaces the state with one returned by [`state`](ReduceLrOnPlateau::state).
    ///
    /// # Errors
    ///
    /// [`Error::InvalidState`] if a tensor is missing or unexpected.
    pub fn load_state(&mut self, state: Vec<(String, Tensor)>) -> Result<()> {
        let mut state = Saved::new(OP, state);
        let best = state.numbers(BEST, 1)?[0];
        let (bad, cooling) = (state.count(BAD)?, state.count(COOLING)?);
        state.expect_empty()?;
        (self.best, self.bad, self.cooling) = (best, bad, cooling);
        Ok(())
    }
}

const OP: &str = "reduce_lr_on_plateau";
const BEST: &str = "best";
const BAD: &str = "num_bad_epochs";
const COOLING: &str = "cooldown_counter";
