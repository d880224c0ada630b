//! Iterating over the batches of a stream.

use std::fmt;

use super::task::Streaming;
use super::{ShardedDataset, StreamBatch, StreamState};
use crate::engine::{Pool, Run, Settings};
use crate::{Collate, Error, Result};

/// The batches of one epoch of a stream, in order.
///
/// A sample that cannot be decoded spoils its batch only. A record that cannot be read, or a
/// panic, ends its lane as well, since nobody knows what would follow; the other lanes go on.
pub struct StreamEpoch<D: ShardedDataset, C: Collate<D::Item>> {
    run: std::result::Result<Run<Streaming<D, C>>, Option<Error>>,
    state: StreamState,
    ended: bool,
}

impl<D: ShardedDataset, C: Collate<D::Item>> StreamEpoch<D, C> {
    pub(super) fn refused(error: Error, state: StreamState) -> Self {
        StreamEpoch { run: Err(Some(error)), state, ended: false }
    }

    pub(super) fn start(
        task: Streaming<D, C>,
        settings: Settings,
        pool: Option<Pool<Streaming<D, C>>>,
        state: &StreamState,
    ) -> Self {
        let mut state = state.clone();
        state.worker_count = settings.workers;
        let run = Ok(Run::start(task, settings, pool));
        StreamEpoch { run, state, ended: false }
    }

    /// Where the epoch stands, for [`StreamLoader::resume`](super::StreamLoader::resume).
    pub fn state(&self) -> &StreamState {
        &self.state
    }

    /// The next turn of a lane that has not ended.
    fn next_turn(&self) -> Option<u64> {
        let lanes = self.state.lanes.len() as u64;
        let turns = self.state.turn..self.state.turn.saturating_add(lanes);
        turns.into_iter().find(|turn| !self.state.lanes[(turn % lanes) as usize].ended)
    }
}

impl<D: ShardedDataset, C: Collate<D::Item>> Iterator for StreamEpoch<D, C> {
    type Item = Result<StreamBatch<C::Batch>>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if self.ended {
                return None;
            }
            let turn = self.next_turn();
            let run = match &mut self.run {
                Ok(run) => run,
                Err(error) => return error.take().map(Err),
            };
            let turn = turn?;
            let lane = (turn % self.state.lanes.len() as u64) as usize;
            let output = match run.take(turn) {
                Ok(output) => output,
                Err(error) => {
                    self.ended = error.ends_epoch();
                    // A turn fails as a whole only by a panic, which ends its lane.
                    self.state.lanes[lane].ended = true;
                    self.state.turn = turn + 1;
                    return Some(Err(error));
                }
            };
            self.state.turn = turn + 1;
            self.state.lanes[lane] = output.lane;
            if output.state.is_some() {
                let workers = &mut self.state.workers;
                if workers.len() <= output.worker {
                    workers.resize(output.worker + 1, None);
                }
                workers[output.worker] = output.state;
            }
            let Some(batch) = output.batch else { continue };
            let number = self.state.batch;
            self.state.batch += 1;
            let epoch = self.state.epoch;
            return Some(batch.map(|batch| StreamBatch {
                number,
                epoch,
                origins: batch.origins,
                data: batch.data,
            }));
        }
    }
}

impl<D: ShardedDataset, C: Collate<D::Item>> Drop for StreamEpoch<D, C> {
    fn drop(&mut self) {
        if let Ok(run) = &mut self.run
            && let Some(pool) = run.finish()
        {
            pool.join();
        }
    }
}

impl<D: ShardedDataset, C: Collate<D::Item>> fmt::Debug for StreamEpoch<D, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StreamEpoch").field("state", &self.state).finish_non_exhaustive()
    }
}
