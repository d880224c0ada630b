//! A device with a stream: it holds buffers and runs kernels.

#[cfg(any(feature = "cublas", feature = "cudnn"))]
use std::any::{Any, TypeId};
#[cfg(any(feature = "cublas", feature = "cudnn"))]
use std::collections::{BTreeMap, btree_map::Entry};
use std::fmt::Debug;
use std::sync::Arc;

use bytemuck::Pod;
use cudarc::driver::sys::CUevent_flags;
use cudarc::driver::{CudaContext, CudaEvent, CudaStream};
use parking_lot::{Mutex, MutexGuard};
use samebits_tensor_core::{bf16, f16};

use crate::Variant;
use crate::error::{CudaError, Result};
use crate::launch::declared::status::RawSource;
use crate::launch::kernels::status as kernels;
use crate::launch::{self, Buffer, Kernels, Launch, Staging};

/// The number of words of a report in the status buffer; see `kernels/include/samebits.cuh`.
const REPORT: usize = 4;
/// The number of words for operations that follow them.
const SLOTS: usize = 256;
/// The number of bytes of indices that are kept until the next synchronisation.
const KEPT_BYTES: usize = 16 << 20;
/// The number of bytes from which downloads go through page-locked memory.
const STAGED_FROM: usize = 64 << 10;
/// The number of threads of a block, if the kernel does not fix it.
const BLOCK: u32 = 256;
/// The largest number of threads that the registers of every kernel without a fixed number allow.
const LARGEST_BLOCK: u32 = 512;

/// A CUDA device with its own stream.
///
/// A `Device` does all its work in the order of submission, from any thread. Several `Device`s may
/// share one GPU. An operation on another device's buffer waits for the work submitted to that
/// device before; work submitted to it later waits for the operation.
///
/// # Examples
///
/// ```
/// use samebits_cuda_kernels::Device;
///
/// match Device::new(0) {
///     Ok(device) => {
///         let buffer = device.upload(&[1.0f32, 2.0])?;
///         assert_eq!(device.download(&buffer)?, [1.0, 2.0]);
///     }
///     // No driver, or no GPU: the error says which.
///     Err(error) => println!("{error}"),
/// }
/// # Ok::<(), samebits_cuda_kernels::CudaError>(())
/// ```
#[derive(Debug)]
pub struct Device {
    context: Arc<CudaContext>,
    stream: Arc<CudaStream>,
    kernels: Arc<Kernels>,
    status: Mutex<Status>,
    /// A buffer for a parameter that the kernel does not read.
    nothing: Buffer<u64>,
    /// Memory for downloads, allocated by the first that is long.
    staging: Mutex<Option<Staging>>,
    block: u32,
    /// Values of other modules that live as long as the device, by type.
    #[cfg(any(feature = "cublas", feature = "cudnn"))]
    held: Mutex<BTreeMap<TypeId, Box<dyn Any + Send>>>,
}

/// The reports of kernels; see `kernels/include/samebits.cuh`.
#[derive(Debug)]
struct Status {
    words: Buffer<u64>,
    /// The words of the operations: the parts of `words` after the report.
    slots: Vec<Buffer<u64>>,
    /// A buffer for reports that were already collected.
    ignored: Buffer<u64>,
    /// The operations that have a slot.
    sources: Vec<Source>,
    /// The number of bytes of their indices.
    kept: usize,
    /// The operations whose slots were collected: the number of one is its position + 1.
    names: Vec<Name>,
}

