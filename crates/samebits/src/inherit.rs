//! Thread settings inherited by data loaders.

use samebits_data::{Inherited, inherit};
use samebits_tensor_core::{determinism, rerun};

/// Makes datasets and collate functions run under the level and the re-run mode of the thread that
/// begins their epoch.
pub(crate) fn reach_loaders() {
    inherit(captured);
}

fn captured() -> Inherited {
    let (level, warn_only) = (determinism::required(), determinism::is_warn_only());
    let times = rerun::times();
    Box::new(move |work| {
        rerun::scope(times, || {
            if warn_only {
                determinism::scope_warn_only(level, work);
            } else {
                determinism::scope(level, work);
            }
        });
    })
}
