//! The usual sums, ready to call.

use super::tree::{dot_of, sum_of};
use crate::simd::{self, Kernel};

/// Mean and sum of squared deviations, in f64.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Moments {
    /// The mean; NaN if there are no values.
    pub mean: f64,
    /// The sum, over the values, of the squared difference to `mean`.
    pub squared_deviations: f64,
    /// The number of values.
    pub count: usize,
}

impl Moments {
    /// Returns the variance with divisor `count - correction`; the correction is 0 for a population
    /// and 1 for a sample. If the divisor is not positive, the result is NaN or infinite, as in
    /// PyTorch.
    #[must_use]
    pub fn variance(&self, correction: f64) -> f64 {
        self.squared_deviations / (self.count as f64 - correction).max(0.0)
    }
}

/// Returns the sum of `values`.
///
/// # Determinism
///
/// The tree of the [module](super). Round the result to the output type once.
///
/// # Examples
///
/// ```
/// assert_eq!(samebits_numerics::reduce::sum(&[1.0f32, 2.0, 3.5]), 6.5);
/// ```
#[must_use]
pub fn sum<T: Copy + Into<f64>>(values: &[T]) -> f64 {
    simd::dispatch(Sum(values))
}

/// Returns the sum of the squares of `values`; each square is rounded to f64 (exact for f32).
///
/// # Determinism
///
/// The tree of the [module](super).
#[must_use]
pub fn sum_squares<T: Copy + Into<f64>>(values: &[T]) -> f64 {
    simd::dispatch(SumSquares(values))
}

/// Returns the scalar product of `x` and `y`; each product is rounded to f64 (exact for f32).
///
/// # Determinism
///
/// The tree of the [module](super).
///
/// # Panics
///
/// If the lengths differ.
#[must_use]
pub fn dot<T: Copy + Into<f64>>(x: &[T], y: &[T]) -> f64 {
    assert_eq!(x.len(), y.len(), "dot: the slices must have the same length");
    simd::dispatch(Dot(x, y))
}

/// Returns the mean of `values` and the sum of their squared deviations, in two passes: the second
/// subtracts the f64 mean, which avoids cancellation. Call it inside a [`simd`] kernel.
///
/// # Determinism
///
/// Both sums are the tree of the [module](super).
///
/// # Examples
///
/// ```
/// let moments = samebits_numerics::reduce::mean_var(&[1.0f32, 2.0, 3.0]);
/// assert_eq!((moments.mean, moments.variance(1.0)), (2.0, 1.0));
/// ```
#[inline(always)]
#[must_use]
pub fn mean_var<T: Copy + Into<f64>>(values: &[T]) -> Moments {
    let mean = sum_of(values, |x| x.into()) / values.len() as f64;
    let squared_deviations = sum_of(values, |x| {
        let deviation = x.into() - mean;
        deviation * deviation
    });
    Moments { mean, squared_deviations, count: values.len() }
}

struct Sum<'a, T>(&'a [T]);

impl<T: Copy + Into<f64>> Kernel for Sum<'_, T> {
    type Output = f64;
    #[inline(always)]
    fn run(self) -> f64 {
        sum_of(self.0, |x| x.into())
    }
}

struct SumSquares<'a, T>(&'a [T]);

impl<T: Copy + Into<f64>> Kernel for SumSquares<'_, T> {
    type Output = f64;
    #[inline(always)]
    fn run(self) -> f64 {
        sum_of(self.0, |x| {
            let x = x.into();
            x * x
        })
    }
}

struct Dot<'a, T>(&'a [T], &'a [T]);

impl<T: Copy + Into<f64>> Kernel for Dot<'_, T> {
    type Output = f64;
    #[inline(always)]
    fn run(self) -> f64 {
        dot_of(self.0, self.1, |x, y| x.into() * y.into())
    }
}
