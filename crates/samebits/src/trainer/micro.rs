//! Micro-batches of a step, on one rank or shared among many.

use samebits_tensor_core::with_element;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::record::recorded;
use super::source::{PartOf, Steps};
use super::step::{Turn, number};
use super::{Error, Loader, Result, Trainer};
use crate::distributed::{Held, Ranks, Scalar};
use crate::nn::{Kind, Module, train_with};
use crate::numerics::memory;
use crate::optim::{Optimizers, TreeNode, TreeSum};
use crate::tensor_core::Tensor as Value;
use crate::tensor_core::observe::Phase;
use crate::{DType, Device, Generator, Gradients, Tensor, bf16, f16, no_grad};

/// Result of one micro-batch, or the sum of several.
struct Part {
    gradients: Gradients,
    /// The float buffers, in visiting order.
    buffers: Vec<Tensor>,
}

impl Part {
    fn plus(mut self, later: Part) -> crate::Result<Part> {
        self.gradients.accumulate(&later.gradients)?;
        let pairs = self.buffers.iter().zip(&later.buffers);
        self.buffers = no_grad(|| pairs.map(|(a, b)| a.add(b)).collect::<crate::Result<_>>())?;
        Ok(self)
    }

    /// Adds two neighbours; micro-batches may be missing.
    fn joined(earlier: Option<Part>, later: Option<Part>) -> crate::Result<Option<Part>> {
        match (earlier, later) {
            (Some(earlier), Some(later)) => earlier.plus(later).map(Some),
            (earlier, later) => Ok(earlier.or(later)),
        }
    }
}

/// Results of this rank's micro-batches.
struct Own {
    /// Nothing stands for a micro-batch that is missing.
    sum: TreeSum<Option<Part>>,
    /// The loss of each micro-batch.
    losses: Vec<f64>,
    /// True for each buffer that a micro-batch replaced, in visiting order.
    changed: Vec<bool>,
    /// The integer buffers after the first micro-batch, in visiting order.
    integers: Vec<Tensor>,
}

/// Results of a step's micro-batches, over all ranks.
pub(super) struct Whole {
    /// The sum of the gradients.
    pub(super) gradients: Gradients,
    /// The loss of each micro-batch.
    pub(super) losses: Vec<f64>,
    /// The sums of the float buffers.
    buffers: Vec<Tensor>,
    changed: Vec<bool>,
    integers: Vec<Tensor>,
}

/// Message from each rank about its part of a step, sent before the elements.
#[derive(Serialize, Deserialize)]
struct Told<P> {
    held: Vec<Held>,
    /// The losses, as bits.
    losses: Vec<u64>,
    /// True for each parameter that has a gradient, in visiting order.
    present: Vec<bool>,
    changed: Vec<bool>,
    /// The elements of the integer buffers after the rank's first micro-batch.
    integers: Vec<Vec<u8>>,
    /// The rank's part of the position after the step.
    part: P,
}

/// Returns the buffers of a model, in visiting order.
fn buffers(model: &impl Module) -> Vec<Tensor> {
    let mut found = Vec::new();
    model.visit("", &mut |_, kind, tensor| {
        if kind == Kind::Buffer {
            found.push(tensor.clone());
        }
    });
    found
}

fn set_buffers(model: &mut impl Module, buffers: &[Tensor]) {
    let mut next = buffers.iter();
    model.visit_mut("", &mut |_, kind, tensor| {
        if kind == Kind::Buffer
            && let Some(buffer) = next.next()
        {
            *tensor = buffer.clone();
        }
    });
}

fn is_float(tensor: &Tensor) -> bool {
    tensor.dtype().is_float()
}

