//! Searches among sorted elements, and interpolation between two.

use std::cmp::Ordering;

use proptest::prelude::*;
use samebits::functional as f;
use samebits::{DType, Tensor};

use super::{cases, special};

/// Compares in the order of `sort`: NaN is greater than every number and equal to itself.
fn order(a: &f64, b: &f64) -> Ordering {
    a.partial_cmp(b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
}

fn tensor(values: &[f64], dtype: DType) -> Tensor {
    f::to_dtype(&Tensor::from_slice(values, &[values.len()]).unwrap(), dtype).unwrap()
}

/// Rounds values to the type.
fn rounded(values: &[f64], dtype: DType) -> Vec<f64> {
    values.iter().map(|&x| if dtype == DType::F32 { f64::from(x as f32) } else { x }).collect()
}

fn float() -> impl Strategy<Value = DType> {
    prop_oneof![Just(DType::F32), Just(DType::F64)]
}

/// Interpolates between two finite f32 numbers, in f64.
fn between(a: f32, b: f32, w: f32) -> f64 {
    let [a, b, w] = [a, b, w].map(f64::from);
    if a == b { a } else { (1.0 - w) * a + w * b }
}

/// Returns the limit: each infinite end counts in full for any nonzero weight.
fn limit(a: f32, b: f32, w: f32) -> f32 {
    let share = |w: f32, x: f32| if w == 0.0 { 0.0 } else { w * x };
    match a == b {
        _ if a.is_nan() || b.is_nan() => f32::NAN,
        true => a,
        false => share(1.0 - w, a) + share(w, b),
    }
}

proptest! {
    #![proptest_config(cases(3))]

    #[test]
    fn searches_find_what_counting_finds(
        sorted in proptest::collection::vec(special(), 0..12),
        values in proptest::collection::vec(special(), 1..12),
        right in any::<bool>(),
        dtype in float(),
    ) {
        let (mut sorted, values) = (rounded(&sorted, dtype), rounded(&values, dtype));
        let x = tensor(&values, dtype);
        let among = f::isin(&x, &tensor(&sorted, dtype)).unwrap().to_bools().unwrap();
        let expected: Vec<bool> = values.iter().map(|x| sorted.contains(x)).collect();
        prop_assert_eq!(among, expected);

        let (kept, _, counts) = f::unique(&tensor(&sorted, dtype)).unwrap();
        sorted.sort_by(order);
        let mut runs: Vec<(f64, i64)> = Vec::new();
        for &x in &sorted {
            match runs.last_mut() {
                Some((last, count)) if *last == x => *count += 1,
                _ => runs.push((x, 1)),
            }
        }
        let kept = f::to_dtype(&kept, DType::F64).unwrap().to_vec::<f64>().unwrap();
        let alike = |(a, (b, _)): (&f64, &(f64, i64))| order(a, b).is_eq();
        prop_assert!(kept.len() == runs.len() && kept.iter().zip(&runs).all(alike));
        let expected: Vec<i64> = runs.iter().map(|&(_, count)| count).collect();
        prop_assert_eq!(counts.to_vec::<i64>().unwrap(), expected);

        let expected: Vec<i64> = values
            .iter()
            .map(|x| {
                let before = |e: &&f64| order(e, x).is_lt() || (right && order(e, x).is_eq());
                sorted.iter().filter(before).count() as i64
            })
            .collect();
        let boundaries = tensor(&sorted, dtype);
        let found = f::searchsorted(&boundaries, &x, right).unwrap();
        prop_assert_eq!(found.to_vec::<i64>().unwrap(), &expected[..]);
        let found = f::bucketize(&x, &boundaries, right).unwrap();
        prop_assert_eq!(found.to_vec::<i64>().unwrap(), &expected[..]);
        // A separate row for each row of values.
        let rows = |x: &Tensor| f::unsqueeze(x, 0).unwrap().expand(&[2, x.numel()]).unwrap();
        let found = f::searchsorted(&rows(&boundaries), &rows(&x), right).unwrap();
        prop_assert_eq!(found.to_vec::<i64>().unwrap(), [&expected[..], &expected].concat());
    }

    #[test]
    fn between_two_numbers(
        a in special(),
        b in special(),
        weight in prop_oneof![Just(0.0f32), Just(1.0), Just(0.5), Just(1e-30), 0.0f32..1.0],
    ) {
        let (a, b) = (a as f32, b as f32);
        let of = |x: f32| Tensor::from_slice(&[x], &[1]).unwrap().set_requires_grad(true).unwrap();
        let (start, end, w) = (of(a), of(b), of(weight));
        let y = f::lerp(&start, &end, &w).unwrap();
        let found = y.to_vec::<f32>().unwrap()[0];
        if a.is_finite() && b.is_finite() {
            let expected = between(a, b, weight);
            let close = 4.0 * f64::from(f32::EPSILON) * f64::from(a.abs().max(b.abs())) + 1e-44;
            prop_assert!((f64::from(found) - expected).abs() <= close, "{} for {}", found, expected);
            if weight == 0.0 || weight == 1.0 {
                prop_assert_eq!(found, if weight == 0.0 { a } else { b });
            }
        } else {
            let expected = limit(a, b, weight);
            prop_assert!(found == expected || (found.is_nan() && expected.is_nan()), "{}", found);
        }
        let gradients = y.backward_from(of(1.0), false).unwrap();
        let slope = |x: &Tensor| f64::from(gradients.of(x).unwrap().to_vec::<f32>().unwrap()[0]);
        let w64 = f64::from(weight);
        prop_assert!((slope(&start) - (1.0 - w64)).abs() < 1e-7);
        prop_assert!((slope(&end) - w64).abs() < 1e-7);
        let way = if a == b { 0.0 } else { b - a };
        let found = slope(&w) as f32;
        prop_assert!(found == way || (found.is_nan() && way.is_nan()), "{} for {}", found, way);
    }

    #[test]
    fn quantiles_lie_between_two_elements(
        x in proptest::collection::vec(special(), 1..8),
        q in prop_oneof![Just(0.0), Just(0.5), Just(1.0), 0.0f64..1.0],
    ) {
        let x = rounded(&x, DType::F32);
        let y = f::quantile(&tensor(&x, DType::F32), q, 0, false).unwrap().item::<f32>().unwrap();
        let mut sorted = x.clone();
        sorted.sort_by(order);
        if sorted.iter().any(|x| x.is_nan()) {
            prop_assert!(y.is_nan());
            return Ok(());
        }
        let place = q * (sorted.len() - 1) as f64;
        let low = place as usize;
        let (a, weight) = (sorted[low] as f32, (place - low as f64) as f32);
        let b = sorted[(low + 1).min(sorted.len() - 1)] as f32;
        let opposite = a.is_infinite() && b.is_infinite() && a != b && weight > 0.0 && weight < 1.0;
        prop_assert!(if opposite { y.is_nan() } else { (a..=b).contains(&y) }, "{} of {:?}", y, sorted);
    }
}
