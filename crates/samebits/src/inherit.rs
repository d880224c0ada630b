//! Settings of a thread that hold for the data loaders which it starts.

use samebits_data::{Inherited, inherit};
use samebits_tensor_core::{determinism, rerun};

/// From now on, datasets and collate functions run under the level and the re-run mode that are in
/// force where their epoch is begun.
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
