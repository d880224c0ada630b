use samebits::Tensor;
use samebits::functional as f;
use samebits::numerics::math::f64 as math;

#[test]
fn a_cumulative_product_with_zeros() {
    let x = Tensor::from_slice(&[2.0, 0.0, 3.0, 0.0, 5.0], &[5])
        .unwrap()
        .set_requires_grad(true)
        .unwrap();
    let gradients = f::cumprod(&x, 0).unwrap().sum_all().unwrap().backward().unwrap();
    let found = gradients.of(&x).unwrap().to_vec::<f64>().unwrap();
    // By the second element: 2 + 2·3; by the others, zero or a product with a zero.
    assert_eq!(found, [1.0, 8.0, 0.0, 0.0, 0.0]);
}

#[test]
fn logcumsumexp_far_apart() {
    let x = Tensor::from_slice(&[-1e4, 800.0, 801.0, -1e300], &[4])
        .unwrap()
        .set_requires_grad(true)
        .unwrap();
    let y = f::logcumsumexp(&x, 0).unwrap();
    let log = 801.0 + math::log1p(math::exp(-1.0));
    let found = y.to_vec::<f64>().unwrap();
    assert_eq!(found[..2], [-1e4, 800.0]);
    assert!((found[2] - log).abs() < 1e-12 && found[2].to_bits() == found[3].to_bits());
    let gradients = y.sum_all().unwrap().backward().unwrap();
    let found = gradients.of(&x).unwrap().to_vec::<f64>().unwrap();
    let share = 1.0 / (1.0 + math::exp(1.0));
    let expected = [1.0, 1.0 + 2.0 * share, 2.0 - 2.0 * share, 0.0];
    for (found, expected) in found.iter().zip(expected) {
        assert!((found - expected).abs() < 1e-12, "{found} is not {expected}");
    }
}

#[test]
fn a_cumulative_product_has_no_third_derivative() {
    let x = Tensor::from_slice(&[2.0, 3.0], &[2]).unwrap().set_requires_grad(true).unwrap();
    let mut gradient = f::cumprod(&x, 0).unwrap();
    for _ in 0..2 {
        let grads = gradient.sum_all().unwrap();
        let one = Tensor::scalar(1.0);
        gradient = grads.backward_from(one, true).unwrap().of(&x).unwrap().clone();
    }
    let error = gradient.sum_all().unwrap().backward().unwrap_err().to_string();
    assert_eq!(error, "cumprod: this gradient cannot be differentiated again");
}
