//! A thread in IEEE mode is left alone. It runs in its own process, because repairs are counted per
//! process.

use samebits_numerics::fpenv;

#[test]
fn ieee_mode_needs_no_repair() {
    assert_eq!(fpenv::ieee(|| 1.0 + 1.0), 2.0);
    assert!(!fpenv::was_repaired());
}
