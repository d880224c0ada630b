//! The one module with unsafe code (and what is below it, for the vendor's libraries): finding the driver, uninitialised buffers, buffers without an
//! element type, and launches.
//!
//! A launch is safe if its arguments are what the kernel expects and every access stays inside
//! its buffers. The first half is checked here: a kernel's parameter list is read from its PTX,
//! and a call whose arguments differ in number, kind or size is refused before it reaches the
//! driver. The second half is the duty of each typed function, which checks every length against
//! the shape before it launches, and of the kernel, which compares every computed index with
//! its bound.

#![allow(unsafe_code)]

#[cfg(feature = "cublas")]
pub(crate) mod cublas;
#[cfg(feature = "cudnn")]
pub(crate) mod cudnn;

use std::collections::BTreeMap;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::sync::Arc;

use bytemuck::{Pod, TransparentWrapper};
use cudarc::driver::{
    CudaContext, CudaFunction, CudaModule, CudaSlice, CudaStream, DevicePtr, DeviceRepr,
    LaunchArgs, LaunchConfig, PushKernelArg, result, sys,
};

use crate::error::{CudaError, Result, message};

/// The oldest driver interface that loads the committed PTX: CUDA 12.0.
const OLDEST_DRIVER: i32 = 12_000;

/// Probes for a driver without letting cudarc panic. False if it has no device.
pub(crate) fn probe() -> Result<bool> {
    // SAFETY: opening the driver library runs only its own initialisers.
    if !unsafe { sys::is_culib_present() } {
        return Err(CudaError::DriverMissing);
    }
    let version = version()?;
    if version < OLDEST_DRIVER {
        return Err(CudaError::DriverTooOld { found: show(version), needed: show(OLDEST_DRIVER) });
    }
    match result::init() {
        Ok(()) => Ok(true),
        Err(error) if error.0 == sys::CUresult::CUDA_ERROR_NO_DEVICE => Ok(false),
        Err(error) => Err(CudaError::DriverFailed { message: message(error) }),
    }
}

/// The version of a driver that is present, such as `12.6`.
pub(crate) fn driver_version() -> Result<String> {
    version().map(show)
}

fn version() -> Result<i32> {
    let mut version = 0;
    // SAFETY: the function exists in every driver, may be called before cuInit, and writes one
    // integer.
    let status = unsafe { sys::cuDriverGetVersion(&mut version) };
    if status != sys::CUresult::CUDA_SUCCESS {
        return Err(CudaError::DriverFailed { message: format!("{status:?}") });
    }
    Ok(version)
}

fn show(version: i32) -> String {
    format!("{}.{}", version / 1000, version % 1000 / 10)
}

/// A buffer whose contents are whatever was there before.
///
/// Only for buffers that the next kernel writes completely before anything reads them.
pub(crate) fn uninitialised<T: DeviceRepr>(
    stream: &Arc<CudaStream>,
    op: &'static str,
    len: usize,
) -> Result<CudaSlice<T>> {
    let bytes = buffer_size::<T>(op, len)?;
    // SAFETY: every bit pattern is a value of the types used, and the callers' kernels write
    // each element before it is read. The size in bytes, which the driver is given, fits.
    unsafe { stream.alloc(len.max(1)) }.map_err(|error| CudaError::allocation(op, bytes, error))
}

/// The size in bytes of a buffer of `len` elements, or of one, because the driver allocates nothing
/// empty.
pub(crate) fn buffer_size<T>(op: &'static str, len: usize) -> Result<usize> {
    let bytes = len.max(1).checked_mul(size_of::<T>());
    bytes.ok_or(CudaError::OutOfMemory { op, bytes: usize::MAX })
}

/// Prepares a context all of whose work goes to one stream: no events to order streams, and
/// freed memory stays with the process for the next buffer.
pub(crate) fn single_stream(context: &Arc<CudaContext>) -> Result<(), cudarc::driver::DriverError> {
    // SAFETY: with one stream, every use of a buffer is ordered by the stream itself.
    unsafe { context.disable_event_tracking() };
    if !context.has_async_alloc() {
        return Ok(());
    }
    context.bind_to_thread()?;
    let mut keep = u64::MAX;
    // SAFETY: the device is the context's, and this attribute is 64 bits wide.
    unsafe {
        let pool = result::device::get_default_mem_pool(context.cu_device())?;
        let attribute = sys::CUmemPool_attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD;
        sys::cuMemPoolSetAttribute(pool, attribute, (&raw mut keep).cast()).result()
    }
}

/// A buffer's bytes, without its element type.
pub(crate) fn erase<T: Pod>(buffer: CudaSlice<T>) -> CudaSlice<u8> {
    let bytes = buffer.num_bytes();
    let stream = buffer.stream().clone();
    let address = buffer.leak();
    // SAFETY: the allocation was just given up, has this many bytes, and bytes need no alignment.
    unsafe { stream.upgrade_device_ptr(address, bytes) }
}

