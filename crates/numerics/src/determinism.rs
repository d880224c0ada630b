//! Determinism levels: the scope in which the bits of a result repeat.

use core::fmt;

/// The scope in which the bits of a result repeat, weakest level first.
///
/// # Examples
///
/// ```
/// use samebits_numerics::Determinism;
///
/// assert!(Determinism::NotGuaranteed < Determinism::RunToRun);
/// assert_eq!(Determinism::Portable.to_string(), "Portable");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[repr(u8)]
pub enum Determinism {
    /// A valid result that may differ between two runs on one machine.
    NotGuaranteed = 0,
    /// The same bits on every run with the same machine and build.
    RunToRun = 1,
    /// The same bits on every supported CPU and GPU, for any number of threads, any schedule
    /// and any release with the same [`NUMERICS_VERSION`](crate::NUMERICS_VERSION).
    Portable = 2,
}

impl Determinism {
    /// All levels, weakest first.
    pub const ALL: [Determinism; 3] =
        [Determinism::NotGuaranteed, Determinism::RunToRun, Determinism::Portable];
}

impl fmt::Display for Determinism {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Determinism::NotGuaranteed => "NotGuaranteed",
            Determinism::RunToRun => "RunToRun",
            Determinism::Portable => "Portable",
        })
    }
}
