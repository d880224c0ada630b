//! Windows of records, within which a shard is shuffled.

use samebits_numerics::memory;
use samebits_rng::Generator;

use super::{OP, Records, ShardedDataset};
use crate::guard::caught;
use crate::memory::{allocated, reserve};
use crate::sampler::permutation;
use crate::{Error, Result};

/// Consecutive records of a shard, and the order in which they are handed out.
pub(super) struct Window<R> {
    /// The position of the first record in the shard.
    first: u64,
    /// The records; `None` if already taken.
    records: Vec<Option<Record<R>>>,
    order: Vec<usize>,
    /// True if the shard ends with this window.
    last: bool,
}

/// Result of reading a record.
enum Record<R> {
    Read(R),
    Failed(Error),
    Panicked(String),
}

impl<R: Send + 'static> Window<R> {
    /// Reads up to `size` records of a shard from position `first` on, with the reader in `open`,
    /// if any. An unreadable record is stored as its error, and the shard is opened again behind
    /// it. If that fails, so does this call.
    pub(super) fn read(
        dataset: &impl ShardedDataset<Raw = R>,
        shard: usize,
        open: &mut Option<Records<R>>,
        first: u64,
        size: usize,
        generator: &Generator,
    ) -> Result<Self> {
        let mut records = Vec::new();
        let mut last = false;
        while !last && records.len() < size {
            let mut reader = match open.take() {
                Some(reader) => reader,
                None => dataset.open(shard, first + records.len() as u64)?,
            };
            let record = match caught(|| reader.next()) {
                // A reader is reused only after a successful read.
                Ok(Some(Ok(record))) => {
                    *open = Some(reader);
                    Record::Read(record)
                }
                Ok(Some(Err(error))) => Record::Failed(error),
                Ok(None) => {
                    last = true;
                    continue;
                }
                Err(message) => Record::Panicked(message),
            };
            reserve(OP, &mut records, 1)?;
            records.push(Some(record));
        }
        let order = match size {
            1 => allocated(OP, memory::collected(0..records.len()))?,
            _ => permutation(OP, records.len(), generator)?,
        };
        Ok(Window { first, records, order, last })
    }

    /// Returns true if record `number` lies behind this window in the same shard.
    pub(super) fn is_behind(&self, number: u64) -> bool {
        !self.last && number >= self.first + self.records.len() as u64
    }

    /// Returns the position in the shard of the `number`th record to be handed out, or `None`
    /// behind the end.
    pub(super) fn place(&self, number: u64) -> Option<u64> {
        let step = usize::try_from(number.checked_sub(self.first)?).ok()?;
        Some(self.first + *self.order.get(step)? as u64)
    }

    /// Takes the record at a position of this window; `None` if it was taken before. Resumes a
    /// panic of the record's reader.
    pub(super) fn take(&mut self, place: u64) -> Result<Option<R>> {
        match self.records[(place - self.first) as usize].take() {
            None => Ok(None),
            Some(Record::Read(record)) => Ok(Some(record)),
            Some(Record::Failed(error)) => Err(error),
            Some(Record::Panicked(message)) => std::panic::resume_unwind(Box::new(message)),
        }
    }
}