/// A part of a buffer seen as elements, to be read only; keeps the buffer alive.
pub(crate) struct Shared<T> {
    elements: ManuallyDrop<CudaSlice<T>>,
    _owner: Arc<CudaSlice<u8>>,
}

impl<T: Pod> Shared<T> {
    /// `len` elements from element `start` of `owner`, if the buffer reaches that far.
    pub(crate) fn new(owner: &Arc<CudaSlice<u8>>, start: usize, len: usize) -> Option<Shared<T>> {
        let end = start.checked_add(len)?.checked_mul(size_of::<T>())?;
        if end > owner.len() {
            return None;
        }
        let stream = owner.stream();
        let (address, _) = owner.device_ptr(stream);
        let address = address + (start * size_of::<T>()) as u64;
        // SAFETY: the bytes lie inside the owner, which outlives this value; an allocation is
        // aligned for every element type; the slice is never dropped, so nothing is freed twice.
        let elements = unsafe { stream.upgrade_device_ptr(address, len) };
        Some(Shared { elements: ManuallyDrop::new(elements), _owner: owner.clone() })
    }
}

impl<T> Deref for Shared<T> {
    type Target = CudaSlice<T>;

    fn deref(&self) -> &CudaSlice<T> {
        &self.elements
    }
}

impl<T> Drop for Shared<T> {
    fn drop(&mut self) {
        // SAFETY: the field is not used again; leaking frees what the slice holds but not the
        // memory, which is the owner's.
        unsafe { ManuallyDrop::take(&mut self.elements) }.leak();
    }
}

/// A loaded PTX file.
#[derive(Debug)]
pub(crate) struct Module {
    module: Arc<CudaModule>,
    parameters: BTreeMap<String, Vec<Parameter>>,
}

/// One parameter of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Parameter {
    bytes: usize,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// A 64-bit integer: a pointer or a number.
    Word,
    Other,
}

impl Module {
    /// Pairs a loaded module with what its text says of its kernels' parameters.
    pub(crate) fn new(module: Arc<CudaModule>, ptx: &str) -> Module {
        Module { module, parameters: parameters(ptx) }
    }

    /// The kernel of this name.
    pub(crate) fn kernel(&self, op: &'static str, name: &'static str) -> Result<Kernel> {
        let function = self.module.load_function(name).map_err(|error| CudaError::Launch {
            op,
            kernel: name,
            message: message(error),
        })?;
        let parameters = self.parameters.get(name).cloned().unwrap_or_default();
        Ok(Kernel { op, name, function, parameters })
    }
}

/// A kernel ready to be given arguments.
#[derive(Debug)]
pub(crate) struct Kernel {
    op: &'static str,
    name: &'static str,
    function: CudaFunction,
    parameters: Vec<Parameter>,
}

impl Kernel {
    /// Starts a launch on `stream`.
    pub(crate) fn on<'a>(&'a self, stream: &'a CudaStream) -> Call<'a> {
        Call { kernel: self, args: stream.launch_builder(&self.function), given: Vec::new() }
    }
}

/// A launch under construction. Arguments are added in the order of the kernel's parameters.
pub(crate) struct Call<'a> {
    kernel: &'a Kernel,
    args: LaunchArgs<'a>,
    given: Vec<Parameter>,
}

