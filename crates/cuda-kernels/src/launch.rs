//! Finding the driver, memory, launches, and the vendor's libraries: the only module with unsafe
//! code, together with its submodules.
//!
//! A launch is safe if its arguments are what the kernel expects and every access stays inside its
//! buffers. The first condition is checked at compile time: [`kernels`] has a type for each kernel,
//! generated from its source and compared with its PTX, whose fields are the parameters. The second
//! is the duty of each typed function, which checks every length against the shape before it
//! launches, and of the kernel, which compares every computed index with its bound.

#![allow(unsafe_code)]

/// Declares a type with a [`Launch`] for each kernel of the family `FAMILY`.
macro_rules! kernels {
    ($(
        $level:ident $kernel:ident $(<$($t:ident: $bound:path),+>)?
        [$($($tag:ident)* => $entry:literal),+ $(,)?]
        ($($mode:ident $parameter:ident: $ty:ty),+ $(,)?);
    )+) => {$(
        pub(crate) struct $kernel<'a $($(, $t: $bound)+)?> {
            $(pub(crate) $parameter: $crate::launch::argument!($mode 'a $ty),)+
        }

        impl<'a $($(, $t: $bound)+)?> $crate::launch::Launch for $kernel<'a $($(, $t)+)?> {
            fn kernel(&self) -> &'static $crate::launch::Kernel {
                const {
                    &$crate::launch::Kernel {
                        family: FAMILY,
                        level: $crate::launch::Determinism::$level,
                        entries: &[$((&[$(stringify!($tag)),*], $entry)),+],
                        types: &[$($($crate::launch::ElementType::of::<$t>()),+)?],
                    }
                }
            }

            fn give<'b>(&'b self, to: &mut $crate::launch::Arguments<'b>) {
                $(to.$mode(&self.$parameter);)+
            }
        }
    )+};
}

/// Expands to the type of a kernel's field.
macro_rules! argument {
    (read $a:lifetime $ty:ty) => { &$a $crate::launch::Buffer<$ty> };
    (write $a:lifetime $ty:ty) => { &$a mut $crate::launch::Buffer<$ty> };
    (value $a:lifetime $ty:ty) => { $ty };
    (element $a:lifetime $ty:ty) => { std::marker::PhantomData<$ty> };
}
use argument;

mod buffer;
#[cfg(feature = "cubins")]
mod cubins;
#[cfg(feature = "cublas")]
pub(crate) mod cublas;
#[cfg(feature = "cudnn")]
pub(crate) mod cudnn;
pub(crate) mod declared;
pub(crate) mod kernels;
mod pinned;
mod table;

use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::sync::{Arc, Weak};

use bytemuck::{Pod, TransparentWrapper};
use cudarc::driver::{
    CudaContext, CudaFunction, CudaModule, CudaStream, DeviceRepr, DriverError, LaunchArgs,
    LaunchConfig, PushKernelArg, result, sys,
};
use cudarc::nvrtc::Ptx;
use parking_lot::Mutex;
use samebits_tensor_core::Determinism;

use crate::device::{Device, Word};
use crate::error::{CudaError, Result, message};
pub use buffer::Buffer;
pub(crate) use buffer::{ordered, wait};
pub(crate) use pinned::Staging;
pub(crate) use table::Table;

/// The oldest driver interface that loads the committed PTX: CUDA 12.0.
const OLDEST_DRIVER: i32 = 12_000;

/// Probes for a driver without a panic in cudarc. Returns false if it has no device.
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

/// Returns the version of a driver that is present, such as `12.6`.
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

/// Opens a context with a new stream. [`Buffer`]s order streams themselves, so cudarc keeps no
/// events for them. The process keeps freed memory for the next buffer.
pub(crate) fn open(
    ordinal: usize,
) -> std::result::Result<(Arc<CudaContext>, Arc<CudaStream>), DriverError> {
    let context = CudaContext::new(ordinal)?;
    // SAFETY: the events would order uses of cudarc's slices, which are not used.
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

/// The PTX of a family of kernels.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Family {
    pub(crate) name: &'static str,
    pub(crate) ptx: &'static str,
}

/// The kernels of a context, shared by its [`Device`]s. The PTX of a family is loaded at first use, and a
/// kernel is looked up in it once.
#[derive(Debug, Default)]
pub(crate) struct Kernels(Mutex<Loaded>);

/// The kernels of the contexts in use, by the ordinal of the device: all contexts of a device are its
/// primary one.
static KERNELS: Mutex<BTreeMap<usize, Weak<Kernels>>> = Mutex::new(BTreeMap::new());

#[derive(Debug, Default)]
struct Loaded {
    modules: BTreeMap<&'static str, Arc<CudaModule>>,
    functions: BTreeMap<(&'static str, &'static str), CudaFunction>,
}

