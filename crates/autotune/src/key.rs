//! What a choice is made for.

use std::fmt;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::Determinism;

/// Everything that a choice may depend on: exact shapes, never rounded to buckets, and the level.
///
/// It is written to the choice file as a TOML table and must be read back equal. What it
/// does not hold, such as addresses, alignment or free memory, cannot change a choice.
pub trait Key:
    Clone + Ord + fmt::Debug + fmt::Display + Serialize + DeserializeOwned + Send + Sync + 'static
{
    /// The level that the chosen algorithm must meet.
    fn level(&self) -> Determinism;
}
