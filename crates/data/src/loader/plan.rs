//! The plan of an epoch: which samples make which batch.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use samebits_rng::Generator;

use crate::{BatchSampler, Error, Result, Sampler, Shard};

/// How batches are made.
pub(crate) enum Batching {
    /// A sampler's order, cut into batches of one size.
    Even { sampler: Arc<dyn Sampler>, size: usize, drop_last: bool },
    /// Batches that the caller's sampler has made.
    Listed { sampler: Arc<dyn BatchSampler> },
}

/// What is left of an epoch for this rank.
#[derive(Debug)]
pub(crate) struct Plan {
    /// This rank's samples.
    order: Vec<usize>,
    /// How often each sample of `order` came before; empty if none did.
    repeats: Vec<u32>,
    cuts: Cuts,
    /// The number of the first batch.
    first_batch: u64,
    /// The place in the global order where the plan starts.
    start: u64,
    /// The end of the global order, in samples or in listed batches.
    end: u64,
    /// Places of the global order that all ranks together visit per batch.
    stride: u64,
}

#[derive(Debug)]
enum Cuts {
    Even {
        size: usize,
        count: usize,
    },
    /// The end of each batch in `order`.
    Listed(Vec<usize>),
}

impl Batching {
    pub(crate) fn describe(&self) -> String {
        match self {
            Batching::Even { sampler, .. } => sampler.describe(),
            Batching::Listed { sampler } => sampler.describe(),
        }
    }

    /// Plans what follows `position` in `epoch`.
    pub(crate) fn plan(
        &self,
        len: usize,
        epoch: u64,
        generator: &Generator,
        shard: Option<Shard>,
        first_batch: u64,
        position: u64,
    ) -> Result<Plan> {
        let world = shard.map_or(1, |shard| shard.world) as u64;
        match self {
            Batching::Even { sampler, size, drop_last } => {
                let order = sampler.order(len, epoch, generator)?;
                check_indices(&order, len)?;
                let end = order.len() as u64;
                let start = cut(position, order.len())?;
                let count = |order: &[usize]| match sampler.may_repeat() {
                    true => repeats(order),
                    false => Vec::new(),
                };
                let (order, repeats) = match shard {
                    None => {
                        let mut repeats = count(&order);
                        repeats.drain(..start.min(repeats.len()));
                        (order[start..].to_vec(), repeats)
                    }
                    Some(shard) => {
                        // Places past the end wrap around to the start of the epoch, so a padded
                        // sample is a repeated one.
                        let places: Vec<usize> =
                            shard.places(order.len() - start).map(|place| place + start).collect();
                        let longest = places.last().map_or(0, |&place| place + 1);
                        let padding = longest.saturating_sub(order.len());
                        let padded: Vec<usize> =
                            order.iter().cycle().take(order.len() + shard.world).copied().collect();
                        let all = match padding {
                            0 => count(&order),
                            _ => repeats(&padded),
                        };
                        let local = places.iter().map(|&place| padded[place]).collect();
                        let repeats = match all.is_empty() {
                            true => all,
                            false => places.iter().map(|&place| all[place]).collect(),
                        };
                        (local, repeats)
                    }
                };
                let count = match drop_last {
                    true => order.len() / size,
                    false => order.len().div_ceil(*size),
                };
                Ok(Plan {
                    order,
                    repeats,
                    cuts: Cuts::Even { size: *size, count },
                    first_batch,
                    start: start as u64,
                    end,
                    stride: *size as u64 * world,
                })
            }
            Batching::Listed { sampler } => {
                let batches = sampler.batches(len, epoch, generator)?;
                let flat: Vec<usize> = batches.iter().flatten().copied().collect();
                check_indices(&flat, len)?;
                let end = batches.len() as u64;
                let start = cut(position, batches.len())?;
                let mut counted = repeats(&flat).into_iter();
                let counted: Vec<Vec<u32>> = batches
                    .iter()
                    .map(|batch| counted.by_ref().take(batch.len()).collect())
                    .collect();
                let places: Vec<usize> = match shard {
                    None => (start..batches.len()).collect(),
                    Some(shard) => shard
                        .places(batches.len() - start)
                        .map(|place| (place + start) % batches.len())
                        .collect(),
                };
                let mut plan = Plan {
                    order: Vec::new(),
                    repeats: Vec::new(),
                    cuts: Cuts::Listed(Vec::new()),
                    first_batch,
                    start: start as u64,
                    end,
                    stride: world,
                };
                let mut ends = Vec::with_capacity(places.len());
                for place in places {
                    plan.order.extend_from_slice(&batches[place]);
                    plan.repeats.extend_from_slice(&counted[place]);
                    ends.push(plan.order.len());
                }
                plan.cuts = Cuts::Listed(ends);
                Ok(plan)
            }
        }
    }
}

impl fmt::Debug for Batching {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Batching::Even { sampler, size, drop_last } => f
                .debug_struct("Even")
                .field("sampler", sampler)
                .field("size", size)
                .field("drop_last", drop_last)
                .finish(),
            Batching::Listed { sampler } => {
                f.debug_struct("Listed").field("sampler", sampler).finish()
            }
        }
    }
}

impl Plan {
    /// How many batches are left.
    pub(crate) fn batches(&self) -> u64 {
        match &self.cuts {
            Cuts::Even { count, .. } => *count as u64,
            Cuts::Listed(ends) => ends.len() as u64,
        }
    }

    pub(crate) fn first_batch(&self) -> u64 {
        self.first_batch
    }

    /// The number after the last batch.
    pub(crate) fn end_batch(&self) -> u64 {
        self.first_batch + self.batches()
    }

    /// The samples of batch `number` and how often each came before.
    pub(crate) fn batch(&self, number: u64) -> (&[usize], &[u32]) {
        let range = self.range((number - self.first_batch) as usize);
        let repeats = if self.repeats.is_empty() { &[] } else { &self.repeats[range.clone()] };
        (&self.order[range], repeats)
    }

    /// The place in the global order after batch `number - 1`.
    pub(crate) fn position(&self, number: u64) -> u64 {
        if number >= self.end_batch() {
            return self.end;
        }
        let done = (number - self.first_batch).saturating_mul(self.stride);
        self.end.min(self.start.saturating_add(done))
    }

    fn range(&self, batch: usize) -> Range<usize> {
        match &self.cuts {
            Cuts::Even { size, .. } => {
                let start = batch * size;
                start..self.order.len().min(start.saturating_add(*size))
            }
            Cuts::Listed(ends) => {
                let start = if batch == 0 { 0 } else { ends[batch - 1] };
                start..ends[batch]
            }
        }
    }
}

fn check_indices(order: &[usize], len: usize) -> Result<()> {
    match order.iter().find(|&&index| index >= len) {
        Some(&index) => Err(Error::IndexOutOfRange { op: "sampler", index, len }),
        None => Ok(()),
    }
}

fn cut(position: u64, len: usize) -> Result<usize> {
    match usize::try_from(position) {
        Ok(start) if start <= len => Ok(start),
        _ => Err(Error::StateMismatch {
            field: "position",
            expected: format!("at most {len}"),
            found: position.to_string(),
        }),
    }
}

/// How often each sample came before in `order`; empty if none came twice.
fn repeats(order: &[usize]) -> Vec<u32> {
    let mut seen = BTreeMap::new();
    let mut any = false;
    let counts: Vec<u32> = order
        .iter()
        .map(|&index| {
            let count = seen.entry(index).and_modify(|count| *count += 1).or_insert(0);
            any |= *count > 0;
            *count
        })
        .collect();
    if any { counts } else { Vec::new() }
}
