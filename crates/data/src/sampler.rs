//! Samplers: the order, repetition and batching of samples.

use std::fmt;

use samebits_numerics::memory;
use samebits_rng::{Draw, Generator};

use crate::memory::allocated;
use crate::{Error, Result};

mod order;
mod weighted;

pub use order::Order;
pub use weighted::Weighted;

/// The order in which an epoch visits samples.
///
/// # Determinism
///
/// The order is a function of the sampler, the dataset's length, the epoch and the generator; a
/// sampler has no state. Any epoch can therefore be visited first, again, or from its middle, and a
/// saved loader needs only the sampler's description.
pub trait Sampler: fmt::Debug + Send + Sync + 'static {
    /// Describes the sampler and its settings. A saved state resumes only with a sampler of the
    /// same description.
    fn describe(&self) -> String;

    /// Returns the indices that `epoch` visits, all below `len`: a `Vec` with `into()`, or
    /// [`Order::computed`]. `generator` belongs to this epoch alone and stands at its start.
    ///
    /// # Errors
    ///
    /// If the sampler cannot serve a dataset of this length.
    fn order(&self, len: usize, epoch: u64, generator: &Generator) -> Result<Order>;

    /// Returns false if no index repeats within an epoch. Otherwise the loader lists the whole
    /// order to count repeats.
    fn may_repeat(&self) -> bool {
        true
    }
}

/// Source of whole batches, for example of samples of similar length.
///
/// # Determinism
///
/// As for [`Sampler`]: the batches are a function of the arguments.
pub trait BatchSampler: fmt::Debug + Send + Sync + 'static {
    /// Describes the sampler and its settings.
    fn describe(&self) -> String;

    /// Returns the batches of `epoch` as indices, all below `len`.
    ///
    /// # Errors
    ///
    /// If the sampler cannot serve a dataset of this length.
    fn batches(&self, len: usize, epoch: u64, generator: &Generator) -> Result<Vec<Vec<usize>>>;
}

/// Sampler that visits all samples in index order, with a plan of constant size.
#[doc(alias = "SequentialSampler")]
#[derive(Clone, Copy, Debug, Default)]
pub struct Sequential;

impl Sampler for Sequential {
    fn describe(&self) -> String {
        "sequential".to_owned()
    }

    fn order(&self, len: usize, _: u64, _: &Generator) -> Result<Order> {
        Ok(Order::ascending(len))
    }

    fn may_repeat(&self) -> bool {
        false
    }
}

/// Sampler that visits all samples once, in random order. The plan of an epoch takes 8 bytes per
/// sample on each rank, so use [`Bijective`] beyond 10^8 samples; above 2^27 the loader logs a
/// warning.
///
/// # Examples
///
/// ```
/// use samebits_data::{Sampler, Shuffled};
/// use samebits_rng::Generator;
///
/// let mut order = Shuffled.order(100, 0, &Generator::new(1))?.into_vec()?;
/// assert_ne!(order, (0..100).collect::<Vec<_>>());
/// order.sort_unstable();
/// assert_eq!(order, (0..100).collect::<Vec<_>>());
/// # Ok::<(), samebits_data::Error>(())
/// ```
#[doc(alias = "RandomSampler")]
#[derive(Clone, Copy, Debug, Default)]
pub struct Shuffled;

impl Sampler for Shuffled {
    fn describe(&self) -> String {
        "shuffled".to_owned()
    }

    fn order(&self, len: usize, _: u64, generator: &Generator) -> Result<Order> {
        if len > 1 << 27 {
            tracing::warn!(
                samples = len,
                bytes = len.saturating_mul(size_of::<usize>()),
                "shuffled sampler: lists all samples; `sampler(Bijective)` shuffles without a list"
            );
        }
        Ok(permutation("shuffled sampler", len, generator)?.into())
    }

    fn may_repeat(&self) -> bool {
        false
    }
}

/// Sampler that visits all samples once, in a random order computed place by place: the plan of an
/// epoch takes no memory, whatever the length. [`Shuffled`] is faster for orders that fit into
/// memory.
///
/// # Determinism
///
/// The order is the [`Bijection`](samebits_rng::Bijection) drawn by the generator of the epoch's
/// order.
///
/// # Examples
///
/// ```
/// use samebits_data::{Bijective, Sampler};
/// use samebits_rng::Generator;
///
/// let order = Bijective.order(1_000_000_000, 0, &Generator::new(1))?;
/// assert!(order.at(999_999_999).unwrap() < 1_000_000_000);
/// # Ok::<(), samebits_data::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Bijective;

