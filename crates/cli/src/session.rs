//! One training run of the network on the digits.

use anyhow::{Result, bail};
use samebits::data::{DataLoader, Stack};
use samebits::functional::{argmax, cross_entropy};
use samebits::io::Checkpoint;
use samebits::nn::{Module, draw_from};
use samebits::optim::{Schedule, Sgd};
use samebits::trainer::{Outcome, Per, Trainer, TrainerState};
use samebits::{Determinism, Device, Generator, Tensor, determinism, no_grad};
use serde::{Deserialize, Serialize};

use crate::digits::{Augmented, Digits, SIDE};
use crate::model::Cnn;
use crate::run::Precision;

/// Settings that decide the bits of a run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Config {
    pub(crate) seed: u64,
    pub(crate) epochs: u64,
    pub(crate) batch_size: usize,
    pub(crate) lr: f64,
    pub(crate) determinism: Determinism,
    /// The number of parts of a batch whose gradients are summed.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub(crate) micro_batches: u64,
    #[serde(default, skip_serializing_if = "Precision::is_f32")]
    pub(crate) precision: Precision,
}

fn one() -> u64 {
    1
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
fn is_one(count: &u64) -> bool {
    *count == 1
}

impl Config {
    /// Returns the number of images per micro-batch.
    fn images(&self) -> Result<usize> {
        let (images, parts) = (self.batch_size, self.micro_batches);
        match usize::try_from(parts).ok().filter(|parts| *parts > 0 && images % parts == 0) {
            Some(parts) if images / parts >= 2 => Ok(images / parts),
            _ => bail!("a batch of {images} images has no {parts} equal parts of 2 or more"),
        }
    }
}

/// A run in progress.
pub(crate) struct Session<'a> {
    pub(crate) config: Config,
    /// The device of computation, which affects no bit.
    device: Device,
    digits: &'a Digits,
    pub(crate) trainer: Trainer<'a, Cnn, Sgd, DataLoader<Augmented>>,
}

impl<'a> Session<'a> {
    /// Creates a run that has not begun. `workers` threads load its images.
    pub(crate) fn new(config: Config, digits: &'a Digits, workers: usize) -> Result<Session<'a>> {
        let root = Generator::new(config.seed);
        let loader = DataLoader::builder(digits.train.clone())
            .batch_size(config.images()?)
            .shuffle(true)
            .drop_last(true)
            .seed(config.seed)
            .workers(workers)
            .collate(Stack)
            .build()?;
        let optimizer =
            Sgd::options(config.lr).momentum(0.9).weight_decay(1e-4).nesterov(true).init()?;
        let model = draw_from(&mut root.fold_in(0), Cnn::new)?;
        let trainer = Trainer::new(model, optimizer, loader, root.fold_in(1))
            .run(serde_json::to_string(&config)?)
            .epochs(config.epochs)
            .accumulate(config.micro_batches)
            .stop_on_ctrl_c()
            .schedule(Per::Epoch, Falling { epochs: config.epochs });
        let trainer = config.precision.scale(trainer);
        Ok(Session { config, device: Device::Cpu, digits, trainer })
    }

    /// Restores the run of a checkpoint.
    pub(crate) fn resume(
        checkpoint: Checkpoint<TrainerState>,
        digits: &'a Digits,
        workers: usize,
    ) -> Result<Session<'a>> {
        let config = serde_json::from_str(&checkpoint.state.run)?;
        let mut session = Session::new(config, digits, workers)?;
        session.trainer.load_state(checkpoint)?;
        Ok(session)
    }

    /// Moves the run to `device`.
    pub(crate) fn to(&mut self, device: Device) -> Result<()> {
        self.trainer.model.to(device)?;
        self.device = device;
        Ok(())
    }

    /// Trains until the last epoch, or until the trainer is told to stop.
    pub(crate) fn train(&mut self) -> Result<Outcome> {
        let (device, precision) = (self.device, self.config.precision);
        Ok(determinism::scope(self.config.determinism, || {
            self.trainer.fit(|model, (images, classes)| {
                let images = Tensor::from_slice(&images.values, &[images.rows, 1, SIDE, SIDE])?;
                let classes = Tensor::from_slice(&classes, &[classes.len()])?;
                let (images, classes) = (images.to(device)?, classes.to(device)?);
                Ok(precision.run(|| cross_entropy(&model.forward(&images)?, &classes))??)
            })
        })?)
    }

    /// Returns the share of test images that are classified correctly.
    pub(crate) fn accuracy(&self) -> Result<f64> {
        determinism::scope(self.config.determinism, || no_grad(|| self.accuracy_here()))
    }

    /// Digests the learned values: parameters and running statistics. The counters of
    /// normalisations are left out, because they follow from the number of steps.
    pub(crate) fn digest(&self) -> Result<String> {
        let state = self.trainer.model.state_dict();
        let learned = state.iter().filter(|(_, tensor)| tensor.dtype().is_float());
        Ok(samebits::digest(learned.map(|(name, tensor)| (name.as_str(), tensor)))?)
    }

    /// Returns the number of steps taken.
    pub(crate) fn steps(&self) -> usize {
        self.trainer.losses().len()
    }

    /// Returns the mean loss of each epoch.
    pub(crate) fn epoch_losses(&self) -> Vec<f64> {
        let mean = |losses: &[f32]| {
            losses.iter().map(|&loss| f64::from(loss)).fold(0.0, |a, b| a + b) / losses.len() as f64
        };
        self.trainer.losses().chunks(self.batches()).map(mean).collect()
    }

    /// Returns the number of steps in an epoch; a last, smaller micro-batch is dropped.
    fn batches(&self) -> usize {
        use samebits::data::Dataset as _;
        let batches = self.digits.train.len() / self.config.images().unwrap_or(1);
        batches.div_ceil(self.config.micro_batches as usize).max(1)
    }

    fn accuracy_here(&self) -> Result<f64> {
        let images = self.digits.test_images.to(self.device)?;
        let logits = self.trainer.model.forward(&images)?;
        let found = argmax(&logits, Some(1), false)?.to_vec::<i64>()?;
        let right = found.iter().zip(&self.digits.test_classes).filter(|(a, b)| a == b).count();
        Ok(right as f64 / self.digits.test_classes.len() as f64)
    }
}

/// Schedule that divides the learning rate by ten for the last quarter of the epochs.
struct Falling {
    epochs: u64,
}

impl Schedule for Falling {
    fn lr(&self, initial: f64, epoch: u64) -> samebits::Result<f64> {
        let late = u128::from(epoch) * 4 >= u128::from(self.epochs) * 3;
        Ok(if late { initial / 10.0 } else { initial })
    }
}
