//! The environment of a run, for the headers of ledgers.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use samebits_numerics::{NUMERICS_VERSION, fpenv, simd};
use samebits_tensor_core::{Device, backend, determinism, rerun};

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
