use samebits::Tensor;
use samebits::functional as f;

#[test]
fn ties_and_borders_give_what_pytorch_gives() {
    let x = Tensor::from_slice(&[-1.0f32, 0.0, 1.0, f32::NAN], &[4])
        .unwrap()
        .set_requires_grad(true)
        .unwrap();
    let grad = |y: Tensor| {
        let gradients = y.sum_all().unwrap().backward().unwrap();
        gradients.of(&x).unwrap().to_vec::<f32>().unwrap()
    };
    let zero = Tensor::scalar(0.0f32);
    assert_eq!(grad(f::maximum(&x, &zero).unwrap()), [0.0, 0.5, 1.0, 1.0]);
    assert_eq!(grad(f::minimum(&x, &zero).unwrap()), [1.0, 0.5, 0.0, 1.0]);
    assert_eq!(grad(f::clamp(&x, Some(-1.0), Some(0.0)).unwrap())[..3], [0.0, 0.0, 0.0]);
    assert_eq!(grad(f::hardtanh(&x, -1.0, 1.0).unwrap())[..3], [0.0, 1.0, 0.0]);
    assert_eq!(grad(f::abs(&x).unwrap())[..3], [-1.0, 0.0, 1.0]);
    assert_eq!(grad(f::leaky_relu(&x, 0.25).unwrap())[..3], [0.25, 0.25, 1.0]);
    let weight = Tensor::scalar(0.25f32);
    assert_eq!(grad(f::prelu(&x, &weight).unwrap())[..3], [0.25, 0.25, 1.0]);
    assert_eq!(grad(f::elu(&x, 2.0).unwrap())[1..3], [2.0, 1.0]);
    assert_eq!(grad(f::pow_scalar(&x, 0.0).unwrap()), [0.0; 4]);
    let large = Tensor::from_slice(&[-1e5f32, 1e5], &[2]).unwrap().set_requires_grad(true).unwrap();
    for function in [f::elu(&large, 1.0).unwrap(), f::softplus(&large, 1.0, 20.0).unwrap()] {
        let gradients = function.sum_all().unwrap().backward().unwrap();
        assert_eq!(gradients.of(&large).unwrap().to_vec::<f32>().unwrap(), [0.0, 1.0]);
    }
}
