//! A worker's task: one turn of a lane.

use std::cell::Cell;
use std::sync::Arc;

use super::window::Window;
use super::{Config, LaneState, Records, ShardedDataset, StreamState};
use crate::context::{SampleContext, SampleKeys, WorkerContext};
use crate::engine::Task;
use crate::loader::{WorkerState, collate};
use crate::memory::reserve;
use crate::retry::At;
use crate::{Collate, Error, Result, Retry, Skipped};

/// One epoch of a stream. A slot is a turn: lane *slot* mod *lanes* produces a batch, or ends.
pub(crate) struct Streaming<D, C> {
    config: Arc<Config<D, C>>,
    /// The order of the shards.
    order: Vec<usize>,
    keys: SampleKeys,
    first_turn: u64,
    lanes: Vec<LaneState>,
    saved: Vec<Option<WorkerState>>,
}

/// A lane, as seen by its worker.
pub(crate) struct Lane<R> {
    number: usize,
    state: LaneState,
    /// The reader, if it stands behind the window.
    open: Option<Records<R>>,
    /// The lane's current window, once read.
    window: Option<Window<R>>,
    /// True if the last attempt failed to open its shard.
    unopened: bool,
    /// True if the lane can neither go on nor skip the obstacle.
    stuck: bool,
}

impl<R> Lane<R> {
    fn new(number: usize, state: LaneState) -> Self {
        Lane { number, state, open: None, window: None, unopened: false, stuck: false }
    }

    /// Moves to the start of the lane's next shard.
    fn leave_shard(&mut self) {
        let shards = self.state.shards + 1;
        *self = Lane::new(self.number, LaneState { shards, records: 0, ended: false });
    }
}

/// Result of a turn.
pub(crate) struct Turn<B> {
    pub(super) outcome: Outcome<B>,
    pub(super) skipped: Vec<Skipped>,
    /// The lane's position after the turn.
    pub(super) lane: LaneState,
    /// True if nothing can follow from this lane although it has not ended.
    pub(super) stuck: bool,
    pub(super) worker: usize,
    pub(super) state: Option<WorkerState>,
}

pub(crate) enum Outcome<B> {
    Batch(Result<Collated<B>>),
    /// The whole batch was skipped.
    Nothing,
    /// The lane has ended.
    End,
}

/// A shard and a position in it.
type Origin = (usize, u64);

pub(crate) struct Collated<B> {
    pub(super) origins: Vec<Origin>,
    pub(super) data: B,
}

impl<D: ShardedDataset, C: Collate<D::Item>> Streaming<D, C> {
    pub(super) fn new(config: Arc<Config<D, C>>, order: Vec<usize>, state: &StreamState) -> Self {
        Streaming {
            keys: config.keys(state.epoch),
            order,
            first_turn: state.turn,
            lanes: state.lanes.clone(),
            saved: state.workers.clone(),
            config,
        }
    }

    pub(super) fn retry(&self) -> Retry {
        self.config.retry
    }

    /// Returns the shard that a lane is reading, or `None` at its end.
    fn shard(&self, lane: &Lane<D::Raw>) -> Option<usize> {
        let place = lane.state.shards.checked_mul(self.lanes.len() as u64)?;
        let place = place.checked_add(lane.number as u64)?;
        self.order.get(usize::try_from(place).ok()?).copied()
    }

    /// Reads the record at the lane's position, or `None` at its end.
    fn read(&self, lane: &mut Lane<D::Raw>, at: &Cell<At>) -> Result<Option<D::Raw>> {
        let dataset = &self.config.dataset;
        while let Some(shard) = self.shard(lane) {
            let number = lane.state.records;
            at.set(At { shard: Some(shard), sample: number as usize });
            let window = match lane.window.take().filter(|window| !window.is_behind(number)) {
                Some(window) => window,
                None => {
                    let size = self.config.window;
                    let count = number / size as u64;
                    let generator = self.keys.window((shard as u64, count));
                    let first = count * size as u64;
                    lane.unopened = true;
                    let window =
                        Window::read(dataset, shard, &mut lane.open, first, size, &generator)?;
                    lane.unopened = false;
                    window
                }
            };
            let Some(place) = window.place(number) else {
                lane.leave_shard();
                continue;
            };
            at.set(At { shard: Some(shard), sample: place as usize });
            if let Some(record) = lane.window.insert(window).take(place)? {
                return Ok(Some(record));
            }
            // An earlier attempt took the record.
            let record = dataset.open(shard, place)?.next().transpose()?;
            return record.map(Some).ok_or_else(|| Error::other("the record is gone"));
        }
        Ok(None)
    }

