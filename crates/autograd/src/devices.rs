//! CUDA devices that come into reach with their first use.

use std::sync::Once;

use samebits_cuda_kernels::{self as cuda, CudaError};
use samebits_tensor_core::Device;

/// Makes the CUDA devices of this machine usable, once. [`Tensor::to`](crate::Tensor::to), layers and
/// random tensors do so themselves when they are given such a device.
///
/// Without a driver there are no CUDA devices, and that is all: `samebits_cuda_kernels::install` says
/// why. A driver that fails is reported as a warning.
pub fn find_devices() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| match cuda::install() {
        Ok(_) | Err(CudaError::DriverMissing) => {}
        Err(error) => tracing::warn!("no CUDA device can be used: {error}"),
    });
}

/// [`find_devices`] before something is brought to `device`. A program that names no CUDA device never
/// waits for the driver.
pub(crate) fn reach(device: Device) {
    if device != Device::Cpu {
        find_devices();
    }
}
