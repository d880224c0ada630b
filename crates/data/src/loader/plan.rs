//! The plan of an epoch: its samples and their division into batches.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use samebits_numerics::memory;
use samebits_rng::Generator;

use crate::memory::{allocated, reserve};
use crate::{BatchSampler, Error, Order, Result, Sampler, Shard, Tail};

const OP: &str = "loader";

/// Source of the batches.
pub(crate) enum Batching {
    /// A sampler's order, cut into batches of equal size.
    Even { sampler: Arc<dyn Sampler>, size: usize, drop_last: bool },
    /// Batches made by the caller's sampler.
    Listed { sampler: Arc<dyn BatchSampler> },
}

/// The rest of an epoch for this rank.
#[derive(Debug)]
pub(crate) struct Plan {
    visits: Visits,
    cuts: Cuts,
    /// The number of the first batch.
    first_batch: u64,
    /// The position in the global order where the plan starts.
    start: u64,
    /// The end of the global order, in samples or in listed batches.
    end: u64,
    /// The number of positions in the global order that all ranks together visit per batch.
    stride: u64,
}

/// This rank's samples.
#[derive(Debug)]
enum Visits {
    Listed {
        order: Vec<usize>,
        /// The number of earlier visits to each sample of `order`; empty if no sample repeats.
        repeats: Vec<u32>,
    },
    /// The positions of `shard` after `start` in an order without repeats.
    Computed {
        order: Order,
        start: usize,
        shard: Shard,
        /// The number of positions that belong to the rank.
        count: usize,
        /// The number of samples in the dataset.
        samples: usize,
    },
}

#[derive(Debug)]
enum Cuts {
    Even {
        size: usize,
        count: usize,
    },
    /// The end of each batch among the rank's samples.
    Listed(Vec<usize>),
}

impl Visits {
    fn len(&self) -> usize {
        match self {
            Visits::Listed { order, .. } => order.len(),
            Visits::Computed { count, .. } => *count,
        }
    }

    /// Returns the rank's visits in a list, from `start` on.
    fn listed(
        order: Vec<usize>,
        repeats: bool,
        start: usize,
        shard: Option<Shard>,
    ) -> Result<Self> {
        let before = if repeats { self::repeats(&order)? } else { Vec::new() };
        let Some(shard) = shard else {
            let (mut order, mut repeats) = (order, before);
            repeats.drain(..start.min(repeats.len()));
            order.drain(..start);
            return Ok(Visits::Listed { order, repeats });
        };
        let rest = order.len() - start;
        let places = || shard.places(rest).map(|place| place + start);
        // Only the last position of a rank can lie past the end.
        let padded = places().last().is_some_and(|place| place >= order.len());
        let repeat = |place| visits(&order, &before, place);
        let repeats = match before.is_empty() && !padded {
            true => Vec::new(),
            false => allocated(OP, memory::collected(places().map(repeat)))?,
        };
        let local = places().map(|place| order[place % order.len()]);
        Ok(Visits::Listed { order: allocated(OP, memory::collected(local))?, repeats })
    }
}

impl Batching {
    pub(crate) fn describe(&self) -> String {
        match self {
            Batching::Even { sampler, .. } => sampler.describe(),
            Batching::Listed { sampler } => sampler.describe(),
        }
    }

