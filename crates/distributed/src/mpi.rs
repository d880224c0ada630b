//! Ranks that are processes, connected by the machine's MPI library.

use std::time::{Duration, Instant};

use mpi::environment::Universe;
use mpi::request;
use mpi::topology::{Communicator, SimpleCommunicator};
use mpi::traits::{Destination, Source};
use mpi::{Threading, initialize_with_threading};

use crate::threads::TIMEOUT;
use crate::transport::check_places;
use crate::{Error, Result, Transport};

/// MPI counts a message's elements in 32 bits, so longer messages are split into parts of this many
/// bytes.
const PART: usize = 64 << 20;

/// The pause between two polls for messages, once none has arrived for a while.
const PAUSE: Duration = Duration::from_micros(50);

/// A transport between processes started by `mpirun` or Slurm.
///
/// It only sends and receives, by requests that it polls: a blocking MPI call would wait forever
/// for a rank that hangs. A rank that does not answer within the [`timeout`](Mpi::timeout)
/// (default: 10 minutes) ends the job. All messages pass through the calling thread.
#[allow(missing_debug_implementations, reason = "the library's handles have none")]
pub struct Mpi {
    timeout: Duration,
    /// Finalises MPI when dropped.
    _universe: Universe,
}

impl Mpi {
    /// Starts MPI, at most once per process. Without `mpirun` there is one rank.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] if MPI already runs, or does not allow calls from a thread of the
    /// program's choice.
    pub fn new() -> Result<Mpi> {
        let Some((universe, threading)) = initialize_with_threading(Threading::Serialized) else {
            return Err(Error::Invalid("MPI can be started once in a process".to_owned()));
        };
        if threading < Threading::Serialized {
            let message =
                format!("MPI should allow calls from any one thread, allows {threading:?}");
            return Err(Error::Invalid(message));
        }
        Ok(Mpi { timeout: TIMEOUT, _universe: universe })
    }

    /// Returns whether an MPI launcher started this process, judging by the variables that Open
    /// MPI, MPICH, Intel MPI and Slurm set.
    pub fn is_launched() -> bool {
        let variables = ["OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMIX_RANK"];
        variables.iter().any(|variable| std::env::var_os(variable).is_some())
    }

    /// Sets the time after which a silent rank ends the job (default: 10 minutes).
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Mpi {
        self.timeout = timeout;
        self
    }

    /// Returns the name and version of the MPI library.
    pub fn library() -> String {
        let version = mpi::environment::library_version().unwrap_or_default();
        version.trim_matches(['\0', ' ', '\n']).to_owned()
    }
}

impl Transport for Mpi {
    fn rank(&self) -> usize {
        SimpleCommunicator::world().rank() as usize
    }

    fn world(&self) -> usize {
        SimpleCommunicator::world().size() as usize
    }

    fn exchange(&self, send: &[&[u8]], receive: &mut [&mut [u8]]) -> Result<()> {
        check_places(self.world(), send, receive)?;
        let rank = self.rank();
        let world = SimpleCommunicator::world();
        let process = |rank: usize| world.process_at_rank(rank as i32);
        let deadline = Instant::now().checked_add(self.timeout);
        // The peer of each request.
        let mut with = Vec::new();
        request::multiple_scope(2 * self.world(), |scope, requests| {
            for (from, place) in receive.iter_mut().enumerate().filter(|(from, _)| *from != rank) {
                for part in place.chunks_mut(PART) {
                    requests.add(process(from).immediate_receive_into(scope, part));
                    with.push(Some(from));
                }
            }
            for (to, bytes) in send.iter().enumerate().filter(|(to, _)| *to != rank) {
                for part in bytes.chunks(PART) {
                    requests.add(process(to).immediate_send(scope, part));
                    with.push(Some(to));
                }
            }
            let (mut done, mut looks) = (Vec::new(), 0u32);
            while requests.incomplete() > 0 {
                requests.test_some(&mut done);
                if !done.is_empty() {
                    done.drain(..).for_each(|(request, _, _)| with[request] = None);
                    looks = 0;
                    continue;
                }
                looks = looks.saturating_add(1);
                // There may be more ranks than cores.
                if looks < 10_000 {
                    std::thread::yield_now()
                } else {
                    std::thread::sleep(PAUSE)
                }
                if looks % 64 == 0 && deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                    let silent = with.iter().flatten().next().copied().unwrap_or(rank);
                    let (waiting, waited) = (rank, self.timeout);
                    // Pending requests cannot be abandoned.
                    self.abort(&Error::Timeout { rank: silent, waiting, waited }.to_string());
                }
            }
        });
        Ok(())
    }

    #[allow(
        clippy::print_stderr,
        reason = "the process ends here: nobody can be given the message"
    )]
    fn abort(&self, cause: &str) {
        eprintln!("samebits: rank {} ends the job: {cause}", self.rank());
        SimpleCommunicator::world().abort(1);
    }
}

impl Drop for Mpi {
    fn drop(&mut self) {
        // Finalising MPI waits for all ranks.
        if std::thread::panicking() {
            self.abort("it panicked");
        }
    }
}
