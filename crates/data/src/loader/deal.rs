//! Assignment of whole batches to ranks.

use std::ops::Range;

use super::Config;
use crate::{Determinism, Error, Result};

/// A rank's share of the batches: its positions in every step of `per_step` batches.
///
/// Ranks receive whole batches. A batch has the same samples, order and random numbers as in a
/// loader without ranks, whichever rank loads it. A [`Shard`](crate::Shard), by contrast, assigns
/// single samples, so its batches depend on the number of ranks.
///
/// [`LoaderState`](super::LoaderState) counts the batches of all ranks if each rank calls
/// [`Epoch::pass_to`](super::Epoch::pass_to) at the end of a step. States are then equal on all
/// ranks and for every number of ranks.
///
/// # Examples
///
/// ```
/// use samebits_data::{DataLoader, Deal, Memory};
///
/// let data = Memory::new((0..20).collect::<Vec<i64>>());
/// let loader = DataLoader::builder(data).batch_size(2).shuffle(true).build()?;
/// // Rank 1 of 2, in steps of 4 batches.
/// let deal = Deal { per_step: 4, own: 2..4 };
/// let numbers = loader.epoch_dealt(0, &deal)?.map(|batch| Ok(batch?.number));
/// assert_eq!(numbers.collect::<Result<Vec<_>, samebits_data::Error>>()?, [2, 3, 6, 7]);
/// # Ok::<(), samebits_data::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deal {
    /// The number of batches in a step, over all ranks.
    pub per_step: u64,
    /// This rank's positions in a step, below `per_step`. May be empty.
    pub own: Range<u64>,
}

impl Deal {
    pub(super) fn check<D, C>(&self, config: &Config<D, C>) -> Result<()> {
        let Deal { per_step, own } = self;
        if own.start > own.end || own.end > *per_step || *per_step == 0 {
            let value = format!("{own:?} of {per_step}");
            return Err(Error::option("loader", "deal", value, "must be places in a step"));
        }
        let cannot = |option, value: String, expected| {
            Err(Error::option("loader: dealing out batches", option, value, expected))
        };
        if let Some(shard) = config.shard {
            let value = format!("{} of {}", shard.rank, shard.world);
            return cannot("shard", value, "must not be set: every rank needs the same order");
        }
        if !config.ordered {
            return cannot("ordered", "false".to_owned(), "must be on");
        }
        if config.level < Determinism::Portable {
            let value = format!("{:?}", config.level);
            return cannot(
                "level",
                value,
                "must be Portable: a worker's generator depends on ranks",
            );
        }
        if config.retry.most_skipped > 0 {
            let value = config.retry.most_skipped.to_string();
            return cannot("retry", value, "must not skip samples: other ranks would not know");
        }
        Ok(())
    }
}

/// The numbers of a rank's batches from `first` on, and their positions in the rank's sequence.
#[derive(Debug)]
pub(super) struct Numbers {
    first: u64,
    deal: Option<Deal>,
}

impl Numbers {
    pub(super) fn new(first: u64, deal: Option<Deal>) -> Numbers {
        Numbers { first, deal }
    }

    /// Returns how many of the numbers below `number` belong to the rank. Without a deal all do,
    /// including those before `first`.
    pub(super) fn place(&self, number: u64) -> u64 {
        let Some(Deal { per_step, own }) = &self.deal else { return number };
        let (steps, rest) = ((number - self.first) / per_step, (number - self.first) % per_step);
        let (many, part) = (own.end - own.start, rest.clamp(own.start, own.end) - own.start);
        steps.saturating_mul(many).saturating_add(part)
    }

    /// Returns the number at a position, unless the rank has none.
    pub(super) fn at(&self, place: u64) -> Option<u64> {
        let Some(Deal { per_step, own }) = &self.deal else { return Some(place) };
        let many = own.end - own.start;
        let (steps, rest) = (place.checked_div(many)?, place % many);
        steps.checked_mul(*per_step)?.checked_add(self.first)?.checked_add(own.start + rest)
    }

    /// Returns the rank's first number from `from` on, unless it has none.
    pub(super) fn next(&self, from: u64) -> Option<u64> {
        self.at(self.place(from))
    }

    /// Returns a count of consecutive numbers that holds about `count` of the rank's, and always
    /// its next one.
    pub(super) fn spread(&self, count: u64) -> u64 {
        let Some(Deal { per_step, own }) = &self.deal else { return count };
        let many = (own.end - own.start).max(1);
        let gap = per_step - many.min(*per_step);
        count.saturating_mul(per_step.div_ceil(many)).max(count.saturating_add(gap))
    }
}
