//! One training run: what it is made of, and how it goes on.

use std::path::Path;

use anyhow::{Result, bail};
use samebits::data::{DataLoader, LoaderState, Stack};
use samebits::functional::{argmax, cross_entropy};
use samebits::nn::{Module, draw_from, train_with};
use samebits::optim::{Optimizer, Sgd};
use samebits::{Determinism, Device, Generator, Tensor, determinism, no_grad};
use serde::{Deserialize, Serialize};

use crate::checkpoint;
use crate::digits::{Augmented, Digits, SIDE};
use crate::model::Cnn;

/// What decides the bits of a run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Config {
    pub(crate) seed: u64,
    pub(crate) epochs: u64,
    pub(crate) batch_size: usize,
    pub(crate) lr: f64,
    pub(crate) determinism: Determinism,
}

/// A run, at some point of it.
pub(crate) struct Session {
    pub(crate) config: Config,
    /// Where it is computed, which decides no bit.
    pub(crate) device: Device,
    pub(crate) model: Cnn,
    pub(crate) optimizer: Sgd,
    /// Where dropout draws from.
    pub(crate) generator: Generator,
    /// Where the loader goes on, once it has begun.
    pub(crate) loader: Option<LoaderState>,
    /// The loss of each step.
    pub(crate) losses: Vec<f32>,
}

/// When to stop, what to save, whom to tell.
pub(crate) struct Plan<'a> {
    /// Data loader threads.
    pub(crate) workers: usize,
    /// Stop after this many steps in all.
    pub(crate) max_steps: Option<u64>,
    /// Save here after every epoch and at the end.
    pub(crate) save: Option<&'a Path>,
    /// Called after every step.
    pub(crate) on_step: &'a dyn Fn(&Session),
}

impl Session {
    /// A run that has not begun.
    pub(crate) fn new(config: Config) -> Result<Session> {
        let root = Generator::new(config.seed);
        Ok(Session {
            config,
            device: Device::Cpu,
            model: draw_from(&mut root.fold_in(0), Cnn::new)?,
            optimizer: Sgd::options(config.lr)
                .momentum(0.9)
                .weight_decay(1e-4)
                .nesterov(true)
                .init()?,
            generator: root.fold_in(1),
            loader: None,
            losses: Vec::new(),
        })
    }

    /// Moves the run to `device`.
    pub(crate) fn to(&mut self, device: Device) -> Result<()> {
        self.model.to(device)?;
        self.device = device;
        Ok(())
    }

    /// Trains until the last epoch, or as long as `plan` says.
    pub(crate) fn train(&mut self, digits: &Digits, plan: &Plan<'_>) -> Result<()> {
        determinism::scope(self.config.determinism, || self.train_here(digits, plan))
    }

    /// The share of test images whose class is found.
    pub(crate) fn accuracy(&self, digits: &Digits) -> Result<f64> {
        determinism::scope(self.config.determinism, || no_grad(|| self.accuracy_here(digits)))
    }

    /// A digest of what was learned: parameters and running statistics. What normalisations count
    /// follows from the number of steps.
    pub(crate) fn digest(&self) -> Result<String> {
        let state = self.model.state_dict();
        let learned = state.iter().filter(|(_, tensor)| tensor.dtype().is_float());
        Ok(samebits::digest(learned.map(|(name, tensor)| (name.as_str(), tensor)))?)
    }

    /// The mean loss of each epoch.
    pub(crate) fn epoch_losses(&self, digits: &Digits) -> Vec<f64> {
        let batches = self.batches(digits);
        let mean = |losses: &[f32]| {
            losses.iter().map(|&loss| f64::from(loss)).fold(0.0, |a, b| a + b) / losses.len() as f64
        };
        self.losses.chunks(batches).map(mean).collect()
    }

    /// Steps in an epoch; a last, smaller batch is left out.
    pub(crate) fn batches(&self, digits: &Digits) -> usize {
        use samebits::data::Dataset as _;
        (digits.train.len() / self.config.batch_size).max(1)
    }

    fn train_here(&mut self, digits: &Digits, plan: &Plan<'_>) -> Result<()> {
        let loader = DataLoader::builder(Augmented(digits.train.clone()))
            .batch_size(self.config.batch_size)
            .shuffle(true)
            .drop_last(true)
            .seed(self.config.seed)
            .workers(plan.workers)
            .collate(Stack)
            .build()?;
        if loader.batches_in(0)? == 0 {
            bail!("batch size {} is larger than the training set", self.config.batch_size);
        }
        let first = self.loader.as_ref().map_or(0, |state| state.epoch);
        for epoch in first..self.config.epochs {
            let mut batches = match &self.loader {
                Some(state) if state.epoch == epoch => loader.resume(state)?,
                _ => loader.epoch(epoch),
            };
            self.optimizer.set_lr(self.lr(epoch));
            loop {
                if plan.max_steps.is_some_and(|max| self.losses.len() as u64 >= max) {
                    return self.save(plan);
                }
                let Some(batch) = batches.next() else { break };
                let (images, classes) = batch?.data;
                let images = Tensor::from_slice(&images.values, &[images.rows, 1, SIDE, SIDE])?;
                let classes = Tensor::from_slice(&classes, &[classes.len()])?;
                self.step(&images.to(self.device)?, &classes.to(self.device)?)?;
                self.loader = Some(batches.state()?);
                (plan.on_step)(self);
            }
            self.save(plan)?;
        }
        Ok(())
    }

    fn step(&mut self, images: &Tensor, classes: &Tensor) -> Result<()> {
        let logits = train_with(&mut self.generator, || self.model.forward(images))?;
        let loss = cross_entropy(&logits, classes)?;
        let gradients = loss.backward()?;
        self.optimizer.step(&mut self.model, &gradients)?;
        self.losses.push(loss.item()?);
        Ok(())
    }

    /// A tenth of the learning rate for the last quarter of the epochs.
    fn lr(&self, epoch: u64) -> f64 {
        if epoch * 4 >= self.config.epochs * 3 { self.config.lr / 10.0 } else { self.config.lr }
    }

    fn save(&mut self, plan: &Plan<'_>) -> Result<()> {
        match plan.save {
            Some(path) => checkpoint::save(self, path),
            None => Ok(()),
        }
    }

    fn accuracy_here(&self, digits: &Digits) -> Result<f64> {
        let images = digits.test_images.to(self.device)?;
        let logits = self.model.forward(&images)?;
        let found = argmax(&logits, Some(1), false)?.to_vec::<i64>()?;
        let right = found.iter().zip(&digits.test_classes).filter(|(a, b)| a == b).count();
        Ok(right as f64 / digits.test_classes.len() as f64)
    }
}
