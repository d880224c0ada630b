//! Errors of ranks.

use std::time::Duration;

/// A result with this crate's [`enum@Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of a rank. Every message names a rank.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A rank failed and told the others the cause.
    #[error("rank {rank}: {cause}")]
    Failed {
        /// The rank.
        rank: usize,
        /// Its error.
        cause: String,
    },
    /// A rank ended while others waited for it.
    #[error("rank {rank} has ended while rank {waiting} waits for it")]
    Gone {
        /// The rank that ended.
        rank: usize,
        /// A rank that waits.
        waiting: usize,
    },
    /// A rank did not answer in time.
    #[error("rank {rank} has not answered rank {waiting} for {waited:?}")]
    Timeout {
        /// The rank that did not answer.
        rank: usize,
        /// The rank that waited.
        waiting: usize,
        /// The time that it waited.
        waited: Duration,
    },
    /// Ranks were started with different settings.
    #[error("ranks: the ranks should have one {what}, but {} from the others: {values:?}", differ(.odd))]
    Unlike {
        /// The name of the setting.
        what: String,
        /// The ranks in the minority.
        odd: Vec<usize>,
        /// The value of the majority, then those of the ranks in the minority.
        values: Vec<String>,
    },
    /// Ranks disagree about a message: their programs differ, or the order of their calls.
    #[error("rank {waiting} expected {expected} from rank {rank}, got {found}")]
    Message {
        /// The sender.
        rank: usize,
        /// The receiver.
        waiting: usize,
        /// The message that the receiver expected.
        expected: String,
        /// The message that arrived.
        found: String,
    },
    /// An invalid setting or argument.
    #[error("ranks: {0}")]
    Invalid(String),
    /// Memory ran out.
    #[error("ranks: no memory for {bytes} bytes")]
    OutOfMemory {
        /// The number of bytes requested.
        bytes: usize,
    },
    /// An addition failed.
    #[error(transparent)]
    Tensor(#[from] samebits_autograd::Error),
}

samebits_numerics::debug_is_message!(Error);

fn differ(ranks: &[usize]) -> String {
    let numbers: Vec<String> = ranks.iter().map(usize::to_string).collect();
    let numbers = numbers.join(", ");
    if ranks.len() == 1 {
        format!("rank {numbers} differs")
    } else {
        format!("ranks {numbers} differ")
    }
}
