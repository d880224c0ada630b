use samebits::Tensor;
use samebits::functional as f;

use super::check_twice;

#[test]
fn sorting_and_selection() {
    for dim in [0, 1] {
        let shape: &[usize] = &[5, 6];
        for upwards in [false, true] {
            check_twice("sort", &[shape], &|x| Ok(f::sort(&x[0].square()?, dim, upwards)?.0));
            check_twice("topk", &[shape], &|x| Ok(f::topk(&x[0].square()?, 3, dim, upwards)?.0));
            check_twice("kthvalue", &[shape], &|x| {
                Ok(f::kthvalue(&x[0].square()?, 2, dim, upwards)?.0)
            });
            check_twice("median_dim", &[shape], &|x| {
                Ok(f::median_dim(&x[0].square()?, dim, upwards)?.0)
            });
            check_twice("nanmedian_dim", &[shape], &|x| {
                Ok(f::nanmedian_dim(&x[0].square()?, dim, upwards)?.0)
            });
        }
    }
    check_twice("median", &[&[5, 6]], &|x| f::median(&x[0].square()?));
    check_twice("nanmedian", &[&[5, 6]], &|x| f::nanmedian(&x[0].square()?));
}

#[test]
fn equal_medians_share_the_gradient() {
    let nan = f64::NAN;
    for (values, expected) in [
        ([1.0, 2.0, 2.0, 3.0, 2.0], [0.0, 1.0 / 3.0, 1.0 / 3.0, 0.0, 1.0 / 3.0]),
        ([1.0, nan, 2.0, 3.0, nan], [0.0, 0.5, 0.0, 0.0, 0.5]),
    ] {
        let x = Tensor::from_slice(&values, &[5]).unwrap().set_requires_grad(true);
        let gradients = f::median(&x).unwrap().backward().unwrap();
        assert_eq!(gradients.of(&x).unwrap().to_vec::<f64>().unwrap(), expected);
    }
}
