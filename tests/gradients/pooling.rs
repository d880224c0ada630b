use samebits::functional as f;
use samebits::ops::PoolParams;

use super::{check, check_twice};

#[test]
fn pooling() {
    let params = PoolParams {
        kernel: vec![3, 2],
        stride: vec![2, 1],
        padding: vec![1, 0],
        dilation: vec![1, 1],
        ceil_mode: true,
    };
    check("max_pool", &[&[2, 2, 6, 5]], &|x| Ok(f::max_pool(&x[0], &params)?.0));
    for include in [true, false] {
        check_twice("avg_pool", &[&[2, 2, 6, 5]], &|x| f::avg_pool(&x[0], &params, include, None));
    }
}
