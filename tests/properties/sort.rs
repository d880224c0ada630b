use proptest::prelude::*;
use samebits::functional as f;
use samebits::tensor_core::Tensor as Value;
use samebits::{DType, Tensor};
use workspace_tests::normal_of;

use super::{cases, shape};

proptest! {
    #![proptest_config(cases(3))]

    #[test]
    fn orders_are_right_or_an_error(
        shape in shape(3),
        dim in 0usize..4,
        k in 0usize..7,
        downwards in any::<bool>(),
        seed in 0u64..1000,
    ) {
        // Few distinct values, so that many are equal; some are NaN.
        let coarse = |x: &f64| if *x > 1.5 { f64::NAN } else { x.round() };
        let values: Vec<f64> =
            normal_of(&shape, DType::F64, seed).to_vec::<f64>().unwrap().iter().map(coarse).collect();
        let x = Tensor::from_slice(&values, &shape).unwrap();
        let sorted = f::sort(&x, dim, downwards);
        let top = f::topk(&x, k, dim, downwards);
        let kth = f::kthvalue(&x, k, dim, true);
        let median = f::median_dim(&x, dim, true);
        if shape.is_empty() && dim == 0 {
            prop_assert!(sorted.is_ok() && median.is_ok());
            prop_assert!(top.is_ok() == (k == 1) && kth.is_ok() == (k == 1));
            return Ok(());
        }
        let Some(&size) = shape.get(dim) else {
            prop_assert!(sorted.is_err() && top.is_err() && kth.is_err() && median.is_err());
            return Ok(());
        };
        prop_assert_eq!(top.is_ok(), k <= size);
        prop_assert_eq!(kth.is_ok(), (1..=size).contains(&k));
        prop_assert_eq!(median.is_ok(), size > 0);
        let (sorted, order) = sorted.unwrap();
        let line = |x: &Value, i: usize| {
            let last: Vec<usize> = (0..shape.len()).filter(|&d| d != dim).chain([dim]).collect();
            let x = x.permute(&last).unwrap().contiguous().unwrap();
            let size = x.shape()[shape.len() - 1];
            let x = x.reshape(&[x.numel()]).unwrap();
            x.narrow(0, i * size, size).unwrap().contiguous().unwrap()
        };
        for i in 0..values.len().checked_div(size).unwrap_or(0) {
            let data = line(x.value(), i).to_vec::<f64>().unwrap();
            let mut expected: Vec<usize> = (0..size).collect();
            let key = |&i: &usize| if data[i].is_nan() { f64::INFINITY } else { data[i] };
            expected.sort_by(|a, b| {
                let order = key(a).partial_cmp(&key(b)).unwrap();
                if downwards { order.reverse() } else { order }
            });
            let order = line(order.value(), i).to_vec::<i64>().unwrap();
            prop_assert!(order.iter().zip(&expected).all(|(&a, &b)| a == b as i64));
            let sorted = line(sorted.value(), i).to_vec::<f64>().unwrap();
            prop_assert!(sorted.iter().zip(&expected).all(|(&x, &i)| same(x, data[i])));
            if let Ok((values, indices)) = &top {
                let indices = line(indices.value(), i).to_vec::<i64>().unwrap();
                prop_assert_eq!(&indices[..], &order[..k]);
                let values = line(values.value(), i).to_vec::<f64>().unwrap();
                prop_assert!(values.iter().zip(&sorted).all(|(&a, &b)| same(a, b)));
            }
            let mut upwards: Vec<usize> = (0..size).collect();
            upwards.sort_by(|a, b| key(a).partial_cmp(&key(b)).unwrap());
            if let Ok((_, indices)) = &kth {
                let index = line(indices.value(), i).item::<i64>().unwrap();
                prop_assert_eq!(index, upwards[k - 1] as i64);
            }
            if let Ok((values, indices)) = &median {
                let nan = data.iter().position(|x| x.is_nan());
                let expected = nan.unwrap_or_else(|| upwards[(size - 1) / 2]);
                prop_assert_eq!(line(indices.value(), i).item::<i64>().unwrap(), expected as i64);
                let value = line(values.value(), i).item::<f64>().unwrap();
                prop_assert!(same(value, data[expected]));
            }
        }
    }

    #[test]
    fn distinct_elements_are_right(values in proptest::collection::vec(-4i64..4, 0..40)) {
        let x = Value::from_slice(&values, &[values.len()]).unwrap();
        let mut sorted = values.clone();
        sorted.sort_unstable();
        sorted.dedup();
        let mut runs = values.clone();
        runs.dedup();
        for (found, expected) in [
            (f::unique(&Tensor::from(&x)).unwrap(), sorted),
            (f::unique_consecutive(&Tensor::from(&x)).unwrap(), runs),
        ] {
            let (distinct, inverse, counts) = found;
            let distinct = distinct.to_vec::<i64>().unwrap();
            prop_assert_eq!(&distinct, &expected);
            let inverse = inverse.to_vec::<i64>().unwrap();
            let restored: Vec<i64> = inverse.iter().map(|&i| distinct[i as usize]).collect();
            prop_assert_eq!(&restored, &values);
            let counted: Vec<i64> = (0..distinct.len())
                .map(|place| inverse.iter().filter(|&&i| i == place as i64).count() as i64)
                .collect();
            prop_assert_eq!(counts.to_vec::<i64>().unwrap(), counted);
        }
    }

    #[test]
    fn distinct_slices_are_right_or_an_error(
        shape in shape(3),
        dim in 0usize..4,
        consecutive in any::<bool>(),
        seed in 0u64..1000,
    ) {
        // Few distinct values, so that slices repeat; some are NaN.
        let coarse = |x: &f64| if *x > 1.5 { f64::NAN } else { x.round().clamp(-1.0, 0.0) };
        let data: Vec<f64> =
            normal_of(&shape, DType::F64, seed).to_vec::<f64>().unwrap().iter().map(coarse).collect();
        let x = Value::from_slice(&data, &shape).unwrap();
        let found = if consecutive { f::unique_consecutive_dim(&Tensor::from(&x), dim) } else { f::unique_dim(&Tensor::from(&x), dim) };
        let others_empty = shape.iter().enumerate().any(|(d, &size)| d != dim && size == 0);
        prop_assert_eq!(found.is_ok(), dim < shape.len() && !others_empty, "{:?}", found);
        let Ok((distinct, inverse, counts)) = found else { return Ok(()) };
        let slice = |x: &Value, i: usize| x.select(dim, i).unwrap().to_vec::<f64>().unwrap();
        let equal = |a: &[f64], b: &[f64]| a == b;
        let (n, kept) = (shape[dim], distinct.shape()[dim]);
        let inverse = inverse.to_vec::<i64>().unwrap();
        prop_assert_eq!((inverse.len(), counts.shape()), (n, &[kept][..]));
        for (i, &place) in inverse.iter().enumerate() {
            let (from, to) = (slice(&x, i), slice(distinct.value(), place as usize));
            prop_assert!(from.iter().zip(&to).all(|(&a, &b)| same(a, b)));
        }
        let key = |x: &f64| if x.is_nan() { f64::INFINITY } else { *x };
        for place in 1..kept {
            let (a, b) = (slice(distinct.value(), place - 1), slice(distinct.value(), place));
            prop_assert!(!equal(&a, &b));
            if !consecutive {
                let order = a.iter().map(key).partial_cmp(b.iter().map(key)).unwrap();
                prop_assert!(order.is_le());
            }
        }
        if consecutive {
            prop_assert!(inverse.is_sorted());
        }
        let counted: Vec<i64> = (0..kept)
            .map(|place| inverse.iter().filter(|&&i| i == place as i64).count() as i64)
            .collect();
        prop_assert_eq!(counts.to_vec::<i64>().unwrap(), counted);
    }
}

fn same(a: f64, b: f64) -> bool {
    a == b || (a.is_nan() && b.is_nan())
}
