//! Devices: the places where tensors live.

use std::fmt;

/// A place that holds tensors and runs kernels.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    serde::Serialize,
    serde::Deserialize,
)]
#[non_exhaustive]
pub enum Device {
    /// The host.
    #[default]
    Cpu,
    /// The CUDA device with this ordinal.
    Cuda(u32),
}

impl Device {
    /// Returns the random stream of this device: its ordinal. The CPU and `cuda:0` share stream 0,
    /// so they draw the same numbers.
    pub fn stream(self) -> u64 {
        match self {
            Device::Cpu => 0,
            Device::Cuda(ordinal) => u64::from(ordinal),
        }
    }

    /// Returns the kind of this device; kernels are registered by kind.
    pub fn kind(self) -> DeviceKind {
        match self {
            Device::Cpu => DeviceKind::Cpu,
            Device::Cuda(_) => DeviceKind::Cuda,
        }
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Device::Cpu => f.write_str("cpu"),
            Device::Cuda(ordinal) => write!(f, "cuda:{ordinal}"),
        }
    }
}

/// A family of devices that run the same kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum DeviceKind {
    /// The host.
    Cpu,
    /// Any CUDA device.
    Cuda,
}

impl fmt::Display for DeviceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            DeviceKind::Cpu => "cpu",
            DeviceKind::Cuda => "cuda",
        })
    }
}
