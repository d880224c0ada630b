//! The tuners of this process, one for each device, and the kernels that ask them.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::RwLock;
use samebits_tensor_core::Device;
use samebits_tensor_core::device::DeviceKind;

use crate::{BoxError, Candidate, Config, ConvCall, Error, Result, Tuner, kernels};

/// A library of convolution algorithms for the devices of one kind.
#[derive(Clone, Copy, Debug)]
pub struct ConvLibrary {
    /// The devices that it is for.
    pub kind: DeviceKind,
    /// Its algorithms. The one with the lowest id takes every call: the others are compared with
    /// it.
    pub candidates: fn() -> Vec<Candidate<ConvCall>>,
    /// What a tuner may do on a device, unless told otherwise: its fingerprint and its clock.
    pub config: fn(Device) -> Result<Config, BoxError>,
}

/// Puts a tuner over the library's algorithms behind the convolutions of f32 tensors on its
/// devices, from 2²² products up. Smaller calls, and other types, go to the kernels that are
/// registered after this.
///
/// # Determinism
///
/// By default algorithms race at [`Portable`](samebits_tensor_core::Determinism::Portable), where
/// all of them have the same bits, and at
/// [`NotGuaranteed`](samebits_tensor_core::Determinism::NotGuaranteed); at
/// [`RunToRun`](samebits_tensor_core::Determinism::RunToRun) a written heuristic decides until
/// [`configure`] names a file for the choices.
pub fn install(library: ConvLibrary) {
    if LIBRARIES.write().insert(library.kind, library).is_none() {
        kernels::register_all(library.kind);
    }
}

/// What the tuner of `device` may do, unless told otherwise.
///
/// # Errors
///
/// [`Error::NoLibrary`]; [`Error::Device`] if the device cannot say what it is.
pub fn default_config(device: Device) -> Result<Config> {
    (library(device)?.config)(device).map_err(|source| Error::Device { device, source })
}

/// Sets what the tuner of `device` in this process may do, and forgets what it has chosen.
///
/// # Errors
///
/// [`Error::NoLibrary`], and what is wrong with the file that the configuration names: it cannot be
/// read or written, is damaged, was recorded on another device, or names an algorithm that does
/// not exist.
///
/// # Examples
///
/// ```no_run
/// use samebits_conv_autotune::{self as autotune, Config, Mode};
/// use samebits_tensor_core::Device;
///
/// // Choices that a first run recorded.
/// let mode = Mode::Pinned("choices.toml".into());
/// autotune::configure(Device::Cpu, Config { mode, ..autotune::default_config(Device::Cpu)? })?;
/// # Ok::<(), autotune::Error>(())
/// ```
pub fn configure(device: Device, config: Config) -> Result<()> {
    let tuner = Arc::new(tuner_with(device, config)?);
    TUNERS.write().insert(device, tuner);
    Ok(())
}

/// The tuner of `device` in this process.
///
/// # Errors
///
/// As [`default_config`].
pub fn tuner(device: Device) -> Result<Arc<Tuner<ConvCall>>> {
    if let Some(tuner) = TUNERS.read().get(&device) {
        return Ok(tuner.clone());
    }
    let tuner = Arc::new(tuner_with(device, default_config(device)?)?);
    // Another thread may have been first.
    Ok(TUNERS.write().entry(device).or_insert(tuner).clone())
}

/// A tuner of its own over the algorithms for `device`.
///
/// # Errors
///
/// As [`configure`].
pub fn tuner_with(device: Device, config: Config) -> Result<Tuner<ConvCall>> {
    Tuner::new(move |key| ConvCall::probe(key, device), candidates(device)?, config)
}

/// The algorithms for `device`, in ascending id.
///
/// # Errors
///
/// [`Error::NoLibrary`].
pub fn candidates(device: Device) -> Result<Vec<Candidate<ConvCall>>> {
    Ok((library(device)?.candidates)())
}

static LIBRARIES: RwLock<BTreeMap<DeviceKind, ConvLibrary>> = RwLock::new(BTreeMap::new());
static TUNERS: RwLock<BTreeMap<Device, Arc<Tuner<ConvCall>>>> = RwLock::new(BTreeMap::new());

fn library(device: Device) -> Result<ConvLibrary> {
    LIBRARIES.read().get(&device.kind()).copied().ok_or(Error::NoLibrary { device })
}
