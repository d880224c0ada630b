//! Collective operations of the ranks of a run.

use std::fmt::Display;
use std::ops::Range;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::{Error, Held, Result, Scalar, Transport, sum};

/// The default size in bytes of a message of [`Ranks::sum`].
const PIECE: usize = 16 << 20;

/// The ranks of a run, as seen from one of them.
#[allow(missing_debug_implementations, reason = "a transport need not have one")]
pub struct Ranks {
    transport: Box<dyn Transport>,
    piece: usize,
}

/// The value or error that a rank sends to the others.
#[derive(Serialize, Deserialize)]
enum Told<T> {
    Ok(T),
    Failed(String),
}

impl<T: Transport + 'static> From<T> for Ranks {
    fn from(transport: T) -> Ranks {
        Ranks::new(transport)
    }
}

impl Ranks {
    /// Creates the ranks connected by `transport`.
    pub fn new(transport: impl Transport + 'static) -> Ranks {
        Ranks { transport: Box::new(transport), piece: PIECE }
    }

    /// Sets the maximum size in bytes of the messages that exchange sums (default: 16 MiB). Small
    /// messages need less memory, large ones fewer calls, each of which waits for all ranks; the size
    /// changes no bit.
    #[must_use]
    pub fn piece(mut self, bytes: usize) -> Ranks {
        self.piece = bytes;
        self
    }

    /// Returns this rank's number, counted from 0.
    pub fn rank(&self) -> usize {
        self.transport.rank()
    }

    /// Returns the number of ranks.
    pub fn world(&self) -> usize {
        self.transport.world()
    }

    /// Returns the transport.
    pub fn transport(&self) -> &dyn Transport {
        &*self.transport
    }

    /// Returns the micro-batches that this rank computes, out of `micro_batches` in a step: a
    /// contiguous range. The ranges are as even as possible; with more ranks than micro-batches,
    /// some are empty.
    pub fn owned(&self, micro_batches: u64) -> Range<u64> {
        let (rank, world) = (self.rank() as u128, self.world() as u128);
        // The result is at most `micro_batches`, so it fits a u64.
        let cut = |rank: u128| (rank * u128::from(micro_batches) / world) as u64;
        cut(rank)..cut(rank + 1)
    }

    /// Gathers a value from each rank, by rank. Use it for small values, such as the position of a
    /// step or a request to stop. If a rank passes an error, the run ends on all ranks, so that no
    /// rank waits for it.
    ///
    /// # Errors
    ///
    /// [`Error::Failed`] on every rank, with the error of the first rank that passed one; errors of
    /// the transport.
    pub fn gather<T: Serialize + DeserializeOwned>(
        &self,
        own: Result<T, impl Display>,
    ) -> Result<Vec<T>> {
        let told = match own {
            Ok(value) => Told::Ok(value),
            Err(error) => Told::Failed(error.to_string()),
        };
        let invalid = |error: serde_json::Error| Error::Invalid(error.to_string());
        let bytes = serde_json::to_vec(&told).map_err(invalid)?;
        let mut values = Vec::with_capacity(self.world());
        for (rank, bytes) in self.transport.all_gather(&bytes)?.iter().enumerate() {
            match serde_json::from_slice(bytes) {
                Ok(Told::Ok(value)) => values.push(value),
                Ok(Told::Failed(cause)) => {
                    self.transport.failed(rank, &cause);
                    return Err(Error::Failed { rank, cause });
                }
                Err(error) => {
                    return Err(Error::Message {
                        rank,
                        waiting: self.rank(),
                        expected: format!("a {}", std::any::type_name::<T>()),
                        found: error.to_string(),
                    });
                }
            }
        }
        Ok(values)
    }

    /// Checks that all ranks were started with the same named values.
    ///
    /// # Errors
    ///
    /// [`Error::Unlike`], on every rank, with the first name whose values differ and the ranks in
    /// the minority.
    pub fn agree(&self, values: &[(&str, String)]) -> Result<()> {
        let own = values.iter().map(|(name, value)| ((*name).to_owned(), value.clone()));
        let own: Vec<(String, String)> = own.collect();
        let all = self.gather(Ok::<_, String>(own))?;
        let most = all.iter().map(Vec::len).max().unwrap_or(0);
        for at in 0..most {
            let of = |rank: usize| all[rank].get(at);
            let votes =
                |rank: &usize| all.iter().filter(|other| other.get(at) == of(*rank)).count();
            // Of equally frequent values, that of the lowest rank counts as right.
            let right = (0..all.len()).rev().max_by_key(votes).unwrap_or(0);
            let odd: Vec<usize> = (0..all.len()).filter(|&rank| of(rank) != of(right)).collect();
            if odd.is_empty() {
                continue;
            }
            let named = [right].iter().chain(&odd).find_map(|&rank| of(rank));
            let what = named.map_or_else(String::new, |(name, _)| name.clone());
            let value =
                |rank: &usize| of(*rank).map_or_else(String::new, |(_, value)| value.clone());
            let values = [right].iter().chain(&odd).map(value).collect();
            let first = odd[0];
            let error = Error::Unlike { what, odd, values };
            self.transport.failed(first, &error.to_string());
            return Err(error);
        }
        Ok(())
    }

    /// Sums the nodes of all ranks elementwise and returns the sum on every rank.
    ///
    /// `held` lists the nodes of each rank, by rank, and is the same on all ranks; `own` holds the
    /// elements of this rank's nodes. Together the nodes cover all micro-batches from 0 on. A rank
    /// may have no node.
    ///
    /// # Determinism
    ///
    /// As [`TreeSum`](samebits_autograd::optim::TreeSum): the bits depend only on the
    /// micro-batches. Each addition is rounded once, and a NaN becomes the canonical NaN. One rank
    /// sums each element, and all ranks receive its result.
    ///
    /// # Errors
    ///
    /// Errors of the transport; [`Error::Invalid`] or [`Error::Message`] if nodes and lengths do
    /// not match; [`Error::OutOfMemory`].
    pub fn sum<T: Scalar>(&self, held: &[Vec<Held>], own: &[&[T]]) -> Result<Vec<T>> {
        let mut result = sum::zeroed(sum::length(&*self.transport, held, own)?)?;
        self.add_up(held, own, &mut result)?;
        Ok(result)
    }

    /// Writes [`sum`](Ranks::sum) to `result`, which saves allocating it anew.
    ///
    /// # Errors
    ///
    /// As [`sum`](Ranks::sum); [`Error::Invalid`] if `result` has another length than the nodes.
    pub fn sum_into<T: Scalar>(
        &self,
        held: &[Vec<Held>],
        own: &[&[T]],
        result: &mut [T],
    ) -> Result<()> {
        let len = sum::length(&*self.transport, held, own)?;
        if len != result.len() {
            let message = format!("nodes of {len} elements, and room for {}", result.len());
            return Err(Error::Invalid(message));
        }
        self.add_up(held, own, result)
    }

    fn add_up<T: Scalar>(&self, held: &[Vec<Held>], own: &[&[T]], result: &mut [T]) -> Result<()> {
        sum::sum_into(&*self.transport, held, own, self.piece / size_of::<T>(), result)
    }
}
