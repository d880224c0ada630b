//! Loaders, as a trainer sees them: micro-batches in steps.

use std::fmt::Debug;
use std::ops::Range;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::{Error, Result};
use crate::data::{
    self, Collate, DataLoader, Dataset, Deal, Epoch, LaneState, LoaderState, ShardedDataset,
    StreamEpoch, StreamLoader, StreamState,
};

/// A loader that a [`Trainer`](super::Trainer) can take batches from: a [`DataLoader`] or a
/// [`StreamLoader`]. The trait is sealed.
pub trait Loader: sealed::Sealed {
    /// The result of the collate function for a batch.
    type Batch;
    /// A position in an epoch, as in checkpoints.
    type State: Clone + Debug + Serialize + DeserializeOwned;
    #[doc(hidden)]
    type Steps: Steps<Batch = Self::Batch, State = Self::State>;

    /// Describes the source of the batches.
    #[doc(hidden)]
    fn source(&self) -> Result<String>;

    /// Returns the number of batches in an epoch, unless only reading them tells.
    #[doc(hidden)]
    fn batches(&self, epoch: u64) -> Result<Option<u64>>;

    /// Starts an epoch, or continues it.
    #[doc(hidden)]
    fn begin(&self, epoch: u64, from: Option<&Self::State>, share: Share) -> Result<Self::Steps>;

    /// Returns the epoch of a position, and the number of its steps before the position.
    #[doc(hidden)]
    fn place(position: &Self::State, per_step: u64) -> (u64, u64);
}

mod sealed {
    use super::{Collate, DataLoader, Dataset, ShardedDataset, StreamLoader};

    pub trait Sealed {}

    impl<D: Dataset, C: Collate<D::Item>> Sealed for DataLoader<D, C> {}

    impl<D: ShardedDataset, C: Collate<D::Item>> Sealed for StreamLoader<D, C> {}
}

/// The micro-batches of a step that a rank computes.
#[derive(Clone, Debug)]
pub struct Share {
    /// The number of micro-batches in a step, over all ranks.
    pub(super) per_step: u64,
    /// This rank's.
    pub(super) own: Range<u64>,
    /// False without ranks.
    pub(super) is_shared: bool,
}

/// A batch with its place in a step.
#[derive(Debug)]
pub struct Micro<B> {
    /// Its number in the step.
    pub(super) number: u64,
    /// The samples, for ledgers: `columns` numbers for each.
    pub(super) indices: Vec<i64>,
    pub(super) columns: usize,
    pub(super) data: B,
}

/// The micro-batches of an epoch, step by step.
pub trait Steps {
    /// The result of the collate function for a batch.
    type Batch;
    /// A position in an epoch.
    type State;
    /// What the other ranks must know about the position of a rank.
    type Part: Clone + Serialize + DeserializeOwned;

    /// True if a micro-batch may be missing before others of the step.
    const GAPS: bool;

    /// Returns the next micro-batch of this rank in the step.
    fn next(&mut self) -> Option<data::Result<Micro<Self::Batch>>>;

    /// Returns this rank's part of the position after the step.
    fn part(&self) -> Self::Part;

    /// Moves to the next step. `parts` are those of all ranks.
    fn pass(&mut self, parts: &[Self::Part]) -> data::Result<()>;

    /// Returns the position of all ranks, before the current step.
    fn state(&self) -> Self::State;

    /// Returns true if it is known that no batch is left.
    fn is_over(&self) -> bool;
}

/// What the other ranks must know about the position of a rank.
pub(super) type PartOf<D> = <<D as Loader>::Steps as Steps>::Part;

impl<D: Dataset, C: Collate<D::Item>> Loader for DataLoader<D, C> {
    type Batch = C::Batch;
    type State = LoaderState;
    type Steps = Batches<D, C>;

    fn source(&self) -> Result<String> {
        let state = self.start_of(0)?;
        let (dataset, len, sampler) = (&state.dataset, state.dataset_len, &state.sampler);
        Ok(format!("{dataset} of {len}, {sampler}, {:?}", state.seeding))
    }

    fn batches(&self, epoch: u64) -> Result<Option<u64>> {
        Ok(Some(self.batches_in(epoch)?))
    }

    fn begin(&self, epoch: u64, from: Option<&LoaderState>, share: Share) -> Result<Self::Steps> {
        let in_epoch = self.batches_in(epoch)?;
        let deal = Deal { per_step: share.per_step, own: share.own.clone() };
        let batches = match (from, share.is_shared) {
            (Some(position), false) => self.resume(position)?,
            (Some(position), true) => self.resume_dealt(position, &deal)?,
            (None, false) => self.epoch(epoch),
            (None, true) => self.epoch_dealt(epoch, &deal)?,
        };
        let state = from.cloned().map_or_else(|| self.start_of(epoch), Ok)?;
        Ok(Batches { batches, share, in_epoch, state, taken: 0 })
    }

    fn place(position: &LoaderState, per_step: u64) -> (u64, u64) {
        (position.epoch, position.batch.div_ceil(per_step))
    }
}

/// The steps of a [`DataLoader`].
#[allow(missing_debug_implementations, reason = "it is hidden")]
pub struct Batches<D: Dataset, C: Collate<D::Item>> {
    batches: Epoch<D, C>,
    share: Share,
    in_epoch: u64,
    state: LoaderState,
    /// The micro-batches of the step that this rank has taken.
    taken: u64,
}

impl<D: Dataset, C: Collate<D::Item>> Steps for Batches<D, C> {
    type Batch = C::Batch;
    type State = LoaderState;
    type Part = ();

    const GAPS: bool = false;

