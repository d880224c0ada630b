//! Ranks that are processes, connected by the machine's MPI library.

use std::fmt::Display;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
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

/// The time that a rank gives the rank that failed to end the job.
const GRACE: Duration = Duration::from_secs(2);

/// Added for each lower rank, up to [`TURNS`] of them, so that two ranks do not end the job at once.
const TURN: Duration = Duration::from_millis(300);
const TURNS: usize = 10;

/// Stands for a rank while none has reported an error.
const NONE: usize = usize::MAX;

/// A transport between processes started by `mpirun` or Slurm.
///
/// It only sends and receives, by requests that it polls: a blocking MPI call would wait forever
/// for a rank that hangs. A rank that does not answer within the [`timeout`](Mpi::timeout)
/// (default: 10 minutes) ends the job. All messages pass through the calling thread.
#[allow(missing_debug_implementations, reason = "the library's handles have none")]
pub struct Mpi {
    timeout: Duration,
    /// The rank that reported an error.
    failed: Arc<AtomicUsize>,
    /// Finalises MPI when dropped; [`Mpi::run`] takes it out.
    universe: Option<Universe>,
}

impl Mpi {
    /// Starts MPI, at most once per process. Without `mpirun` there is one rank.
    ///
    /// Dropping the transport finalises MPI, which waits for all ranks. Use [`Mpi::run`] if one rank
    /// may return early with an error.
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
        let failed = Arc::new(AtomicUsize::new(NONE));
        Ok(Mpi { timeout: TIMEOUT, failed, universe: Some(universe) })
    }

    /// Starts MPI, runs `rank` with the transport, and finalises MPI.
    ///
    /// If `rank` fails on one of several ranks, all processes end with one message that names the
    /// rank and its error; the function does not return.
    ///
    /// # Errors
    ///
    /// As [`Mpi::new`]; if there is a single rank, the error of `rank`.
    pub fn run<R, E>(rank: impl FnOnce(Mpi) -> Result<R, E>) -> Result<R, E>
    where
        E: From<Error> + Display,
    {
        let mut transport = Mpi::new()?;
        let end =
            End { failed: Arc::clone(&transport.failed), _universe: transport.universe.take() };
        let result = rank(transport);
        if let Err(error) = &result
            && SimpleCommunicator::world().size() > 1
        {
            end_job(&end.failed, &format!("{error:#}"));
        }
        result
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
        // Open MPI appends its build host, MPICH its build options.
        let end = version.find([',', '\n', '\0']).unwrap_or(version.len());
        version[..end].trim().to_owned()
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

    fn abort(&self, cause: &str) {
        end_job(&self.failed, cause);
    }

    fn failed(&self, rank: usize, _: &str) {
        self.failed.store(rank, Ordering::Relaxed);
    }
}

impl Drop for Mpi {
    fn drop(&mut self) {
        // Finalising MPI waits for all ranks.
        if std::thread::panicking() {
            // Only this rank knows.
            self.failed.store(SimpleCommunicator::world().rank() as usize, Ordering::Relaxed);
            end_job(&self.failed, "it panicked");
        }
    }
}

/// Guard of [`Mpi::run`] that finalises MPI after the transport is dropped.
struct End {
    failed: Arc<AtomicUsize>,
    _universe: Option<Universe>,
}

impl Drop for End {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // Only this rank knows.
            self.failed.store(SimpleCommunicator::world().rank() as usize, Ordering::Relaxed);
            end_job(&self.failed, "it panicked");
        }
    }
}

/// Prints the cause and ends the processes of all ranks. Users should read one message, so the rank
/// that reported the error acts first, or rank 0 if all ranks have the same error.
#[allow(clippy::print_stderr, reason = "the process ends here: nobody can be given the message")]
fn end_job(failed: &AtomicUsize, cause: &str) {
    let rank = SimpleCommunicator::world().rank() as usize;
    let speaker = match failed.load(Ordering::Relaxed) {
        NONE => 0,
        told => told,
    };
    if rank != speaker {
        std::thread::sleep(GRACE + TURN * rank.min(TURNS) as u32);
    }
    eprintln!("samebits: rank {rank} ends the job: {cause}");
    SimpleCommunicator::world().abort(1);
}
