//! Ranks that are threads of one process.

use std::collections::VecDeque;
use std::fmt::Display;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, RwLock};

use crate::transport::check_places;
use crate::{Error, Result, Transport};

/// The default time that a rank waits for another.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(600);

/// The maximum number of threads. A larger number is probably a mistake and could exhaust the
/// system.
const MOST: usize = 1024;

/// A transport between threads of one process.
///
/// Dropping a transport tells the others that its rank has ended, also during a panic, so no rank
/// waits for an ended thread; within [`run`], the end of the rank's function tells them. After the
/// [`timeout`](Threads::timeout) (default: 10 minutes), the other ranks give up a thread that
/// hangs.
#[derive(Debug)]
pub struct Threads {
    rank: usize,
    timeout: Duration,
    shared: Arc<Shared>,
    /// False if [`run`] tells the others the end, after it has recorded the rank's error.
    tells_end: bool,
}

#[derive(Debug)]
struct Shared {
    inboxes: Vec<Inbox>,
    /// The first failure: the rank and the cause.
    failure: Mutex<Option<(usize, String)>>,
    /// Held for reading while a rank sends, for writing when a failure is recorded. A failure is
    /// thus seen by none or by all receivers of an exchange.
    sending: RwLock<()>,
}

/// The messages sent to one rank.
#[derive(Debug)]
struct Inbox {
    mail: Mutex<Vec<Mail>>,
    arrived: Condvar,
}

/// The messages sent by one rank.
#[derive(Debug, Default)]
struct Mail {
    messages: VecDeque<Vec<u8>>,
    /// True if the sender has ended.
    ended: bool,
}

impl Threads {
    /// Creates the transports of `world` ranks, by rank. Move each to its thread.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] unless `world` is from 1 to 1024.
    pub fn new(world: usize) -> Result<Vec<Threads>> {
        if !(1..=MOST).contains(&world) {
            return Err(Error::Invalid(format!("1 to {MOST} threads can be ranks, got {world}")));
        }
        let inbox = || Inbox {
            mail: Mutex::new((0..world).map(|_| Mail::default()).collect()),
            arrived: Condvar::new(),
        };
        let inboxes = (0..world).map(|_| inbox()).collect();
        let shared =
            Arc::new(Shared { inboxes, failure: Mutex::new(None), sending: RwLock::new(()) });
        let one =
            |rank| Threads { rank, timeout: TIMEOUT, shared: Arc::clone(&shared), tells_end: true };
        Ok((0..world).map(one).collect())
    }

    /// Sets the time after which a silent rank is given up (default: 10 minutes).
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Threads {
        self.timeout = timeout;
        self
    }

    /// Returns the next message of rank `from`.
    fn message(&self, from: usize) -> Result<Vec<u8>> {
        let waiting = self.rank;
        let inbox = &self.shared.inboxes[waiting];
        let deadline = Instant::now().checked_add(self.timeout);
        let mut mail = inbox.mail.lock();
        loop {
            // Messages sent before a failure still count: all ranks learn of the failure in the
            // same call.
            if let Some(message) = mail[from].messages.pop_front() {
                return Ok(message);
            }
            if let Some((rank, cause)) = self.shared.failure.lock().clone() {
                return Err(Error::Failed { rank, cause });
            }
            if mail[from].ended {
                return Err(Error::Gone { rank: from, waiting });
            }
            let late = match deadline {
                Some(deadline) => inbox.arrived.wait_until(&mut mail, deadline).timed_out(),
                None => {
                    inbox.arrived.wait(&mut mail);
                    false
                }
            };
            if late && mail[from].messages.is_empty() && !mail[from].ended {
                return Err(Error::Timeout { rank: from, waiting, waited: self.timeout });
            }
        }
    }
}

impl Shared {
    /// Ends the run for every rank. All ranks report the first failure.
    fn fail(&self, rank: usize, cause: &str) {
        let sending = self.sending.write();
        self.failure.lock().get_or_insert_with(|| (rank, cause.to_owned()));
        drop(sending);
        for inbox in &self.inboxes {
            // A rank that found no failure under this lock is waiting by the time the lock is free.
            drop(inbox.mail.lock());
            inbox.arrived.notify_all();
        }
    }