    fn next(&mut self) -> Option<data::Result<Micro<C::Batch>>> {
        let Range { start, end } = self.share.own;
        let cut = |at: u64| self.state.batch.saturating_add(at).min(self.in_epoch);
        if self.taken >= cut(end) - cut(start) {
            return None;
        }
        let number = start + self.taken;
        self.taken += 1;
        let micro = |batch: data::Batch<C::Batch>| {
            let indices = batch.indices.iter().map(|&index| index as i64).collect();
            Micro { number, indices, columns: 1, data: batch.data }
        };
        self.batches.next().map(|batch| batch.map(micro))
    }

    fn part(&self) {}

    fn pass(&mut self, _: &[()]) -> data::Result<()> {
        if self.share.is_shared {
            self.batches.pass_to(self.state.batch.saturating_add(self.share.per_step));
        }
        self.state = self.batches.state()?;
        self.taken = 0;
        Ok(())
    }

    fn state(&self) -> LoaderState {
        self.state.clone()
    }

    fn is_over(&self) -> bool {
        self.state.batch >= self.in_epoch
    }
}

impl<D: ShardedDataset, C: Collate<D::Item>> Loader for StreamLoader<D, C> {
    type Batch = C::Batch;
    type State = StreamState;
    type Steps = Lanes<D, C>;

    fn source(&self) -> Result<String> {
        let StreamState { dataset, shuffle, window, seeding, lanes, .. } = self.start_of(0);
        let lanes = lanes.len();
        Ok(format!(
            "{dataset}, shuffled: {shuffle}, {window} in a window, {lanes} lanes, {seeding:?}"
        ))
    }

    fn batches(&self, _: u64) -> Result<Option<u64>> {
        Ok(None)
    }

    fn begin(&self, epoch: u64, from: Option<&StreamState>, share: Share) -> Result<Self::Steps> {
        let start = self.start_of(epoch);
        let lanes = start.lanes.len() as u64;
        let state = from.cloned().unwrap_or(start);
        let in_rounds = share.per_step > 1;
        if in_rounds && share.per_step != lanes {
            let expected = share.per_step;
            let message = format!(
                "each micro-batch of a step has a lane of the stream, so {expected} lanes are \
                 needed, got {lanes}"
            );
            return Err(Error::Invalid(message));
        }
        let own = share.own.start as usize..share.own.end as usize;
        let batches = match in_rounds {
            true => self.resume_lanes(&state, own.clone())?,
            false => self.resume(&state)?,
        };
        Ok(Lanes { batches, own, in_rounds, begun: state.batch, state, is_taken: false })
    }

    fn place(position: &StreamState, per_step: u64) -> (u64, u64) {
        let steps = if per_step > 1 { position.turn / per_step } else { position.batch };
        (position.epoch, steps)
    }
}

/// The steps of a [`StreamLoader`]: rounds of its lanes, or single batches.
#[allow(missing_debug_implementations, reason = "it is hidden")]
pub struct Lanes<D: ShardedDataset, C: Collate<D::Item>> {
    batches: StreamEpoch<D, C>,
    own: Range<usize>,
    in_rounds: bool,
    /// The number of batches before this call of `fit`.
    begun: u64,
    state: StreamState,
    /// True if a single batch has been taken.
    is_taken: bool,
}

/// The part of a stream's position that a rank knows.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Position {
    /// The rank's lanes.
    lanes: Vec<LaneState>,
    /// The number of batches that the lanes gave in this call of `fit`.
    batches: u64,
}

impl<D: ShardedDataset, C: Collate<D::Item>> Steps for Lanes<D, C> {
    type Batch = C::Batch;
    type State = StreamState;
    type Part = Position;

    const GAPS: bool = true;

    fn next(&mut self) -> Option<data::Result<Micro<C::Batch>>> {
        if !self.in_rounds && std::mem::replace(&mut self.is_taken, true) {
            return None;
        }
        let lanes = self.state.lanes.len() as u64;
        let limit = if self.in_rounds { self.state.turn.saturating_add(lanes) } else { u64::MAX };
        let batch = self.batches.next_before(limit)?;
        let turn = self.batches.state().turn.saturating_sub(1);
        let number = if self.in_rounds { turn % lanes } else { 0 };
        Some(batch.map(|batch| {
            let pair = |&(shard, record): &(usize, u64)| [shard as i64, record as i64];
            let indices = batch.origins.iter().flat_map(pair).collect();
            Micro { number, indices, columns: 2, data: batch.data }
        }))
    }

    fn part(&self) -> Position {
        let state = self.batches.state();
        let lanes = state.lanes.get(self.own.clone()).unwrap_or_default().to_vec();
        Position { lanes, batches: state.batch.saturating_sub(self.begun) }
    }

    fn pass(&mut self, parts: &[Position]) -> data::Result<()> {
        self.is_taken = false;
        let own = self.batches.state();
        if !self.in_rounds {
            self.state = own.clone();
            return Ok(());
        }
        let turn = self.state.turn.saturating_add(self.state.lanes.len() as u64);
        let lanes = parts.iter().flat_map(|part| part.lanes.iter().copied());
        for (lane, position) in self.state.lanes.iter_mut().zip(lanes) {
            *lane = position;
        }
        self.state.batch =
            parts.iter().fold(self.begun, |all, part| all.saturating_add(part.batches));
        self.state.turn = turn;
        self.state.worker_count = own.worker_count;
        self.state.workers.clone_from(&own.workers);
        Ok(())
    }

    fn state(&self) -> StreamState {
        self.state.clone()
    }

    fn is_over(&self) -> bool {
        self.state.lanes.iter().all(|lane| lane.ended)
    }
}
