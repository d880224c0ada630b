//! Categories drawn by weight, with and without replacement.

use crate::draw::in_chunks;
use crate::parallel::*;
use crate::uniform::{positive_unit_f64, unit_f64};
use crate::{Draw, Error, Generator, wide};
use samebits_numerics::{fpenv, memory};

impl Draw {
    /// Fills `out` with categories drawn with replacement, each with a probability proportional to
    /// its weight; takes [`Draw::blocks_u64`] blocks.
    ///
    /// The weights are summed in ascending order in f64. Element *i* is the first category whose
    /// running sum exceeds *u* times the total, with *u* = (word pair *i* >> 11) · 2^-53. A
    /// category of weight 0 is never drawn.
    ///
    /// # Errors
    ///
    /// If a weight is negative or not finite, no weight is positive, or there is no memory for the
    /// running sums.
    pub fn multinomial(&self, start: u64, weights: &[f32], out: &mut [i64]) -> Result<(), Error> {
        let op = "multinomial";
        check_weights(op, weights, 1)?;
        let mut sums = memory::with_capacity(weights.len()).map_err(Error::memory(op))?;
        fpenv::ieee(|| {
            sums.extend(weights.iter().map(|weight| f64::from(*weight)));
            let categories = Categories::of(&mut sums);
            in_chunks(out, |at, out| {
                fpenv::ieee(|| categories.draw(self, start.wrapping_add(at as u64), out));
            });
        });
        Ok(())
    }

    /// Fills the rows of `out` with categories drawn with replacement, each row by its own row of
    /// weights. `start` is the first row; takes [`Draw::blocks_u64`] blocks.
    ///
    /// Element *i*, counted through all rows, is drawn as in [`Draw::multinomial`] from the weights
    /// of its row.
    ///
    /// # Shapes
    ///
    /// `weights` and `out` each hold `rows` rows.
    ///
    /// # Errors
    ///
    /// If a slice does not hold `rows` rows, a weight is negative or not finite, no weight of a row
    /// is positive, or there is no memory for the running sums.
    pub fn multinomial_rows(
        &self,
        start: u64,
        weights: &[f32],
        rows: usize,
        out: &mut [i64],
    ) -> Result<(), Error> {
        let op = "multinomial_rows";
        let width = categories_of_row(op, weights.len(), out.len(), rows)?;
        for weights in weights.chunks(width) {
            check_weights(op, weights, 1)?;
        }
        let mut sums = memory::zeroed(weights.len()).map_err(Error::memory(op))?;
        for (sum, weight) in sums.iter_mut().zip(weights) {
            *sum = f64::from(*weight);
        }
        self.rows(start, &mut sums, width, out);
        Ok(())
    }

    /// Fills the rows of `out` with categories, each row by its own row of logits: the logarithms of
    /// weights. `start` is the first row; takes [`Draw::blocks_u64`] blocks.
    ///
    /// Elements are drawn as in [`Draw::multinomial_rows`] with the weights exp(logit − *m*) in
    /// f64, where *m* is the row's largest logit. A category with the logit −∞ is never drawn.
    ///
    /// # Shapes
    ///
    /// `logits` and `out` each hold `rows` rows.
    ///
    /// # Errors
    ///
    /// If a slice does not hold `rows` rows, a logit is NaN or +∞, no logit of a row is finite, or
    /// there is no memory for the running sums.
    pub fn categorical(
        &self,
        start: u64,
        logits: &[f32],
        rows: usize,
        out: &mut [i64],
    ) -> Result<(), Error> {
        let op = "categorical";
        let width = categories_of_row(op, logits.len(), out.len(), rows)?;
        if let Some(logit) = logits.iter().find(|logit| logit.is_nan() || **logit == f32::INFINITY)
        {
            return Err(Error::parameter(op, "a logit", logit, "finite or -inf"));
        }
        let mut sums = memory::zeroed(logits.len()).map_err(Error::memory(op))?;
        for (sums, logits) in sums.chunks_mut(width).zip(logits.chunks(width)) {
            let largest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            if largest == f32::NEG_INFINITY {
                let needed = "finite for at least one category of each row";
                return Err(Error::parameter(op, "the largest logit", largest, needed));
            }
            fpenv::ieee(|| {
                for (sum, logit) in sums.iter_mut().zip(logits) {
                    *sum = wide::exp(f64::from(*logit) - f64::from(largest));
                }
            });
        }
        self.rows(start, &mut sums, width, out);
        Ok(())
    }

    /// Draws each row of `out` by its row of `weights`, and turns the weights into running sums.
    fn rows(&self, start: u64, weights: &mut [f64], width: usize, out: &mut [i64]) {
        if out.is_empty() {
            return;
        }
        let samples = out.len() / (weights.len() / width);
        let rows = weights.par_chunks_mut(width).zip(out.par_chunks_mut(samples)).enumerate();
        rows.for_each(|(row, (weights, out))| {
            let first = start.wrapping_add(row as u64).wrapping_mul(samples as u64);
            fpenv::ieee(|| Categories::of(weights).draw(self, first, out));
        });
    }