    /// Tells the other ranks that `rank` sends nothing more.
    fn end(&self, rank: usize) {
        for inbox in &self.inboxes {
            inbox.mail.lock()[rank].ended = true;
            inbox.arrived.notify_all();
        }
    }
}

impl Transport for Threads {
    fn rank(&self) -> usize {
        self.rank
    }

    fn world(&self) -> usize {
        self.shared.inboxes.len()
    }

    fn exchange(&self, send: &[&[u8]], receive: &mut [&mut [u8]]) -> Result<()> {
        check_places(self.world(), send, receive)?;
        let sending = self.shared.sending.read();
        for (to, bytes) in send.iter().enumerate().filter(|&(to, _)| to != self.rank) {
            let inbox = &self.shared.inboxes[to];
            inbox.mail.lock()[self.rank].messages.push_back(bytes.to_vec());
            inbox.arrived.notify_all();
        }
        drop(sending);
        for (from, place) in receive.iter_mut().enumerate().filter(|&(from, _)| from != self.rank) {
            let message = self.message(from)?;
            if message.len() != place.len() {
                return Err(Error::Message {
                    rank: from,
                    waiting: self.rank,
                    expected: format!("{} bytes", place.len()),
                    found: format!("{} bytes", message.len()),
                });
            }
            place.copy_from_slice(&message);
        }
        Ok(())
    }

    fn abort(&self, cause: &str) {
        self.shared.fail(self.rank, cause);
    }

    fn failed(&self, rank: usize, cause: &str) {
        self.shared.fail(rank, cause);
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.abort("its thread panicked");
        }
        if self.tells_end {
            self.shared.end(self.rank);
        }
    }
}

/// The time that [`run`] waits for the other ranks after a failure.
const GRACE: Duration = Duration::from_secs(10);

/// Runs `rank` on a thread for each of `world` ranks and returns the results, by rank.
///
/// # Errors
///
/// Errors of [`Threads::new`]. If ranks fail, the error of the first that failed by itself; the
/// others only report that they lost it. A thread that still hangs 10 s after a failure is left
/// behind.
///
/// # Panics
///
/// If the first rank to fail panics, this function panics with its message.
pub fn run<R, E>(
    world: usize,
    rank: impl Fn(Threads) -> Result<R, E> + Send + Sync + 'static,
) -> Result<Vec<R>, E>
where
    R: Send + 'static,
    E: From<Error> + Display + Send + 'static,
{
    let transports = Threads::new(world)?;
    let shared = Arc::clone(&transports[0].shared);
    let (send, ends) = mpsc::channel();
    let rank = Arc::new(rank);
    for mut transport in transports {
        // A rank that learns of the end before the error would report that it lost this one, and
        // perhaps first.
        transport.tells_end = false;
        let (send, rank, all) = (send.clone(), Arc::clone(&rank), Arc::clone(&shared));
        let shared = Arc::clone(&shared);
        let number = transport.rank;
        let work = move || {
            let end = catch_unwind(AssertUnwindSafe(|| rank(transport)));
            if let Ok(Err(error)) = &end {
                shared.fail(number, &format!("{error:#}"));
            }
            shared.end(number);
            // After the grace period the receiver is gone.
            let _ = send.send((number, end));
        };
        let thread = std::thread::Builder::new().name(format!("rank-{number}"));
        thread.spawn(work).map_err(|error| {
            all.end(number);
            Error::Invalid(format!("the thread of rank {number} could not start: {error}"))
        })?;
    }
    drop(send);
    let mut results: Vec<Option<R>> = (0..world).map(|_| None).collect();
    let mut failures = Vec::new();
    loop {
        let end = match failures.is_empty() {
            true => ends.recv().ok(),
            false => ends.recv_timeout(GRACE).ok(),
        };
        match end {
            Some((rank, Ok(Ok(result)))) => results[rank] = Some(result),
            Some((rank, failed)) => failures.push((rank, failed)),
            None => break,
        }
    }
    if failures.is_empty() {
        return Ok(results.into_iter().flatten().collect());
    }
    let first = shared.failure.lock().as_ref().map(|(rank, _)| *rank);
    let at = failures.iter().position(|(rank, _)| Some(*rank) == first).unwrap_or(0);
    match failures.swap_remove(at).1 {
        Ok(Err(error)) => Err(error),
        Err(panic) => resume_unwind(panic),
        Ok(Ok(_)) => unreachable!("results are no failures"),
    }
}
