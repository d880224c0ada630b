//! What a worker does for one turn of a lane.

use std::sync::Arc;

use samebits_rng::Generator;

use super::{Config, LaneState, Records, ShardedDataset, StreamState, record_rng};
use crate::context::{SampleContext, WorkerContext};
use crate::engine::Task;
use crate::loader::WorkerState;
use crate::{Collate, Error, Result};

/// One epoch of a stream; a slot is a turn: lane *slot* mod *lanes* produces a batch, or ends.
pub(crate) struct Streaming<D, C> {
    config: Arc<Config<D, C>>,
    /// The order of the shards.
    order: Vec<usize>,
    key: Generator,
    first_turn: u64,
    lanes: Vec<LaneState>,
    saved: Vec<Option<WorkerState>>,
}

/// A lane as its worker sees it.
pub(crate) struct Lane<R> {
    state: LaneState,
    open: Option<Records<R>>,
    /// False from the start of a turn until its end: a turn that panics leaves the lane in an
    /// unknown state.
    sound: bool,
}

/// What a turn has brought.
pub(crate) struct Turn<B> {
    /// None if the lane has ended.
    pub(super) batch: Option<Result<Collated<B>>>,
    pub(super) lane: LaneState,
    pub(super) worker: usize,
    pub(super) state: Option<WorkerState>,
}

pub(crate) struct Collated<B> {
    pub(super) origins: Vec<(usize, u64)>,
    pub(super) data: B,
}

impl<D: ShardedDataset, C: Collate<D::Item>> Streaming<D, C> {
    pub(super) fn new(config: Arc<Config<D, C>>, order: Vec<usize>, state: &StreamState) -> Self {
        Streaming {
            key: config.key(state.epoch),
            order,
            first_turn: state.turn,
            lanes: state.lanes.clone(),
            saved: state.workers.clone(),
            config,
        }
    }

    /// The next record of a lane, with its shard and place.
    fn next_record(
        &self,
        number: usize,
        lane: &mut Lane<D::Raw>,
    ) -> Option<Result<(usize, u64, D::Raw)>> {
        loop {
            let place = lane.state.shards.checked_mul(self.lanes.len() as u64);
            let place = place.and_then(|place| place.checked_add(number as u64));
            let shard = place.and_then(|place| usize::try_from(place).ok());
            let &shard = shard.and_then(|place| self.order.get(place))?;
            let records = match &mut lane.open {
                Some(records) => records,
                None => match self.config.dataset.open(shard, lane.state.records) {
                    Ok(records) => lane.open.insert(records),
                    Err(error) => return Some(Err(error)),
                },
            };
            match records.next() {
                Some(record) => {
                    let place = lane.state.records;
                    lane.state.records += 1;
                    return Some(record.map(|record| (shard, place, record)));
                }
                None => {
                    lane.open = None;
                    lane.state.shards += 1;
                    lane.state.records = 0;
                }
            }
        }
    }

    /// The next batch of a lane, or none at its end.
    fn batch(
        &self,
        slot: u64,
        number: usize,
        lane: &mut Lane<D::Raw>,
        worker: &mut WorkerContext,
    ) -> Option<Result<Collated<C::Batch>>> {
        let config = &self.config;
        let id = worker.info().id;
        let fail = |sample, source: Error| Error::Sample {
            worker: id,
            batch: slot,
            sample,
            source: Box::new(source),
        };
        let mut origins = Vec::with_capacity(config.batch_size);
        let mut samples = Vec::with_capacity(config.batch_size);
        let mut spoiled = None;
        while origins.len() < config.batch_size && !worker.cancelled() {
            worker.at_sample(Some(lane.state.records as usize));
            let (shard, place, raw) = match self.next_record(number, lane) {
                None => break,
                Some(Ok(record)) => record,
                Some(Err(error)) => {
                    // Nobody knows what follows a record that cannot be read.
                    lane.state.ended = true;
                    return Some(Err(fail(lane.state.records as usize, error)));
                }
            };
            worker.at_sample(Some(place as usize));
            origins.push((shard, place));
            let rng = record_rng(&self.key, shard, place);
            let mut cx = SampleContext::of_stream(worker, place as usize, rng);
            let seeded = config.hooks.before_sample(&mut cx);
            match seeded.and_then(|()| config.dataset.sample(raw, &mut cx)) {
                Ok(sample) => samples.push(sample),
                // The rest of the batch is read all the same: its place in the lane is fixed.
                Err(error) => {
                    spoiled.get_or_insert_with(|| fail(place as usize, error));
                }
            }
        }
        worker.at_sample(None);
        if origins.len() < config.batch_size && (config.drop_last || origins.is_empty()) {
            return None;
        }
        if let Some(error) = spoiled {
            return Some(Err(error));
        }
        let data = config.collate.collate(samples).map_err(|source| Error::Collate {
            worker: id,
            batch: slot,
            source: Box::new(source),
        });
        Some(data.map(|data| Collated { origins, data }))
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
            let lane = (slot % lanes.len() as u64) as usize;
            lane % workers == worker && !lanes[lane].state.ended
        })
    }

    fn start(&self, worker: &mut WorkerContext) -> Result<Vec<Lane<D::Raw>>> {
        let saved = self.saved.get(worker.info().id).and_then(Option::as_ref);
        self.config.hooks.start(worker, saved)?;
        let lane = |&state: &LaneState| Lane { state, open: None, sound: true };
        Ok(self.lanes.iter().map(lane).collect())
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
        let batch = match lane.sound {
            true => {
                lane.sound = false;
                let batch = self.batch(slot, number, lane, worker);
                lane.sound = true;
                batch
            }
            false => None,
        };
        if batch.is_none() {
            lane.state.ended = true;
            lane.open = None;
        }
        Ok(Turn {
            batch,
            lane: lane.state,
            worker: worker.info().id,
            state: self.config.hooks.save(worker),
        })
    }
}
