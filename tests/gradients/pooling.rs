use samebits::functional as f;
use samebits::ops::PoolParams;

use super::normal_of;
use samebits::{DType, Generator, Tensor};

use super::check_twice;

#[test]
fn pooling() {
    let params = PoolParams {
        kernel: vec![3, 2],
        stride: vec![2, 1],
        padding: vec![1, 0],
        dilation: vec![1, 1],
        ceil_mode: true,
    };
    check_twice("max_pool", &[&[2, 2, 6, 5]], &|x| Ok(f::max_pool2d(&x[0], &params)?.0));
    check_twice("max_pool without a batch", &[&[2, 6, 5]], &|x| Ok(f::max_pool(&x[0], &params)?.0));
    for include in [true, false] {
        check_twice("avg_pool", &[&[2, 2, 6, 5]], &|x| f::avg_pool(&x[0], &params, include, None));
    }
}

#[test]
fn to_a_given_size() {
    for (shape, size) in
        [(&[1, 2, 7][..], &[3][..]), (&[2, 5, 4], &[2, 7]), (&[1, 1, 3, 4, 2], &[2, 3, 1])]
    {
        check_twice("adaptive_avg_pool", &[shape], &|x| f::adaptive_avg_pool(&x[0], size));
        check_twice("adaptive_max_pool", &[shape], &|x| Ok(f::adaptive_max_pool(&x[0], size)?.0));
    }
}

#[test]
fn at_random_places() {
    for shape in [&[2, 2, 6, 7][..], &[1, 5, 6, 7]] {
        let dims = shape.len() - 2 + usize::from(shape[0] == 1);
        let (kernel, size) = (vec![2; dims], vec![3; dims]);
        let x = normal_of(shape, DType::F64, 1);
        let samples = f::fractional_samples(&x, dims, &mut Generator::new(2)).unwrap();
        check_twice("fractional_max_pool", &[shape], &|x| {
            Ok(f::fractional_max_pool(&x[0], &kernel, &size, &samples)?.0)
        });
    }
}

#[test]
fn inverses() {
    let params = PoolParams::square(2, 2);
    let indices = Tensor::from_slice(&[5i64, 0, 3, 14], &[1, 1, 2, 2]).unwrap();
    check_twice("max_unpool", &[&[1, 1, 2, 2]], &|x| f::max_unpool(&x[0], &indices, &params, None));
}

#[test]
fn norms() {
    let params = PoolParams { ceil_mode: true, ..PoolParams::square(1, 2) };
    for norm in [2.0, 3.0] {
        check_twice("lp_pool", &[&[1, 2, 5]], &|x| {
            f::lp_pool1d(&x[0].square()?.affine(1.0, 0.1)?, norm, &params)
        });
    }
}
