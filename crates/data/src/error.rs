//! Errors between a file on disk and a batch in memory.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::Determinism;

/// Result of every fallible function of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Error from foreign code: a dataset, a collate function or a seeding hook.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// A position in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Place {
    /// A line of a text file, counted from 1.
    Line(u64),
    /// A line and a column of a text file, both counted from 1.
    Field {
        /// The line.
        line: u64,
        /// The column.
        column: u64,
    },
    /// A byte offset, counted from 0.
    Offset(u64),
    /// A row of a Parquet file, counted from 0 in its row group.
    Row {
        /// The row group, counted from 0.
        group: usize,
        /// The row.
        row: u64,
    },
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Line(line) => write!(f, "line {line}"),
            Place::Field { line, column } => write!(f, "line {line}, column {column}"),
            Place::Offset(offset) => write!(f, "offset {offset}"),
            Place::Row { group, row } => write!(f, "row group {group}, row {row}"),
        }
    }
}

/// The error type of this crate.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused a file operation.
    #[error("{op}: {}: {source}", path.display())]
    Io {
        /// The operation that failed.
        op: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// A file does not match its format or its reader's options.
    #[error("{op}: {}, {place}: expected {expected}, found {found}", path.display())]
    Malformed {
        /// The parser.
        op: &'static str,
        /// The file, or the name given to the bytes.
        path: PathBuf,
        /// The position in the file.
        place: Place,
        /// The expected content.
        expected: String,
        /// The content found.
        found: String,
    },
    /// A file holds more data than its reader may load into memory.
    #[error(
        "{op}: {}, {place}: expected {what} of at most {most} bytes, found more: raise the limit, \
         or check whether the file is damaged",
        path.display()
    )]
    TooLarge {
        /// The reader.
        op: &'static str,
        /// The file, or the name given to the bytes.
        path: PathBuf,
        /// Start of the excess, or of the line that is too long.
        place: Place,
        /// The part that is too large.
        what: &'static str,
        /// The limit in bytes.
        most: usize,
    },
    /// A sample of a tar file lacks a field.
    #[error("{op}: sample {key:?}: expected a field {field:?}, found {}", fields.join(", "))]
    NoField {
        /// The reader.
        op: &'static str,
        /// The sample's key.
        key: String,
        /// The requested field.
        field: String,
        /// The fields of the sample.
        fields: Vec<String>,
    },
    /// A number of a file has no exact value in the requested type.
    #[error(
        "{op}: {}, {place}: {value} has no exact {wanted}: read another type, or permit rounding with \
         `rounded`",
        path.display()
    )]
    Inexact {
        /// The reader.
        op: &'static str,
        /// The file, or the name given to the bytes.
        path: PathBuf,
        /// The position of the number.
        place: Place,
        /// The number.
        value: String,
        /// The requested type.
        wanted: &'static str,
    },
    /// A buffer could not be allocated.
    #[error("{op}: no memory left for {bytes} bytes")]
    OutOfMemory {
        /// The operation that needed the buffer.
        op: &'static str,
        /// The buffer's size, or `usize::MAX` if it cannot be addressed.
        bytes: usize,
    },
    /// Random numbers could not be drawn.
    #[error(transparent)]
    Random(#[from] samebits_rng::Error),
    /// An index lies outside a dataset.
    #[error("{op}: index {index} is out of range for length {len}")]
    IndexOutOfRange {
        /// The dataset or combinator.
        op: &'static str,
        /// The requested index.
        index: usize,
        /// The number of items.
        len: usize,
    },
    /// An option, or a combination of options, is invalid.
    #[error("{op}: {option} is {value}: {expected}")]
    InvalidOption {
        /// The builder or constructor.
        op: &'static str,
        /// The option.
        option: &'static str,
        /// The value given.
        value: String,
        /// The values accepted.
        expected: String,
    },
    /// A setting or an operation is not permitted at the required level.
    #[error(
        "{op}: needs level {best:?} or lower, but {required:?} is required: \
         lower the level of the loader, or {instead}"
    )]
    LevelUnavailable {
        /// The setting or operation.
        op: &'static str,
        /// The loader's level.
        required: Determinism,
        /// The highest level at which this is permitted.
        best: Determinism,
        /// Advice: an alternative that keeps the level.
        instead: &'static str,
    },
    /// Samples of one batch do not have the same shape.
    #[error(
        "{op}: sample {position} of the batch holds {found} values, the first holds {expected}: give samples one size, or use a collate function of your own"
    )]
    Ragged {
        /// The collate function.
        op: &'static str,
        /// The position of the sample in the batch.
        position: usize,
        /// Values in the first sample.
        expected: usize,
        /// Values in this sample.
        found: usize,
    },
    /// Loading one sample failed.
    #[error("loader: worker {worker}, batch {batch}, {}: {source}", in_sample(*shard, Some(*sample)))]
    Sample {
        /// The worker that loaded it.
        worker: usize,
        /// The batch's number in its epoch; in a stream, the number of its lane's turn.
        batch: u64,
        /// The shard of a stream.
        shard: Option<usize>,
        /// The sample's index in the dataset; in a stream, its position in the shard.
        sample: usize,
        /// The cause.
        #[source]
        source: Box<Error>,
    },
    /// The dataset or the collate function panicked.
    #[error("loader: worker {worker}, batch {batch}, {}: panicked: {message}", in_sample(*shard, *sample))]
    Panic {
        /// The worker that ran it.
        worker: usize,
        /// The batch's number in its epoch; in a stream, the number of its lane's turn.
        batch: u64,
        /// The shard of a stream.
        shard: Option<usize>,
        /// The sample being loaded; none while the batch was being collated.
        sample: Option<usize>,
        /// The panic's message.
        message: String,
    },
    /// A callback of the caller that belongs to no sample panicked.
    #[error("{op}: {stage} panicked: {message}")]
    Callback {
        /// The loader.
        op: &'static str,
        /// The callback.
        stage: &'static str,
        /// The panic's message.
        message: String,
    },
    /// More samples failed than [`Retry::skip`](crate::Retry::skip) permits; the epoch ends.
    #[error("loader: skip: expected at most {most} failures in an epoch, but another: {last}")]
    TooManySkipped {
        /// The limit.
        most: u64,
        /// The last failure.
        last: String,
    },
    /// The samples of a batch could not be collated.
    #[error("loader: worker {worker}, batch {batch}: collate: {source}")]
    Collate {
        /// The worker that ran it.
        worker: usize,
        /// The batch's number in its epoch.
        batch: u64,
        /// The cause.
        #[source]
        source: Box<Error>,
    },
    /// Seeding or initialising a worker failed; the epoch ends.
    #[error("loader: worker {worker}: {stage} failed: {source}")]
    WorkerInit {
        /// The worker.
        worker: usize,
        /// The step that failed.
        stage: String,
        /// The cause.
        source: BoxError,
    },
    /// A batch did not arrive in time; the epoch ends.
    #[error("loader: worker {worker}, batch {batch}, {}: nothing arrived within {waited:?}: raise the timeout, or find out why loading takes so long", in_sample(None, *sample))]
    Timeout {
        /// The worker that owes the batch.
        worker: usize,
        /// The batch's number in its epoch.
        batch: u64,
        /// The sample that the worker is loading, if any.
        sample: Option<usize>,
        /// The loader's timeout.
        waited: Duration,
    },
    /// A worker thread could not be started.
    #[error("loader: cannot start worker {worker}: {source}")]
    Spawn {
        /// The worker.
        worker: usize,
        /// The system's reason.
        source: std::io::Error,
    },
    /// A saved state belongs to another loader.
    #[error(
        "resume: {field} is {found} in the saved state, but {expected} in this loader: build the loader as it was when the state was saved"
    )]
    StateMismatch {
        /// The field that differs.
        field: &'static str,
        /// This loader's value.
        expected: String,
        /// The saved value.
        found: String,
    },
    /// An error from the caller's own code.
    #[error(transparent)]
    Other(BoxError),
}

