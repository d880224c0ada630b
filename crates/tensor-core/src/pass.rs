//! The pass of an operation, and the description of a kernel.

use std::fmt;

use crate::device::DeviceKind;
use crate::{DType, Determinism};

/// The pass of an operation: result or gradient.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Pass {
    /// Computes a result.
    Forward,
    /// Computes a gradient.
    Backward,
}

impl fmt::Display for Pass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Pass::Forward => "forward",
            Pass::Backward => "backward",
        })
    }
}

/// The registry's description of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct KernelInfo {
    /// The operation.
    pub op: &'static str,
    /// The pass: result or gradient.
    pub pass: Pass,
    /// The kind of device.
    pub device: DeviceKind,
    /// The element types.
    pub dtypes: &'static [DType],
    /// The variant.
    pub variant: &'static str,
    /// The level it promises.
    pub level: Determinism,
    /// The reason why the level holds.
    pub why: &'static str,
}
