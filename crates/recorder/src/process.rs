//! The recorder requested by the environment.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::sync::{Arc, Once, OnceLock};

use samebits_ledger::record::Digests;
use samebits_numerics::{NUMERICS_VERSION, fpenv, simd};
use samebits_tensor_core::observe::{self, Call, LEDGER_VARIABLE, Observer};
use samebits_tensor_core::{Device, backend, determinism, rerun};

use crate::exit::at_exit;
use crate::{Error, Recorder, Result, Settings};

/// The environment variable for the coverage of digests in the ledger of the process.
const DIGESTS_VARIABLE: &str = "SAMEBITS_LEDGER_DIGESTS";

static OF_PROCESS: OnceLock<Arc<Recorder>> = OnceLock::new();

/// Begins the ledger requested by `SAMEBITS_LEDGER`; later calls return at once. If it cannot be
/// written, operations return the error.
pub fn begin() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let Some(path) = std::env::var_os(LEDGER_VARIABLE).filter(|path| !path.is_empty()) else {
            return;
        };
        let settings = digests().map(|digests| Settings { digests, ..Settings::new(path.into()) });
        let observer: Arc<dyn Observer> = match settings.and_then(Recorder::create) {
            Ok(recorder) => {
                at_exit(write_the_rest);
                OF_PROCESS.get_or_init(|| Arc::new(recorder)).clone()
            }
            Err(error) => Arc::new(Refusal(error.to_string())),
        };
        observe::set_global(Some(observer));
    });
}

/// Reads `SAMEBITS_LEDGER_DIGESTS`.
fn digests() -> Result<Digests> {
    match std::env::var_os(DIGESTS_VARIABLE).as_deref().map(OsStr::as_encoded_bytes) {
        None | Some(b"") => Ok(Digests::default()),
        Some(b"full") => Ok(Digests::Full),
        Some(b"sampled") => Ok(Digests::Sampled),
        Some(found) => Err(Error::Invalid(format!(
            "{DIGESTS_VARIABLE}: expected `full` or `sampled`, found {:?}",
            String::from_utf8_lossy(found)
        ))),
    }
}

/// Returns the recorder started by [`begin`].
pub fn of_process() -> Option<Arc<Recorder>> {
    OF_PROCESS.get().cloned()
}

extern "C" fn write_the_rest() {
    if let Some(recorder) = OF_PROCESS.get() {
        // The process has ended; errors cannot be reported any more.
        let _ = recorder.flush();
    }
}

/// Stand-in for a recorder that could not be created.
struct Refusal(String);

impl Observer for Refusal {
    fn observe(&self, call: &Call<'_>) -> samebits_tensor_core::Result<()> {
        Err(samebits_tensor_core::Error::Observer { op: call.op, message: self.0.clone() })
    }
}

/// Function that adds entries to the environment.
type Describe = fn() -> Vec<(String, String)>;

static MORE: OnceLock<Describe> = OnceLock::new();

/// Adds the entries of `describe` to the environment in ledger headers. Only the first call has an
/// effect.
pub fn describe_with(describe: Describe) {
    MORE.get_or_init(|| describe);
}

/// Returns the environment for a header.
pub(crate) fn environment() -> BTreeMap<String, String> {
    let mut entries = BTreeMap::new();
    let mut enter = |name: &str, value: String| entries.insert(name.to_owned(), value);
    enter("system", format!("{} {}", std::env::consts::OS, std::env::consts::ARCH));
    enter("numerics_version", NUMERICS_VERSION.to_string());
    enter("level", determinism::required().to_string());
    enter("rerun", rerun::times().to_string());
    enter("threads", threads().to_string());
    enter("simd", simd::level().name().to_owned());
    enter("simd_supported", simd::supported().name().to_owned());
    enter("subnormals", if fpenv::is_ieee() { "kept" } else { "flushed" }.to_owned());
    for device in backend::devices() {
        if let (true, Ok(backend)) = (device != Device::Cpu, backend::backend(device)) {
            enter(&device.to_string(), backend.name());
        }
    }
    entries.extend(MORE.get().into_iter().flat_map(|describe| describe()));
    entries
}

#[allow(clippy::disallowed_methods, reason = "it is reported and decides nothing")]
fn threads() -> usize {
    rayon::current_num_threads()
}
