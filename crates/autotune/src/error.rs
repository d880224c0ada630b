//! Errors, with the file, the line and the remedy.

use std::path::PathBuf;
use std::time::Duration;

use crate::Determinism;
use samebits_numerics::memory::OutOfMemory;

/// Result with this crate's [`enum@Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Error of a candidate or of a probe, of a type unknown to this crate.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Reason why no algorithm was chosen, or why a choice file was rejected.
///
/// An error never changes the file, and never starts an unrequested race.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The list of candidates cannot be raced.
    #[error("autotune: {message}")]
    Candidates {
        /// The fault of the list.
        message: String,
    },
    /// The settings contradict each other.
    #[error("autotune: {message}")]
    Config {
        /// The settings, and the remedy.
        message: String,
    },
    /// A device has no tuner: it has no library of algorithms, or its identity, which choices are
    /// recorded with, could not be read.
    #[error("autotune: {device}: {source}")]
    Device {
        /// The device.
        device: String,
        /// The cause.
        source: BoxError,
    },
    /// No candidate meets the level and the workspace limit for this call.
    #[error(
        "autotune: no candidate can run {key} within a workspace of {workspace_limit} bytes; raise \
         the limit, or require a lower level"
    )]
    NoCandidate {
        /// The call.
        key: String,
        /// The limit in force.
        workspace_limit: usize,
    },
    /// Every candidate gave a wrong result or failed.
    #[error("autotune: no candidate gave a correct result on {key}: {reasons}")]
    AllDisqualified {
        /// The call.
        key: String,
        /// Each candidate's name and fault.
        reasons: String,
    },
    /// The inputs that represent a key could not be made.
    #[error("autotune: cannot make the inputs for {key}: {source}")]
    Probe {
        /// The call.
        key: String,
        /// The cause.
        source: BoxError,
    },
    /// The reference, with whose output the others are compared, failed.
    #[error("autotune: the reference {name:?} failed on {key}: {source}")]
    Reference {
        /// Its name.
        name: String,
        /// The call.
        key: String,
        /// The cause.
        source: BoxError,
    },
    /// Memory ran out before the race could show whether a candidate is the fastest. Nothing was
    /// chosen or recorded: a choice must not depend on the memory currently free.
    #[error(
        "autotune: {name:?} ran out of memory in a race for {key}: {source}; free memory, or exclude \
         the algorithm with a lower workspace limit"
    )]
    OutOfMemory {
        /// The candidate's name.
        name: String,
        /// The call.
        key: String,
        /// The candidate's error.
        source: BoxError,
    },
    /// A chosen algorithm failed.
    #[error("autotune: {name:?} failed on {key}: {source}")]
    Run {
        /// Its name.
        name: String,
        /// The call.
        key: String,
        /// The cause.
        source: BoxError,
    },
    /// The threads of a race could not be started.
    #[error("autotune: cannot start the threads of a race: {message}")]
    Threads {
        /// The system's reason.
        message: String,
    },
    /// The pinned file has no choice for this call.
    #[error(
        "{}: no choice is pinned for {key}; record it by running once with mode `Record` on this \
         file, then pin it again", path.display()
    )]
    NotPinned {
        /// The file.
        path: PathBuf,
        /// The call.
        key: String,
    },
    /// The file names an algorithm that this program does not have.
    #[error(
        "{}:{line}: unknown algorithm {name:?}; this program has {known}. Correct the name, or \
         remove this choice and record it again", path.display()
    )]
    UnknownAlgorithm {
        /// The file.
        path: PathBuf,
        /// The line of the name.
        line: usize,
        /// The name.
        name: String,
        /// The names that this program knows.
        known: String,
    },
    /// The file pins an algorithm that promises less than the key's level.
    #[error(
        "{}:{line}: {name:?} promises {has}, but this choice is for level {required}; choose another \
         algorithm, or remove this choice and record it again", path.display()
    )]
    LevelTooLow {
        /// The file.
        path: PathBuf,
        /// The line of the name.
        line: usize,
        /// The algorithm.
        name: String,
        /// The level at which it may be used.
        has: Determinism,
        /// The level of the key.
        required: Determinism,
    },
    /// The file pins an algorithm that cannot run the call.
    #[error(
        "{}:{line}: {name:?} does not apply to {key}; choose another algorithm, or remove this \
         choice and record it again", path.display()
    )]
    NotApplicable {
        /// The file.
        path: PathBuf,
        /// The line of the name.
        line: usize,
        /// The algorithm.
        name: String,
        /// The call.
        key: String,
    },
    /// The file pins an algorithm that needs more workspace than is allowed.
    #[error(
        "{}:{line}: {name:?} needs a workspace of {needs} bytes, the limit is {limit}; raise the \
         limit, or remove this choice and record it again", path.display()
    )]
    WorkspaceTooLarge {
        /// The file.
        path: PathBuf,
        /// The line of the name.
        line: usize,
        /// The algorithm.
        name: String,
        /// The bytes it needs.
        needs: usize,
        /// The limit in force.
        limit: usize,
    },
    /// The file pins an algorithm that the settings exclude.
    #[error(
        "{}:{line}: {name:?} is excluded by the settings; remove this choice and record it again, or \
         do not exclude it", path.display()
    )]
    Excluded {
        /// The file.
        path: PathBuf,
        /// The line of the name.
        line: usize,
        /// The algorithm.
        name: String,
    },
    /// The file was recorded on another device or with another library.
    #[error(
        "{}:{line}: recorded for {what} {file:?}, this is {here:?}; times and bits of the one say \
         nothing about the other. Use a file recorded here, or record a new one under another name",
        path.display()
    )]
    Fingerprint {
        /// The file.
        path: PathBuf,
        /// The line of the fingerprint.
        line: usize,
        /// `"device"` or `"library"`.
        what: &'static str,
        /// The value in the file.
        file: String,
        /// The value of this program.
        here: String,
    },
    /// The file has another format, or was recorded under another numerics contract.
    #[error(
        "{}:{line}: {what} version {file}, this program has {here}; record a new file under another \
         name", path.display()
    )]
    Version {
        /// The file.
        path: PathBuf,
        /// The line of the version.
        line: usize,
        /// `"format"` or `"numerics"`.
        what: &'static str,
        /// The version in the file.
        file: i64,
        /// The version of this program.
        here: i64,
    },
    /// The file is not a choice file, or not a whole one.
    #[error(
        "{}:{line}: damaged: {message}. The file was left as it is: correct it, restore it, or \
         record a new one under another name", path.display()
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The line of the damage.
        line: usize,
        /// The fault.
        message: String,
    },
    /// The file could not be read.
    #[error("{}: cannot read: {source}{hint}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
        /// Advice, if any.
        hint: &'static str,
    },
    /// The file could not be written. Its earlier content is still there.
    #[error(
        "{}: cannot {action}: {source}; nothing was recorded and the file is as it was. Make room or \
         give write access, or use mode `Off` or `Pinned`", path.display()
    )]
    Write {
        /// The file, or the temporary file beside it.
        path: PathBuf,
        /// The step that failed.
        action: &'static str,
        /// The system's reason.
        source: std::io::Error,
    },
    /// Another process holds the lock of the file.
    #[error(
        "{}: locked by another process for {} s; if that process hangs, end it (the lock goes with \
         it)", path.display(), waited.as_secs()
    )]
    Locked {
        /// The lock's file.
        path: PathBuf,
        /// The time that this process waited.
        waited: Duration,
    },
}

samebits_numerics::debug_is_message!(Error);

/// Returns the number of missing bytes if the error, or one of its sources, is an [`OutOfMemory`].
pub fn missing_memory(error: &(dyn std::error::Error + 'static)) -> Option<usize> {
    std::iter::successors(Some(error), |error| error.source())
        .find_map(|error| error.downcast_ref().map(|&OutOfMemory { bytes }| bytes))
}
