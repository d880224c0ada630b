//! The recorder requested by the environment.

use std::ffi::OsStr;
use std::sync::{Arc, Once, OnceLock};

use samebits_ledger::record::Digests;
use samebits_tensor_core::observe::{self, Call, LEDGER_VARIABLE, Observer};

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