impl Kernels {
    /// Returns the kernels of a context. They are unloaded with its last device.
    pub(crate) fn of(context: &CudaContext) -> Arc<Kernels> {
        let mut all = KERNELS.lock();
        let known = all.entry(context.ordinal()).or_default();
        known.upgrade().unwrap_or_else(|| {
            let kernels = Arc::<Kernels>::default();
            *known = Arc::downgrade(&kernels);
            kernels
        })
    }

    fn get(
        &self,
        stream: &CudaStream,
        family: Family,
        entry: &'static str,
    ) -> std::result::Result<CudaFunction, DriverError> {
        let mut loaded = self.0.lock();
        if let Some(function) = loaded.functions.get(&(family.name, entry)) {
            return Ok(function.clone());
        }
        // cudarc does not bind a context to look up a function, so this does.
        buffer::bind(stream)?;
        let module = match loaded.modules.get(family.name) {
            Some(module) => module,
            None => {
                let module = load(stream.context(), family)?;
                loaded.modules.entry(family.name).or_insert(module)
            }
        };
        let function = module.load_function(entry)?;
        loaded.functions.insert((family.name, entry), function.clone());
        Ok(function)
    }
}

/// Loads a family: its machine code for this device if the crate has it, else its PTX.
fn load(
    context: &Arc<CudaContext>,
    family: Family,
) -> std::result::Result<Arc<CudaModule>, DriverError> {
    #[cfg(feature = "cubins")]
    if let Some(code) = cubins::find(family.name, context.compute_capability()?) {
        return load_code(context, family, code);
    }
    context.load_module(Ptx::from_src(family.ptx))
}

/// Loads the machine code of a family, or its PTX if the driver refuses the code.
#[cfg(any(test, feature = "cubins"))]
fn load_code(
    context: &Arc<CudaContext>,
    family: Family,
    code: Vec<u8>,
) -> std::result::Result<Arc<CudaModule>, DriverError> {
    context.load_module(Ptx::from_binary(code)).or_else(|error| {
        let name = family.name;
        tracing::debug!(family = name, %error, "the driver refuses the machine code");
        context.load_module(Ptx::from_src(family.ptx))
    })
}

/// The static description of a kernel.
#[derive(Debug)]
pub(crate) struct Kernel {
    /// The family that contains it.
    pub(crate) family: Family,
    /// The level that its source declares.
    pub(crate) level: Determinism,
    /// Its entry points, each with its element types.
    pub(crate) entries: &'static [(&'static [&'static str], &'static str)],
    /// The element types of the arguments.
    pub(crate) types: &'static [ElementType],
}

/// A kernel and its arguments. The launching code is compiled once for all of them.
pub(crate) trait Launch {
    /// Returns the kernel.
    fn kernel(&self) -> &'static Kernel;

    /// Adds the arguments in the order of the kernel's parameters.
    fn give<'a>(&'a self, to: &mut Arguments<'a>);

    /// Launches one thread for each of `n` elements, in blocks of the device's size.
    fn threads(self, device: &Device, op: &'static str, n: usize) -> Result<()>
    where
        Self: Sized,
    {
        threads(&self, device, op, n)
    }

    /// Launches one thread for every four of `n` elements.
    fn fours(self, device: &Device, op: &'static str, n: usize) -> Result<()>
    where
        Self: Sized,
    {
        threads(&self, device, op, n.div_ceil(4))
    }

    /// Launches a grid of this shape; a grid without blocks does nothing.
    fn grid(
        self,
        device: &Device,
        op: &'static str,
        grid: (u32, u32, u32),
        block: (u32, u32, u32),
    ) -> Result<()>
    where
        Self: Sized,
    {
        launch(&self, device, op, grid, block)
    }
}

fn threads(kernel: &dyn Launch, device: &Device, op: &'static str, n: usize) -> Result<()> {
    let block = device.block();
    let Ok(blocks) = u32::try_from(n.div_ceil(block as usize)) else {
        let message = format!("{n} elements are more than one launch can cover");
        return Err(CudaError::invalid(op, message));
    };
    launch(kernel, device, op, (blocks, 1, 1), (block, 1, 1))
}

fn launch(
    kernel: &dyn Launch,
    device: &Device,
    op: &'static str,
    grid: (u32, u32, u32),
    block: (u32, u32, u32),
) -> Result<()> {
    let Kernel { family, level, entries, types } = *kernel.kernel();
    let entry = entry(op, level, entries, types)?;
    if grid.0 == 0 || grid.1 == 0 || grid.2 == 0 {
        return Ok(());
    }
    let failed = |error| CudaError::Launch { op, kernel: entry, message: message(error) };
    let stream = device.stream();
    let function = device.kernels().get(stream, family, entry).map_err(failed)?;
    let args = stream.launch_builder(&function);
    let mut arguments = Arguments { args, stream, buffers: Vec::new() };
    kernel.give(&mut arguments);
    tracing::trace!(op, kernel = entry, "launch");
    let config = LaunchConfig { grid_dim: grid, block_dim: block, shared_mem_bytes: 0 };
    let Arguments { mut args, buffers, .. } = arguments;
    ordered(op, stream, &buffers, || {
        // SAFETY: the arguments are the fields of a type in `kernels`, which are the kernel's
        // parameters. The typed functions of this crate check the buffers' lengths against the
        // shape before they call this. `read` buffers are `const` in every kernel.
        unsafe { args.launch(config) }.map(|_| ()).map_err(failed)
    })
}

/// An element type, given by its words in the names of entry points.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ElementType {
    name: &'static str,
    bits: &'static str,
}

impl ElementType {
    pub(crate) const fn of<T: Word>() -> ElementType {
        let bits = match size_of::<T>() {
            1 => "b8",
            2 => "b16",
            4 => "b32",
            _ => "b64",
        };
        ElementType { name: T::NAME, bits }
    }
}

/// Returns the entry point for element types.
fn entry(
    op: &'static str,
    level: Determinism,
    entries: &[(&'static [&'static str], &'static str)],
    types: &[ElementType],
) -> Result<&'static str> {
    let find = |fits: fn(&str, &ElementType) -> bool| {
        entries.iter().find(|(words, _)| words.iter().zip(types).all(|(word, ty)| fits(word, ty)))
    };
    let found = find(|word, ty| word == ty.name)
        .or_else(|| find(|word, ty| word == ty.name || word == ty.bits));
    found.map(|(_, entry)| *entry).ok_or_else(|| {
        let known: Vec<&str> = entries.iter().map(|(_, entry)| *entry).collect();
        let given: Vec<&str> = types.iter().map(|ty| ty.name).collect();
        if level == Determinism::NotGuaranteed {
            return CudaError::not_atomic(op);
        }
        let (known, given) = (known.join(", "), given.join(", "));
        CudaError::invalid(op, format!("there is no kernel for {given}, only {known}"))
    })
}

/// The arguments of a launch under construction.
pub(crate) struct Arguments<'a> {
    args: LaunchArgs<'a>,
    stream: &'a CudaStream,
    /// The streams of buffers that belong to another stream.
    buffers: Vec<&'a CudaStream>,
}

