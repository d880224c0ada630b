//! Exact sums of slices at nearly the speed of inexact ones.
//!
//! Most data has a narrow range of exponents. A sum in two f64 per lane (the value and the
//! accumulated rounding errors) is then exact, and this is checked: the second two-sum must have
//! left no error. A block that fails the check is added to the long accumulator element by element.
//! So the data decides the speed and never the value.

use super::{ExactSum, ExactSum64};
use crate::simd::{self, Kernel};

/// The number of independent chains, enough to hide the latency of the two-sums.
const LANES: usize = 32;
/// The number of elements per exactness check.
const BLOCK: usize = 8192;

/// Returns the sum of `a` and `b` rounded to nearest, and its exact error: `a + b == sum + error`,
/// unless the sum overflows or an operand is not finite, in which case the error is NaN.
///
/// # Examples
///
/// ```
/// let (sum, error) = samebits_numerics::exact::two_sum(1e16, 1.0);
/// assert_eq!((sum, error), (1e16, 1.0));
/// ```
#[inline(always)]
pub fn two_sum(a: f64, b: f64) -> (f64, f64) {
    let sum = a + b;
    let b_part = sum - a;
    let a_part = sum - b_part;
    (sum, (a - a_part) + (b - b_part))
}

/// Returns the sum of `a` and `b` rounded to nearest, and bits that tell if it is exact: apart from the
/// sign bit, which means nothing, they are zeros exactly if `a + b == sum`.
///
/// It takes half the additions of [`two_sum`], which also tells what was lost. The difference of a sum and
/// the larger of its two numbers is exact (Dekker, *A floating-point technique for extending the available precision*, 1971),
/// so it is the other number only if nothing was lost.
///
/// If an operand is not finite, the bits are not zeros; if both are NaN, they mean nothing.
///
/// # Examples
///
/// ```
/// use samebits_numerics::exact::tested_sum;
///
/// let (sum, lost) = tested_sum(1e16, 2.0);
/// assert_eq!((sum, lost << 1), (1e16 + 2.0, 0));
/// let (sum, lost) = tested_sum(1.0, 1e16);
/// assert_eq!(sum, 1e16);
/// assert_ne!(lost << 1, 0);
/// ```
#[inline(always)]
pub fn tested_sum(a: f64, b: f64) -> (f64, u64) {
    let sum = a + b;
    let without_a = (sum - a).to_bits() ^ b.to_bits();
    let without_b = (sum - b).to_bits() ^ a.to_bits();
    (sum, without_a | without_b)
}

/// Returns the exact sum of `values`, rounded once. The result is that of [`ExactSum`], but limited
/// by memory speed if the values are of similar size.
///
/// # Determinism
///
/// Independent of the order of `values` and of the instruction set.
///
/// # Examples
///
/// ```
/// assert_eq!(samebits_numerics::exact::sum_f32(&[1e30, 1.0, -1e30, 2.0]), 3.0);
/// assert_eq!(samebits_numerics::exact::sum_f32(&[]).to_bits(), 0);
/// ```
#[must_use]
pub fn sum_f32(values: &[f32]) -> f32 {
    simd::dispatch(Sum32(values)).to_f32()
}

/// Returns the exact sum of `values`, rounded once; the f64 counterpart of [`sum_f32`].
///
/// # Determinism
///
/// Independent of the order of `values` and of the instruction set.
///
/// # Examples
///
/// ```
/// assert_eq!(samebits_numerics::exact::sum_f64(&[1e300, 1.0, -1e300]), 1.0);
/// ```
#[must_use]
pub fn sum_f64(values: &[f64]) -> f64 {
    simd::dispatch(Sum64(values)).to_f64()
}

impl ExactSum {
    /// Adds every element of `values`, fast. It vectorises if called inside a [`simd`] kernel.
    #[inline(always)]
    pub fn add_slice(&mut self, values: &[f32]) {
        for block in values.chunks(BLOCK) {
            match block_sums(block) {
                Some((sums, errors)) => {
                    for l in 0..LANES {
                        self.add_partial(sums[l]);
                        if errors[l] != 0.0 {
                            self.add_partial(errors[l]);
                        }
                    }
                }
                None => block.iter().for_each(|&x| self.add(x)),
            }
        }
    }
}

impl ExactSum64 {
    /// Adds every element of `values`, fast. It vectorises if called inside a [`simd`] kernel.
    #[inline(always)]
    pub fn add_slice(&mut self, values: &[f64]) {
        for block in values.chunks(BLOCK) {
            match block_sums(block) {
                Some((sums, errors)) => {
                    for l in 0..LANES {
                        self.add(sums[l]);
                        if errors[l] != 0.0 {
                            self.add(errors[l]);
                        }
                    }
                }
                None => block.iter().for_each(|&x| self.add(x)),
            }
        }
    }
}

struct Sum32<'a>(&'a [f32]);

impl Kernel for Sum32<'_> {
    type Output = ExactSum;
    #[inline(always)]
    fn run(self) -> ExactSum {
        let mut sum = ExactSum::new();
        sum.add_slice(self.0);
        sum
    }
}

struct Sum64<'a>(&'a [f64]);

impl Kernel for Sum64<'_> {
    type Output = ExactSum64;
    #[inline(always)]
    fn run(self) -> ExactSum64 {
        let mut sum = ExactSum64::new();
        sum.add_slice(self.0);
        sum
    }
}

/// Returns lane sums and their accumulated errors, or `None` if they are not the exact sum.
/// Infinite and NaN elements and overflow make the last error NaN, which fails the check too.
#[inline(always)]
fn block_sums<T: Copy + Into<f64>>(block: &[T]) -> Option<([f64; LANES], [f64; LANES])> {
    let mut sums = [0.0f64; LANES];
    let mut errors = [0.0f64; LANES];
    let mut lost = [0u64; LANES];
    let mut groups = block.chunks_exact(LANES);
    for group in &mut groups {
        for l in 0..LANES {
            add_tracked(group[l].into(), &mut sums[l], &mut errors[l], &mut lost[l]);
        }
    }
    for (l, &x) in groups.remainder().iter().enumerate() {
        add_tracked(x.into(), &mut sums[l], &mut errors[l], &mut lost[l]);
    }
    let lost = lost.iter().fold(0, |all, &one| all | one);
    // Ignores the sign bit: an error of either zero is no error.
    (lost << 1 == 0).then_some((sums, errors))
}

#[inline(always)]
fn add_tracked(x: f64, sum: &mut f64, error: &mut f64, lost: &mut u64) {
    let (new_sum, first) = two_sum(*sum, x);
    let (new_error, second) = two_sum(*error, first);
    *sum = new_sum;
    *error = new_error;
    *lost |= second.to_bits();
}