impl<M, O, D> Trainer<'_, M, O, D>
where
    M: Module,
    O: Optimizers,
    D: Loader,
{
    /// Returns the generator of a micro-batch's layers: a function of its step and its number in
    /// the step.
    pub(super) fn micro_batch_generator(&self, step: u64, number: u64) -> Generator {
        self.generator.derive("micro-batch").fold_in(step).fold_in(number)
    }

    /// Computes the gradients of a step, and sets the buffers to their values after the step.
    pub(super) fn micro_batches(
        &mut self,
        turn: Turn<'_, D>,
        loss: &mut impl FnMut(&M, D::Batch) -> Result<Tensor>,
    ) -> Result<Option<Whole>> {
        let start = buffers(&self.model);
        let Turn { steps, batches, .. } = turn;
        let own = self.own_micro_batches(steps, batches, &start, loss);
        let part = batches.part();
        let (whole, parts) = match &self.ranks {
            Some(ranks) if ranks.world() > 1 => match self.exchanged(ranks, own, part, &start)? {
                Some(whole) => whole,
                None => return Ok(None),
            },
            _ => {
                let Own { sum, losses, changed, integers } = own?;
                let sum = recorded(&self.ledger, Phase::Optimizer, || sum.finish(Part::joined))?;
                let Some(Part { gradients, buffers }) = sum.flatten() else { return Ok(None) };
                (Whole { gradients, losses, buffers, changed, integers }, vec![part])
            }
        };
        batches.pass(&parts)?;
        self.settle_buffers(&start, &whole)?;
        Ok(Some(whole))
    }

    fn own_micro_batches(
        &mut self,
        steps: u64,
        batches: &mut D::Steps,
        start: &[Tensor],
        loss: &mut impl FnMut(&M, D::Batch) -> Result<Tensor>,
    ) -> Result<Own> {
        let per_step = self.batches_per_step;
        let own = self.ranks.as_ref().map_or(0..per_step, |ranks| ranks.owned(per_step));
        let mut changed = vec![false; start.len()];
        let (mut integers, mut losses) = (Vec::new(), Vec::new());
        let mut sum = TreeSum::starting_at(own.start);
        self.record_begin();
        while let Some(batch) = batches.next() {
            let batch = batch?;
            let number_in_step = batch.number;
            while sum.next() < number_in_step {
                sum.push(None, Part::joined)?;
            }
            self.record_batch(steps, &batch)?;
            if !losses.is_empty() && !start.is_empty() {
                set_buffers(&mut self.model, start);
            }
            let mut generator = self.micro_batch_generator(steps, number_in_step);
            let (mut gradients, loss) = recorded(&self.ledger, Phase::Forward, || {
                let loss = train_with(&mut generator, || loss(&self.model, batch.data))?;
                let scaled = self.scaler.map(|scaler| scaler.scale(&loss)).transpose()?;
                Ok::<_, Error>((scaled.as_ref().unwrap_or(&loss).backward()?, number(&loss)?))
            })?;
            gradients.keep_leaves();
            let after = buffers(&self.model);
            for ((changed, old), new) in changed.iter_mut().zip(start).zip(&after) {
                *changed |= old.value().storage_address() != new.value().storage_address();
            }
            let (floats, others) = after.into_iter().partition(is_float);
            if losses.is_empty() {
                integers = others;
            }
            losses.push(loss);
            let part = Some(Part { gradients, buffers: floats });
            recorded(&self.ledger, Phase::Optimizer, || sum.push(part, Part::joined))?;
        }
        while D::Steps::GAPS && sum.next() < own.end {
            sum.push(None, Part::joined)?;
        }
        Ok(Own { sum, losses, changed, integers })
    }

    /// Sets the model's buffers after a step: each float buffer that a micro-batch replaced becomes
    /// the mean of the micro-batches' results; the others come from the first one.
    fn settle_buffers(&mut self, start: &[Tensor], whole: &Whole) -> Result<()> {
        if start.is_empty() {
            return Ok(());
        }
        let (mut floats, mut integers) = (whole.buffers.iter(), whole.integers.iter());
        let mut settled = Vec::with_capacity(start.len());
        for (old, &changed) in start.iter().zip(&whole.changed) {
            let new = if is_float(old) { floats.next() } else { integers.next() };
            settled.push(match new {
                Some(new) if changed && is_float(old) && whole.losses.len() > 1 => {
                    let factor = 1.0 / whole.losses.len() as f64;
                    no_grad(|| crate::functional::affine(new, factor, -0.0))?
                }
                Some(new) if changed => new.clone(),
                _ => old.clone(),
            });
        }
        set_buffers(&mut self.model, &settled);
        Ok(())
    }

    /// Sums the results of all ranks by an exchange. If one rank has failed, all fail.
    fn exchanged(
        &self,
        ranks: &Ranks,
        own: Result<Own>,
        part: PartOf<D>,
        start: &[Tensor],
    ) -> Result<Option<(Whole, Vec<PartOf<D>>)>> {
        let parameters = self.model.parameters();
        let own = own.and_then(|own| {
            let nodes = own.sum.into_nodes();
            let is_present = |at: &Tensor| {
                nodes
                    .iter()
                    .filter_map(|node| node.sum.as_ref())
                    .any(|sum| sum.gradients.of(at).is_some())
            };
            let integers = own.integers.iter().map(|tensor| tensor.value().to_bytes());
            let told = Told {
                held: nodes.iter().map(Held::of).collect(),
                losses: own.losses.iter().map(|loss| loss.to_bits()).collect(),
                present: parameters.iter().map(is_present).collect(),
                changed: own.changed,
                integers: integers.collect::<crate::Result<_>>()?,
                part,
            };
            Ok((told, nodes))
        });
        let (told, nodes) = match own {
            Ok((told, nodes)) => (Ok(told), nodes),
            Err(error) => (Err(error), Vec::new()),
        };
        let all = together(ranks, told)?;
        let held: Vec<Vec<Held>> = all.iter().map(|told| told.held.clone()).collect();
        let losses = all.iter().flat_map(|told| &told.losses).copied().map(f64::from_bits);
        let losses: Vec<f64> = losses.collect();
        if losses.is_empty() {
            return Ok(None);
        }
        let any = |of: fn(&Told<_>) -> &Vec<bool>, at: usize| {
            all.iter().any(|told| of(told).get(at).copied().unwrap_or(false))
        };
        let changed: Vec<bool> = (0..start.len()).map(|at| any(|told| &told.changed, at)).collect();
        let present = |at: &usize| any(|told| &told.present, *at);
        let present: Vec<usize> = (0..parameters.len()).filter(present).collect();
        let mut gradients = Gradients::default();
        let mut buffers: Vec<Tensor> = start.iter().filter(|x| is_float(x)).cloned().collect();
        let is_moved: Vec<bool> =
            start.iter().zip(&changed).filter(|(x, _)| is_float(x)).map(|(_, &c)| c).collect();
        for dtype in [DType::F32, DType::F64, DType::BF16, DType::F16] {
            let of_type = |tensor: &Tensor| tensor.dtype() == dtype;
            let of_parameters = present.iter().filter(|&&at| of_type(&parameters[at]));
            let moved = (0..buffers.len()).filter(|&at| is_moved[at] && of_type(&buffers[at]));
            let moved: Vec<usize> = moved.collect();
            let of_parameters: Vec<usize> = of_parameters.copied().collect();
            let places = of_parameters.iter().map(|&at| &parameters[at]);
            let places: Vec<&Tensor> = places.chain(moved.iter().map(|&at| &buffers[at])).collect();
            let parts: Vec<Vec<Option<&Tensor>>> = nodes
                .iter()
                .map(|TreeNode { sum, .. }| {
                    let sum = sum.as_ref();
                    let gradient =
                        |&at: &usize| sum.and_then(|sum| sum.gradients.of(&parameters[at]));
                    let buffers = moved.iter().map(|&at| sum.and_then(|sum| sum.buffers.get(at)));
                    of_parameters.iter().map(gradient).chain(buffers).collect()
                })
                .collect();
            let sums = match dtype {
                DType::F32 => summed::<f32>(ranks, &held, &places, &parts)?,
                DType::F64 => summed::<f64>(ranks, &held, &places, &parts)?,
                DType::BF16 => summed::<bf16>(ranks, &held, &places, &parts)?,
                _ => summed::<f16>(ranks, &held, &places, &parts)?,
            };
            let mut sums = sums.into_iter();
            for (&at, sum) in of_parameters.iter().zip(&mut sums) {
                gradients.set(&parameters[at], Some(sum))?;
            }
            for (&at, sum) in moved.iter().zip(sums) {
                buffers[at] = sum;
            }
        }
        let first = all.iter().find(|told| !told.losses.is_empty());
        let integers = first.map_or(&[][..], |told| &told.integers);
        let integers = start.iter().filter(|x| !is_float(x)).zip(integers);
        let integers = integers.map(|(like, bytes)| from_bytes(like, bytes));
        let integers = integers.collect::<Result<_>>()?;
        let whole = Whole { gradients, losses, buffers, changed, integers };
        Ok(Some((whole, all.into_iter().map(|told| told.part).collect())))
    }
}

