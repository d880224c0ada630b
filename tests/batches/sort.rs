use samebits::functional as f;

use super::{Batches, Make};

pub(super) fn add(batches: &mut Batches, make: Make) {
    for shape in [vec![3, 70_003], vec![50, 300], vec![9, 60, 7]] {
        let x = || [make.each(&shape, 140)];
        let name = |op: &str| make.name(&format!("{op} {shape:?}"));
        for downwards in [false, true] {
            batches.add(name(&format!("sort, topk {downwards}")), x(), move |x| {
                let (sorted, order) = f::sort(&x[0], 1, downwards)?;
                let (top, places) = f::topk(&x[0], 17, 1, downwards)?;
                let order_again = f::argsort(&x[0], 1, downwards)?;
                Ok(vec![sorted, order, top, places, order_again])
            });
        }
        batches.add(name("kthvalue, median, nanmedian"), x(), |x| {
            let (kth, place) = f::kthvalue(&x[0], 20, 1, true)?;
            let (median, middle) = f::median_dim(&x[0], 1, true)?;
            let (other, _) = f::nanmedian_dim(&x[0], 1, true)?;
            Ok(vec![kth, place, median, middle, other])
        });
    }
}
