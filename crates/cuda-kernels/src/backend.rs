//! Tensors on CUDA devices: their memory, and this crate's kernels for them.

mod attention;
mod autotune;
mod bincount;
mod conv;
mod ctc;
#[cfg(feature = "cudnn")]
mod cudnn;
mod elementwise;
mod embedding;
mod failure;
mod grid_sample;
mod index;
mod interpolate;
mod linalg;
mod loss;
mod matmul;
mod memory;
mod norm;
mod optim;
mod padding;
mod pooling;
mod random;
mod recurrent;
mod reduce;
mod rotary;
mod scan;
mod scatter;
mod shape;
mod sort;
mod sparse;

use std::collections::BTreeMap;
use std::sync::{Arc, Once};

use parking_lot::RwLock;
use samebits_tensor_core::device::DeviceKind;
use samebits_tensor_core::registry::Kernel;
use samebits_tensor_core::{DType, Error, Op, Tensor, bf16, f16, with_float};

use crate::device::{Device, Float, Word, device_count};
use crate::error::Result;
use crate::scatter::Summed;
use failure::{Failure, Tensors};
use memory::{Home, Input};

/// Registers every kernel of this crate once, and makes every CUDA device of this machine usable
/// for tensors. Returns the number of devices.
///
/// A device stays unused until the first tensor moves there.
///
/// # Errors
///
/// [`CudaError::DriverMissing`](crate::CudaError::DriverMissing), [`CudaError::DriverTooOld`](crate::CudaError::DriverTooOld) or [`CudaError::DriverFailed`](crate::CudaError::DriverFailed). The
/// kernels are registered even then, so that the support matrix does not depend on the machine, but
/// there is no device to run them.
///
/// # Examples
///
/// ```
/// use samebits_tensor_core::ops::{Unary, UnaryKind};
/// use samebits_tensor_core::{Device, Tensor, dispatch};
///
/// match samebits_cuda_kernels::install() {
///     Ok(count) if count > 0 => {
///         let x = Tensor::from_slice(&[4.0f32, 9.0], &[2])?.to(Device::Cuda(0))?;
///         let y = dispatch(&Unary { kind: UnaryKind::Sqrt, x })?;
///         assert_eq!(y.to_vec::<f32>()?, [2.0, 3.0]);
///     }
///     Ok(_) => println!("a driver, but no device"),
///     Err(error) => println!("{error}"),
/// }
/// # Ok::<(), samebits_tensor_core::Error>(())
/// ```
pub fn install() -> Result<usize> {
    register_all();
    let count = device_count()?;
    for ordinal in 0..count as u32 {
        HOMES.write().entry(ordinal).or_insert_with(|| {
            let home = Arc::new(Home::new(ordinal, None));
            home.clone().install();
            home
        });
    }
    Ok(count)
}

/// Registers every kernel of this crate and makes device `ordinal` usable for tensors, with `block`
/// threads per block for kernels that leave the number open. Replaces an earlier installation of
/// the device; existing tensors stay usable.
///
/// # Determinism
///
/// The block size cannot change a bit of a `Portable` result; the tests vary it to prove that.
///
/// # Errors
///
/// The errors of [`Device::new`] and [`Device::with_block_size`].
pub fn install_with_block_size(ordinal: u32, block: u32) -> Result<()> {
    register_all();
    let device = Device::new(ordinal as usize)?.with_block_size(block)?;
    let home = Arc::new(Home::new(ordinal, Some(device)));
    HOMES.write().insert(ordinal, home.clone());
    home.install();
    Ok(())
}

fn register_all() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        attention::register_all();
        bincount::register_all();
        autotune::register_all();
        // Registered after the tuner, so that nothing bypasses recorded choices.
        #[cfg(feature = "cudnn")]
        cudnn::register_all();
        conv::register_all();
        ctc::register_all();
        elementwise::register_all();
        embedding::register_all();
        grid_sample::register_all();
        index::register_all();
        interpolate::register_all();
        linalg::register_all();
        loss::register_all();
        matmul::register_all();
        norm::register_all();
        optim::register_all();
        padding::register_all();
        pooling::register_all();
        random::register_all();
        recurrent::register_all();
        reduce::register_all();
        rotary::register_all();
        scan::register_all();
        scatter::register_all();
        shape::register_all();
        sort::register_all();
        sparse::register_all();
    });
}

/// The installed devices, by ordinal.
static HOMES: RwLock<BTreeMap<u32, Arc<Home>>> = RwLock::new(BTreeMap::new());

/// The element types of kernels that exist for both.
const FLOATS: &[DType] = &[DType::F32, DType::F64];
/// The element type of kernels that use the correctly rounded f32 functions.
const F32: &[DType] = &[DType::F32];
/// The element type of kernels whose f64 form is a separate kernel.
const F64: &[DType] = &[DType::F64];
/// The element type of integer arithmetic.
const INTEGERS: &[DType] = &[DType::I64];
/// The reason why integer arithmetic is portable.
const WRAPS: &str = "integers wrap around, so every order gives the same bits";

