//! The three levels, under the names that the rest of the workspace uses.

use serde::{Deserialize, Serialize};

/// What a loader promises about its batches, weakest first.
///
/// The names, order and meaning are those of `samebits_tensor_core::Determinism`. This crate has a
/// type of its own because it is used without tensors; a program that has both maps them name to
/// name.
///
/// | level | promise | may use |
/// |---|---|---|
/// | `NotGuaranteed` | every sample of the epoch, once | delivery in order of arrival |
/// | `RunToRun` | the same batches every run with the same number of workers | randomness seeded per worker |
/// | `Portable` | the same batches for any number of workers, any prefetch, any resume point | randomness seeded per sample |
///
/// # Examples
///
/// ```
/// use samebits_data::Determinism;
///
/// assert!(Determinism::NotGuaranteed < Determinism::RunToRun);
/// assert_eq!(Determinism::default(), Determinism::Portable);
/// ```
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub enum Determinism {
    /// A valid result, perhaps another one each time.
    NotGuaranteed,
    /// The same bits every run on the same machine with the same settings.
    RunToRun,
    /// The same bits everywhere, always.
    #[default]
    Portable,
}
