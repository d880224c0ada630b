//! Same seed, same bits: on one thread or sixty-four, today or after an upgrade.
//!
//! ```
//! use samebits::prelude::*;
//!
//! manual_seed(0);
//! let x = samebits::rand(&[2, 3])?;
//! assert_eq!(x.to_vec::<f32>()?[0].to_bits(), 0x3e5fb698); // on every machine
//! # Ok::<(), samebits::Error>(())
//! ```
//!
//! This crate re-exports the others under one name:
//!
//! | module | crate | contents |
//! |---|---|---|
//! | [`Tensor`], [`functional`], [`nn`], [`optim`] | `samebits-autograd` | tensors, differentiable operations, layers, optimisers |
//! | [`Function`], [`mod@gradcheck`] | `samebits-autograd` | operations of your own, and the check of their gradients |
//! | [`Device`], [`Determinism`], [`random`], [`tensor_core`] | `samebits-tensor-core` | levels, default generators, the definition of operations |
//! | [`trainer`], [`io`] | | a training loop, files |
//! | [`ledger`], [`lockstep`] | `samebits-ledger` | the first difference of two runs |
//! | `cuda` | `samebits-cuda-kernels` | installation of CUDA devices |
//! | [`autotune`] | `samebits-conv-autotune` | races of convolution algorithms, pinned choices |
//! | [`data`] | `samebits-data` | datasets, samplers, the loader |
//! | [`rng`] | `samebits-rng` | generators and distributions |
//! | [`numerics`] | `samebits-numerics` | exact sums, correctly rounded functions |
//!
//! [`guide`] follows PyTorch's note on reproducibility, paragraph by paragraph.
//!
//! Unsafe code: none.

#![forbid(unsafe_code)]

use std::sync::Arc;

use samebits_tensor_core::backend::Backend;

mod digest;
mod environment;
mod inherit;
pub mod io;
pub mod ledger;
mod lockstep;
mod threads;
pub mod trainer;

pub use digest::digest;
pub use environment::{Environment, environment};
pub use lockstep::{Computed, Configuration, Difference, Lockstep, Parting, Side, lockstep};
pub use samebits_autograd::functional::{rand, randint, randn, randperm};
#[cfg(feature = "ndarray")]
pub use samebits_autograd::ndarray;
pub use samebits_autograd::{
    Function, Gradients, Save, Saved, Tensor, autocast, autocast_dtype, backward, enable_grad,
    functional, gradcheck, gradgradcheck, nn, no_grad, optim, sequential, sparse,
};
#[cfg(feature = "cuda")]
pub use samebits_cuda_kernels as cuda;
pub use samebits_data as data;
pub use samebits_distributed as distributed;
pub use samebits_numerics as numerics;
pub use samebits_numerics::NUMERICS_VERSION;
pub use samebits_rng as rng;
pub use samebits_rng::Generator;
pub use samebits_tensor_core as tensor_core;
pub use samebits_tensor_core::device::{DeviceKind, ParseDeviceError};
pub use samebits_tensor_core::random::{fork_rng, initial_seed, manual_seed, seed};
pub use samebits_tensor_core::tensor::set_fill_uninitialized;
pub use samebits_tensor_core::{
    DType, Determinism, Device, Error, Layout, Op, Result, bf16, f16, ops, random, registry,
};
pub use threads::{ThreadsMissing, on_threads};

/// Runs an operation, with the kernels of every device in this build installed; see
/// [`samebits_tensor_core::dispatch`].
///
/// # Errors
///
/// The errors of the operation's check, or an error if no kernel meets the level in force.
#[track_caller]
pub fn dispatch<O: Op>(op: &O) -> Result<O::Output> {
    install();
    samebits_tensor_core::dispatch(op)
}

/// Runs an operation as [`dispatch`] does, with `level` required for this one call.
///
/// # Errors
///
/// As for [`dispatch`].
#[track_caller]
pub fn dispatch_at<O: Op>(op: &O, level: Determinism) -> Result<O::Output> {
    install();
    samebits_tensor_core::dispatch_at(op, level)
}

/// Registers the kernels of every device, and makes the CUDA devices of this machine usable.
/// Everything in this crate calls it; call it yourself before using `samebits_tensor_core`
/// directly. Also begins the [`ledger`] requested by the environment variable `SAMEBITS_LEDGER`, as
/// the first operation on a [`Tensor`] does.
///
/// Without a CUDA driver there are no CUDA devices; `cuda::install` returns the reason.
pub fn install() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        inherit::reach_loaders();
        samebits_cpu_kernels::install();
        samebits_autograd::find_devices();
        ledger::install();
    });
}

/// Returns the usable devices: the host, and every CUDA device of this machine.
pub fn devices() -> Vec<Device> {
    install();
    samebits_tensor_core::backend::devices()
}