    /// Makes the sample at the lane's position, with its shard and position, or `None` at the
    /// lane's end.
    fn sample(
        &self,
        slot: u64,
        lane: &mut Lane<D::Raw>,
        worker: &mut WorkerContext,
        at: &Cell<At>,
    ) -> Result<Option<(Origin, D::Item)>> {
        let config = &self.config;
        config.retry.run(worker, slot, at, |worker| {
            let Some(raw) = self.read(lane, at)? else { return Ok(None) };
            let At { shard, sample } = at.get();
            worker.at_sample(Some(sample));
            let origin = (shard.unwrap_or_default(), sample as u64);
            let address = (origin.0 as u64, origin.1);
            config.hooks.before_sample(&self.keys, address)?;
            let mut cx = SampleContext::new(worker, &self.keys, address, sample, 0);
            let item = config.dataset.sample(raw, &mut cx)?;
            Ok(Some((origin, item)))
        })
    }

    /// Makes the next batch of a lane. A missing sample leaves its position in the batch empty.
    fn batch(
        &self,
        slot: u64,
        lane: &mut Lane<D::Raw>,
        worker: &mut WorkerContext,
        skipped: &mut Vec<Skipped>,
    ) -> Outcome<C::Batch> {
        let config = &self.config;
        let (mut origins, mut samples) = (Vec::new(), Vec::new());
        let mut places = 0;
        // The first sample, even if it was skipped.
        let mut first = None;
        let mut failed = None;
        while places < config.batch_size && !worker.cancelled() {
            let at = Cell::new(At { shard: None, sample: lane.state.records as usize });
            let error = match self.sample(slot, lane, worker, &at) {
                Ok(None) => break,
                Ok(Some((origin, sample))) => {
                    first.get_or_insert(origin);
                    let room = reserve(super::OP, &mut origins, 1)
                        .and_then(|()| reserve(super::OP, &mut samples, 1));
                    match room {
                        Ok(()) => {
                            origins.push(origin);
                            samples.push(sample);
                            lane.state.records += 1;
                            places += 1;
                            continue;
                        }
                        Err(error) => error,
                    }
                }
                Err(error) => error,
            };
            let At { shard, sample } = at.get();
            let (shard, place) = (shard.unwrap_or_default(), sample as u64);
            let rest = std::mem::take(&mut lane.unopened);
            if config.retry.most_skipped > 0 {
                let reason = error.to_string();
                skipped.push(match rest {
                    true => Skipped::Rest { shard, place, reason },
                    false => Skipped::Record { shard, place, reason },
                });
                lane.stuck = skipped.len() as u64 > config.retry.most_skipped;
            } else {
                // Read the rest of the batch nevertheless: its position in the lane is fixed.
                failed.get_or_insert(error);
                lane.stuck = rest;
            }
            if lane.stuck {
                break;
            }
            if rest {
                lane.leave_shard();
            } else {
                first.get_or_insert((shard, place));
                lane.state.records += 1;
                places += 1;
            }
        }
        worker.at_sample(None);
        if let Some(error) = failed {
            return Outcome::Batch(Err(error));
        }
        if places < config.batch_size && (config.drop_last || places == 0) {
            return Outcome::End;
        }
        if samples.is_empty() {
            return Outcome::Nothing;
        }
        let (shard, place) = first.unwrap_or_default();
        let generator = self.keys.batch((shard as u64, place));
        let data = collate(&config.collate, slot, worker, samples, generator);
        Outcome::Batch(data.map(|data| Collated { origins, data }))
    }
}

impl<D: ShardedDataset, C: Collate<D::Item>> Task for Streaming<D, C> {
    type Output = Turn<C::Batch>;
    type Local = Vec<Lane<D::Raw>>;

    fn owner(&self, slot: u64, workers: usize) -> usize {
        (slot % self.lanes.len() as u64) as usize % workers
    }

    fn next_slot(
        &self,
        lanes: &Vec<Lane<D::Raw>>,
        worker: usize,
        workers: usize,
        from: u64,
    ) -> Option<u64> {
        (from..from.saturating_add(lanes.len() as u64)).find(|&slot| {
            let lane = &lanes[(slot % lanes.len() as u64) as usize];
            lane.number % workers == worker && !lane.state.ended && !lane.stuck
        })
    }

    fn start(&self, worker: &mut WorkerContext) -> Result<Vec<Lane<D::Raw>>> {
        let saved = self.saved.get(worker.info().id).and_then(Option::as_ref);
        self.config.hooks.start(worker, saved)?;
        let lanes = self.lanes.iter().enumerate();
        Ok(lanes.map(|(number, &state)| Lane::new(number, state)).collect())
    }

    fn run(
        &self,
        slot: u64,
        lanes: &mut Vec<Lane<D::Raw>>,
        worker: &mut WorkerContext,
    ) -> Result<Turn<C::Batch>> {
        debug_assert!(slot >= self.first_turn);
        let number = (slot % lanes.len() as u64) as usize;
        let lane = &mut lanes[number];
        let mut skipped = Vec::new();
        let outcome = self.batch(slot, lane, worker, &mut skipped);
        if matches!(outcome, Outcome::End) && !lane.stuck {
            lane.state.ended = true;
            (lane.open, lane.window) = (None, None);
        }
        Ok(Turn {
            outcome,
            skipped,
            lane: lane.state,
            stuck: lane.stuck,
            worker: worker.info().id,
            state: self.config.hooks.save(worker),
        })
    }
}