/// An operation that can report, and the kind of its report.
type Name = (&'static str, Refused);

/// The operation of a slot, with the indices that it read.
#[derive(Debug)]
struct Source {
    name: Name,
    index: Buffer<i64>,
    size: usize,
}

/// The reason why a kernel rejects an integer that it reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// An index outside a dimension.
    Index,
    /// An operand of arithmetic, by its name.
    Operand(&'static str),
}

/// Returns true if there is a device, and a driver that can run this crate's kernels.
///
/// # Examples
///
/// ```
/// if !samebits_cuda_kernels::is_available() {
///     println!("running on the CPU");
/// }
/// ```
pub fn is_available() -> bool {
    device_count().is_ok_and(|count| count > 0)
}

/// Returns the number of devices that the driver sees.
///
/// # Errors
///
/// [`CudaError::DriverMissing`], [`CudaError::DriverTooOld`] or [`CudaError::DriverFailed`].
pub fn device_count() -> Result<usize> {
    if !launch::probe()? {
        return Ok(0);
    }
    let count = CudaContext::device_count().map_err(|e| CudaError::driver("device_count", e))?;
    Ok(count.max(0) as usize)
}

impl Device {
    /// Opens device `ordinal` with a new stream.
    ///
    /// # Errors
    ///
    /// The errors of [`device_count`], and [`CudaError::NoDevice`].
    pub fn new(ordinal: usize) -> Result<Device> {
        let count = device_count()?;
        if ordinal >= count {
            return Err(CudaError::NoDevice { ordinal, count });
        }
        let opened = launch::open(ordinal);
        let (context, stream) = opened.map_err(|e| CudaError::driver("device", e))?;
        Device::on_stream(context, stream)
    }

    /// Returns the same device with another stream.
    ///
    /// # Errors
    ///
    /// [`CudaError::Driver`].
    pub fn with_new_stream(&self) -> Result<Device> {
        let stream = self.context.new_stream().map_err(|e| CudaError::driver("new_stream", e))?;
        let device = Device::on_stream(self.context.clone(), stream)?;
        Ok(Device { block: self.block, ..device })
    }

    /// Returns the same device with `block` threads per block for kernels that leave the number
    /// open.
    ///
    /// # Determinism
    ///
    /// The block size cannot change a bit of a `Portable` result; the tests vary it to prove that.
    ///
    /// # Errors
    ///
    /// [`CudaError::InvalidArgument`] unless `block` is a multiple of 32 up to 512; kernels use too
    /// many registers for more.
    pub fn with_block_size(self, block: u32) -> Result<Device> {
        if block == 0 || !block.is_multiple_of(32) || block > LARGEST_BLOCK {
            return Err(CudaError::invalid(
                "with_block_size",
                format!("expected a multiple of 32 up to {LARGEST_BLOCK}, got {block}"),
            ));
        }
        Ok(Device { block, ..self })
    }

    fn on_stream(context: Arc<CudaContext>, stream: Arc<CudaStream>) -> Result<Device> {
        let op = "device";
        let nothing = Buffer::uninitialised(&stream, op, 1)?;
        let status = Status::new(op, &stream)?;
        Ok(Device {
            kernels: Kernels::of(&context),
            context,
            stream,
            status: Mutex::new(status),
            nothing,
            staging: Mutex::default(),
            block: BLOCK,
            #[cfg(any(feature = "cublas", feature = "cudnn"))]
            held: Mutex::default(),
        })
    }

    /// Returns the device's name, as the driver reports it.
    ///
    /// # Errors
    ///
    /// [`CudaError::Driver`].
    pub fn name(&self) -> Result<String> {
        self.context.name().map_err(|e| CudaError::driver("name", e))
    }

    /// Returns the device's name, its compute capability and the driver's version.
    pub(crate) fn description(&self) -> Result<String> {
        let driver = |e| CudaError::driver("description", e);
        let (major, minor) = self.context.compute_capability().map_err(driver)?;
        let version = launch::driver_version()?;
        Ok(format!("{}, compute capability {major}.{minor}, driver {version}", self.name()?))
    }

    /// Returns an event that is reached when all submitted work is done, and that records the time.
    pub(crate) fn timed_event(&self) -> Result<CudaEvent> {
        self.stream
            .record_event(Some(CUevent_flags::CU_EVENT_DEFAULT))
            .map_err(|e| CudaError::driver("timed_event", e))
    }

    /// Returns the device's number.
    pub fn ordinal(&self) -> usize {
        self.context.ordinal()
    }

    /// Copies `values` to a new buffer. A buffer never has fewer than one element.
    ///
    /// # Errors
    ///
    /// [`CudaError::OutOfMemory`] or [`CudaError::Driver`].
    pub fn upload<T: Pod>(&self, values: &[T]) -> Result<Buffer<T>> {
        let op = "upload";
        let mut buffer = Buffer::uninitialised(&self.stream, op, values.len())?;
        buffer.write(op, values)?;
        Ok(buffer)
    }

    /// Copies a buffer to the host after all work submitted before is done, and waits for it. The
    /// buffer of an empty tensor has one meaningless element, because the driver allocates nothing
    /// smaller.
    ///
    /// # Errors
    ///
    /// The errors of [`synchronize`](Device::synchronize).
    pub fn download<T: Pod>(&self, buffer: &Buffer<T>) -> Result<Vec<T>> {
        let op = "download";
        self.synchronize()?;
        if buffer.bytes() < STAGED_FROM {
            return buffer.read(op, &self.stream, 0, buffer.len());
        }
        let mut staging = self.staging.lock();
        if staging.is_none() {
            *staging = Staging::new(&self.stream).ok();
        }
        match &mut *staging {
            Some(staging) => staging.read(op, &self.stream, buffer),
            // The host locks no more pages: the driver copies through its own memory.
            None => buffer.read(op, &self.stream, 0, buffer.len()),
        }
    }

    /// Reads one element of a buffer after all work submitted before is done.
    pub(crate) fn element<T: Pod>(&self, buffer: &Buffer<T>, at: usize) -> Result<T> {
        self.synchronize()?;
        Ok(buffer.read("download", &self.stream, at, 1)?[0])
    }

    /// Returns a new buffer of zeros. A buffer never has fewer than one element.
    ///
    /// # Errors
    ///
    /// [`CudaError::OutOfMemory`] or [`CudaError::Driver`].
    pub fn zeros<T: Pod>(&self, len: usize) -> Result<Buffer<T>> {
        self.zeros_for("zeros", len)
    }

    /// Returns a copy of a buffer.
    ///
    /// # Errors
    ///
    /// [`CudaError::OutOfMemory`] or [`CudaError::Driver`].
    pub fn duplicate<T: Pod>(&self, buffer: &Buffer<T>) -> Result<Buffer<T>> {
        let op = "duplicate";
        let mut copy = Buffer::uninitialised(&self.stream, op, buffer.len())?;
        if !buffer.is_empty() {
            copy.copy_from(op, buffer)?;
        }
        Ok(copy)
    }

    /// Waits until all submitted work is done, and returns any error it reported.
    ///
    /// # Errors
    ///
    /// [`CudaError::IndexOutOfRange`] for the first operation since the last call that read a bad
    /// index, with the first such position in its index; [`CudaError::Operand`] likewise for
    /// integers that have no result; [`CudaError::Driver`] if a kernel failed.
    pub fn synchronize(&self) -> Result<()> {
        let op = "synchronize";
        let driver = |e| CudaError::driver(op, e);
        self.context.check_err().map_err(driver)?;
        let mut status = self.status.lock();
        if status.sources.is_empty() && status.names.is_empty() {
            return launch::wait(&self.stream).map_err(driver);
        }
        let words = status.words.read(op, &self.stream, 0, REPORT + status.sources.len())?;
        let (report, slots) = words.split_at(REPORT);
        let (sources, names) = status.forget();
        let collected = (report[0] as usize).checked_sub(1).and_then(|name| names.get(name));
        let noted = slots.iter().zip(&sources).find(|(position, _)| **position != u64::MAX);
        let (name, [position, found, size]) = match (collected, noted) {
            (Some(name), _) => (*name, [report[1], report[2], report[3]]),
            (None, Some((&position, Source { name, index, size }))) => {
                let found = index.read(op, &self.stream, position as usize, 1)?[0];
                (*name, [position, found as u64, *size as u64])
            }
            (None, None) => return Ok(()),
        };
        status.clear(op)?;
        let (op, refused) = name;
        Err(match refused {
            Refused::Index => CudaError::IndexOutOfRange {
                op,
                position: position as usize,
                index: found as i64,
                size: size as usize,
            },
            Refused::Operand(what) => CudaError::Operand { op, what, value: found as i64 },
        })
    }

    /// Returns a buffer that the next kernel must write completely.
    pub(crate) fn uninitialised<T: Pod>(&self, op: &'static str, len: usize) -> Result<Buffer<T>> {
        Buffer::uninitialised(&self.stream, op, len)
    }

    pub(crate) fn zeros_for<T: Pod>(&self, op: &'static str, len: usize) -> Result<Buffer<T>> {
        let mut buffer = self.uninitialised(op, len)?;
        buffer.set(op, 0)?;
        Ok(buffer)
    }

    /// Returns a buffer that the deterministic form writes completely, and to which the atomic one
    /// adds.
    pub(crate) fn sums_for<T: Pod>(
        &self,
        op: &'static str,
        len: usize,
        variant: Variant,
    ) -> Result<Buffer<T>> {
        match variant {
            Variant::Deterministic => self.uninitialised(op, len),
            Variant::Atomic => self.zeros_for(op, len),
        }
    }

    /// Returns the stream of this device's work.
    pub(crate) fn stream(&self) -> &CudaStream {
        &self.stream
    }

    /// Returns the stream as a shared handle.
    #[cfg(any(feature = "cublas", feature = "cudnn"))]
    pub(crate) fn stream_handle(&self) -> &Arc<CudaStream> {
        &self.stream
    }

    /// Calls `body` with this device's value of a type, which `make` creates at first use: the handle
    /// of a library, say.
    #[cfg(any(feature = "cublas", feature = "cudnn"))]
    pub(crate) fn with_held<T: Any + Send, R>(
        &self,
        op: &'static str,
        make: impl FnOnce(&Device) -> Result<T>,
        body: impl FnOnce(&mut T) -> Result<R>,
    ) -> Result<R> {
        self.context.bind_to_thread().map_err(|e| CudaError::driver(op, e))?;
        let mut held = self.held.lock();
        let value = match held.entry(TypeId::of::<T>()) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => entry.insert(Box::new(make(self)?)),
        };
        body(value.downcast_mut().expect("values are held by their type"))
    }

    /// Returns the number of threads of a block, if the kernel does not fix it.
    pub(crate) fn block(&self) -> u32 {
        self.block
    }

    /// Returns the loaded kernels.
    pub(crate) fn kernels(&self) -> &Kernels {
        &self.kernels
    }

    /// Returns a buffer for a parameter that the kernel does not read.
    pub(crate) fn nothing(&self) -> &Buffer<u64> {
        &self.nothing
    }

    /// Locks the status buffers for the reports of an operation's kernels.
    pub(crate) fn reports(&self) -> Reports<'_> {
        Reports { status: self.status.lock() }
    }
}