impl<'a> Arguments<'a> {
    fn read<T>(&mut self, buffer: &'a Buffer<T>) {
        self.memory(buffer.stream(), buffer.address());
    }

    fn write<T>(&mut self, buffer: &'a Buffer<T>) {
        self.read(buffer);
    }

    /// Adds nothing: the type alone selects the entry point.
    fn element<T>(&mut self, _: &PhantomData<T>) {}

    /// Adds a buffer. It is not inlined: inlined, the arguments of all kernels would be a sixth of
    /// the crate's code.
    #[inline(never)]
    fn memory(&mut self, stream: &'a CudaStream, address: &'a sys::CUdeviceptr) {
        if stream != self.stream {
            self.buffers.push(stream);
        }
        self.args.arg(address);
    }

    /// Adds a value as [`memory`](Self::memory) adds a buffer; compiled for each type.
    #[inline(never)]
    fn value<T: Pod>(&mut self, value: &'a T) {
        self.args.arg(Plain::wrap_ref(value));
    }
}

/// Any plain old data as a kernel argument.
#[derive(Clone, Copy, TransparentWrapper)]
#[repr(transparent)]
struct Plain<T>(T);

// SAFETY: plain old data without padding has the same bytes on the host and on the device.
unsafe impl<T: Pod> DeviceRepr for Plain<T> {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entry_points_follow_the_element_types() {
        let entries: &[(&[&str], &str)] = &[(&["b64"], "b"), (&["f32"], "f"), (&["u64"], "u")];
        let found = |ty| entry("op", Determinism::Portable, entries, &[ty]);
        assert_eq!(found(ElementType::of::<f32>()), Ok("f"));
        assert_eq!(found(ElementType::of::<f64>()), Ok("b"));
        assert_eq!(found(ElementType::of::<u64>()), Ok("u"));
        let error = found(ElementType::of::<u8>()).unwrap_err().to_string();
        assert_eq!(error, "op: there is no kernel for u8, only b, f, u");
    }

    #[test]
    fn a_driver_that_refuses_machine_code_compiles_the_ptx() {
        let Ok(true) = probe() else { return };
        let (context, _stream) = open(0).unwrap();
        // The header of a binary without anything in it: of no architecture.
        let code = [b"\x7fELF\x02\x01\x01", &[0; 121][..]].concat();
        assert!(context.load_module(Ptx::from_binary(code.clone())).is_err());
        let module = load_code(&context, kernels::optim::FAMILY, code).unwrap();
        module.load_function("adam_f32").unwrap();
    }

    #[test]
    fn atomics_of_other_types_do_not_exist() {
        let entries: &[(&[&str], &str)] = &[(&["f32"], "add_f32_atomic")];
        let (level, ty) = (Determinism::NotGuaranteed, ElementType::of::<f64>());
        let error = entry("op", level, entries, &[ty]).unwrap_err();
        assert_eq!(error, CudaError::not_atomic("op"));
    }
}
