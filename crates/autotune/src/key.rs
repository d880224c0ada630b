//! The key of a choice.

use std::fmt;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::Determinism;

/// Everything on which a choice may depend: exact shapes, never rounded to buckets, and the level.
///
/// Keys are written to the choice file as TOML tables and must be read back equal. Anything not in
/// the key, such as addresses, alignment or free memory, cannot change a choice.
pub trait Key:
    Clone + Ord + fmt::Debug + fmt::Display + Serialize + DeserializeOwned + Send + Sync + 'static
{
    /// Returns the level that the chosen algorithm must meet.
    fn level(&self) -> Determinism;
}
