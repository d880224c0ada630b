//! What the tests of planted faults share.

use std::sync::Once;

/// Panics that are planted need not be printed.
pub(crate) fn hush() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if !info.to_string().contains("a planted panic") {
                usual(info);
            }
        }));
    });
}