impl Sampler for Bijective {
    fn describe(&self) -> String {
        "shuffled by a bijection".to_owned()
    }

    fn order(&self, len: usize, _: u64, generator: &Generator) -> Result<Order> {
        let bijection = generator.clone().bijection(len as u64);
        let at = move |place| bijection.at(place as u64).map_or(usize::MAX, |index| index as usize);
        Ok(Order::computed(len, at))
    }

    fn may_repeat(&self) -> bool {
        false
    }
}

/// Sampler that draws samples with replacement.
///
/// # Determinism
///
/// Draw *i* takes the 64-bit number formed by words 2(*i* mod 2) and 2(*i* mod 2) + 1, low word
/// first, of the generator's block *i* / 2. The index is the upper 64 bits of its product with the
/// length.
#[doc(alias = "RandomSampler")]
#[derive(Clone, Copy, Debug)]
pub struct WithReplacement {
    samples: usize,
}

impl WithReplacement {
    /// Creates a sampler that draws `samples` samples in each epoch.
    pub fn new(samples: usize) -> Self {
        WithReplacement { samples }
    }
}

impl Sampler for WithReplacement {
    fn describe(&self) -> String {
        format!("{} with replacement", self.samples)
    }

    fn order(&self, len: usize, _: u64, generator: &Generator) -> Result<Order> {
        if len == 0 && self.samples > 0 {
            return Err(Error::option(
                "sampler with replacement",
                "samples",
                self.samples,
                "must be 0 for an empty dataset",
            ));
        }
        let draw = |word| ((u128::from(word) * len as u128) >> 64) as usize;
        let mut order = allocated("sampler with replacement", memory::with_capacity(self.samples))?;
        order.extend(words64(generator).take(self.samples).map(draw));
        Ok(order.into())
    }
}

/// Sampler that visits the listed samples in random order.
#[doc(alias = "SubsetRandomSampler")]
#[derive(Clone, Debug)]
pub struct ShuffledSubset {
    indices: Vec<usize>,
}

impl ShuffledSubset {
    /// Creates a sampler that visits the samples with these indices.
    pub fn new(indices: Vec<usize>) -> Self {
        ShuffledSubset { indices }
    }
}

impl Sampler for ShuffledSubset {
    fn describe(&self) -> String {
        let digest = digest(self.indices.iter().map(|&index| index as u64));
        format!("shuffled subset of {} indices, digest {digest:016x}", self.indices.len())
    }

    fn order(&self, len: usize, _: u64, generator: &Generator) -> Result<Order> {
        if let Some(&index) = self.indices.iter().find(|&&index| index >= len) {
            return Err(Error::IndexOutOfRange { op: "shuffled subset", index, len });
        }
        let mut order = permutation("shuffled subset", self.indices.len(), generator)?;
        order.iter_mut().for_each(|place| *place = self.indices[*place]);
        Ok(order.into())
    }
}

/// Treatment of the last samples if they do not fill all ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tail {
    /// Ranks short of a sample take one from the start of the order.
    Pad,
    /// The last samples, fewer than there are ranks, are dropped.
    Drop,
}

/// One rank's part of every epoch, for training on several machines.
///
/// # Determinism
///
/// All ranks share one global order, independent of the number of ranks; rank *r* of *n* takes the
/// positions *r*, *r* + *n*, *r* + 2*n*, and so on. After *k* batches of size *b* all ranks
/// together have visited the first *k b n* positions. An epoch can therefore be resumed with
/// another number of ranks; as long as *b n* stays the same, the steps visit the same sets of
/// samples.
#[doc(alias = "DistributedSampler")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    pub(crate) rank: usize,
    pub(crate) world: usize,
    pub(crate) tail: Tail,
}

impl Shard {
    /// Creates the part of rank `rank` out of `world` ranks.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidOption`] unless `rank` is below `world`, and `world` below 2^32.
    ///
    /// # Examples
    ///
    /// ```
    /// use samebits_data::{Shard, Tail};
    ///
    /// let order = [7, 3, 1, 0, 5];
    /// assert_eq!(Shard::new(1, 2, Tail::Pad)?.of(&order), [3, 0, 7]);
    /// assert_eq!(Shard::new(1, 2, Tail::Drop)?.of(&order), [3, 0]);
    /// # Ok::<(), samebits_data::Error>(())
    /// ```
    pub fn new(rank: usize, world: usize, tail: Tail) -> Result<Self> {
        if rank >= world {
            return Err(Error::option(
                "shard",
                "rank",
                rank,
                format!("must be below the world size {world}"),
            ));
        }
        if u32::try_from(world).is_err() {
            return Err(Error::option("shard", "world size", world, "must be below 2^32"));
        }
        Ok(Shard { rank, world, tail })
    }

