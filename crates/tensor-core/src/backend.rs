//! A device's memory, as tensors need it: allocation, copies, and numbers about all elements.

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use parking_lot::RwLock;
use samebits_numerics::exact::ExactSum64;

use crate::{DType, Device, Error, Layout, Result};

/// The memory of a device. Kernels are registered separately, with [`Kernel`](crate::Kernel).
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

    /// Starts the sum behind a ledger digest over a range of a buffer, whose elements have `size`
    /// bytes, and returns a function that waits for it. Returns `None` if the device has no kernel
    /// for the sum; the caller then downloads the elements.
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

    /// Returns the position of the first of several ranges that holds NaN or an infinity, or their
    /// number if all are finite. Returns `None` if the device has no kernel for it; the caller then
    /// downloads the elements.
    fn first_not_finite(&self, floats: &[Floats<'_>]) -> Result<Option<usize>> {
        let _ = floats;
        Ok(None)
    }

    /// Returns the largest magnitude among the elements of several ranges, in f64; NaN counts as the
    /// largest, and 0 is that of no elements. Returns `None` as
    /// [`first_not_finite`](Backend::first_not_finite) does.
    fn largest_magnitude(&self, floats: &[Floats<'_>]) -> Result<Option<f64>> {
        let _ = floats;
        Ok(None)
    }

    /// Returns the exact sum of `(|x| / scale)^p` over the elements of several ranges, with the quotient
    /// and the power rounded to f64. Returns `None` as
    /// [`first_not_finite`](Backend::first_not_finite) does.
    fn sum_of_powers(
        &self,
        floats: &[Floats<'_>],
        scale: f64,
        p: f64,
    ) -> Result<Option<ExactSum64>> {
        let _ = (floats, scale, p);
        Ok(None)
    }

    /// Waits until the device has finished all its work, and reports any error of that work.
    fn synchronize(&self) -> Result<()>;
}

/// A range of a buffer with elements of a float type.
#[derive(Clone, Copy, Debug)]
pub struct Floats<'a> {
    /// The buffer.
    pub buffer: &'a dyn DeviceBuffer,
    /// The number of elements before the range.
    pub start: usize,
    /// The number of elements in the range.
    pub len: usize,
    /// The type of the elements.
    pub dtype: DType,
}

/// Parameters of the sum behind a digest: the words that it covers, and how to recognise NaN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DigestSum {
    /// The number of parts that the words are divided into. The sum covers one block of each part.
    pub blocks: u64,
    /// The number of words in a block.
    pub block: u64,
    /// The largest bit pattern, without the sign, of an element that is not NaN.
    pub infinity: u64,
    /// The bit pattern that replaces every NaN.
    pub quiet: u64,
}

/// A function that waits for a sum on the device; any thread may call it.
pub type LateSum = Box<dyn FnOnce() -> Result<u64> + Send>;

/// A piece of a device's memory.
pub trait DeviceBuffer: Send + Sync + Debug {
    /// Returns the device that holds the memory.
    fn device(&self) -> Device;
    /// Returns the number of bytes.
    fn len(&self) -> usize;
    /// Returns true if there are no bytes.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Returns `self` as its concrete type, for the backend's own kernels.
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

/// A part of some work on the host.
pub type Task<'a> = Box<dyn FnOnce() + Send + 'a>;

/// Sets the function that copies of large strided tensors give their parts to. It must call each
/// task and return when all are done; order and threads are free. The first function stays.
///
/// Without one, the calling thread runs every part. The crate that computes on the host installs the
/// threads of its kernels.
pub fn share_copies(run: fn(Vec<Task<'_>>)) {
    // A second crate that computes on the host has threads of the same kind.
    let _ = RUN.set(run);
}

/// Runs tasks on the threads that [`share_copies`] was given.
pub(crate) fn run_tasks(tasks: Vec<Task<'_>>) {
    match RUN.get() {
        Some(run) => run(tasks),
        None => tasks.into_iter().for_each(|task| task()),
    }
}

static RUN: OnceLock<fn(Vec<Task<'_>>)> = OnceLock::new();
