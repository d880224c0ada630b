//! A thread in IEEE mode is left alone. A process of its own: what was repaired is known of the
//! whole process.

use samebits_numerics::fpenv;

#[test]
fn ieee_mode_needs_no_repair() {
    assert_eq!(fpenv::ieee(|| 1.0 + 1.0), 2.0);
    assert!(!fpenv::was_repaired());
}
