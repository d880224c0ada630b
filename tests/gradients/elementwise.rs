use samebits::Var;
use samebits::functional as f;
use workspace_tests::indices;

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
    let positive = |x: &Var| x.square()?.affine(1.0, 0.5);
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
    let target = indices(3, 4, 8);
    check("cross_entropy", &[&[3, 4]], &|x| f::cross_entropy(&x[0], &target));
}
