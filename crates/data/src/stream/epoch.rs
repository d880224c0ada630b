//! Iteration over the batches of a stream.

use std::fmt;

use super::task::{Outcome, Streaming};
use super::{ShardedDataset, StreamBatch, StreamState};
use crate::engine::{Pool, Run, Settings};
use crate::{Collate, Error, Result, Retry, Skipped};

/// The batches of one epoch of a stream, in order.
///
/// A sample that fails or panics, or an unreadable record, affects its batch only: the error takes
/// the batch's place, and the next batch follows. The epoch ends if a shard cannot be opened behind
/// an unreadable record, and after [`Error::WorkerInit`], [`Error::Timeout`] and
/// [`Error::TooManySkipped`].
pub struct StreamEpoch<D: ShardedDataset, C: Collate<D::Item>> {
    run: std::result::Result<Run<Streaming<D, C>>, Option<Error>>,
    /// The state after the last turn.
    state: StreamState,
    /// The state before an error, kept until a later batch is handed out.
    before_error: Option<Box<StreamState>>,
    ended: bool,
    retry: Retry,
}

impl<D: ShardedDataset, C: Collate<D::Item>> StreamEpoch<D, C> {
    pub(super) fn refused(error: Error, state: StreamState) -> Self {
        let (run, retry) = (Err(Some(error)), Retry::default());
        StreamEpoch { run, state, before_error: None, ended: false, retry }
    }

    pub(super) fn start(
        task: Streaming<D, C>,
        settings: Settings,
        pool: Option<Pool<Streaming<D, C>>>,
        state: &StreamState,
    ) -> Self {
        let mut state = state.clone();
        state.worker_count = settings.workers;
        let retry = task.retry();
        let run = Ok(Run::start(task, settings, pool));
        StreamEpoch { run, state, before_error: None, ended: false, retry }
    }

    /// Returns the position for [`StreamLoader::resume`](super::StreamLoader::resume): after the
    /// last batch that was handed out. After an error, this is before the failed batch.
    pub fn state(&self) -> &StreamState {
        self.before_error.as_deref().unwrap_or(&self.state)
    }

    /// Returns the records that [`Retry::skip`] has skipped so far, each with its reason.
    pub fn skipped(&self) -> &[Skipped] {
        &self.state.skipped
    }

    /// Returns the next batch, if its lane's turn is below `limit`. With *lanes* lanes, round *r* has
    /// the turns below *(r + 1) lanes*.
    pub fn next_before(&mut self, limit: u64) -> Option<Result<StreamBatch<C::Batch>>> {
        while !self.ended {
            let turn = self.next_turn().filter(|turn| *turn < limit);
            let run = match &mut self.run {
                Ok(run) => run,
                Err(error) => return error.take().map(Err),
            };
            let turn = turn?;
            let output = match run.take(turn) {
                Ok(output) => output,
                Err(error) => {
                    // The workers' prefetched batches are lost; the state still stands before them.
                    self.ended = true;
                    return Some(Err(error));
                }
            };
            if matches!(output.outcome, Outcome::Batch(Err(_))) && self.before_error.is_none() {
                self.before_error = Some(Box::new(self.state.clone()));
            }
            if let Err(error) = self.retry.admit(&mut self.state.skipped, output.skipped) {
                self.ended = true;
                return Some(Err(error));
            }
            self.ended = output.stuck;
            let state = &mut self.state;
            state.turn = turn + 1;
            let lane = (turn % state.lanes.len() as u64) as usize;
            state.lanes[lane] = output.lane;
            if output.state.is_some() {
                if state.workers.len() <= output.worker {
                    state.workers.resize(output.worker + 1, None);
                }
                state.workers[output.worker] = output.state;
            }
            let Outcome::Batch(batch) = output.outcome else { continue };
            let (number, epoch) = (state.batch, state.epoch);
            state.batch += 1;
            if batch.is_ok() {
                self.before_error = None;
            }
            return Some(batch.map(|batch| StreamBatch {
                number,
                epoch,
                origins: batch.origins,
                data: batch.data,
            }));
        }
        None
    }

    /// Returns the next turn of a lane that has not ended.
    fn next_turn(&self) -> Option<u64> {
        let lanes = self.state.lanes.len() as u64;
        let turns = self.state.turn..self.state.turn.saturating_add(lanes);
        turns.into_iter().find(|turn| !self.state.lanes[(turn % lanes) as usize].ended)
    }
}

impl<D: ShardedDataset, C: Collate<D::Item>> Iterator for StreamEpoch<D, C> {
    type Item = Result<StreamBatch<C::Batch>>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_before(u64::MAX)
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
