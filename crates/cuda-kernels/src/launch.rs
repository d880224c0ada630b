//! The one module with unsafe code, and what is below it: finding the driver, memory, launches, and
//! the vendor's libraries.
//!
//! A launch is safe if its arguments are what the kernel expects and every access stays inside
//! its buffers. The first half is checked here: a kernel's parameter list is read from its PTX,
//! and a call whose arguments differ in number, kind or size is refused before it reaches the
//! driver. The second half is the duty of each typed function, which checks every length against
//! the shape before it launches, and of the kernel, which compares every computed index with
//! its bound.

#![allow(unsafe_code)]

mod buffer;
#[cfg(feature = "cublas")]
pub(crate) mod cublas;
#[cfg(feature = "cudnn")]
pub(crate) mod cudnn;

use std::collections::BTreeMap;
use std::sync::Arc;

use bytemuck::{Pod, TransparentWrapper};
use cudarc::driver::{
    CudaContext, CudaFunction, CudaModule, CudaStream, DeviceRepr, DriverError, LaunchArgs,
    LaunchConfig, PushKernelArg, result, sys,
};
use cudarc::nvrtc::Ptx;
use parking_lot::Mutex;

use crate::error::{CudaError, Result, message};
use crate::ptx;
pub use buffer::Buffer;
pub(crate) use buffer::{ordered, wait};

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

/// A context and a new stream in it. [`Buffer`]s order streams themselves, so cudarc keeps no events
/// for them, and freed memory stays with the process for the next buffer.
pub(crate) fn open(
    ordinal: usize,
) -> std::result::Result<(Arc<CudaContext>, Arc<CudaStream>), DriverError> {
    let context = CudaContext::new(ordinal)?;
    // SAFETY: cudarc's slices, whose uses the events would order, are not used.
    unsafe { context.disable_event_tracking() };
    if context.has_async_alloc() {
        let mut keep = u64::MAX;
        // SAFETY: the device is the context's, and this attribute is 64 bits wide.
        unsafe {
            let pool = result::device::get_default_mem_pool(context.cu_device())?;
            let attribute = sys::CUmemPool_attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD;
            sys::cuMemPoolSetAttribute(pool, attribute, (&raw mut keep).cast()).result()?;
        }
    }
    let stream = context.new_stream()?;
    Ok((context, stream))
}

/// The kernels of a context. A family's PTX is loaded when it is first used, and a kernel is looked
/// up in it once.
#[derive(Debug, Default)]
pub(crate) struct Kernels(Mutex<Loaded>);

#[derive(Debug, Default)]
struct Loaded {
    modules: BTreeMap<&'static str, Module>,
    functions: BTreeMap<(&'static str, &'static str), Arc<Function>>,
}

impl Kernels {
    /// The kernel of this name, for `op`.
    pub(crate) fn get(
        &self,
        stream: &CudaStream,
        op: &'static str,
        family: &'static str,
        name: &'static str,
    ) -> Result<Kernel> {
        let mut loaded = self.0.lock();
        if let Some(function) = loaded.functions.get(&(family, name)) {
            return Ok(Kernel { op, function: function.clone() });
        }
        let failed = |error| CudaError::Launch { op, kernel: name, message: message(error) };
        // cudarc binds no context to look up a function.
        buffer::bind(stream).map_err(failed)?;
        if !loaded.modules.contains_key(family) {
            let text = ptx::text(family)
                .ok_or_else(|| CudaError::invalid(op, format!("there is no PTX for {family}")))?;
            let module = stream.context().load_module(Ptx::from_src(text)).map_err(failed)?;
            loaded.modules.insert(family, Module { module, parameters: parameters(text) });
        }
        let Module { module, parameters } = &loaded.modules[family];
        let handle = module.load_function(name).map_err(failed)?;
        let parameters = parameters.get(name).cloned().unwrap_or_default();
        let function = Arc::new(Function { name, handle, parameters });
        loaded.functions.insert((family, name), function.clone());
        Ok(Kernel { op, function })
    }
}

