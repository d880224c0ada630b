//! The metric of an epoch.

use super::micro::together;
use super::{Error, Loader, Result, Trainer};
use crate::data::{Collate, DataLoader, Dataset, Deal};
use crate::distributed::Ranks;
use crate::nn::Module;
use crate::no_grad;
use crate::numerics::exact::sum_f64;
use crate::optim::{Mode, Optimizers};

/// Function that measures a model, together with the other ranks if there are several.
pub(super) type Measure<'a, M> = Box<dyn FnMut(&M, Option<&Ranks>) -> Result<f64> + Send + 'a>;

impl<'a, M, O, D> Trainer<'a, M, O, D>
where
    M: Module,
    O: Optimizers,
    D: Loader,
{
    /// Measures the model after each epoch, without recording a graph. By default the metric is the
    /// mean loss of the epoch's steps. Every rank calls `metric`, which must return the same on all.
    #[must_use]
    pub fn metric(mut self, mut metric: impl FnMut(&M) -> Result<f64> + Send + 'a) -> Self {
        self.metric = Some(Box::new(move |model, _| metric(model)));
        self
    }

    /// Measures the model after each epoch on the batches of `loader`'s first epoch, without
    /// recording a graph. For each batch `measure` returns a sum, such as the number of correct
    /// answers or the sum of losses, and the number of samples in it. The metric is the sum of all
    /// sums divided by the sum of the numbers. Ranks share the batches.
    ///
    /// # Determinism
    ///
    /// Sums are exact and rounded once, so the assignment of batches to ranks has no effect.
    ///
    /// # Examples
    ///
    /// The accuracy on a second table:
    ///
    /// ```
    /// use samebits::data::{DataLoader, Table};
    /// use samebits::functional::{argmax, cross_entropy};
    /// use samebits::nn::{Layer, Linear};
    /// use samebits::optim::Sgd;
    /// use samebits::trainer::{StackTensors, Trainer};
    /// use samebits::Generator;
    ///
    /// let loader = |rows: usize| {
    ///     let table = Table::new(vec![0.5; 3 * rows], 3, vec![1; rows])?;
    ///     DataLoader::builder_with(table, StackTensors).batch_size(4).build()
    /// };
    /// let model = Linear::options(3, 2).init_with(&mut Generator::new(0))?;
    /// let mut run = Trainer::new(model, Sgd::new(1.0)?, loader(16)?, Generator::new(1))
    ///     .metric_over(loader(6)?, |model, (x, classes)| {
    ///         let found = argmax(&model.forward(&x)?, Some(1), false)?.to_vec::<i64>()?;
    ///         let right = found.iter().zip(classes.to_vec::<i64>()?).filter(|(a, b)| *a == b);
    ///         Ok((right.count() as f64, found.len()))
    ///     });
    /// run.fit(|model, (x, classes)| Ok(cross_entropy(&model.forward(&x)?, &classes)?))?;
    /// assert_eq!(run.metrics(), [1.0]);
    /// # Ok::<(), samebits::trainer::Error>(())
    /// ```
    #[must_use]
    pub fn metric_over<E: Dataset, F: Collate<E::Item>>(
        mut self,
        loader: DataLoader<E, F>,
        mut measure: impl FnMut(&M, F::Batch) -> Result<(f64, usize)> + Send + 'a,
    ) -> Self {
        self.metric = Some(Box::new(move |model, ranks| {
            let ranks = ranks.filter(|ranks| ranks.world() > 1);
            let mut own = || {
                let batches = match ranks {
                    None => loader.epoch(0),
                    Some(ranks) => {
                        let at = ranks.rank() as u64;
                        let deal = Deal { per_step: ranks.world() as u64, own: at..at + 1 };
                        loader.epoch_dealt(0, &deal)?
                    }
                };
                let one = |batch: crate::data::Result<crate::data::Batch<F::Batch>>| {
                    let (sum, count) = measure(model, batch?.data)?;
                    Ok((sum.to_bits(), count as u64))
                };
                batches.map(one).collect::<Result<Vec<_>>>()
            };
            let all = match ranks {
                None => own()?,
                Some(ranks) => together(ranks, own())?.concat(),
            };
            let sums: Vec<f64> = all.iter().map(|&(bits, _)| f64::from_bits(bits)).collect();
            let count = all.iter().fold(0u64, |all, &(_, count)| all.saturating_add(count));
            if count == 0 {
                let message = "the metric has no sample to measure: is its loader empty?";
                return Err(Error::Invalid(message.to_owned()));
            }
            Ok(sum_f64(&sums) / count as f64)
        }));
        self
    }

    /// Returns the metric of `epoch` and checks that all ranks have the same.
    pub(super) fn measured(&mut self, epoch: u64) -> Result<f64> {
        if let Some(metric) = &mut self.metric {
            let metric = no_grad(|| metric(&self.model, self.ranks.as_ref()))?;
            if let Some(ranks) = &self.ranks {
                ranks.agree(&[("metric", format!("{metric:?} in epoch {epoch}"))])?;
            }
            return Ok(metric);
        }
        let batches = self.steps_of(epoch) as usize;
        let steps = &self.losses[self.losses.len().saturating_sub(batches)..];
        let sum = steps.iter().fold(0.0, |sum, &loss| sum + f64::from(loss));
        Ok(sum / steps.len().max(1) as f64)
    }

    /// Returns true if the best metric is too old.
    pub(super) fn is_stale(&self) -> bool {
        let Some((mode, patience)) = self.early_stop else { return false };
        let better = |a: f64, b: f64| match mode {
            Mode::Min => a < b,
            Mode::Max => a > b,
        };
        let mut best: Option<(usize, f64)> = None;
        for (epoch, &metric) in self.metrics.iter().enumerate() {
            let improves = |best: f64| better(metric, best) || best.is_nan() && !metric.is_nan();
            if best.is_none_or(|(_, best)| improves(best)) {
                best = Some((epoch, metric));
            }
        }
        best.is_some_and(|(epoch, _)| (self.metrics.len() - 1 - epoch) as u64 >= patience)
    }
}
