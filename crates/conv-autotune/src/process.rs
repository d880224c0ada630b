//! The libraries of this process, and its tuners, one for each device.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::RwLock;
use samebits_tensor_core::Device;
use samebits_tensor_core::device::DeviceKind;

use crate::{BoxError, Candidate, Config, ConvCall, Error, Result, Tuner, environment};

/// A library of convolution algorithms for the devices of one kind.
#[derive(Clone, Copy, Debug)]
pub struct ConvLibrary {
    /// The kind of device that the algorithms run on.
    pub kind: DeviceKind,
    /// Its algorithms. The one with the lowest id takes every call: the others are compared with
    /// it.
    pub candidates: fn() -> Vec<Candidate<ConvCall>>,
    /// What a tuner may do on a device, unless told otherwise: its fingerprint and its clock.
    pub config: fn(Device) -> Result<Config, BoxError>,
}

/// Adds a library, and returns true if its kind of device had none.
pub(crate) fn add(library: ConvLibrary) -> bool {
    LIBRARIES.write().insert(library.kind, library).is_none()
}

/// Returns the default configuration of the tuner of `device`: no races, so that the first calls of
/// a shape cost as much as the later ones; 1 GiB of workspace; and what the environment says:
///
/// | variable | value |
/// |---|---|
/// | `SAMEBITS_AUTOTUNE` | `off`, `on` (races), `cache=DIR`, `record=FILE`, `pin=FILE`, `pin-or-heuristic=FILE` |
/// | `SAMEBITS_AUTOTUNE_EXCLUDE` | names of candidates, with commas; `cuda:NAME` is for such devices only |
/// | `SAMEBITS_AUTOTUNE_FORCE` | the name of one candidate, likewise |
/// | `SAMEBITS_AUTOTUNE_KEY_BUDGET_MS`, `SAMEBITS_AUTOTUNE_BUDGET_MS` | [`Budget`](crate::Budget) in milliseconds |
/// | `SAMEBITS_AUTOTUNE_WORKSPACE` | [`Config::workspace_limit`] in bytes |
///
/// # Errors
///
/// [`Error::Device`] of [`NoLibrary`] if no algorithms are installed, or of what went wrong if the device
/// cannot say what it is; [`Error::Config`] if a variable cannot be read.
pub fn default_config(device: Device) -> Result<Config> {
    let mut config =
        (library(device)?.config)(device).map_err(|source| of_device(device, source))?;
    config.benchmark = false;
    environment::apply(&mut config, device.kind(), |name| std::env::var_os(name))?;
    Ok(config)
}

/// Sets what the tuner of `device` in this process may do, and forgets what it has chosen.
///
/// # Errors
///
/// [`Error::Device`] of [`NoLibrary`], and what is wrong with the file that the configuration names: it cannot be
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
/// let mode = Mode::pinned("choices.toml");
/// autotune::configure(Device::Cpu, Config { mode, ..autotune::default_config(Device::Cpu)? })?;
/// # Ok::<(), autotune::Error>(())
/// ```
pub fn configure(device: Device, config: Config) -> Result<()> {
    let tuner = Arc::new(tuner_with(device, config)?);
    TUNERS.write().insert(device, tuner);
    Ok(())
}

/// Returns the tuner of `device` in this process.
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

/// Returns a tuner of its own over the algorithms for `device`.
///
/// # Errors
///
/// As [`configure`].
pub fn tuner_with(device: Device, config: Config) -> Result<Tuner<ConvCall>> {
    Tuner::new(move |key| ConvCall::probe(key, device), candidates(device)?, config)
}

/// Returns the algorithms for `device`, in ascending id.
///
/// # Errors
///
/// [`Error::Device`] of [`NoLibrary`].
pub fn candidates(device: Device) -> Result<Vec<Candidate<ConvCall>>> {
    Ok((library(device)?.candidates)())
}

static LIBRARIES: RwLock<BTreeMap<DeviceKind, ConvLibrary>> = RwLock::new(BTreeMap::new());
static TUNERS: RwLock<BTreeMap<Device, Arc<Tuner<ConvCall>>>> = RwLock::new(BTreeMap::new());

fn library(device: Device) -> Result<ConvLibrary> {
    let library = LIBRARIES.read().get(&device.kind()).copied();
    library.ok_or_else(|| of_device(device, NoLibrary.into()))
}

fn of_device(device: Device, source: BoxError) -> Error {
    Error::Device { device: device.to_string(), source }
}

/// No library of convolution algorithms was installed for a device: the source of an
/// [`Error::Device`].
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "no convolution algorithms are installed; call `install` of the crate with the kernels for it"
)]
pub struct NoLibrary;

samebits_numerics::debug_is_message!(NoLibrary);