/// Returns CUDA device `ordinal` if this machine has it, else the CPU. The bits of a `Portable`
/// result are the same on both.
///
/// # Examples
///
/// ```
/// use samebits::{Device, cuda_if_available};
///
/// let device = cuda_if_available(0);
/// let x = samebits::Tensor::new([1.0f32, 2.0])?.to(device)?;
/// assert_eq!(x.device(), device);
/// assert_eq!(cuda_if_available(1000), Device::Cpu);
/// # Ok::<(), samebits::Error>(())
/// ```
pub fn cuda_if_available(ordinal: u32) -> Device {
    let wanted = Device::Cuda(ordinal);
    if devices().contains(&wanted) { wanted } else { Device::Cpu }
}

/// Returns the backend of `device`; see [`samebits_tensor_core::backend::backend`].
///
/// # Errors
///
/// As for [`samebits_tensor_core::backend::backend`].
pub fn backend(device: Device) -> Result<Arc<dyn Backend>> {
    install();
    samebits_tensor_core::backend::backend(device)
}

#[doc = include_str!("../docs/reproducibility.md")]
pub mod guide {}

/// Levels of reproducibility, and scopes that require them.
///
/// A scope never reaches into another thread, except the workers of data loaders: they load under
/// the settings in force at the start of the epoch.
pub mod determinism {
    pub use samebits_tensor_core::determinism::*;

    /// Runs `f` as [`samebits_tensor_core::determinism::scope`] does; also reaches into data
    /// loaders.
    #[track_caller]
    pub fn scope<R>(level: Determinism, f: impl FnOnce() -> R) -> R {
        crate::inherit::reach_loaders();
        samebits_tensor_core::determinism::scope(level, f)
    }

    /// Runs `f` as [`samebits_tensor_core::determinism::scope_warn_only`] does; also reaches into
    /// data loaders.
    pub fn scope_warn_only<R>(level: Determinism, f: impl FnOnce() -> R) -> R {
        crate::inherit::reach_loaders();
        samebits_tensor_core::determinism::scope_warn_only(level, f)
    }

    /// Requires a level as [`samebits_tensor_core::determinism::enter`] does; also reaches into
    /// data loaders.
    #[must_use = "the level is in force only while the guard lives"]
    pub fn enter(level: Determinism) -> ScopeGuard {
        crate::inherit::reach_loaders();
        samebits_tensor_core::determinism::enter(level)
    }
}

/// Re-run mode: every operation runs several times and the bits must agree.
pub mod rerun {
    pub use samebits_tensor_core::rerun::*;

    /// Runs `f` as [`samebits_tensor_core::rerun::scope`] does; also reaches into data loaders.
    pub fn scope<R>(times: usize, f: impl FnOnce() -> R) -> R {
        crate::inherit::reach_loaders();
        samebits_tensor_core::rerun::scope(times, f)
    }
}

/// Races of convolution algorithms, and pinned choices.
pub mod autotune {
    use std::sync::Arc;

    use crate::Device;

    pub use samebits_conv_autotune::*;

    /// Calls [`samebits_conv_autotune::candidates`] with the kernels of every device installed.
    ///
    /// # Errors
    ///
    /// As for [`samebits_conv_autotune::candidates`].
    pub fn candidates(device: Device) -> Result<Vec<Candidate<ConvCall>>> {
        crate::install();
        samebits_conv_autotune::candidates(device)
    }

    /// Calls [`samebits_conv_autotune::configure`] with the kernels of every device installed.
    ///
    /// # Errors
    ///
    /// As for [`samebits_conv_autotune::configure`].
    pub fn configure(device: Device, config: Config) -> Result<()> {
        crate::install();
        samebits_conv_autotune::configure(device, config)
    }

    /// Calls [`samebits_conv_autotune::default_config`] with the kernels of every device installed.
    ///
    /// # Errors
    ///
    /// As for [`samebits_conv_autotune::default_config`].
    pub fn default_config(device: Device) -> Result<Config> {
        crate::install();
        samebits_conv_autotune::default_config(device)
    }

    /// Calls [`samebits_conv_autotune::tuner`] with the kernels of every device installed.
    ///
    /// # Errors
    ///
    /// As for [`samebits_conv_autotune::tuner`].
    pub fn tuner(device: Device) -> Result<Arc<Tuner<ConvCall>>> {
        crate::install();
        samebits_conv_autotune::tuner(device)
    }

    /// Calls [`samebits_conv_autotune::tuner_with`] with the kernels of every device installed.
    ///
    /// # Errors
    ///
    /// As for [`samebits_conv_autotune::tuner_with`].
    pub fn tuner_with(device: Device, config: Config) -> Result<Tuner<ConvCall>> {
        crate::install();
        samebits_conv_autotune::tuner_with(device, config)
    }
}

/// Items that most programs need in scope.
pub mod prelude {
    pub use crate::nn::{Layer, Module};
    pub use crate::optim::Optimizer;
    pub use crate::{DType, Determinism, Device, Generator, Tensor, manual_seed};
}
