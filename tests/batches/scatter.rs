use samebits::Tensor;
use samebits::functional as f;
use samebits::ops::ScatterReduceKind::{Amax, Amin, Mean, Prod, Sum};
use workspace_tests::indices;

use super::{Batches, Make};

pub(super) fn add(batches: &mut Batches, make: Make) {
    for (shape, part) in [(vec![5, 30, 7], vec![5, 700, 7]), (vec![6, 1000], vec![6, 9000])] {
        let inputs = || {
            let index = make.indices(&part, shape[1] as i64, 130);
            [make.each(&shape, 131), index, make.each(&part, 132)]
        };
        batches.add(make.name(&format!("scatter_add {shape:?}")), inputs(), |x| {
            Ok(vec![f::scatter_add(&x[0], 1, &x[1], &x[2])?])
        });
        let slices = indices(part[1], shape[1] as i64, 133);
        for kind in [Sum, Mean, Prod, Amax, Amin] {
            for include_self in [false, true] {
                let name = make.name(&format!("{kind:?} {include_self} {shape:?}"));
                batches.add(format!("scatter_reduce {name}"), inputs(), move |x| {
                    let (index, source) = (&x[1], &x[2]);
                    Ok(vec![f::scatter_reduce(&x[0], 1, index, source, kind, include_self)?])
                });
                let slices = slices.clone();
                batches.add(format!("index_reduce {name}"), inputs(), move |x| {
                    Ok(vec![f::index_reduce(
                        &x[0],
                        1,
                        &Tensor::from(&slices),
                        &x[2],
                        kind,
                        include_self,
                    )?])
                });
            }
        }
    }
}