/// Evaluates `$body` with `$t` as the unsigned integer of a type's width.
macro_rules! with_word {
    ($dtype:expr, $t:ident => $body:expr) => {
        match $dtype.size() {
            1 => {
                type $t = u8;
                $body
            }
            2 => {
                type $t = u16;
                $body
            }
            4 => {
                type $t = u32;
                $body
            }
            _ => {
                type $t = u64;
                $body
            }
        }
    };
}

/// Evaluates `$body` with `$t` as the element type of the result of [`elementwise::comparable`].
macro_rules! with_comparable {
    ($dtype:expr, $t:ident => $body:expr) => {
        match $dtype {
            DType::U8 | DType::Bool => {
                type $t = u8;
                $body
            }
            dtype => samebits_tensor_core::with_ordered!(dtype, $t => $body),
        }
    };
}
use {with_comparable, with_word};

/// Returns a kernel that computes any call at `Portable`.
const fn portable<O: Op>(
    variant: &'static str,
    dtypes: &'static [DType],
    why: &'static str,
    run: fn(&O, &O::Plan) -> Tensors<O::Output>,
) -> Kernel<O> {
    let mut kernel = Kernel::portable(variant, dtypes, why, run);
    kernel.device = DeviceKind::Cuda;
    kernel
}

/// Returns a kernel that computes any call, without a promise on its bits.
const fn atomic<O: Op>(
    dtypes: &'static [DType],
    why: &'static str,
    run: fn(&O, &O::Plan) -> Tensors<O::Output>,
) -> Kernel<O> {
    let mut kernel = Kernel::fast("atomic", dtypes, why, run);
    kernel.device = DeviceKind::Cuda;
    kernel
}

/// The reason why atomic variants promise nothing.
const ARRIVAL: &str = "float atomics add in the order in which threads arrive";
/// The reason why elementwise kernels are portable.
const EACH: &str = "each element is its own fixed sequence of correctly rounded operations";

/// The device that runs an operation.
struct Gpu<'a> {
    device: &'a Device,
    home: &'a Arc<Home>,
}

impl Gpu<'_> {
    /// Returns a dense tensor over a buffer that a kernel has written.
    fn tensor<T: Stored>(
        &self,
        buffer: crate::Buffer<T>,
        shape: &[usize],
    ) -> Result<Tensor, Failure> {
        self.typed(buffer, shape, T::DTYPE)
    }

    /// Returns a [`tensor`](Gpu::tensor) of a type that shares its size with another.
    #[inline(never)]
    fn typed<T: Word>(
        &self,
        buffer: crate::Buffer<T>,
        shape: &[usize],
        dtype: DType,
    ) -> Result<Tensor, Failure> {
        let memory = self.home.memory(buffer, shape.iter().product::<usize>() * dtype.size());
        Ok(Tensor::from_device_buffer(Arc::new(memory), shape, dtype)?)
    }

    /// Returns the elements of a tensor in row-major order. It is not inlined, like
    /// [`typed`](Gpu::typed): every operation has several calls.
    #[inline(never)]
    fn input<T: Word>(&self, x: &Tensor) -> Result<Input<T>, Failure> {
        memory::input(&x.contiguous()?)
    }

    /// Returns a copy of a tensor's elements for a kernel that works in place.
    fn copy<T: Word>(&self, x: &Tensor) -> Result<crate::Buffer<T>, Failure> {
        Ok(self.device.duplicate(&*self.input::<T>(x)?)?)
    }
}

/// Runs `body` on the operation's device.
fn on<O: Op, R>(op: &O, body: impl FnOnce(Gpu<'_>) -> Result<R, Failure>) -> Tensors<R> {
    let home = home(op.device())?;
    let run = || body(Gpu { device: home.device()?, home: &home });
    run().map_err(|failure| failed(O::NAME, &home, failure))
}

fn home(device: samebits_tensor_core::Device) -> Tensors<Arc<Home>> {
    let homes = HOMES.read();
    let home = match device {
        samebits_tensor_core::Device::Cuda(ordinal) => homes.get(&ordinal).cloned(),
        _ => None,
    };
    home.ok_or(Error::NoBackend { device })
}

fn failed(op: &'static str, home: &Home, failure: Failure) -> Error {
    match failure {
        Failure::Tensor(error) => error,
        Failure::Cuda(error) => home.error(op, error),
    }
}

/// An element type of kernels that is also one of tensors.
trait Stored: Word + samebits_tensor_core::Element {}

impl Stored for f32 {}
impl Stored for f64 {}
impl Stored for i64 {}
impl Stored for u8 {}
impl Stored for i32 {}
impl Stored for u32 {}
impl Stored for f16 {}
impl Stored for bf16 {}

/// A float type of kernels that is also one of tensors.
trait Real: Stored + Summed + Float {}

impl Real for f32 {}
impl Real for f64 {}
