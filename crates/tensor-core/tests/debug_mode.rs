//! The process's own state; alone in its binary because other tests would see it.

use samebits_tensor_core::Determinism;
use samebits_tensor_core::determinism::{self, DebugMode};

/// PyTorch's three states are returned as set, and have their meaning.
#[test]
fn debug_modes_round_trip() {
    let modes = [
        (DebugMode::Default, Determinism::NotGuaranteed, false),
        (DebugMode::Warn, Determinism::Portable, true),
        (DebugMode::Error, Determinism::Portable, false),
    ];
    for (mode, level, warn_only) in modes {
        determinism::set_debug_mode(mode);
        assert_eq!(determinism::debug_mode(), mode);
        assert_eq!(determinism::required(), level);
        assert_eq!(determinism::is_warn_only(), warn_only);
    }
    determinism::set_default(Determinism::RunToRun);
    determinism::set_warn_only(true);
    assert_eq!(determinism::required(), Determinism::RunToRun);
    assert!(determinism::is_warn_only());
}
