//! A progress bar around an epoch.

use std::fmt;

use indicatif::{ProgressBar, ProgressStyle};

use crate::{Batch, Collate, Dataset, Epoch, Result};

/// An epoch with a progress bar; see [`Epoch::progress`].
pub struct Progress<D: Dataset, C: Collate<D::Item>> {
    epoch: Epoch<D, C>,
    bar: ProgressBar,
}

impl<D: Dataset, C: Collate<D::Item>> Epoch<D, C> {
    /// Shows a bar on the terminal while the epoch is iterated over: batches, time left, and the
    /// share of the time spent waiting for data. Shows nothing if standard error is not a terminal.
    ///
    /// # Examples
    ///
    /// ```
    /// use samebits_data::{DataLoader, Memory};
    ///
    /// let loader = DataLoader::builder(Memory::new(vec![1_i64; 10])).batch_size(4).build()?;
    /// let mut epoch = loader.epoch(0).progress("training");
    /// for batch in &mut epoch {
    ///     batch?;
    /// }
    /// assert_eq!(epoch.bar().position(), 3);
    /// assert_eq!(epoch.epoch().report().samples, 10);
    /// # Ok::<(), samebits_data::Error>(())
    /// ```
    pub fn progress(self, label: &str) -> Progress<D, C> {
        let template = "{prefix} [{bar:30}] {pos}/{len} {per_sec} eta {eta} {msg}";
        let bar = ProgressBar::new(self.remaining());
        // If the template is invalid, the bar keeps its default style.
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        bar.set_prefix(format!("{label} {}", self.number()));
        Progress { epoch: self, bar }
    }
}

impl<D: Dataset, C: Collate<D::Item>> Progress<D, C> {
    /// Returns the epoch, for its state and its report.
    pub fn epoch(&self) -> &Epoch<D, C> {
        &self.epoch
    }

    /// Returns the bar, for another style or another draw target.
    pub fn bar(&self) -> &ProgressBar {
        &self.bar
    }
}

impl<D: Dataset, C: Collate<D::Item>> Iterator for Progress<D, C> {
    type Item = Result<Batch<C::Batch>>;

    fn next(&mut self) -> Option<Self::Item> {
        let batch = self.epoch.next();
        if batch.is_some() {
            self.bar.inc(1);
            let share = 100.0 * self.epoch.report().waiting_share();
            self.bar.set_message(format!("waiting {share:.1} %"));
        } else {
            self.bar.finish();
        }
        batch
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.epoch.size_hint()
    }
}

impl<D: Dataset, C: Collate<D::Item>> fmt::Debug for Progress<D, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Progress").field("epoch", &self.epoch).finish_non_exhaustive()
    }
}