impl<'a> Call<'a> {
    /// A buffer that the kernel only reads.
    pub(crate) fn read<T>(mut self, buffer: &'a CudaSlice<T>) -> Call<'a> {
        self.args.arg(buffer);
        self.given.push(Parameter { bytes: 8, kind: Kind::Word });
        self
    }

    /// A buffer that the kernel writes.
    pub(crate) fn write<T>(mut self, buffer: &'a mut CudaSlice<T>) -> Call<'a> {
        self.args.arg(buffer);
        self.given.push(Parameter { bytes: 8, kind: Kind::Word });
        self
    }

    /// A number or a structure of numbers.
    pub(crate) fn value<T: Pod>(mut self, value: &'a T) -> Call<'a> {
        let bytes = size_of::<T>();
        let word = bytes == 8 && align_of::<T>() == 8 && is_integer::<T>();
        self.args.arg(Plain::wrap_ref(value));
        self.given.push(Parameter { bytes, kind: if word { Kind::Word } else { Kind::Other } });
        self
    }

    /// A number that the kernel takes as an integer of the same size.
    pub(crate) fn bits<T: Pod>(mut self, value: &'a T) -> Call<'a> {
        let bytes = size_of::<T>();
        self.args.arg(Plain::wrap_ref(value));
        self.given
            .push(Parameter { bytes, kind: if bytes == 8 { Kind::Word } else { Kind::Other } });
        self
    }

    /// Launches one thread for each of `n` elements, in blocks of `block`.
    pub(crate) fn threads(self, n: usize, block: u32) -> Result<()> {
        let blocks = n.div_ceil(block as usize);
        let Ok(blocks) = u32::try_from(blocks) else {
            return Err(CudaError::invalid(
                self.kernel.op,
                format!("{n} elements are more than one launch can cover"),
            ));
        };
        self.grid((blocks, 1, 1), (block, 1, 1))
    }

    /// Launches a grid of this shape; a grid with no block does nothing.
    pub(crate) fn grid(mut self, grid: (u32, u32, u32), block: (u32, u32, u32)) -> Result<()> {
        let Kernel { op, name, parameters, .. } = self.kernel;
        if *parameters != self.given {
            return Err(CudaError::Launch {
                op,
                kernel: name,
                message: format!("it takes {parameters:?} and was given {:?}", self.given),
            });
        }
        if grid.0 == 0 || grid.1 == 0 || grid.2 == 0 {
            return Ok(());
        }
        tracing::trace!(op, kernel = name, "launch");
        let config = LaunchConfig { grid_dim: grid, block_dim: block, shared_mem_bytes: 0 };
        // SAFETY: the parameter list was just compared with the kernel's own; the typed
        // functions of this crate check the buffers' lengths against the shape before they
        // come here; `read` buffers are `const` in every kernel.
        unsafe { self.args.launch(config) }.map_err(|error| CudaError::Launch {
            op,
            kernel: name,
            message: message(error),
        })?;
        Ok(())
    }
}

/// Any plain old data as a kernel argument.
#[derive(Clone, Copy, TransparentWrapper)]
#[repr(transparent)]
struct Plain<T>(T);

// SAFETY: plain old data without padding has the same bytes on the host and on the device.
unsafe impl<T: Pod> DeviceRepr for Plain<T> {}

fn is_integer<T: 'static>() -> bool {
    use std::any::TypeId;
    [TypeId::of::<u64>(), TypeId::of::<i64>()].contains(&TypeId::of::<T>())
}

/// Reads the parameter lists of all entry points.
fn parameters(ptx: &str) -> BTreeMap<String, Vec<Parameter>> {
    let mut found = BTreeMap::new();
    let mut lines = ptx.lines();
    while let Some(line) = lines.next() {
        let Some((_, rest)) = line.split_once(".entry ") else { continue };
        let name = rest.trim_end_matches([')', '(', ' ']).to_owned();
        let mut list = Vec::new();
        if !rest.trim_end().ends_with("()") {
            for line in lines.by_ref() {
                let line = line.trim();
                if line.starts_with(')') {
                    break;
                }
                list.extend(parameter(line));
            }
        }
        found.insert(name, list);
    }
    found
}

/// Reads `.param .u64 name,` or `.param .align 8 .b8 name[32],`.
fn parameter(line: &str) -> Option<Parameter> {
    let rest = line.strip_prefix(".param ")?.trim_end_matches(',');
    let words: Vec<&str> = rest.split_whitespace().collect();
    let name = words.last()?;
    let ty = words.iter().find(|w| {
        let w = w.trim_start_matches('.');
        w.len() <= 3 && w.starts_with(['u', 's', 'b', 'f']) && w[1..].parse::<u32>().is_ok()
    })?;
    let bits: usize = ty[2..].parse().ok()?;
    let count = match name.split_once('[') {
        Some((_, rest)) => rest.trim_end_matches(']').parse().ok()?,
        None => 1,
    };
    let word = count == 1 && bits == 64 && !ty.starts_with(".f");
    Some(Parameter { bytes: bits / 8 * count, kind: if word { Kind::Word } else { Kind::Other } })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameter_lists_are_read() {
        let ptx = ".visible .entry k(\n\t.param .u64 k_0,\n\t.param .f32 k_1,\n\
                   \t.param .align 8 .b8 k_2[32],\n\t.param .u64 .ptr .align 1 k_3\n)\n{\n\
                   .visible .entry none()\n{\n";
        let found = parameters(ptx);
        let sizes: Vec<usize> = found["k"].iter().map(|p| p.bytes).collect();
        assert_eq!(sizes, [8, 4, 32, 8]);
        assert_eq!(found["k"][0].kind, Kind::Word);
        assert_eq!(found["k"][1].kind, Kind::Other);
        assert!(found["none"].is_empty());
    }

    #[test]
    fn every_committed_kernel_has_a_parameter_list() {
        for (family, ptx) in crate::ptx::FAMILIES {
            let found = parameters(ptx);
            let entries = ptx.lines().filter(|line| line.contains(".entry ")).count();
            assert_eq!(found.len(), entries, "{family}");
            assert!(found.values().all(|list| !list.is_empty()), "{family}");
        }
    }
}
