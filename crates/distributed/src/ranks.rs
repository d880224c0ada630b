//! What the ranks of a run do together.

use std::fmt::Display;
use std::ops::Range;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::{Error, Held, Result, Scalar, Transport, sum};

/// Bytes of one message of [`Ranks::sum`] unless told otherwise.
const PIECE: usize = 4 << 20;

/// The ranks of a run, seen from one of them.
#[allow(missing_debug_implementations, reason = "a transport need not have one")]
pub struct Ranks {
    transport: Box<dyn Transport>,
    piece: usize,
}

/// What one rank tells the others.
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
    /// The ranks that `transport` connects.
    pub fn new(transport: impl Transport + 'static) -> Ranks {
        Ranks { transport: Box::new(transport), piece: PIECE }
    }

    /// Exchanges sums in messages of at most `bytes`, 4 MiB unless told otherwise. Small messages
    /// need less memory, large ones fewer calls; no bit depends on it.
    #[must_use]
    pub fn piece(mut self, bytes: usize) -> Ranks {
        self.piece = bytes;
        self
    }

    /// This rank's number, from 0.
    pub fn rank(&self) -> usize {
        self.transport.rank()
    }

    /// The number of ranks.
    pub fn world(&self) -> usize {
        self.transport.world()
    }

    /// What moves the bytes.
    pub fn transport(&self) -> &dyn Transport {
        &*self.transport
    }

    /// The numbers of the micro-batches that this rank computes, of `micro_batches` in a step:
    /// a contiguous part, as even as can be. Some ranks have none if there are more ranks.
    pub fn owned(&self, micro_batches: u64) -> Range<u64> {
        let (rank, world) = (self.rank() as u128, self.world() as u128);
        // A part of a u64.
        let cut = |rank: u128| (rank * u128::from(micro_batches) / world) as u64;
        cut(rank)..cut(rank + 1)
    }

    /// What each rank gives, by rank: small values, such as where a step stands and whether to stop.
    /// A rank that gives an error ends the run on all ranks, so that none waits for it later.
    ///
    /// # Errors
    ///
    /// [`Error::Failed`] with the error of the first rank that gave one, on every rank; those of
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

    /// Sees whether all ranks were started alike: each value has a name.
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
            // Of equal minorities the one with the lowest rank is right.
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
            return Err(Error::Unlike { what, odd, values });
        }
        Ok(())
    }

    /// The sum of the nodes that all ranks hold, elementwise, on every rank.
    ///
    /// `held` says which nodes each rank holds, by rank, and is the same on all; `own` are the
    /// elements of this rank's. Together the nodes are all micro-batches from 0 on. A rank may
    /// hold none.
    ///
    /// # Determinism
    ///
    /// That of [`TreeSum`](samebits_autograd::optim::TreeSum): the bits depend on the micro-batches
    /// alone. Each addition is rounded once, and a NaN is the canonical one. Every element is added
    /// up by one rank, and what that rank found is what all get.
    ///
    /// # Errors
    ///
    /// Those of the transport; [`Error::Invalid`] or [`Error::Message`] if nodes and lengths do not
    /// go together; [`Error::OutOfMemory`].
    pub fn sum<T: Scalar>(&self, held: &[Vec<Held>], own: &[&[T]]) -> Result<Vec<T>> {
        sum::sum(&*self.transport, held, own, (self.piece / size_of::<T>()).max(1))
    }
}
