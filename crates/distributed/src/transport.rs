//! What moves bytes between ranks.

use crate::{Error, Result};

/// Moves bytes between the ranks of a run. It never adds: sums are computed by the ranks, in an
/// order that no transport knows.
///
/// All ranks make the same calls in the same order. An error ends the run: a rank that meets one
/// calls [`abort`](Transport::abort), and every call of another rank fails from then on.
pub trait Transport: Send {
    /// This rank's number, from 0.
    fn rank(&self) -> usize;

    /// The number of ranks.
    fn world(&self) -> usize;

    /// Sends `send[q]` to each rank `q`, and fills `receive[q]` with what rank `q` sends to this
    /// one. Receivers know the lengths. The places of this rank itself are ignored.
    ///
    /// # Errors
    ///
    /// A rank has failed, has ended, or does not answer within the time that the transport states.
    fn exchange(&self, send: &[&[u8]], receive: &mut [&mut [u8]]) -> Result<()>;

    /// Ends the run on every rank, and says why. In a process of its own this does not return.
    fn abort(&self, cause: &str);

    /// Hears, on every rank, that rank `rank` has told the others of an error. The run is over.
    fn failed(&self, rank: usize, cause: &str) {
        let _ = (rank, cause);
    }

    /// What every rank gives, by rank. The lengths may differ.
    ///
    /// # Errors
    ///
    /// As [`exchange`](Transport::exchange).
    fn all_gather(&self, bytes: &[u8]) -> Result<Vec<Vec<u8>>> {
        let (rank, world) = (self.rank(), self.world());
        let own = (bytes.len() as u64).to_le_bytes();
        let mut lengths = vec![own; world];
        let mut receive: Vec<&mut [u8]> = lengths.iter_mut().map(|x| &mut x[..]).collect();
        self.exchange(&vec![&own[..]; world], &mut receive)?;
        let mut gathered = Vec::with_capacity(world);
        for (from, length) in lengths.into_iter().enumerate() {
            gathered.push(if from == rank { bytes.to_vec() } else { message(length)? });
        }
        let mut receive: Vec<&mut [u8]> = gathered.iter_mut().map(|x| &mut x[..]).collect();
        self.exchange(&vec![bytes; world], &mut receive)?;
        Ok(gathered)
    }

    /// Gives every rank the bytes of rank `root`, and empties those of the others before.
    ///
    /// # Errors
    ///
    /// As [`exchange`](Transport::exchange); [`Error::Invalid`] if there is no rank `root`.
    fn broadcast(&self, root: usize, bytes: &mut Vec<u8>) -> Result<()> {
        let (rank, world) = (self.rank(), self.world());
        if root >= world {
            return Err(Error::Invalid(format!("broadcast from rank {root} of {world}")));
        }
        let mut length = (bytes.len() as u64).to_le_bytes();
        if rank == root {
            from_root(self, root, &length, &mut [])?;
            return from_root(self, root, bytes, &mut []);
        }
        from_root(self, root, &[], &mut length)?;
        *bytes = message(length)?;
        from_root(self, root, &[], bytes)
    }
}

/// Fills `receive` with the bytes of rank `root`, on the other ranks.
fn from_root<T: Transport + ?Sized>(
    transport: &T,
    root: usize,
    own: &[u8],
    receive: &mut [u8],
) -> Result<()> {
    let (rank, world) = (transport.rank(), transport.world());
    let send = vec![if rank == root { own } else { &[] }; world];
    let mut places: Vec<&mut [u8]> = (0..world).map(|_| &mut [][..]).collect();
    if rank != root {
        places[root] = receive;
    }
    transport.exchange(&send, &mut places)
}

/// Room for a message of a length that was received.
fn message(length: [u8; 8]) -> Result<Vec<u8>> {
    let bytes = usize::try_from(u64::from_le_bytes(length)).unwrap_or(usize::MAX);
    samebits_numerics::memory::zeroed(bytes).map_err(|_| Error::OutOfMemory { bytes })
}

impl<T: Transport + ?Sized> Transport for Box<T> {
    fn rank(&self) -> usize {
        (**self).rank()
    }

    fn world(&self) -> usize {
        (**self).world()
    }

    fn exchange(&self, send: &[&[u8]], receive: &mut [&mut [u8]]) -> Result<()> {
        (**self).exchange(send, receive)
    }

    fn abort(&self, cause: &str) {
        (**self).abort(cause);
    }

    fn failed(&self, rank: usize, cause: &str) {
        (**self).failed(rank, cause);
    }
}

/// Sees whether every rank has a place.
pub(crate) fn check_places(world: usize, send: &[&[u8]], receive: &[&mut [u8]]) -> Result<()> {
    if send.len() == world && receive.len() == world {
        return Ok(());
    }
    let (sent, received) = (send.len(), receive.len());
    let message = format!(
        "exchange between {world} ranks with {sent} places to send and {received} to receive"
    );
    Err(Error::Invalid(message))
}
