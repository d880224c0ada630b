//! The operations of scans.

use samebits_numerics::math::f64::{exp, log};
use std::hint::select_unpredictable;

/// The operation of a scan.
pub(super) trait Operation: Send + Sync {
    type State: Copy + Send + Sync;
    const IDENTITY: Self::State;
    fn element(x: f64) -> Self::State;
    fn apply(a: Self::State, b: Self::State) -> Self::State;
    fn result(state: Self::State) -> f64;

    /// Returns the result for one element.
    #[inline(always)]
    fn alone(x: f64) -> f64 {
        Self::result(Self::apply(Self::IDENTITY, Self::element(x)))
    }
}

pub(super) struct Sum;

impl Operation for Sum {
    type State = f64;
    const IDENTITY: f64 = 0.0;
    #[inline(always)]
    fn element(x: f64) -> f64 {
        x
    }
    #[inline(always)]
    fn apply(a: f64, b: f64) -> f64 {
        a + b
    }
    #[inline(always)]
    fn result(state: f64) -> f64 {
        state
    }
}

pub(super) struct Product;

impl Operation for Product {
    type State = f64;
    const IDENTITY: f64 = 1.0;
    #[inline(always)]
    fn element(x: f64) -> f64 {
        x
    }
    #[inline(always)]
    fn apply(a: f64, b: f64) -> f64 {
        a * b
    }
    #[inline(always)]
    fn result(state: f64) -> f64 {
        state
    }
}

/// Pairs (m, s) that represent `s * exp(m)`.
pub(super) struct LogSum;

impl Operation for LogSum {
    type State = (f64, f64);
    const IDENTITY: (f64, f64) = (f64::NEG_INFINITY, 1.0);
    #[inline(always)]
    fn element(x: f64) -> (f64, f64) {
        (x, 1.0)
    }
    #[inline(always)]
    fn apply((m, s): (f64, f64), (n, t): (f64, f64)) -> (f64, f64) {
        // Without branches, so that several pairs fill a vector. Adding `0 · t`, or multiplying with
        // exp(0) = 1, changes no bit; if m or n is NaN, both become NaN.
        let is_before = m > n;
        let distance = select_unpredictable(is_before, n - m, m - n);
        let share = exp(select_unpredictable(m == n, 0.0, distance));
        (
            select_unpredictable(is_before, m, n),
            select_unpredictable(is_before, s + t * share, s * share + t),
        )
    }
    #[inline(always)]
    fn result((m, s): (f64, f64)) -> f64 {
        // The logarithm of s is finite, so an infinite m is the result.
        m + log(s)
    }
    #[inline(always)]
    fn alone(x: f64) -> f64 {
        // The logarithm of 1.
        x + 0.0
    }
}
