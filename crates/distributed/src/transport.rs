//! The transport of bytes between ranks.

use crate::{Error, Result};

/// A channel that moves bytes between the ranks of a run. It never adds: the ranks compute sums, in
/// an order that does not depend on the transport.
///
/// All ranks make the same calls in the same order. An error ends the run: the rank that meets it
/// calls [`abort`](Transport::abort), and from then on every call on another rank fails.
pub trait Transport: Send {
    /// Returns this rank's number, counted from 0.
    fn rank(&self) -> usize;

    /// Returns the number of ranks.
    fn world(&self) -> usize;

    /// Sends `send[q]` to each rank `q` and fills `receive[q]` with the bytes that rank `q` sends
    /// to this one. Receivers know the lengths. The entries of this rank itself are ignored.
    ///
    /// # Errors
    ///
    /// A rank has failed, has ended, or does not answer within the transport's timeout.
    fn exchange(&self, send: &[&[u8]], receive: &mut [&mut [u8]]) -> Result<()>;

    /// Ends the run on every rank, with a cause. If the rank is a process, this does not return.
    fn abort(&self, cause: &str);

    /// Handles the failure of rank `rank`, which has told all ranks of an error. The run is over.
    fn failed(&self, rank: usize, cause: &str) {
        let _ = (rank, cause);
    }

    /// Gathers bytes from every rank, by rank. The lengths may differ.
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

    /// Copies the bytes of rank `root` to every rank, replacing those that the others had.
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

/// Allocates a buffer for a message whose length was received.
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

/// Checks that there is an entry for every rank.
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