impl<M, O, D> Trainer<'_, M, O, D>
where
    M: Module,
    O: Optimizers,
    D: Loader,
{
    /// Returns true on every rank if the flag is set on any rank.
    pub(super) fn any_rank(&self, flag: bool) -> Result<bool> {
        match &self.ranks {
            Some(ranks) if ranks.world() > 1 => Ok(together(ranks, Ok(flag))?.contains(&true)),
            _ => Ok(flag),
        }
    }

    /// Checks that all ranks are about to train the same run from the same state.
    pub(super) fn expect_ranks_alike(&self) -> Result<()> {
        // A rank alone has nobody to differ from.
        let Some(ranks) = self.ranks.as_ref().filter(|ranks| ranks.world() > 1) else {
            return Ok(());
        };
        let (world, places) = (ranks.world(), self.batches_per_step);
        let data = self.loader.source();
        let digest = |bytes: Vec<u8>| {
            Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect::<String>()
        };
        let state = self.state().and_then(|state| Ok(digest(state.to_bytes()?)));
        let settings = format!(
            "{} epochs, {:?} steps, clip {:?}, {:?}, early stop {:?}, checkpoint {} every {:?}, \
             plateau {}, schedule {:?}, metric {}",
            self.epochs,
            self.max_steps,
            self.clip,
            self.nan,
            self.early_stop,
            self.checkpoint.is_some(),
            self.checkpoint_every,
            self.plateau.is_some(),
            self.schedule.as_ref().map(|(per, _)| per),
            self.metric.is_some(),
        );
        let own = data.and_then(|data| Ok((data, state?)));
        let (data, state) = together(ranks, own)?.swap_remove(ranks.rank());
        ranks.agree(&[
            ("version of samebits", env!("CARGO_PKG_VERSION").to_owned()),
            ("version of numerics", crate::NUMERICS_VERSION.to_string()),
            ("description of the run", self.run.clone()),
            ("number of batches in a step", places.to_string()),
            ("set of settings", settings),
            ("source of data", data),
            ("state to start from", state),
        ])?;
        if world as u64 > places {
            let message = format!("a step of {places} batches can have as many ranks, got {world}");
            return Err(Error::Invalid(message));
        }
        Ok(())
    }
}

