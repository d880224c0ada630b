//! Devices: the places where tensors live.

use std::fmt;
use std::str::FromStr;

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

/// Parses PyTorch's names: `cpu`, `cuda` (the first CUDA device) and `cuda:N`.
///
/// # Examples
///
/// ```
/// use samebits_tensor_core::Device;
///
/// assert_eq!("cuda:1".parse(), Ok(Device::Cuda(1)));
/// assert_eq!("cuda".parse(), Ok(Device::Cuda(0)));
/// assert!("tpu".parse::<Device>().is_err());
/// ```
impl FromStr for Device {
    type Err = ParseDeviceError;

    fn from_str(text: &str) -> Result<Device, ParseDeviceError> {
        if text == "cpu" {
            return Ok(Device::Cpu);
        }
        let ordinal = match text.strip_prefix("cuda") {
            Some("") => Some(0),
            Some(rest) => rest.strip_prefix(':').and_then(|ordinal| ordinal.parse().ok()),
            None => None,
        };
        ordinal.map(Device::Cuda).ok_or(ParseDeviceError(()))
    }
}

/// The text is not the name of a device.
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("expected cpu, cuda or cuda:N")]
pub struct ParseDeviceError(());

samebits_numerics::debug_is_message!(ParseDeviceError);

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
