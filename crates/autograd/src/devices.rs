//! Discovery of CUDA devices at their first use.

use samebits_tensor_core::Device;

/// Makes the CUDA devices of this machine usable. [`Tensor::to`](crate::Tensor::to), layers and
/// random tensors call this themselves when they are given such a device. Later calls do nothing.
///
/// Without a driver there are no CUDA devices and no error; `samebits_cuda_kernels::install`
/// returns the reason. If the driver fails, the function logs a warning. Without the feature `cuda`
/// it does nothing.
pub fn find_devices() {
    #[cfg(feature = "cuda")]
    {
        use samebits_cuda_kernels::{self as cuda, CudaError};

        static ONCE: std::sync::Once = std::sync::Once::new();
        ONCE.call_once(|| match cuda::install() {
            Ok(_) | Err(CudaError::DriverMissing) => {}
            Err(error) => tracing::warn!("no CUDA device can be used: {error}"),
        });
    }
}

/// Calls [`find_devices`] before anything moves to `device`. A program that names no CUDA device
/// never waits for the driver.
pub(crate) fn reach(device: Device) {
    if device != Device::Cpu {
        find_devices();
    }
}
