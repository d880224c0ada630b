use samebits::functional::{self as f, EmbeddingBagOptions};
use samebits::ops::BagMode;

use super::{Batches, Make};

pub(super) fn add(batches: &mut Batches, make: Make) {
    let (table, index) = (make.shared(&[50, 33], 30), make.indices(&[7, 9], 50, 31));
    batches.add(make.name("embedding"), [table.clone(), index.clone()], |x| {
        Ok(vec![f::embedding(&x[0], &x[1])?])
    });
    for mode in [BagMode::Sum, BagMode::Mean, BagMode::Max] {
        let name = make.name(&format!("embedding_bag {mode:?}"));
        batches.add(name, [table.clone(), index.clone()], move |x| {
            let options = EmbeddingBagOptions { mode, ..Default::default() };
            Ok(vec![f::embedding_bag(&x[0], &x[1], None, None, options)?])
        });
    }
    let inputs = [table, index, make.each(&[7, 9], 32)];
    batches.add(make.name("embedding_bag weighted"), inputs, |x| {
        let options = EmbeddingBagOptions { mode: BagMode::Sum, ..Default::default() };
        Ok(vec![f::embedding_bag(&x[0], &x[1], None, Some(&x[2]), options)?])
    });
}