/// Access to the status buffers during an operation.
pub(crate) struct Reports<'a> {
    status: MutexGuard<'a, Status>,
}

impl Reports<'_> {
    /// Returns the buffer in which kernels report bad indices; call [`collect`](Reports::collect)
    /// after them.
    pub(crate) fn noted(&mut self) -> &mut Buffer<u64> {
        let slot = self.status.sources.len();
        &mut self.status.slots[slot]
    }

    /// Returns a buffer for bad indices that an earlier kernel of the operation already reported.
    pub(crate) fn ignored(&mut self) -> &mut Buffer<u64> {
        &mut self.status.ignored
    }

    /// Looks up the index at the first bad position, if there is one, and keeps the report of the
    /// first operation.
    pub(crate) fn collect(
        &mut self,
        device: &Device,
        op: &'static str,
        index: &Buffer<i64>,
        size: usize,
    ) -> Result<()> {
        self.collect_refused(device, (op, Refused::Index), index, size)
    }

    /// Collects as [`collect`](Reports::collect), for operands of arithmetic.
    pub(crate) fn collect_operand(
        &mut self,
        device: &Device,
        op: &'static str,
        what: &'static str,
        operand: &Buffer<i64>,
    ) -> Result<()> {
        self.collect_refused(device, (op, Refused::Operand(what)), operand, 0)
    }

    fn collect_refused(
        &mut self,
        device: &Device,
        name: Name,
        index: &Buffer<i64>,
        size: usize,
    ) -> Result<()> {
        let status = &mut *self.status;
        status.kept += index.bytes();
        status.sources.push(Source { name, index: index.shared(), size });
        if status.sources.len() < SLOTS && status.kept <= KEPT_BYTES {
            return Ok(());
        }
        // Look up the indices on the device, and keep them no longer.
        let op = name.0;
        let sources = std::mem::take(&mut status.sources);
        status.kept = 0;
        let rows = sources.iter().map(|source| {
            let known = status.names.iter().position(|&known| known == source.name);
            let name = known.unwrap_or_else(|| {
                status.names.push(source.name);
                status.names.len() - 1
            });
            RawSource { index: *source.index.address(), size: source.size, name: name + 1 }
        });
        let rows = device.upload(&rows.collect::<Vec<_>>())?;
        let streams: Vec<_> = sources.iter().map(|source| &**source.index.stream()).collect();
        let (words, count) = (&mut status.words, sources.len());
        launch::ordered(op, device.stream(), &streams, || {
            let collect = kernels::StatusCollect { status: words, sources: &rows, count };
            collect.grid(device, op, (1, 1, 1), (1, 1, 1))
        })
    }
}

