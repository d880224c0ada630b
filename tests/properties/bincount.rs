use proptest::prelude::*;
use samebits::DType;
use samebits::Tensor;
use samebits::functional as f;
use samebits::tensor_core::Tensor as Value;
use workspace_tests::normal_of;

use super::cases;

proptest! {
    #![proptest_config(cases(2))]

    #[test]
    fn counts_are_right_or_an_error(
        values in proptest::collection::vec(
            prop_oneof![40 => 0i64..30, 1 => -2i64..0, 1 => Just(i64::MAX)],
            0..40,
        ),
        minlength in prop_oneof![20 => 0usize..50, 1 => Just(usize::MAX)],
        weighted in any::<bool>(),
    ) {
        let n = values.len();
        let x = Value::from_slice(&values, &[n]).unwrap();
        let weights = normal_of(&[n], DType::F64, 1);
        let found = f::bincount(&Tensor::from(&x), weighted.then_some(&Tensor::from(&weights)), minlength);
        let valid = values.iter().all(|&x| (0..30).contains(&x)) && minlength < 50;
        if !valid {
            prop_assert!(found.is_err());
            return Ok(());
        }
        let bins = values.iter().map(|&x| x as usize + 1).max().unwrap_or(0).max(minlength);
        let mut counts = vec![0.0; bins];
        for (&x, weight) in values.iter().zip(weights.to_vec::<f64>().unwrap()) {
            counts[x as usize] += if weighted { weight } else { 1.0 };
        }
        let found = found.unwrap();
        if weighted {
            prop_assert_eq!(found.to_vec::<f64>().unwrap(), counts);
        } else {
            let counts: Vec<i64> = counts.into_iter().map(|count| count as i64).collect();
            prop_assert_eq!(found.to_vec::<i64>().unwrap(), counts);
        }
    }

    #[test]
    fn histograms_are_right_or_an_error(
        n in 0usize..60,
        bins in prop_oneof![20 => 0usize..9, 1 => Just(usize::MAX)],
        min in prop_oneof![10 => -2.0f64..2.0, 1 => Just(f64::NAN), 1 => Just(0.0)],
        max in prop_oneof![10 => -2.0f64..2.0, 1 => Just(f64::INFINITY), 1 => Just(0.0)],
    ) {
        let x = normal_of(&[n], DType::F64, 2);
        let found = f::histc(&Tensor::from(&x), bins, min, max);
        let equal = min == max;
        if bins == 0 || bins > 9 || !(min <= max && max.is_finite()) {
            prop_assert!(found.is_err());
            return Ok(());
        }
        let found = found.unwrap().to_vec::<f64>().unwrap();
        prop_assert_eq!(found.len(), bins);
        let x = x.to_vec::<f64>().unwrap();
        let inside = x.iter().filter(|&&x| equal || (min <= x && x <= max)).count();
        prop_assert_eq!(found.iter().sum::<f64>(), inside as f64);
        if !equal {
            let width = (max - min) / bins as f64;
            for (bin, &count) in found.iter().enumerate() {
                let (low, high) = (min + width * bin as f64, min + width * (bin + 1) as f64);
                // Elements next to an edge may be rounded to either side.
                let sure = x.iter().filter(|&&x| low + 1e-9 < x && x < high - 1e-9).count();
                let most = x.iter().filter(|&&x| low - 1e-9 < x && x < high + 1e-9).count();
                prop_assert!((sure as f64..=most as f64).contains(&count));
            }
        }
    }
}
