use samebits::functional as f;
use samebits::ops::ConvParams;

use super::check_twice;

#[test]
fn contractions() {
    check_twice("matmul", &[&[3, 5], &[5, 2]], &|x| f::matmul(&x[0], &x[1]));
    check_twice("batched", &[&[2, 1, 3, 4], &[5, 4, 2]], &|x| f::matmul(&x[0], &x[1]));
    check_twice("linear", &[&[2, 3, 5], &[4, 5], &[4]], &|x| f::linear(&x[0], &x[1], Some(&x[2])));
    check_twice("dot", &[&[5], &[5]], &|x| f::matmul(&x[0], &x[1]));
    check_twice("row", &[&[4], &[2, 4, 3]], &|x| f::matmul(&x[0], &x[1]));
    check_twice("column", &[&[2, 3, 4], &[4]], &|x| f::matmul(&x[0], &x[1]));
    check_twice("folded", &[&[2, 3, 4], &[4, 5]], &|x| f::matmul(&x[0], &x[1]));
    check_twice("bmm", &[&[2, 3, 4], &[2, 4, 5]], &|x| f::bmm(&x[0], &x[1]));
    check_twice("addmm", &[&[5], &[3, 4], &[4, 5]], &|x| f::addmm(&x[0], &x[1], &x[2], 0.7, 1.3));
    check_twice("baddbmm", &[&[3, 1], &[2, 3, 4], &[2, 4, 5]], &|x| {
        f::baddbmm(&x[0], &x[1], &x[2], 1.0, 1.3)
    });
    check_twice("linear of a vector", &[&[5], &[5], &[]], &|x| {
        f::linear(&x[0], &x[1], Some(&x[2]))
    });
    let params =
        ConvParams { stride: vec![2, 1], padding: vec![1, 0], dilation: vec![1, 2], groups: 2 };
    check_twice("conv2d", &[&[2, 4, 5, 6], &[4, 2, 3, 2], &[4]], &|x| {
        f::conv(&x[0], &x[1], Some(&x[2]), &params)
    });
    check_twice("conv1d", &[&[1, 2, 7], &[3, 2, 3]], &|x| {
        f::conv1d(&x[0], &x[1], None, &ConvParams::padded(1, 2))
    });
    check_twice("conv3d", &[&[1, 1, 4, 3, 4], &[2, 1, 2, 2, 3]], &|x| {
        f::conv3d(&x[0], &x[1], None, &ConvParams::padded(3, 1))
    });
}

#[test]
fn transposed_convolutions() {
    let params =
        ConvParams { stride: vec![2, 1], padding: vec![1, 0], dilation: vec![1, 2], groups: 2 };
    check_twice("conv_transpose2d", &[&[2, 4, 3, 2], &[4, 2, 3, 2], &[4]], &|x| {
        f::conv_transpose2d(&x[0], &x[1], Some(&x[2]), &params, &[1, 0])
    });
    let params = ConvParams { stride: vec![2], padding: vec![1], dilation: vec![5], groups: 1 };
    // An output padding above the stride.
    check_twice("conv_transpose1d", &[&[2, 4], &[2, 3, 2]], &|x| {
        f::conv_transpose1d(&x[0], &x[1], None, &params, &[3])
    });
    check_twice("conv_transpose3d", &[&[1, 2, 2, 1, 2], &[2, 1, 2, 2, 1]], &|x| {
        f::conv_transpose3d(&x[0], &x[1], None, &ConvParams::padded(3, 0), &[0, 0, 0])
    });
    check_twice("conv_same", &[&[1, 2, 5, 4], &[2, 1, 2, 3], &[2]], &|x| {
        f::conv_same(&x[0], &x[1], Some(&x[2]), &[3, 1], 2)
    });
}