impl Status {
    fn new(op: &'static str, stream: &Arc<CudaStream>) -> Result<Status> {
        let words = Buffer::uninitialised(stream, op, REPORT + SLOTS)?;
        let ignored = Buffer::uninitialised(stream, op, 1)?;
        let slots = words.shared().split().split_off(REPORT);
        let (sources, names) = (Vec::new(), Vec::new());
        let mut status = Status { words, slots, ignored, sources, kept: 0, names };
        status.clear(op)?;
        status.ignored.write(op, &[u64::MAX])?;
        Ok(status)
    }

    /// Forgets all operations, and returns them.
    fn forget(&mut self) -> (Vec<Source>, Vec<Name>) {
        self.kept = 0;
        (std::mem::take(&mut self.sources), std::mem::take(&mut self.names))
    }

    /// Removes every report.
    fn clear(&mut self, op: &'static str) -> Result<()> {
        let mut words = [u64::MAX; REPORT + SLOTS];
        words[..REPORT].fill(0);
        self.words.write(op, &words)
    }
}

/// Checks that a buffer has the length that the shape requires.
pub(crate) fn expect_len<T>(
    op: &'static str,
    what: &'static str,
    buffer: &Buffer<T>,
    expected: usize,
) -> Result<()> {
    // The buffer of an empty tensor has one element that nothing reads.
    let got = buffer.len();
    if got == expected || (expected == 0 && got == 1) {
        Ok(())
    } else {
        Err(CudaError::Length { op, what, expected, got })
    }
}

