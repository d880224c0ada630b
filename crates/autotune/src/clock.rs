//! The clock of a race; tests can replace it.

use std::fmt;
use std::time::{Duration, Instant};

/// Source of elapsed time since a fixed moment.
pub trait Clock: Send + Sync + fmt::Debug {
    /// Returns the time since a moment that stays the same for this clock.
    fn now(&self) -> Duration;
}

/// The system's monotonic clock.
#[derive(Clone, Copy, Debug)]
pub struct SystemClock {
    origin: Instant,
}

impl SystemClock {
    /// Creates a clock that starts now.
    #[must_use]
    pub fn new() -> SystemClock {
        SystemClock { origin: Instant::now() }
    }
}

impl Default for SystemClock {
    fn default() -> SystemClock {
        SystemClock::new()
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Duration {
        self.origin.elapsed()
    }
}
