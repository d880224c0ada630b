//! One step, taken as a whole or not at all.

use std::collections::BTreeMap;

use super::micro::Whole;
use super::record::recorded;
use super::source::Steps;
use super::{Error, Loader, Nan, Per, Result, Trainer};
use crate::nn::{Kind, Module, train_with};
use crate::numerics::nan::canonical;
use crate::optim::{Optimizer, Optimizers, Snapshot, TreeSum, clip_grad_norm, first_not_finite};
use crate::tensor_core::observe::Phase;
use crate::{DType, Gradients, Tensor};

/// Inputs of a step.
pub(super) struct Turn<'t, D: Loader> {
    pub(super) epoch: u64,
    /// The number of earlier steps.
    pub(super) steps: u64,
    pub(super) batches: &'t mut D::Steps,
}

/// Result of a step.
pub(super) struct Taken {
    pub(super) losses: Vec<f64>,
    pub(super) loss: f32,
    pub(super) norm: Option<f64>,
    pub(super) gradients: Gradients,
}

/// Losses of a step of [`Trainer::fit_steps`]: a tensor, or several in a tuple, an array or a
/// `Vec`, each with one element.
pub trait Losses {
    /// Calls `visit` with each loss.
    fn each(&self, visit: &mut dyn FnMut(&Tensor));
}

impl Losses for Tensor {
    fn each(&self, visit: &mut dyn FnMut(&Tensor)) {
        visit(self);
    }
}

impl<const N: usize> Losses for [Tensor; N] {
    fn each(&self, visit: &mut dyn FnMut(&Tensor)) {
        self.iter().for_each(visit);
    }
}

impl Losses for Vec<Tensor> {
    fn each(&self, visit: &mut dyn FnMut(&Tensor)) {
        self.iter().for_each(visit);
    }
}

impl Losses for (Tensor, Tensor) {
    fn each(&self, visit: &mut dyn FnMut(&Tensor)) {
        [&self.0, &self.1].into_iter().for_each(visit);
    }
}

impl Losses for (Tensor, Tensor, Tensor) {
    fn each(&self, visit: &mut dyn FnMut(&Tensor)) {
        [&self.0, &self.1, &self.2].into_iter().for_each(visit);
    }
}

/// Returns the single element of a loss.
pub(super) fn number(loss: &Tensor) -> Result<f64> {
    let loss = loss.detach();
    match loss.dtype() {
        DType::F64 => Ok(loss.item::<f64>()?),
        half if half.is_half() => Ok(loss.to_dtype(DType::F32)?.item::<f32>()?.into()),
        _ => Ok(loss.item::<f32>()?.into()),
    }
}

/// Model and optimisers before a step, for undoing it.
pub(super) struct Before {
    model: Vec<(String, Tensor)>,
    optimizers: Vec<Snapshot>,
}

impl Before {
    pub(super) fn of(model: &impl Module, optimizers: &impl Optimizers) -> Result<Before> {
        let mut tensors = Vec::new();
        model.visit("", &mut |name, _, tensor| tensors.push((name.to_owned(), tensor.clone())));
        let mut snapshots = Ok(Vec::new());
        optimizers.each("", &mut |_, optimizer| {
            if let Ok(all) = &mut snapshots {
                match optimizer.snapshot() {
                    Ok(snapshot) => all.push(snapshot),
                    Err(error) => snapshots = Err(error),
                }
            }
        });
        Ok(Before { model: tensors, optimizers: snapshots? })
    }

    /// Undoes all later changes.
    pub(super) fn restore(
        self,
        model: &mut impl Module,
        optimizers: &mut impl Optimizers,
    ) -> Result<()> {
        let tensors: BTreeMap<_, _> = self.model.into_iter().collect();
        model.visit_mut("", &mut |name, _, tensor| {
            if let Some(old) = tensors.get(name) {
                *tensor = old.clone();
            }
        });
        let mut snapshots = self.optimizers.into_iter();
        let mut result = Ok(());
        optimizers.each_mut("", &mut |_, optimizer| {
            if let (Ok(()), Some(snapshot)) = (&result, snapshots.next()) {
                result = optimizer.restore(snapshot);
            }
        });
        Ok(result?)
    }

    /// Returns the name of the first parameter that has changed since and is no longer finite.
    fn spoilt(&self, model: &impl Module) -> Result<Option<String>> {
        let mut before = self.model.iter();
        let mut changed = Vec::new();
        model.visit("", &mut |name, kind, tensor| {
            // If a module holds different tensors than before, they count as new.
            let old = before.next().filter(|(old, _)| old == name);
            let address = |tensor: &Tensor| tensor.value().storage_address();
            if kind == Kind::Parameter && old.is_none_or(|(_, old)| address(old) != address(tensor))
            {
                changed.push((name.to_owned(), tensor.clone()));
            }
        });
        let spoilt = first_not_finite(changed.iter().map(|(_, tensor)| tensor))?;
        Ok(spoilt.map(|position| changed.swap_remove(position).0))
    }
}