/// Returns the product of dimensions, or an error if it overflows.
pub(crate) fn product(op: &'static str, dims: &[usize]) -> Result<usize> {
    dims.iter().try_fold(1usize, |n, &d| n.checked_mul(d)).ok_or_else(|| {
        CudaError::invalid(op, format!("the product of {dims:?} does not fit 64 bits"))
    })
}

/// The number of planes that one thread handles, one place in each: `SB_PLANES` of
/// `kernels/include/planes.cuh`.
const PLANES: usize = 8;

/// Returns the number of threads of a kernel in which a thread handles one place in [`PLANES`]
/// planes, and the remaining planes one by one.
pub(crate) fn plane_threads(op: &'static str, planes: usize, volume: usize) -> Result<usize> {
    product(op, &[planes / PLANES + planes % PLANES, volume])
}

/// Converts sizes and offsets to the type of the kernels; they must be below 2^31. That is a limit
/// of this crate's kernels, not of the operations.
pub(crate) fn narrow<Wide, Narrow, const N: usize>(
    op: &'static str,
    what: &'static str,
    numbers: [Wide; N],
) -> Result<[Narrow; N]>
where
    Wide: Copy + Debug + TryInto<i32>,
    Narrow: Copy + Default + TryFrom<i32>,
{
    let mut narrowed = [Narrow::default(); N];
    for (narrowed, number) in narrowed.iter_mut().zip(numbers) {
        let number = number.try_into().ok().and_then(|number| Narrow::try_from(number).ok());
        *narrowed = number.ok_or_else(|| {
            CudaError::invalid(
                op,
                format!("{what} {numbers:?} must be below 2^31 on a CUDA device"),
            )
        })?;
    }
    Ok(narrowed)
}