/// Gathers every rank's result. A failing rank keeps its own error; the others receive a report of
/// it.
pub(super) fn together<T: Serialize + DeserializeOwned>(
    ranks: &Ranks,
    own: Result<T>,
) -> Result<Vec<T>> {
    match own {
        Ok(value) => Ok(ranks.gather(Ok::<_, Error>(value))?),
        Err(error) => {
            // The other ranks learn of it, or of this rank's end; the error is the same.
            let _ = ranks.gather::<T>(Err(&error));
            Err(error)
        }
    }
}

/// Sums the tensors of all ranks' nodes, shaped like `places`; `parts` belong to this rank's nodes.
fn summed<T: Scalar>(
    ranks: &Ranks,
    held: &[Vec<Held>],
    places: &[&Tensor],
    parts: &[Vec<Option<&Tensor>>],
) -> Result<Vec<Tensor>> {
    let len = places.iter().map(|place| place.numel()).sum();
    if len == 0 {
        return places.iter().map(|place| Ok((*place).detach())).collect();
    }
    let mut own: Vec<Vec<T>> = Vec::with_capacity(parts.len());
    for parts in parts {
        let mut elements = memory::with_capacity(len).map_err(no_memory)?;
        for (place, part) in places.iter().zip(parts) {
            match part {
                Some(part) => elements.extend(part.value().to(Device::Cpu)?.to_vec::<T>()?),
                None => elements.resize(elements.len() + place.numel(), T::ABSENT),
            }
        }
        own.push(elements);
    }
    let own: Vec<&[T]> = own.iter().map(Vec::as_slice).collect();
    let sums = ranks.sum(held, &own)?;
    let mut rest = &sums[..];
    let one = |place: &&Tensor| {
        let (elements, after) = rest.split_at(place.numel());
        rest = after;
        Ok(Value::from_slice(elements, place.shape())?.to(place.device())?.into())
    };
    places.iter().map(one).collect()
}

/// Makes a tensor like `like` from these elements.
fn from_bytes(like: &Tensor, bytes: &[u8]) -> Result<Tensor> {
    let mut value = Value::zeros(like.shape(), like.dtype())?;
    with_element!(like.dtype(), T => {
        let elements: &mut [u8] = bytemuck::cast_slice_mut(value.as_mut_slice::<T>()?);
        if elements.len() != bytes.len() {
            return Err(Error::Invalid("the ranks' buffers differ in size".to_owned()));
        }
        elements.copy_from_slice(bytes);
    });
    Ok(value.to(like.device())?.into())
}

fn no_memory(error: memory::OutOfMemory) -> crate::Error {
    crate::Error::out_of_host_memory("ranks")(error)
}
