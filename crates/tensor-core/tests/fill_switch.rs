//! A test in its own process, because the switch applies to the process.

use samebits_tensor_core::{DType, Determinism, Tensor, determinism, tensor};

#[test]
fn filling_can_be_left_out_below_run_to_run_and_by_a_switch() {
    // Filled memory would hold the canonical NaN; recycled or poisoned memory does not.
    let filled =
        || Tensor::empty(&[1000], DType::I64).unwrap().to_vec::<i64>().unwrap() == [i64::MAX; 1000];
    assert!(filled());
    assert!(!determinism::scope(Determinism::NotGuaranteed, filled));
    tensor::set_fill_uninitialized(false);
    let unfilled = !filled();
    tensor::set_fill_uninitialized(true);
    assert!(unfilled);
}
