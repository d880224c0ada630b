//! What a device must be able to do besides running kernels: hold memory and move it.

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::ops::Range;
use std::sync::Arc;

use parking_lot::RwLock;

use crate::{Device, Error, Layout, Result};

/// A device's memory. Kernels are registered separately, with [`Kernel`](crate::Kernel).
///
/// The host needs no implementation: tensor-core holds host memory itself.
pub trait Backend: Send + Sync + Debug {
    /// Returns the device's own name, as its driver reports it.
    fn name(&self) -> String;

    /// Copies `bytes` to a new buffer on the device.
    fn upload(&self, bytes: &[u8]) -> Result<Arc<dyn DeviceBuffer>>;

    /// Copies a buffer's bytes to the host.
    fn download(&self, buffer: &dyn DeviceBuffer) -> Result<Vec<u8>>;

    /// Copies the elements that `layout` selects, `size` bytes each, into a new dense buffer.
    fn gather(
        &self,
        buffer: &dyn DeviceBuffer,
        layout: &Layout,
        size: usize,
    ) -> Result<Arc<dyn DeviceBuffer>>;

    /// Starts to add up the terms that the digest of a ledger is made of, over the elements of `size`
    /// bytes in a range of a buffer, and returns what waits for the sum. Nothing if the device has no
    /// kernel for it: the elements are then downloaded.
    fn digest(
        &self,
        buffer: &dyn DeviceBuffer,
        elements: Range<usize>,
        size: usize,
        what: DigestSum,
    ) -> Result<Option<LateSum>> {
        let _ = (buffer, elements, size, what);
        Ok(None)
    }

    /// Waits until everything asked of the device is done, and reports what went wrong.
    fn synchronize(&self) -> Result<()>;
}

/// What the sum of a digest covers, and which elements are NaN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DigestSum {
    /// In how many parts the words are divided; each has a block that is covered.
    pub blocks: u64,
    /// The words of a block.
    pub block: u64,
    /// The largest pattern of bits, without the sign, of an element that is not NaN.
    pub infinity: u64,
    /// What stands for every NaN.
    pub quiet: u64,
}

/// Waits for a sum that a device computes, on any thread.
pub type LateSum = Box<dyn FnOnce() -> Result<u64> + Send>;

/// A piece of a device's memory.
pub trait DeviceBuffer: Send + Sync + Debug {
    /// Which device holds it.
    fn device(&self) -> Device;
    /// Returns the number of bytes.
    fn len(&self) -> usize;
    /// Returns true if there are no bytes.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Returns the concrete type, for the backend's own kernels.
    fn as_any(&self) -> &dyn Any;
}

/// Makes `device` usable. Installing a device again replaces its backend.
pub fn install(device: Device, backend: Arc<dyn Backend>) {
    BACKENDS.write().insert(device, backend);
}

/// Returns the backend of `device`.
///
/// # Errors
///
/// [`Error::NoBackend`] if none was installed.
pub fn backend(device: Device) -> Result<Arc<dyn Backend>> {
    BACKENDS.read().get(&device).cloned().ok_or(Error::NoBackend { device })
}

/// Returns the devices that can be used: the host, and every device with a backend.
pub fn devices() -> Vec<Device> {
    let mut devices = vec![Device::Cpu];
    devices.extend(BACKENDS.read().keys().copied());
    devices
}

static BACKENDS: RwLock<BTreeMap<Device, Arc<dyn Backend>>> = RwLock::new(BTreeMap::new());