samebits_numerics::debug_is_message!(Error);

impl Error {
    /// Wraps an error of the caller's own dataset or collate function.
    ///
    /// # Examples
    ///
    /// ```
    /// let error = samebits_data::Error::other("no such record");
    /// assert_eq!(error.to_string(), "no such record");
    /// ```
    pub fn other(error: impl Into<BoxError>) -> Self {
        Error::Other(error.into())
    }

    pub(crate) fn io(op: &'static str, path: &Path, source: std::io::Error) -> Self {
        Error::Io { op, path: path.to_path_buf(), source }
    }

    pub(crate) fn malformed(
        op: &'static str,
        path: &Path,
        place: Place,
        expected: impl Into<String>,
        found: impl Into<String>,
    ) -> Self {
        Error::Malformed {
            op,
            path: path.to_path_buf(),
            place,
            expected: expected.into(),
            found: found.into(),
        }
    }

    pub(crate) fn option(
        op: &'static str,
        option: &'static str,
        value: impl fmt::Display,
        expected: impl Into<String>,
    ) -> Self {
        Error::InvalidOption { op, option, value: value.to_string(), expected: expected.into() }
    }
}

/// Quotes `text` for an error message, cut to a readable length.
pub(crate) fn quote(text: &str) -> String {
    const LONGEST: usize = 40;
    let mut chars = text.chars();
    let head: String = chars.by_ref().take(LONGEST).collect();
    let rest = if chars.next().is_some() { "..." } else { "" };
    format!("{head:?}{rest}")
}

fn in_sample(shard: Option<usize>, sample: Option<usize>) -> String {
    match (shard, sample) {
        (Some(shard), Some(sample)) => format!("shard {shard}, sample {sample}"),
        (None, Some(sample)) => format!("sample {sample}"),
        (_, None) => "between samples".to_owned(),
    }
}
