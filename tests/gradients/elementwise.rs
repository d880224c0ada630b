use samebits::Tensor;
use samebits::functional as f;

use super::indices;

use super::{check, check_twice};

#[test]
fn elementwise() {
    check_twice("add", &[&[3, 4], &[4]], &|x| x[0].add(&x[1]));
    check_twice("sub", &[&[3, 1], &[2, 1, 4]], &|x| x[0].sub(&x[1]));
    check_twice("mul", &[&[3, 4], &[3, 1]], &|x| x[0].mul(&x[1]));
    check_twice("div", &[&[5], &[5]], &|x| x[0].div(&x[1].square()?.affine(1.0, 1.0)?));
    check_twice("affine", &[&[5]], &|x| x[0].affine(0.7, 3.0)?.neg());
    check_twice("square", &[&[5]], &|x| x[0].square());
    check_twice("sqrt", &[&[5]], &|x| x[0].square()?.affine(1.0, 1.0)?.sqrt());
    check_twice("relu", &[&[50]], &|x| x[0].relu());
}

#[test]
fn activations() {
    let positive = |x: &Tensor| x.square()?.affine(1.0, 0.5);
    check_twice("exp", &[&[9]], &|x| f::exp(&x[0]));
    check_twice("expm1", &[&[9]], &|x| f::expm1(&x[0]));
    check_twice("log", &[&[9]], &|x| f::log(&positive(&x[0])?));
    check_twice("log1p", &[&[9]], &|x| f::log1p(&x[0].square()?));
    check_twice("sin", &[&[9]], &|x| f::sin(&x[0]));
    check_twice("cos", &[&[9]], &|x| f::cos(&x[0]));
    check_twice("tanh", &[&[9]], &|x| f::tanh(&x[0]));
    check_twice("sigmoid", &[&[9]], &|x| f::sigmoid(&x[0]));
    check_twice("erf", &[&[9]], &|x| f::erf(&x[0]));
    check_twice("gelu", &[&[9]], &|x| f::gelu(&x[0]));
    check_twice("silu", &[&[9]], &|x| f::silu(&x[0]));
    check_twice("log_softmax", &[&[3, 4]], &|x| f::log_softmax(&x[0], 0));
    check_twice("softmax", &[&[3, 4]], &|x| f::softmax(&x[0], 1));
    check_twice("exp2", &[&[9]], &|x| f::exp2(&x[0]));
    check_twice("log2", &[&[9]], &|x| f::log2(&positive(&x[0])?));
    check_twice("log10", &[&[9]], &|x| f::log10(&positive(&x[0])?));
    check_twice("rsqrt", &[&[9]], &|x| f::rsqrt(&positive(&x[0])?));
    check_twice("reciprocal", &[&[9]], &|x| f::reciprocal(&positive(&x[0])?));
    check_twice("gelu_tanh", &[&[9]], &|x| f::gelu_tanh(&x[0]));
    check_twice("softplus", &[&[40]], &|x| f::softplus(&x[0], 1.7, 1.0));
    check_twice("log_sigmoid", &[&[9]], &|x| f::log_sigmoid(&x[0]));
    check_twice("leaky_relu", &[&[40]], &|x| f::leaky_relu(&x[0], 0.2));
    check_twice("elu", &[&[40]], &|x| f::elu(&x[0], 1.3));
    check_twice("pow", &[&[9], &[9]], &|x| f::pow(&positive(&x[0])?, &x[1]));
    check_twice("pow_scalar", &[&[9]], &|x| f::pow_scalar(&x[0], 3.0));
    check_twice("abs", &[&[40]], &|x| f::abs(&x[0].square()?.affine(1.0, -0.5)?));
    check_twice("clamp", &[&[40]], &|x| f::clamp(&x[0].square()?, Some(0.2), Some(1.5)));
    check_twice("hardtanh", &[&[40]], &|x| f::hardtanh(&x[0].square()?, 0.2, 1.5));
    check_twice("maximum", &[&[4, 9], &[9]], &|x| f::maximum(&x[0].square()?, &x[1]));
    check_twice("minimum", &[&[4, 9], &[9]], &|x| f::minimum(&x[0].square()?, &x[1]));
    let target = indices(3, 4, 8);
    check("cross_entropy", &[&[3, 4]], &|x| f::cross_entropy(&x[0], &target));
}

#[test]
fn ties_and_borders_give_what_pytorch_gives() {
    let x =
        Tensor::from_slice(&[-1.0f32, 0.0, 1.0, f32::NAN], &[4]).unwrap().set_requires_grad(true);
    let grad = |y: Tensor| {
        let gradients = y.sum_all().unwrap().backward().unwrap();
        gradients.of(&x).unwrap().to_vec::<f32>().unwrap()
    };
    let zero = Tensor::scalar(0.0f32);
    assert_eq!(grad(f::maximum(&x, &zero).unwrap()), [0.0, 0.5, 1.0, 1.0]);
    assert_eq!(grad(f::minimum(&x, &zero).unwrap()), [1.0, 0.5, 0.0, 1.0]);
    assert_eq!(grad(f::clamp(&x, Some(-1.0), Some(0.0)).unwrap())[..3], [1.0, 1.0, 0.0]);
    assert_eq!(grad(f::hardtanh(&x, -1.0, 1.0).unwrap())[..3], [0.0, 1.0, 0.0]);
    assert_eq!(grad(f::abs(&x).unwrap())[..3], [-1.0, 0.0, 1.0]);
    assert_eq!(grad(f::pow_scalar(&x, 0.0).unwrap()), [0.0; 4]);
    let large = Tensor::from_slice(&[-1e5f32, 1e5], &[2]).unwrap().set_requires_grad(true);
    for function in [f::elu(&large, 1.0).unwrap(), f::softplus(&large, 1.0, 20.0).unwrap()] {
        let gradients = function.sum_all().unwrap().backward().unwrap();
        assert_eq!(gradients.of(&large).unwrap().to_vec::<f32>().unwrap(), [0.0, 1.0]);
    }
}
