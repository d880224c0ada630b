//! Progress bar of a run.

use indicatif::{ProgressBar, ProgressFinish, ProgressStyle};

/// Progress bar of one call of `fit`. It is hidden if standard error is not a terminal, and cleared
/// when dropped.
pub(super) struct Progress(ProgressBar);

impl Progress {
    pub(super) fn new(quiet: bool) -> Progress {
        let bar = if quiet { ProgressBar::hidden() } else { ProgressBar::no_length() };
        let template = "epoch {prefix} [{bar:30}] {pos}/{len} steps, {eta} left, {msg}";
        // If the template is invalid, the bar keeps its default style.
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        Progress(bar.with_finish(ProgressFinish::AndClear))
    }

    /// Begins `epoch`, counted from 0, of `epochs`; `taken` of its `steps`, if their
    /// number is known, are already taken.
    pub(super) fn epoch(&self, epoch: u64, epochs: u64, taken: u64, steps: Option<u64>) {
        self.0.set_prefix(format!("{}/{epochs}", epoch + 1));
        match steps {
            Some(steps) => self.0.set_length(steps),
            None => self.0.unset_length(),
        }
        self.0.set_position(taken);
        self.0.reset_eta();
    }

    pub(super) fn step(&self, loss: f32) {
        self.0.inc(1);
        self.0.set_message(format!("loss {loss:.4}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_shows_epoch_steps_and_loss() {
        let progress = Progress::new(true);
        progress.epoch(2, 20, 3, Some(12));
        progress.step(0.25);
        let Progress(bar) = &progress;
        assert_eq!((bar.prefix().as_str(), bar.message().as_str()), ("3/20", "loss 0.2500"));
        assert_eq!((bar.position(), bar.length()), (4, Some(12)));
        assert!(bar.is_hidden());
    }
}
