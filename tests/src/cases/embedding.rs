use samebits::ops::*;
use samebits::tensor_core::Tensor as Value;
use samebits::{DType, dispatch};

use super::{Cases, FLOATS, Make};

pub(super) fn add(cases: &mut Cases, make: Make) {
    for dtype in FLOATS {
        // Few places for the rows there are, and many.
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
        let params = BagParams { mode, include_last_offset, padding_idx };
        let count = 100;
        let mut starts: Vec<i64> = (0..count).map(|bag| (places * bag / 120) as i64).collect();
        // An empty bag.
        starts[5] = starts[4];
        let offsets = Value::from_slice(&starts, &[count]);
        let offsets = make.here(offsets.expect("as many offsets"));
        let forward = EmbeddingBag {
            weight: weight.clone(),
            index: index.clone(),
            offsets: offsets.clone(),
            per_sample_weights: weighted.then(|| weights.clone()),
            params: params.clone(),
        };
        let (y, max_rows) = dispatch(&forward).expect("a valid case");
        let max_rows = max_rows.map(|rows| make.here(rows));
        let name = format!("{dtype} {rows} {width} {places} {params:?}");
        cases.add(format!("embedding_bag {name}"), forward);
        let grad = make.normal(y.shape(), dtype, 265);
        if weighted {
            let (grad, weight) = (grad.clone(), weight.clone());
            let (index, offsets, params) = (index.clone(), offsets.clone(), params.clone());
            cases.add(
                format!("embedding_bag_weights {name}"),
                EmbeddingBagWeightsGrad { grad, weight, index, offsets, params },
            );
        }
        cases.add(
            format!("embedding_bag grad {name}"),
            EmbeddingBagGrad {
                grad,
                index: index.clone(),
                offsets,
                per_sample_weights: weighted.then(|| weights.clone()),
                max_rows,
                params,
                rows,
                scale_grad_by_freq: mode == BagMode::Mean,
            },
        );
    }
}
