//! The choice of a token by its logits.

use std::cmp::Ordering;

use samebits_numerics::math::f64::exp;
use samebits_rng::Generator;
use samebits_tensor_core::{Error, Result};

/// The way to choose the next token.
///
/// The default is greedy: the token of the largest logit, and the lowest of equal ones.
///
/// # Examples
///
/// ```
/// # extern crate samebits_autograd as samebits;
/// use samebits::nn::Sampling;
///
/// let logits = [0.5, 2.0, -1.0, 2.0];
/// assert_eq!(Sampling::default().choose(&logits, 0, 0)?, 1);
/// let drawn = Sampling { temperature: Some(0.8), top_k: Some(2), ..Sampling::default() };
/// assert!([1, 3].contains(&drawn.choose(&logits, 0, 7)?));
/// # Ok::<(), samebits::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sampling {
    /// The divisor of the logits; `None` is greedy.
    pub temperature: Option<f64>,
    /// The number of largest logits to draw from; `None` means all.
    pub top_k: Option<usize>,
    /// The probability that the fewest most likely tokens must reach together, after `top_k`; the
    /// others are not drawn. `None` means all.
    pub top_p: Option<f64>,
    /// The seed of the random numbers.
    pub seed: u64,
}

impl Sampling {
    /// Returns an error if an option is out of its range.
    ///
    /// # Errors
    ///
    /// The temperature is not a positive finite number, `top_k` is 0, `top_p` is not in `(0, 1]`,
    /// or one of them is given without a temperature.
    pub fn check(&self) -> Result<()> {
        let refuse = |message: String| Err(Error::invalid("Sampling", message));
        match (self.temperature, self.top_k, self.top_p) {
            (Some(temperature), ..) if !(temperature > 0.0 && temperature.is_finite()) => {
                refuse(format!("expected a positive finite temperature, got {temperature}"))
            }
            (_, Some(0), _) => refuse("expected a top_k of at least 1, got 0".to_owned()),
            (.., Some(p)) if !(p > 0.0 && p <= 1.0) => {
                refuse(format!("expected 0 < top_p <= 1, got {p}"))
            }
            (None, Some(_), _) | (None, _, Some(_)) => {
                refuse("expected a temperature with top_k or top_p, got none".to_owned())
            }
            _ => Ok(()),
        }
    }

    /// Chooses a token from `logits`, for position `position` of sequence `sequence`.
    ///
    /// # Determinism
    ///
    /// Portable, a function of the arguments and the options alone. Tokens are sorted by logit,
    /// equal ones by number. A token's weight is the exponential of its logit less the largest,
    /// divided by the temperature; weights are added from the largest on. All is computed in f64.
    /// The random number is that of block `position` of the generator derived from the seed for
    /// `sequence`: `Generator::new(seed).derive("generate").fold_in(sequence)`.
    ///
    /// # Errors
    ///
    /// As [`check`](Sampling::check); there are no logits, or the largest is not finite, or one is
    /// NaN.
    pub fn choose(&self, logits: &[f64], sequence: u64, position: u64) -> Result<usize> {
        self.check()?;
        let first =
            (0..logits.len()).reduce(|best, i| if logits[i] > logits[best] { i } else { best });
        let largest = first.map_or(f64::NAN, |first| logits[first]);
        if logits.iter().any(|x| x.is_nan()) || !largest.is_finite() {
            let message = "expected logits without NaN, the largest of them finite";
            return Err(Error::invalid("Sampling", message));
        }
        let Some(temperature) = self.temperature else { return Ok(first.unwrap_or(0)) };
        let mut order: Vec<(f64, usize)> =
            logits.iter().enumerate().map(|(i, &logit)| (logit, i)).collect();
        // Equal logits, +0 and −0 among them, stay in order.
        order.sort_unstable_by(|a, b| {
            b.0.partial_cmp(&a.0).unwrap_or(Ordering::Equal).then(a.1.cmp(&b.1))
        });
        order.truncate(self.top_k.unwrap_or(order.len()));
        let mut total = 0.0;
        let mut sums: Vec<f64> = Vec::with_capacity(order.len());
        for &(logit, _) in &order {
            total += exp((logit - largest) / temperature);
            sums.push(total);
        }
        if let Some(p) = self.top_p {
            let kept = sums.partition_point(|&sum| sum < p * total) + 1;
            sums.truncate(kept);
        }
        let kept = sums.last().copied().unwrap_or(total);
        let mut generator = Generator::new(self.seed).derive("generate").fold_in(sequence);
        generator.advance(position);
        let drawn = generator.uniform::<f64>() * kept;
        let place = sums.partition_point(|&sum| sum <= drawn);
        // Only rounding reaches the end: the last token with a weight is chosen then.
        let last = sums.partition_point(|&sum| sum < kept);
        Ok(order[place.min(last)].1)
    }
}
