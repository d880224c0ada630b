use samebits_testing::ThreadsMissing;

/// A result whose error is this crate's [`enum@Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why nothing could be verified. Bits that differ are no error: the report has them.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A family that the corpus has not.
    #[error("verify: no family is called {name:?}; there are {known}")]
    UnknownFamily {
        /// The name that was asked for.
        name: String,
        /// The names that there are.
        known: String,
    },
    /// A line of golden digests that is none.
    #[error(
        "verify: golden digests of {family}, line {line}: expected 16 hexadecimal digits, two spaces and the name of a case, got {found:?}"
    )]
    Golden {
        /// The family.
        family: String,
        /// The line, counted from 1.
        line: usize,
        /// What is there.
        found: String,
    },
    /// A device cannot be used.
    #[error(transparent)]
    Device(#[from] samebits::Error),
    /// The threads of a setting cannot be started.
    #[error(transparent)]
    Threads(#[from] ThreadsMissing),
}

samebits::numerics::debug_is_message!(Error);
