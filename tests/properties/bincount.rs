use num_bigint::BigInt;
use proptest::prelude::*;
use samebits::DType;
use samebits::Tensor;
use samebits::functional as f;
use samebits::tensor_core::Tensor as Value;
use workspace_tests::normal_of;

use super::{cases, on_devices, special};

/// Counts the elements in bins, without rounding.
fn counted(x: &[f64], bins: usize, min: f64, max: f64) -> Vec<f64> {
    let mut counts = vec![0.0; bins];
    for &x in x.iter().filter(|&&x| min <= x && x <= max) {
        let [x, low, high] = [x, min, max].map(integer);
        let bin: BigInt = (x - &low) * bins / (high - low);
        counts[usize::try_from(bin).unwrap().min(bins - 1)] += 1.0;
    }
    counts
}

/// Returns `x / 2^-1074`.
fn integer(x: f64) -> BigInt {
    let (exponent, fraction) = (x.abs().to_bits() >> 52, x.to_bits() & ((1 << 52) - 1));
    let size = BigInt::from(fraction | u64::from(exponent > 0) << 52) << exponent.saturating_sub(1);
    if x < 0.0 { -size } else { size }
}

proptest! {
    #![proptest_config(cases(3))]

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
            prop_assert_eq!(found, counted(&x, bins, min, max));
        }
    }

    /// Elements on and next to the edges of bins.
    #[test]
    fn edges_are_exact(
        limits in [special(), special()],
        bins in prop_oneof![4 => 1usize..12, 1 => 90usize..110],
        more in proptest::collection::vec(special(), 0..9),
        dtype in prop_oneof![Just(DType::F32), Just(DType::F64)],
    ) {
        let held = |x: f64| if dtype == DType::F32 { f64::from(x as f32) } else { x };
        let [min, max] = [held(limits[0].min(limits[1])), held(limits[0].max(limits[1]))];
        if !(min.is_finite() && max.is_finite() && min < max) {
            return Ok(());
        }
        let near = (0..=bins).flat_map(|k| {
            let share = k as f64 / bins as f64;
            let x = min * (1.0 - share) + max * share;
            let next = |x: f64, up: bool| match (dtype, up) {
                (DType::F32, true) => f64::from((x as f32).next_up()),
                (DType::F32, false) => f64::from((x as f32).next_down()),
                (_, true) => x.next_up(),
                (_, false) => x.next_down(),
            };
            [next(x, false), x, next(x, true)]
        });
        let x: Vec<f64> = near.chain(more).map(held).collect();
        let found = on_devices(|device| {
            let tensor = Tensor::from_slice(&x, &[x.len()]).unwrap().to(device).unwrap();
            let found = f::histc(&f::to_dtype(&tensor, dtype).unwrap(), bins, min, max).unwrap();
            vec![f::to_dtype(&found, DType::F64).unwrap().to_vec::<f64>().unwrap()]
        });
        prop_assert_eq!(&found[0], &counted(&x, bins, min, max));
    }
}