    /// Plans the rest of `epoch` after `position`.
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
                let end = order.len();
                let start = cut(position, end)?;
                let visits = if order.is_listed() || sampler.may_repeat() {
                    let order = order.into_vec()?;
                    check_indices(&order, len)?;
                    Visits::listed(order, sampler.may_repeat(), start, shard)?
                } else {
                    let shard = shard.unwrap_or(Shard { rank: 0, world: 1, tail: Tail::Drop });
                    let count = shard.places(end - start).len();
                    Visits::Computed { order, start, shard, count, samples: len }
                };
                let count = match drop_last {
                    true => visits.len() / size,
                    false => visits.len().div_ceil(*size),
                };
                Ok(Plan {
                    visits,
                    cuts: Cuts::Even { size: *size, count },
                    first_batch,
                    start: start as u64,
                    end: end as u64,
                    stride: (*size as u64).saturating_mul(world),
                })
            }
            Batching::Listed { sampler } => {
                let batches = sampler.batches(len, epoch, generator)?;
                let total =
                    batches.iter().try_fold(0, |n: usize, batch| n.checked_add(batch.len()));
                let mut flat = allocated(OP, memory::with_capacity(total.unwrap_or(usize::MAX)))?;
                let mut starts = allocated(OP, memory::with_capacity(batches.len()))?;
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
                    None => allocated(OP, memory::collected(start..batches.len()))?,
                    Some(shard) => allocated(
                        OP,
                        memory::collected(shard.places(rest).map(|place| place + start)),
                    )?,
                };
                let (mut order, mut repeats) = (Vec::new(), Vec::new());
                let mut ends = allocated(OP, memory::with_capacity(places.len()))?;
                for place in places {
                    let (round, place) = (place / batches.len(), place % batches.len());
                    let batch = &batches[place];
                    reserve(OP, &mut order, batch.len())?;
                    reserve(OP, &mut repeats, batch.len())?;
                    order.extend_from_slice(batch);
                    let first = starts[place] + round * flat.len();
                    repeats.extend((first..first + batch.len()).map(|p| visits(&flat, &before, p)));
                    ends.push(order.len());
                }
                Ok(Plan {
                    visits: Visits::Listed { order, repeats },
                    cuts: Cuts::Listed(ends),
                    first_batch,
                    start: start as u64,
                    end,
                    stride: world,
                })
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
    /// Returns the number of batches left.
    pub(crate) fn batches(&self) -> u64 {
        match &self.cuts {
            Cuts::Even { count, .. } => *count as u64,
            Cuts::Listed(ends) => ends.len() as u64,
        }
    }

    pub(crate) fn first_batch(&self) -> u64 {
        self.first_batch
    }

    /// Returns the number after the last batch.
    pub(crate) fn end_batch(&self) -> u64 {
        self.first_batch + self.batches()
    }

    /// Returns the positions, among the rank's, that form batch `number`.
    pub(crate) fn batch(&self, number: u64) -> Range<usize> {
        let batch = (number - self.first_batch) as usize;
        match &self.cuts {
            Cuts::Even { size, .. } => {
                let start = batch * size;
                start..self.visits.len().min(start.saturating_add(*size))
            }
            Cuts::Listed(ends) => {
                let start = if batch == 0 { 0 } else { ends[batch - 1] };
                start..ends[batch]
            }
        }
    }

    /// Returns the sample at the rank's position `place`, and the number of earlier visits to it.
    pub(crate) fn visit(&self, place: usize) -> Result<(usize, u32)> {
        match &self.visits {
            Visits::Listed { order, repeats } => {
                Ok((order[place], repeats.get(place).copied().unwrap_or(0)))
            }
            Visits::Computed { order, start, shard, samples, .. } => {
                let place = start + place * shard.world + shard.rank;
                // A rank short of samples takes more from the start of the order.
                let (round, place) = (place / order.len(), place % order.len());
                match order.at(place).unwrap_or_default() {
                    index if index < *samples => Ok((index, round as u32)),
                    index => Err(Error::IndexOutOfRange { op: "sampler", index, len: *samples }),
                }
            }
        }
    }

    /// Returns the position in the global order after batch `number - 1`.
    pub(crate) fn position(&self, number: u64) -> u64 {
        if number >= self.end_batch() {
            return self.end;
        }
        let done = (number - self.first_batch).saturating_mul(self.stride);
        self.end.min(self.start.saturating_add(done))
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

/// Counts the earlier visits to each sample in `order`; empty if no sample repeats.
fn repeats(order: &[usize]) -> Result<Vec<u32>> {
    // Sorting the positions by sample puts visits to the same sample side by side, in visiting
    // order.
    let mut places = allocated(OP, memory::collected(0..order.len()))?;
    places.sort_unstable_by_key(|&place| (order[place], place));
    if places.windows(2).all(|pair| order[pair[0]] != order[pair[1]]) {
        return Ok(Vec::new());
    }
    let mut counts: Vec<u32> = allocated(OP, memory::zeroed(order.len()))?;
    for pair in places.windows(2) {
        if order[pair[0]] == order[pair[1]] {
            counts[pair[1]] = counts[pair[0]].saturating_add(1);
        }
    }
    Ok(counts)
}

/// Returns the number of earlier visits to the sample at `place`, given the result of [`repeats`]
/// for `order`. Positions past the end wrap around to the start of the epoch, repeatedly if need
/// be.
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
