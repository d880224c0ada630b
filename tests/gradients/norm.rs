use samebits::functional as f;
use samebits::{DType, Var};
use workspace_tests::normal_of;

use super::check_twice;

#[test]
fn with_their_own_statistics() {
    check_twice("batch_norm", &[&[3, 2, 4], &[2], &[2]], &|x| {
        Ok(f::batch_norm(&x[0], Some(&x[1]), Some(&x[2]), 1e-3)?.0)
    });
    check_twice("batch_norm 2d", &[&[4, 3]], &|x| Ok(f::batch_norm(&x[0], None, None, 1e-3)?.0));
    check_twice("layer_norm", &[&[3, 2, 4], &[2, 4], &[2, 4]], &|x| {
        f::layer_norm(&x[0], &[2, 4], Some(&x[1]), Some(&x[2]), 1e-3)
    });
    check_twice("layer_norm", &[&[3, 4]], &|x| f::layer_norm(&x[0], &[4], None, None, 1e-3));
    check_twice("group_norm", &[&[2, 4, 3], &[4], &[4]], &|x| {
        f::group_norm(&x[0], 2, Some(&x[1]), Some(&x[2]), 1e-3)
    });
    check_twice("instance_norm", &[&[2, 2, 2, 3], &[2], &[2]], &|x| {
        Ok(f::instance_norm(&x[0], Some(&x[1]), Some(&x[2]), 1e-3)?.0)
    });
}

#[test]
fn with_given_statistics() {
    let mean = normal_of(&[2], DType::F64, 1);
    let var = Var::constant(normal_of(&[2], DType::F64, 2)).square().unwrap();
    check_twice("batch_norm_inference", &[&[3, 2, 4], &[2], &[2]], &|x| {
        let (weight, bias) = (Some(&x[1]), Some(&x[2]));
        f::batch_norm_inference(&x[0], weight, bias, &mean, var.value(), 1e-3)
    });
}