impl<M, O, D> Trainer<'_, M, O, D>
where
    M: Module,
    O: Optimizers,
    D: Loader,
{
    /// Takes a step with `take`; afterwards either everything has changed or nothing. Takes no step
    /// if there is no batch.
    pub(super) fn one_step(
        &mut self,
        epoch: u64,
        batches: &mut D::Steps,
        take: &mut impl FnMut(&mut Self, Turn<'_, D>) -> Result<Option<Taken>>,
    ) -> Result<Option<Taken>> {
        let steps = self.losses.len() as u64;
        let before = Before::of(&self.model, &self.optimizer)?;
        let scaler = self.scaler;
        let mut whole = || {
            self.set_rates(epoch, steps)?;
            let turn = Turn { epoch, steps, batches: &mut *batches };
            let Some(taken) = take(self, turn)? else { return Ok(None) };
            if self.nan == Nan::Stop {
                let parameter = before.spoilt(&self.model)?;
                self.expect_finite(epoch, &taken.losses, parameter)?;
            }
            Ok(Some((taken, batches.state())))
        };
        match whole() {
            Ok(Some((taken, position))) => {
                self.position = Some(position);
                self.losses.push(taken.loss);
                Ok(Some(taken))
            }
            outcome => {
                before.restore(&mut self.model, &mut self.optimizer)?;
                self.scaler = scaler;
                outcome.map(|_| None)
            }
        }
    }

    fn set_rates(&mut self, epoch: u64, steps: u64) -> Result<()> {
        let Some((per, schedule)) = &self.schedule else { return Ok(()) };
        let count = match per {
            Per::Step => steps,
            Per::Epoch => epoch,
        };
        let mut result = Ok(());
        self.optimizer.each_mut("", &mut |_, optimizer| {
            if result.is_ok() {
                result = schedule.apply(count, optimizer);
            }
        });
        Ok(result?)
    }

    fn expect_finite(&self, epoch: u64, losses: &[f64], parameter: Option<String>) -> Result<()> {
        let wrong = losses.iter().copied().find(|loss| !loss.is_finite());
        if wrong.is_none() && parameter.is_none() {
            return Ok(());
        }
        let loss = wrong.or_else(|| losses.first().copied());
        Err(Error::NotFinite { epoch, step: self.losses.len() as u64 + 1, loss, parameter })
    }

    /// Takes a step of [`Trainer::fit`].
    pub(super) fn descend(
        &mut self,
        turn: Turn<'_, D>,
        loss: &mut impl FnMut(&M, D::Batch) -> Result<Tensor>,
    ) -> Result<Option<Taken>>
    where
        O: Optimizer,
    {
        let epoch = turn.epoch;
        let Some(whole) = self.micro_batches(turn, loss)? else { return Ok(None) };
        let Whole { mut gradients, losses, .. } = whole;
        let count = losses.len();
        if count > 1 {
            let mean = || gradients.scale(1.0 / count as f64);
            recorded(&self.ledger, Phase::Optimizer, mean)?;
        }
        if let Some(scaler) = &self.scaler {
            let unscaled = || scaler.unscale(&gradients);
            gradients = recorded(&self.ledger, Phase::Optimizer, unscaled)?;
        }
        if self.nan == Nan::Stop && self.scaler.is_some() {
            self.expect_finite(epoch, &losses, None)?;
        } else if self.nan == Nan::Stop {
            let named = self.model.named_parameters();
            let named: Vec<_> =
                named.iter().filter_map(|(n, p)| Some((n, gradients.of(p)?))).collect();
            let spoilt = first_not_finite(named.iter().map(|&(_, gradient)| gradient))?;
            let spoilt = spoilt.map(|at| named[at].0.clone());
            self.expect_finite(epoch, &losses, spoilt)?;
        }
        let clip =
            |(max_norm, p)| clip_grad_norm(&self.model.parameters(), &mut gradients, max_norm, p);
        let clip = || self.clip.map(clip).transpose();
        let norm = recorded(&self.ledger, Phase::Optimizer, clip)?;
        let step = || match &mut self.scaler {
            Some(scaler) => {
                scaler.step(&mut self.optimizer, &mut self.model, &gradients).map(|_| ())
            }
            None => self.optimizer.step(&mut self.model, &gradients),
        };
        recorded(&self.ledger, Phase::Optimizer, step)?;
        let mean = losses.iter().sum::<f64>() / count as f64;
        let mut sum = TreeSum::default();
        for loss in losses {
            sum.push(loss as f32, |a, b| Ok(canonical(a + b)))?;
        }
        let sum = sum.finish(|a, b| Ok(canonical(a + b)))?.unwrap_or_default();
        Ok(Some(Taken { losses: vec![mean], loss: sum / count as f32, norm, gradients }))
    }

    /// Takes a step of [`Trainer::fit_steps`].
    pub(super) fn call<L: Losses>(
        &mut self,
        turn: Turn<'_, D>,
        step: &mut impl FnMut(&mut M, &mut O, D::Batch) -> Result<L>,
    ) -> Result<Option<Taken>> {
        let Some(batch) = turn.batches.next() else { return Ok(None) };
        let batch = batch?;
        self.record_begin();
        self.record_batch(turn.steps, &batch)?;
        let mut generator = self.micro_batch_generator(turn.steps, 0);
        let (model, optimizers) = (&mut self.model, &mut self.optimizer);
        let tensors = recorded(&self.ledger, Phase::Forward, || {
            train_with(&mut generator, || step(model, optimizers, batch.data))
        })?;
        turn.batches.pass(&[turn.batches.part()])?;
        let mut losses = Vec::new();
        tensors.each(&mut |loss| losses.push(number(loss)));
        let losses = losses.into_iter().collect::<Result<Vec<f64>>>()?;
        let loss = losses.iter().fold(0.0, |sum, loss| sum + loss) as f32;
        Ok(Some(Taken { losses, loss, norm: None, gradients: Gradients::default() }))
    }
}
