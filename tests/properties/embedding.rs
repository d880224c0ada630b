use proptest::prelude::*;
use samebits::functional::{self as f, BagOptions};
use samebits::ops::BagMode;
use samebits::tensor_core::Tensor as Value;
use samebits::{DType, Tensor};
use workspace_tests::{indices, normal_of};

use super::cases;

proptest! {
    #![proptest_config(cases(1))]

    #[test]
    fn bags_are_right_or_an_error(
        rows in 0usize..6,
        width in 0usize..4,
        places in 0usize..12,
        offsets in proptest::collection::vec(-1i64..14, 0..5),
        sorted in prop_oneof![5 => Just(true), 1 => Just(false)],
        mode in prop_oneof![Just(BagMode::Sum), Just(BagMode::Mean), Just(BagMode::Max)],
        include_last_offset in any::<bool>(),
        padding_idx in proptest::option::of(0usize..7),
        weighted in any::<bool>(),
    ) {
        let mut offsets = offsets;
        if sorted {
            offsets.sort_unstable();
            offsets.iter_mut().for_each(|offset| *offset = (*offset).clamp(0, places as i64));
            if let Some(first) = offsets.first_mut() {
                *first = 0;
            }
        }
        let weight = normal_of(&[rows, width], DType::F64, 1);
        let index = indices(places, rows.max(1) as i64, 2);
        let factors = normal_of(&[places], DType::F64, 3);
        let starts = Value::from_slice(&offsets, &[offsets.len()]).unwrap();
        let scale_grad_by_freq = false;
        let options =
            BagOptions { mode, include_last_offset, padding_idx, scale_grad_by_freq };
        let table = Tensor::from(weight.clone()).set_requires_grad(true).unwrap();
        let psw = weighted.then(|| Tensor::from(factors.clone()).set_requires_grad(true).unwrap());
        let found = f::embedding_bag(&table, &Tensor::from(&index), Some(&Tensor::from(&starts)), psw.as_ref(), options);
        let ascending = offsets.windows(2).all(|pair| pair[0] <= pair[1]);
        let last = offsets.last().copied().unwrap_or(0);
        // Positions after the last bag are not read.
        let bagged = if include_last_offset { last } else { places as i64 };
        let valid = (rows > 0 || bagged == 0)
            && ascending
            && offsets.first().is_none_or(|&first| first == 0)
            && last <= places as i64
            && (!include_last_offset || !offsets.is_empty())
            && padding_idx.is_none_or(|row| row < rows)
            && (!weighted || mode == BagMode::Sum);
        if !valid {
            prop_assert!(found.is_err());
            return Ok(());
        }
        let found = found.unwrap();
        if !include_last_offset {
            offsets.push(places as i64);
        }
        prop_assert_eq!(found.shape(), &[offsets.len() - 1, width]);
        let (data, index) = (weight.to_vec::<f64>().unwrap(), index.to_vec::<i64>().unwrap());
        let factors = factors.to_vec::<f64>().unwrap();
        let y = found.to_vec::<f64>().unwrap();
        for (bag, ends) in offsets.windows(2).enumerate() {
            let held: Vec<usize> = (ends[0] as usize..ends[1] as usize)
                .filter(|&place| Some(index[place] as usize) != padding_idx)
                .collect();
            for j in 0..width {
                let value = |&place: &usize| data[index[place] as usize * width + j];
                let sum = |factor: &dyn Fn(usize) -> f64| {
                    held.iter().fold(0.0, |sum, place| sum + factor(*place) * value(place))
                };
                let expected = match mode {
                    _ if held.is_empty() => 0.0,
                    BagMode::Sum if weighted => sum(&|place| factors[place]),
                    BagMode::Sum => sum(&|_| 1.0),
                    BagMode::Mean => sum(&|_| 1.0) / held.len() as f64,
                    BagMode::Max => held.iter().map(value).fold(f64::NEG_INFINITY, f64::max),
                };
                prop_assert_eq!(y[bag * width + j], expected);
            }
        }
        // The gradient exists with the table's shape, even if nothing is read.
        let gradients = found.sum_all().unwrap().backward().unwrap();
        prop_assert_eq!(gradients.of(&table).unwrap().shape(), &[rows, width]);
    }
}
