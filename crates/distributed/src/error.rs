//! Why ranks cannot go on together.

use std::time::Duration;

/// A result whose error is this crate's [`enum@Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What can go wrong between ranks. Every message names a rank.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A rank failed, and told the others why.
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
        /// The rank that does not answer.
        rank: usize,
        /// The rank that waited.
        waiting: usize,
        /// How long it waited.
        waited: Duration,
    },
    /// Ranks were not started alike.
    #[error("ranks: the ranks should have one {what}, but {} differ from the others: {values:?}", named(.odd))]
    Unlike {
        /// What differs.
        what: String,
        /// The ranks in the minority.
        odd: Vec<usize>,
        /// The value of the majority, then those of the odd ranks.
        values: Vec<String>,
    },
    /// Ranks disagree about a message: they run different programs, or calls in another order.
    #[error("rank {waiting} expected {expected} from rank {rank}, got {found}")]
    Message {
        /// The sender.
        rank: usize,
        /// The receiver.
        waiting: usize,
        /// What the receiver expected.
        expected: String,
        /// What came.
        found: String,
    },
    /// A setting or an argument that cannot be.
    #[error("ranks: {0}")]
    Invalid(String),
    /// There is no memory.
    #[error("ranks: no memory for {bytes} bytes")]
    OutOfMemory {
        /// The bytes asked for.
        bytes: usize,
    },
    /// An addition failed.
    #[error(transparent)]
    Tensor(#[from] samebits_autograd::Error),
}

samebits_numerics::debug_is_message!(Error);

fn named(ranks: &[usize]) -> String {
    let numbers: Vec<String> = ranks.iter().map(usize::to_string).collect();
    format!("{} {}", if ranks.len() == 1 { "rank" } else { "ranks" }, numbers.join(", "))
}
