use samebits::functional as f;

use samebits::{Result, Tensor};

/// Returns the gradient of a function of `values` to one number.
fn gradient(values: &[f64], function: impl Fn(&Tensor) -> Result<Tensor>) -> Vec<f64> {
    let x = Tensor::from_slice(values, &[values.len()]).unwrap().set_requires_grad(true).unwrap();
    let gradients = function(&x).unwrap().backward().unwrap();
    gradients.of(&x).unwrap().to_vec().unwrap()
}

#[test]
fn zeros_and_ties() {
    let prod = |x: &Tensor| f::prod(x, [0], false);
    assert_eq!(gradient(&[2.0, 3.0, 4.0], prod), [12.0, 8.0, 6.0]);
    assert_eq!(gradient(&[2.0, 0.0, 4.0], prod), [0.0, 8.0, 0.0]);
    assert_eq!(gradient(&[0.0, 0.0, 4.0], prod), [0.0, 0.0, 0.0]);
    assert_eq!(gradient(&[1.0, 3.0, 3.0], |x| f::amax(x, [0], false)), [0.0, 0.5, 0.5]);
    assert_eq!(gradient(&[1.0, 1.0, 3.0], |x| f::amin(x, [0], false)), [0.5, 0.5, 0.0]);
    assert_eq!(gradient(&[1.0, 3.0, 3.0], |x| Ok(f::max(x, 0, false)?.0)), [0.0, 1.0, 0.0]);
    assert_eq!(gradient(&[2.0, 2.0], |x| f::std(x, [0], 1.0, false)), [0.0, 0.0]);
    for p in [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, f64::INFINITY] {
        assert_eq!(gradient(&[0.0, 0.0], |x| f::norm(x, p, [0], false)), [0.0, 0.0], "p = {p}");
    }
    let infinite = |x: &Tensor| f::norm(x, f64::INFINITY, [0], false);
    assert_eq!(gradient(&[0.0, -3.0, 3.0, 2.0], infinite), [0.0, -0.5, 0.5, 0.0]);
    assert_eq!(gradient(&[0.0, -3.0, 3.0], |x| f::norm(x, 1.0, [0], false)), [0.0, -1.0, 1.0]);
}