/// A type of 1, 2, 4 or 8 bytes that kernels move as bits.
pub trait Word: Pod + Default {
    /// The word for the type in kernel names.
    #[doc(hidden)]
    const NAME: &'static str;
}

macro_rules! words {
    ($($t:ident)*) => {$(
        impl Word for $t {
            const NAME: &'static str = stringify!($t);
        }
    )*};
}
words!(u8 u16 f16 bf16 f32 f64 i32 i64 u32 u64);

/// An element type with arithmetic: f32, f64 or i64.
pub trait Number: Word {
    /// True if the order of sums and products changes the result; false for integers, which wrap
    /// around.
    #[doc(hidden)]
    const ROUNDS: bool;
    /// Returns the nearest number of this type; for i64, the nearest towards zero.
    fn from_f64(x: f64) -> Self;
}

macro_rules! numbers {
    ($($t:ident $rounds:literal)*) => {$(
        impl Number for $t {
            const ROUNDS: bool = $rounds;
            fn from_f64(x: f64) -> $t {
                x as $t
            }
        }
    )*};
}
numbers!(f32 true f64 true i64 false);

/// An element type with floating-point kernels: f32 or f64.
pub trait Float:
    Number + std::fmt::Debug + PartialOrd + Into<f64> + std::ops::Sub<Output = Self>
{
    /// True for f64.
    #[doc(hidden)]
    const WIDE: bool;
    /// Returns true if the number is neither infinite nor NaN.
    fn is_finite(self) -> bool;
    /// Returns the next smaller number.
    #[must_use]
    fn next_down(self) -> Self;
}

impl Float for f32 {
    const WIDE: bool = false;
    fn is_finite(self) -> bool {
        f32::is_finite(self)
    }
    fn next_down(self) -> f32 {
        f32::next_down(self)
    }
}

impl Float for f64 {
    const WIDE: bool = true;
    fn is_finite(self) -> bool {
        f64::is_finite(self)
    }
    fn next_down(self) -> f64 {
        f64::next_down(self)
    }
}

/// A type with a sort order: f32, f64 or i64.
pub trait Sortable: Number {
    /// An unsigned integer as wide as the type.
    #[doc(hidden)]
    type Key: Word;
}

impl Sortable for f32 {
    type Key = u32;
}

impl Sortable for f64 {
    type Key = u64;
}

impl Sortable for i64 {
    type Key = u64;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The number of registers of a multiprocessor; a warp gets them in portions.
    const REGISTERS: u32 = 64 << 10;
    const PORTION: u32 = 256;

    /// Returns true for kernels with blocks of 256 threads, whatever the device's block size is.
    fn is_fixed(kernel: &str) -> bool {
        ["x64_f", "x128_f"].iter().any(|tile| kernel.contains(tile))
    }

    #[test]
    fn the_registers_of_every_kernel_allow_its_block() {
        let (mut kernel, mut seen, mut fixed) = ("", 0, 0);
        for line in include_str!("../ptx/manifest.toml").lines() {
            if let Some(name) = line.strip_prefix("name = ") {
                kernel = name.trim_matches('"');
            }
            let Some((_, figures)) = line.split_once(" = [").filter(|_| line.starts_with("sm_"))
            else {
                continue;
            };
            let registers: u32 = figures.split(',').next().unwrap().parse().unwrap();
            let warps = REGISTERS / (32 * registers).next_multiple_of(PORTION);
            let block = if is_fixed(kernel) { 256 } else { LARGEST_BLOCK };
            assert!(32 * warps >= block, "{kernel}: {registers} registers, {block} threads");
            seen += 1;
            fixed += u32::from(is_fixed(kernel));
        }
        assert!(seen > 1000 && fixed > 20, "{seen}, {fixed}");
    }
}
