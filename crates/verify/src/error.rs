use samebits_testing::ThreadsMissing;

/// A result whose error is this crate's [`enum@Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The reason why nothing could be verified. Bits that differ are not an error: the report lists
/// them.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The corpus has no such family.
    #[error("verify: no family is called {name:?}; there are {known}")]
    UnknownFamily {
        /// The requested name.
        name: String,
        /// The names of all families.
        known: String,
    },
    /// A line of golden digests has the wrong form.
    #[error(
        "verify: golden digests of {family}, line {line}: expected 16 hexadecimal digits, two spaces and the name of a case, got {found:?}"
    )]
    Golden {
        /// The family.
        family: String,
        /// The line, counted from 1.
        line: usize,
        /// The text of the line.
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
