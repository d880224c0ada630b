//! The plan of an epoch: which samples make which batch.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use samebits_numerics::memory;
use samebits_rng::Generator;

use crate::memory::{had, reserve};
use crate::{BatchSampler, Error, Result, Sampler, Shard};

const OP: &str = "loader";

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
                let before = if sampler.may_repeat() { repeats(&order)? } else { Vec::new() };
                let (order, repeats) = match shard {
                    None => {
                        let (mut order, mut before) = (order, before);
                        before.drain(..start.min(before.len()));
                        order.drain(..start);
                        (order, before)
                    }
                    Some(shard) => {
                        let rest = order.len() - start;
                        let places = || shard.places(rest).map(|place| place + start);
                        // Only the last place of a rank can lie past the end.
                        let padded = places().last().is_some_and(|place| place >= order.len());
                        let repeat = |place| visits(&order, &before, place);
                        let repeats = match before.is_empty() && !padded {
                            true => Vec::new(),
                            false => had(OP, memory::collected(places().map(repeat)))?,
                        };
                        let local = places().map(|place| order[place % order.len()]);
                        (had(OP, memory::collected(local))?, repeats)
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
                    stride: (*size as u64).saturating_mul(world),
                })
            }
            Batching::Listed { sampler } => {
                let batches = sampler.batches(len, epoch, generator)?;
                let total =
                    batches.iter().try_fold(0, |n: usize, batch| n.checked_add(batch.len()));
                let mut flat = had(OP, memory::with_capacity(total.unwrap_or(usize::MAX)))?;
                let mut starts = had(OP, memory::with_capacity(batches.len()))?;
                for batch in &batches {
                    starts.push(flat.len());
                    flat.extend_from_slice(batch);
                }
                check_indices(&flat, len)?;
                let end = batches.len() as u64;
                let start = cut(position, batches.len())?;
                let before = repeats(&flat)?;
                let rest = batches.len() - start;
                let places = match shard {
                    None => had(OP, memory::collected(start..batches.len()))?,
                    Some(shard) => {
                        had(OP, memory::collected(shard.places(rest).map(|place| place + start)))?
                    }
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
                let mut ends = had(OP, memory::with_capacity(places.len()))?;
                for place in places {
                    let (round, place) = (place / batches.len(), place % batches.len());
                    let batch = &batches[place];
                    reserve(OP, &mut plan.order, batch.len())?;
                    reserve(OP, &mut plan.repeats, batch.len())?;
                    plan.order.extend_from_slice(batch);
                    let first = starts[place] + round * flat.len();
                    let repeats = (first..first + batch.len()).map(|p| visits(&flat, &before, p));
                    plan.repeats.extend(repeats);
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
fn repeats(order: &[usize]) -> Result<Vec<u32>> {
    // Visits of one sample lie together when the places are sorted by sample, in their order.
    let mut places = had(OP, memory::collected(0..order.len()))?;
    places.sort_unstable_by_key(|&place| (order[place], place));
    if places.windows(2).all(|pair| order[pair[0]] != order[pair[1]]) {
        return Ok(Vec::new());
    }
    let mut counts: Vec<u32> = had(OP, memory::zeroed(order.len()))?;
    for pair in places.windows(2) {
        if order[pair[0]] == order[pair[1]] {
            counts[pair[1]] = counts[pair[0]].saturating_add(1);
        }
    }
    Ok(counts)
}

/// How often the sample at `place` came before, given what [`repeats`] has counted in `order`;
/// places past the end wrap around to the start of the epoch, as often as need be.
fn visits(order: &[usize], before: &[u32], place: usize) -> u32 {
    let (round, place) = (place / order.len(), place % order.len());
    let here = before.get(place).copied().unwrap_or(0);
    if round == 0 {
        return here;
    }
    let in_a_round = order.iter().filter(|&&index| index == order[place]).count();
    let rounds = u32::try_from(in_a_round.saturating_mul(round)).unwrap_or(u32::MAX);
    here.saturating_add(rounds)
}
