use samebits::functional as f;
use samebits::ops::PoolParams;
use workspace_tests::normal_of;

use super::{Batches, Make};

pub(super) fn add(batches: &mut Batches, make: Make) {
    for shape in [vec![5, 3, 301], vec![5, 4, 33, 41], vec![3, 3, 11, 12, 13]] {
        let dims = shape.len() - 2;
        let x = make.each(&shape, 80);
        let name = |op: &str| make.name(&format!("{op} {dims}d"));
        let dilated = PoolParams {
            kernel: vec![3; dims],
            padding: vec![1; dims],
            dilation: vec![2; dims],
            ..PoolParams::square(dims, 2)
        };
        batches.add(name("max_pool"), [x.clone()], move |x| {
            let (y, indices) = f::max_pool(&x[0], &dilated)?;
            Ok(vec![y, indices])
        });
        let square = PoolParams::square(dims, 2);
        let (avg, lp, unpool) = (square.clone(), square.clone(), square);
        batches.one(name("avg_pool"), x.clone(), move |x| f::avg_pool(x, &avg, true, None));
        batches.one(name("lp_pool"), x.clone(), move |x| f::lp_pool(x, 2.0, &lp));
        batches.one(name("max_unpool"), x.clone(), move |x| {
            let (y, indices) = f::max_pool(x, &unpool)?;
            f::max_unpool(&y, &indices, &unpool, Some(&x.shape()[2..]))
        });
        let size = [7, 50, 5][..dims].to_vec();
        let adaptive = size.clone();
        batches
            .one(name("adaptive_avg_pool"), x.clone(), move |x| f::adaptive_avg_pool(x, &adaptive));
        batches.add(name("adaptive_max_pool"), [x.clone()], move |x| {
            let (y, indices) = f::adaptive_max_pool(&x[0], &size)?;
            Ok(vec![y, indices])
        });
        if dims > 1 {
            let samples = super::Input(
                samebits::Tensor::from(normal_of(&[shape[0], shape[1], dims], make.0, 81))
                    .sigmoid()
                    .unwrap()
                    .value()
                    .clone(),
                Some(0),
            );
            batches.add(name("fractional_max_pool"), [x, samples], move |x| {
                let (kernel, size) = (vec![2; dims], vec![5; dims]);
                let (y, indices) = f::fractional_max_pool(&x[0], &kernel, &size, &x[1])?;
                Ok(vec![y, indices])
            });
        }
    }
}
