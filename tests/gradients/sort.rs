use samebits::Tensor;
use samebits::functional as f;

#[test]
fn equal_medians_share_the_gradient() {
    let nan = f64::NAN;
    for (values, expected) in [
        ([1.0, 2.0, 2.0, 3.0, 2.0], [0.0, 1.0 / 3.0, 1.0 / 3.0, 0.0, 1.0 / 3.0]),
        ([1.0, nan, 2.0, 3.0, nan], [0.0, 0.5, 0.0, 0.0, 0.5]),
    ] {
        let x = Tensor::from_slice(&values, &[5]).unwrap().set_requires_grad(true).unwrap();
        let gradients = f::median(&x).unwrap().backward().unwrap();
        assert_eq!(gradients.of(&x).unwrap().to_vec::<f64>().unwrap(), expected);
    }
}
