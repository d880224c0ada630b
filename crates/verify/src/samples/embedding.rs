use std::sync::Arc;

use samebits::functional::{self as f, BagOptions};
use samebits::ops::*;
use samebits::tensor_core::Tensor as Value;
use samebits::tensor_core::geometry::BagBounds;
use samebits::{DType, Tensor, dispatch};

use super::sample::{Samples, each, given, indices, normal};
use super::{Cases, FLOATS, Make};

pub(super) fn add(cases: &mut Cases, make: Make) {
    for dtype in FLOATS {
        // Few and many places, compared with the number of rows.
        for (rows, width, places) in [(3000, 33, 700), (40, 16, 20_000), (1, 1, 300_000)] {
            table(cases, make, dtype, rows, width, places);
        }
        for (rows, width, places) in [(3000, 33, 700), (40, 16, 20_000)] {
            bags(cases, make, dtype, rows, width, places);
        }
    }
}

fn table(cases: &mut Cases, make: Make, dtype: DType, rows: usize, width: usize, places: usize) {
    let index = make.indices(places, rows as i64, 260);
    for (padding_idx, scale_grad_by_freq) in [(None, false), (Some(rows / 2), true)] {
        let grad = make.normal(&[places, width], dtype, 261);
        let index = index.clone();
        cases.add(
            format!("embedding grad {dtype} {rows} {width} {places} {padding_idx:?}"),
            EmbeddingGrad { grad, index, rows, padding_idx, scale_grad_by_freq },
        );
    }
}

fn bags(cases: &mut Cases, make: Make, dtype: DType, rows: usize, width: usize, places: usize) {
    let index = make.indices(places, rows as i64, 262);
    let weight = make.wild(&[rows, width], dtype, 263);
    let weights = make.normal(&[places], dtype, 264);
    for (mode, include_last_offset, padding_idx, weighted) in [
        (BagMode::Sum, false, None, false),
        (BagMode::Sum, true, Some(1), true),
        (BagMode::Mean, true, Some(3), false),
        (BagMode::Max, false, Some(2), false),
    ] {
        let params = BagParams { mode, padding_idx };
        let count = 100;
        let mut starts: Vec<i64> = (0..count).map(|bag| (places * bag / 120) as i64).collect();
        // An empty bag.
        starts[5] = starts[4];
        let bags = BagBounds::new("embedding_bag", places, &starts, include_last_offset);
        let bags = Arc::new(bags.expect("ascending offsets"));
        let forward = EmbeddingBag {
            weight: weight.clone(),
            index: index.clone(),
            bags: bags.clone(),
            per_sample_weights: weighted.then(|| weights.clone()),
            params: params.clone(),
        };
        let (y, max_rows) = dispatch(&forward).expect("a valid case");
        let max_rows = max_rows.map(|rows| make.here(rows));
        let name = format!(
            "{dtype} {rows} {width} {places} {mode:?} {padding_idx:?} {include_last_offset}"
        );
        cases.add(format!("embedding_bag {name}"), forward);
        let grad = make.normal(y.shape(), dtype, 265);
        if weighted {
            let (grad, weight) = (grad.clone(), weight.clone());
            let (index, bags, params) = (index.clone(), bags.clone(), params.clone());
            cases.add(
                format!("embedding_bag_weights {name}"),
                EmbeddingBagWeightsGrad { grad, weight, index, bags, params },
            );
        }
        cases.add(
            format!("embedding_bag grad {name}"),
            EmbeddingBagGrad {
                grad,
                index: index.clone(),
                bags,
                per_sample_weights: weighted.then(|| weights.clone()),
                max_rows,
                params,
                rows,
                scale_grad_by_freq: mode == BagMode::Mean,
            },
        );
    }
}

/// PyTorch has no second derivative here either.
const BAGS_ONCE: &str = "the gradient of bags is not differentiable";

pub(super) fn samples(samples: &mut Samples) {
    for op in ["embedding", "embedding_bag"] {
        samples.no_batch(op, "the gradient of a table adds up all places");
    }
    samples
        .add("embedding", |x| f::embedding(&x[0], &x[1]))
        .batch([normal(&[50, 33]), indices(&[7, 9], 50).along(0)])
        .twice([normal(&[5, 3]).squared(), indices(&[3, 4], 5)])
        .twice([normal(&[4, 3]).squared(), indices(&[3, 3], 4)]);
    samples
        .add("embedding with padding", |x| {
            // The padding row has no derivative, so it is replaced by a constant.
            let rows = Tensor::from_slice(&[2i64], &[1])?.to(x[0].device())?;
            let weight = f::index_copy(&x[0], 0, &rows, &x[2])?;
            f::embedding_with(&weight, &x[1], Some(2), false)
        })
        .twice([normal(&[5, 3]).squared(), indices(&[3, 4], 5), normal(&[1, 3]).constant()]);
    let table = || normal(&[50, 33]);
    let rows = || indices(&[7, 9], 50).along(0);
    for mode in [BagMode::Sum, BagMode::Mean, BagMode::Max] {
        for padding_idx in [None, Some(1)] {
            for include_last_offset in [false, true] {
                let options =
                    BagOptions { mode, padding_idx, include_last_offset, ..BagOptions::default() };
                bags_with(samples, options);
            }
        }
        let options = BagOptions { mode, ..BagOptions::default() };
        samples
            .add(format!("embedding_bag {mode:?}"), move |x| {
                f::embedding_bag(&x[0], &x[1], None, None, options)
            })
            .batch([table(), rows()]);
    }
    samples
        .add("embedding_bag weighted", |x| {
            let options = BagOptions { mode: BagMode::Sum, ..Default::default() };
            f::embedding_bag(&x[0], &x[1], None, Some(&x[2]), options)
        })
        .batch([table(), rows(), each(&[7, 9])]);
}

/// Adds bags given by offsets and by rows.
fn bags_with(samples: &mut Samples, options: BagOptions) {
    let name = format!("embedding_bag {options:?}");
    let offsets = || given(Value::from_slice(&[0i64, 3, 3, 9], &[4]));
    let (index, square) = (|| indices(&[14], 6), || indices(&[2, 7], 6));
    let table = || normal(&[6, 3]);
    samples
        .add(name.clone(), move |x| f::embedding_bag(&x[0], &x[1], Some(&x[2]), None, options))
        .once(BAGS_ONCE, [table(), index(), offsets()]);
    samples
        .add(format!("{name}, rows"), move |x| f::embedding_bag(&x[0], &x[1], None, None, options))
        .once(BAGS_ONCE, [table(), square()]);
    if options.mode == BagMode::Sum {
        samples
            .add(format!("{name}, weighted"), move |x| {
                f::embedding_bag(&x[0], &x[1], Some(&x[3]), Some(&x[2]), options)
            })
            .once(BAGS_ONCE, [table(), index(), normal(&[14]), offsets()]);
        samples
            .add(format!("{name}, weighted rows"), move |x| {
                f::embedding_bag(&x[0], &x[1], None, Some(&x[2]), options)
            })
            .once(BAGS_ONCE, [table(), square(), normal(&[2, 7])]);
    }
}