    /// Returns this rank's part of a global order.
    pub fn of<T: Clone>(&self, order: &[T]) -> Vec<T> {
        self.places(order.len()).map(|place| order[place % order.len()].clone()).collect()
    }

    /// Returns the positions of this rank in an order of length `len`; positions from `len` on wrap
    /// around.
    pub(crate) fn places(&self, len: usize) -> impl ExactSizeIterator<Item = usize> + use<> {
        let rounds = match self.tail {
            Tail::Pad => len.div_ceil(self.world),
            Tail::Drop => len / self.world,
        };
        let Shard { rank, world, .. } = *self;
        (0..rounds).map(move |round| round * world + rank)
    }
}

/// Draws a random order of the numbers below `len`: the generator's own permutation.
pub(crate) fn permutation(
    op: &'static str,
    len: usize,
    generator: &Generator,
) -> Result<Vec<usize>> {
    let draw = Draw::new(generator.seed(), generator.stream(), generator.offset());
    let mut order = allocated(op, memory::zeroed::<i64>(len))?;
    draw.permutation_into(&mut order)?;
    // Collecting into elements of equal size reuses the buffer.
    Ok(order.into_iter().map(|index| index as usize).collect())
}

/// Returns the 64-bit numbers of a generator, two from each block, low word first.
pub(crate) fn words64(generator: &Generator) -> impl Iterator<Item = u64> + use<> {
    let mut generator = generator.clone();
    std::iter::repeat_with(move || {
        let [a, b, c, d] = generator.next_block();
        [u64::from(a) | u64::from(b) << 32, u64::from(c) | u64::from(d) << 32]
    })
    .flatten()
}

/// Digests 64-bit words to tell descriptions apart. It guards against mistakes, not attacks: a
/// bijection mixes in each word, so two inputs that differ in one word always have different
/// digests.
pub(crate) fn digest(words: impl Iterator<Item = u64>) -> u64 {
    words.fold(0xcbf2_9ce4_8422_2325, |hash: u64, word| {
        (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_with_replacement_are_even_and_in_range() {
        let order = WithReplacement::new(70_000).order(7, 0, &Generator::new(5)).unwrap();
        let mut counts = [0_usize; 7];
        for index in order.into_vec().unwrap() {
            counts[index] += 1;
        }
        // Five standard deviations of a binomial(70000, 1/7) are 463.
        assert!(counts.iter().all(|&count| count.abs_diff(10_000) < 463), "{counts:?}");
        assert!(WithReplacement::new(1).order(0, 0, &Generator::new(0)).is_err());
        assert!(WithReplacement::new(0).order(0, 0, &Generator::new(0)).unwrap().is_empty());
    }

    #[test]
    fn shards_cover_the_order_for_any_world_size() {
        for len in 0..40_usize {
            let order: Vec<usize> = (0..len).rev().collect();
            for world in 1..9 {
                let part = |rank, tail| Shard::new(rank, world, tail).unwrap().of(&order);
                let padded: Vec<_> = (0..world).map(|rank| part(rank, Tail::Pad)).collect();
                let dropped: Vec<_> = (0..world).map(|rank| part(rank, Tail::Drop)).collect();
                let mut seen: Vec<_> = padded.concat();
                seen.sort_unstable();
                seen.dedup();
                assert_eq!(seen.len(), len);
                assert!(padded.iter().all(|part| part.len() == len.div_ceil(world)));
                let mut seen = dropped.concat();
                seen.sort_unstable();
                assert_eq!(seen, (len % world..len).collect::<Vec<_>>());
            }
        }
        assert!(Shard::new(2, 2, Tail::Pad).is_err());
        assert!(Shard::new(0, 0, Tail::Pad).is_err());
    }

    #[test]
    fn a_subset_must_lie_in_the_dataset() {
        let subset = ShuffledSubset::new(vec![5, 9]);
        let order = subset.order(10, 0, &Generator::new(0)).unwrap();
        let mut order = order.into_vec().unwrap();
        order.sort_unstable();
        assert_eq!(order, [5, 9]);
        assert!(subset.order(9, 0, &Generator::new(0)).is_err());
        assert_ne!(subset.describe(), ShuffledSubset::new(vec![5, 8]).describe());
    }
}