    /// Fills `out` with different categories, in the order in which sequential draws without
    /// replacement would give them; takes [`Draw::blocks_u64`] blocks for as many elements as there
    /// are *categories*.
    ///
    /// The method is an exponential race: category *k* arrives at −log *u* / weight, with *u* =
    /// ((word pair *k* >> 11) + 1) · 2^-53. The earliest arrivals are taken; ties go to the lower
    /// index.
    ///
    /// # Errors
    ///
    /// If a weight is negative or not finite, fewer weights are positive than categories are
    /// requested, or there is no memory for the times of arrival.
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
    /// Fills `out` with categories drawn with replacement; advances by ⌈n/2⌉ blocks. See
    /// [`Draw::multinomial`].
    ///
    /// # Errors
    ///
    /// If a weight is negative or not finite, or no weight is positive. The generator is then
    /// unchanged.
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

    /// Fills the rows of `out` with categories drawn with replacement, each row by its own row of
    /// weights; advances by ⌈n/2⌉ blocks. See [`Draw::multinomial_rows`].
    ///
    /// # Errors
    ///
    /// As for [`Draw::multinomial_rows`]. The generator is then unchanged.
    ///
    /// # Examples
    ///
    /// ```
    /// use samebits_rng::Generator;
    ///
    /// let mut drawn = [0; 4];
    /// Generator::new(0).fill_multinomial_rows(&[1.0, 0.0, 0.0, 1.0], 2, &mut drawn)?;
    /// assert_eq!(drawn, [0, 0, 1, 1]);
    /// # Ok::<(), samebits_rng::Error>(())
    /// ```
    pub fn fill_multinomial_rows(
        &mut self,
        weights: &[f32],
        rows: usize,
        out: &mut [i64],
    ) -> Result<(), Error> {
        let blocks = Draw::blocks_u64(out.len());
        self.draw_if(blocks, |draw| draw.multinomial_rows(0, weights, rows, out))
    }

    /// Fills the rows of `out` with categories, each row by its own row of logits; advances by
    /// ⌈n/2⌉ blocks. See [`Draw::categorical`].
    ///
    /// # Errors
    ///
    /// As for [`Draw::categorical`]. The generator is then unchanged.
    ///
    /// # Examples
    ///
    /// ```
    /// use samebits_rng::Generator;
    ///
    /// let mut tokens = [0; 2];
    /// let logits = [f32::NEG_INFINITY, 3.0, 500.0, -2.0];
    /// Generator::new(0).fill_categorical(&logits, 2, &mut tokens)?;
    /// assert_eq!(tokens, [1, 0]);
    /// # Ok::<(), samebits_rng::Error>(())
    /// ```
    pub fn fill_categorical(
        &mut self,
        logits: &[f32],
        rows: usize,
        out: &mut [i64],
    ) -> Result<(), Error> {
        let blocks = Draw::blocks_u64(out.len());
        self.draw_if(blocks, |draw| draw.categorical(0, logits, rows, out))
    }

    /// Fills `out` with different categories; advances by ⌈categories/2⌉ blocks. See
    /// [`Draw::multinomial_without_replacement`].
    ///
    /// # Errors
    ///
    /// If a weight is negative or not finite, or fewer weights are positive than categories are
    /// wanted. The generator is then unchanged.
    pub fn fill_multinomial_without_replacement(
        &mut self,
        weights: &[f32],
        out: &mut [i64],
    ) -> Result<(), Error> {
        let blocks = Draw::blocks_u64(weights.len());
        self.draw_if(blocks, |draw| draw.multinomial_without_replacement(weights, out))
    }
}

/// Running sums of a row's weights.
struct Categories<'a> {
    sums: &'a [f64],
    /// The last category of positive weight, which is taken if rounding carries u times the total
    /// up to the total.
    last: usize,
}

impl<'a> Categories<'a> {
    /// Sums `weights` in place; at least one must be positive.
    fn of(weights: &'a mut [f64]) -> Categories<'a> {
        let mut total = 0.0;
        for weight in weights.iter_mut() {
            total += *weight;
            *weight = total;
        }
        Categories { last: weights.partition_point(|&sum| sum < total), sums: weights }
    }

    /// Draws elements `start..` of a draw.
    fn draw(&self, draw: &Draw, start: u64, out: &mut [i64]) {
        let total = self.sums[self.last];
        for (i, out) in (0..).zip(out) {
            let target = unit_f64(draw.word64(start.wrapping_add(i))) * total;
            *out = self.sums.partition_point(|&sum| sum <= target).min(self.last) as i64;
        }
    }
}

/// Returns the number of categories per row, if `categories` and `samples` both divide evenly into
/// the rows.
fn categories_of_row(
    op: &'static str,
    categories: usize,
    samples: usize,
    rows: usize,
) -> Result<usize, Error> {
    let per_row = |len: usize| if rows == 0 { len == 0 } else { len.is_multiple_of(rows) };
    if !per_row(categories) || (rows > 0 && categories == 0) {
        let needed = "as many categories for each row, and at least one";
        return Err(Error::parameter(op, "(all categories, rows)", (categories, rows), needed));
    }
    if !per_row(samples) {
        let needed = "as many samples for each row";
        return Err(Error::parameter(op, "(all samples, rows)", (samples, rows), needed));
    }
    Ok(categories.checked_div(rows).unwrap_or(1))
}

/// Returns the number of positive weights, if all weights are valid and at least `wanted` are
/// positive.
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
