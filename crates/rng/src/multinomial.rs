//! Categories drawn by weight, with and without replacement.

use crate::draw::in_chunks;
use crate::uniform::{positive_unit_f64, unit_f64};
use crate::{Draw, Error, Generator, wide};
use rayon::prelude::*;
use samebits_numerics::{fpenv, memory};

impl Draw {
    /// Fills `out` with categories drawn with replacement, each with a chance proportional to
    /// its weight; takes [`Draw::blocks_u64`] blocks.
    ///
    /// The weights are summed in ascending order in f64. Element *i* is the first category whose
    /// running sum exceeds *u* times the total, with *u* = (word pair *i* >> 11) · 2^-53. A
    /// category of weight 0 is never drawn.
    ///
    /// # Errors
    ///
    /// A weight is negative or not finite, no weight is positive, or there is no memory for the
    /// running sums.
    pub fn multinomial(&self, start: u64, weights: &[f32], out: &mut [i64]) -> Result<(), Error> {
        let op = "multinomial";
        check_weights(op, weights, 1)?;
        let mut sums = memory::with_capacity(weights.len()).map_err(Error::memory(op))?;
        fpenv::ieee(|| {
            let mut total = 0.0;
            sums.extend(weights.iter().map(|&weight| {
                total += f64::from(weight);
                total
            }));
            // Where rounding carries u times the total up to the total.
            let last = sums.partition_point(|&sum| sum < total);
            in_chunks(out, |at, out| {
                fpenv::ieee(|| {
                    for (i, out) in (at as u64..).zip(out) {
                        let target = unit_f64(self.word64(start.wrapping_add(i))) * total;
                        *out = sums.partition_point(|&sum| sum <= target).min(last) as i64;
                    }
                });
            });
        });
        Ok(())
    }

    /// Fills `out` with different categories, in the order in which they would be drawn one
    /// after the other without replacement; takes [`Draw::blocks_u64`] blocks for as many
    /// elements as there are *categories*.
    ///
    /// It is an exponential race: category *k* arrives at −log *u* / weight, with
    /// *u* = ((word pair *k* >> 11) + 1) · 2^-53, and the first to arrive are taken, the lower
    /// index first where two arrive together.
    ///
    /// # Errors
    ///
    /// A weight is negative or not finite, fewer weights are positive than categories are wanted, or
    /// there is no memory for the times of arrival.
    pub fn multinomial_without_replacement(
        &self,
        weights: &[f32],
        out: &mut [i64],
    ) -> Result<(), Error> {
        let op = "multinomial_without_replacement";
        let positive = check_weights(op, weights, out.len())?;
        if out.is_empty() {
            return Ok(());
        }
        let mut arrivals = memory::with_capacity(positive).map_err(Error::memory(op))?;
        arrivals.extend(
            (0i64..)
                .zip(weights)
                .filter(|(_, weight)| **weight > 0.0)
                .map(|(k, &weight)| (f64::from(weight), k)),
        );
        arrivals.par_iter_mut().for_each(|(weight, k)| {
            fpenv::ieee(|| {
                let u = positive_unit_f64(self.word64(*k as u64));
                // The logarithm of 1 is +0, which must not become -0.
                *weight = (0.0 - wide::log(u)) / *weight;
            });
        });
        // Times are not NaN, and a category occurs once: the order is total.
        let order = |a: &(f64, i64), b: &(f64, i64)| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1));
        if out.len() < arrivals.len() {
            arrivals.select_nth_unstable_by(out.len() - 1, order);
            arrivals.truncate(out.len());
        }
        arrivals.par_sort_unstable_by(order);
        for (out, (_, k)) in out.iter_mut().zip(arrivals) {
            *out = k;
        }
        Ok(())
    }
}

impl Generator {
    /// Fills `out` with categories drawn with replacement; moves on by ⌈n/2⌉ blocks. See
    /// [`Draw::multinomial`].
    ///
    /// # Errors
    ///
    /// A weight is negative or not finite, or no weight is positive. The generator then has not
    /// moved.
    ///
    /// # Examples
    ///
    /// ```
    /// use samebits_rng::Generator;
    ///
    /// let mut drawn = [0; 100];
    /// Generator::new(0).fill_multinomial(&[0.0, 3.0, 1.0], &mut drawn)?;
    /// assert!(!drawn.contains(&0));
    /// # Ok::<(), samebits_rng::Error>(())
    /// ```
    pub fn fill_multinomial(&mut self, weights: &[f32], out: &mut [i64]) -> Result<(), Error> {
        self.draw_if(Draw::blocks_u64(out.len()), |draw| draw.multinomial(0, weights, out))
    }

    /// Fills `out` with different categories; moves on by ⌈categories/2⌉ blocks. See
    /// [`Draw::multinomial_without_replacement`].
    ///
    /// # Errors
    ///
    /// A weight is negative or not finite, or fewer weights are positive than categories are
    /// wanted. The generator then has not moved.
    pub fn fill_multinomial_without_replacement(
        &mut self,
        weights: &[f32],
        out: &mut [i64],
    ) -> Result<(), Error> {
        let blocks = Draw::blocks_u64(weights.len());
        self.draw_if(blocks, |draw| draw.multinomial_without_replacement(weights, out))
    }
}

/// The number of positive weights, if no weight is bad and as many as `wanted` are positive.
fn check_weights(op: &'static str, weights: &[f32], wanted: usize) -> Result<usize, Error> {
    if let Some(weight) = weights.iter().find(|weight| !(**weight >= 0.0 && weight.is_finite())) {
        return Err(Error::parameter(op, "a weight", weight, "finite and at least 0"));
    }
    let positive = weights.iter().filter(|weight| **weight > 0.0).count();
    if positive < wanted {
        let needed = "at least the number of categories wanted";
        return Err(Error::parameter(op, "the number of positive weights", positive, needed));
    }
    Ok(positive)
}