/// A loaded PTX file.
#[derive(Debug)]
struct Module {
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

/// A kernel as the driver knows it.
#[derive(Debug)]
struct Function {
    name: &'static str,
    handle: CudaFunction,
    parameters: Vec<Parameter>,
}

/// A kernel ready to be given arguments.
#[derive(Debug)]
pub(crate) struct Kernel {
    op: &'static str,
    function: Arc<Function>,
}

impl Kernel {
    /// Starts a launch on `stream`.
    pub(crate) fn on<'a>(&'a self, stream: &'a CudaStream) -> Call<'a> {
        let args = stream.launch_builder(&self.function.handle);
        Call { kernel: self, args, stream, buffers: Vec::new(), given: 0, wrong: None }
    }
}

/// A launch under construction. Arguments are added in the order of the kernel's parameters.
pub(crate) struct Call<'a> {
    kernel: &'a Kernel,
    args: LaunchArgs<'a>,
    stream: &'a CudaStream,
    /// The streams of buffers that belong to another one.
    buffers: Vec<&'a CudaStream>,
    /// How many arguments there are.
    given: usize,
    /// The first argument that is not what its parameter is.
    wrong: Option<(usize, Parameter)>,
}

impl<'a> Call<'a> {
    /// A buffer that the kernel only reads.
    pub(crate) fn read<T>(mut self, buffer: &'a Buffer<T>) -> Call<'a> {
        let stream: &CudaStream = buffer.stream();
        if stream != self.stream {
            self.buffers.push(stream);
        }
        self.args.arg(buffer.address());
        self.given(Parameter { bytes: 8, kind: Kind::Word })
    }

    /// A buffer that the kernel writes.
    pub(crate) fn write<T>(self, buffer: &'a mut Buffer<T>) -> Call<'a> {
        self.read(buffer)
    }

    fn given(mut self, argument: Parameter) -> Call<'a> {
        let wanted = self.kernel.function.parameters.get(self.given);
        if wanted != Some(&argument) && self.wrong.is_none() {
            self.wrong = Some((self.given, argument));
        }
        self.given += 1;
        self
    }

    /// A number or a structure of numbers.
    pub(crate) fn value<T: Pod>(mut self, value: &'a T) -> Call<'a> {
        let bytes = size_of::<T>();
        let word = bytes == 8 && align_of::<T>() == 8 && is_integer::<T>();
        self.args.arg(Plain::wrap_ref(value));
        self.given(Parameter { bytes, kind: if word { Kind::Word } else { Kind::Other } })
    }

    /// A number that the kernel takes as an integer of the same size.
    pub(crate) fn bits<T: Pod>(mut self, value: &'a T) -> Call<'a> {
        let bytes = size_of::<T>();
        self.args.arg(Plain::wrap_ref(value));
        self.given(Parameter { bytes, kind: if bytes == 8 { Kind::Word } else { Kind::Other } })
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
        let Kernel { op, function } = self.kernel;
        let (&op, Function { name, parameters, .. }) = (op, &**function);
        if self.wrong.is_some() || self.given != parameters.len() {
            let given = match self.wrong {
                Some((place, argument)) => format!("{argument:?} for parameter {place}"),
                None => format!("{} arguments", self.given),
            };
            let message = format!("it takes {parameters:?} and was given {given}");
            return Err(CudaError::Launch { op, kernel: name, message });
        }
        if grid.0 == 0 || grid.1 == 0 || grid.2 == 0 {
            return Ok(());
        }
        tracing::trace!(op, kernel = name, "launch");
        let config = LaunchConfig { grid_dim: grid, block_dim: block, shared_mem_bytes: 0 };
        ordered(op, self.stream, &self.buffers, || {
            // SAFETY: the parameter list was just compared with the kernel's own; the typed
            // functions of this crate check the buffers' lengths against the shape before they
            // come here; `read` buffers are `const` in every kernel.
            unsafe { self.args.launch(config) }.map(|_| ()).map_err(|error| CudaError::Launch {
                op,
                kernel: name,
                message: message(error),
            })
        })
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
