//! Memory that is not there is an error under the name of the function.

use samebits_autograd::functional::affine_grid;
use samebits_autograd::{DType, Error, Tensor};

#[test]
fn a_grid_of_more_points_than_memory_holds_is_refused() {
    let theta = Tensor::zeros(&[1, 2, 3], DType::F32).unwrap();
    let error = affine_grid(&theta, &[1, 1, 1 << 24, 1 << 24], false).unwrap_err();
    assert!(matches!(error, Error::OutOfMemory { op: "affine_grid", .. }), "{error}");
}
