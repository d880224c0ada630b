//! Searches among sorted elements, and interpolation between two.

use std::cmp::Ordering;

use proptest::prelude::*;
use samebits::functional as f;
use samebits::{DType, Tensor};

use super::{cases, on_devices, special};

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

fn wide(x: &Tensor) -> Vec<f64> {
    f::to_dtype(x, DType::F64).unwrap().to_vec().unwrap()
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
        let (drawn, values) = (rounded(&sorted, dtype), rounded(&values, dtype));
        let mut sorted = drawn.clone();
        sorted.sort_by(order);
        let found = on_devices(|device| {
            let of = |x: &[f64]| tensor(x, dtype).to(device).unwrap();
            let (x, drawn, boundaries) = (of(&values), of(&drawn), of(&sorted));
            let (kept, _, counts) = f::unique(&drawn).unwrap();
            // A row of its own for each row of values.
            let rows = |x: &Tensor| f::unsqueeze(x, 0).unwrap().expand(&[2, x.numel()]).unwrap();
            let results = [
                f::isin(&x, &drawn).unwrap(),
                kept,
                counts,
                f::searchsorted(&boundaries, &x, right).unwrap(),
                f::bucketize(&x, &boundaries, right).unwrap(),
                f::searchsorted(&rows(&boundaries), &rows(&x), right).unwrap(),
            ];
            results.iter().map(wide).collect()
        });
        let [among, kept, counts, searched, bucketed, rows] = &found[..] else { unreachable!() };
        let numbers = |x: Vec<usize>| x.into_iter().map(|x| x as f64).collect::<Vec<f64>>();
        let expected = values.iter().map(|x| usize::from(drawn.contains(x))).collect();
        prop_assert_eq!(among, &numbers(expected));

        let mut runs: Vec<(f64, usize)> = Vec::new();
        for &x in &sorted {
            match runs.last_mut() {
                Some((last, count)) if *last == x => *count += 1,
                _ => runs.push((x, 1)),
            }
        }
        let alike = |(a, (b, _)): (&f64, &(f64, usize))| order(a, b).is_eq();
        prop_assert!(kept.len() == runs.len() && kept.iter().zip(&runs).all(alike));
        prop_assert_eq!(counts, &numbers(runs.iter().map(|&(_, count)| count).collect()));

        let expected = values.iter().map(|x| {
            let before = |e: &&f64| order(e, x).is_lt() || (right && order(e, x).is_eq());
            sorted.iter().filter(before).count()
        });
        let expected = numbers(expected.collect());
        prop_assert_eq!(searched, &expected);
        prop_assert_eq!(bucketed, &expected);
        prop_assert_eq!(rows, &[&expected[..], &expected].concat());
    }

    #[test]
    fn between_two_numbers(
        a in special(),
        b in special(),
        weight in prop_oneof![Just(0.0f32), Just(1.0), Just(0.5), Just(1e-30), 0.0f32..1.0],
    ) {
        let (a, b) = (a as f32, b as f32);
        let found = on_devices(|device| {
            let of = |x: f32| {
                let x = Tensor::from_slice(&[x], &[1]).unwrap().to(device).unwrap();
                x.set_requires_grad(true).unwrap()
            };
            let (start, end, w) = (of(a), of(b), of(weight));
            let y = f::lerp(&start, &end, &w).unwrap();
            let gradients = y.backward_from(of(1.0), false).unwrap();
            let gradients = [&start, &end, &w].map(|x| wide(gradients.of(x).unwrap()));
            [vec![wide(&y)], gradients.to_vec()].concat()
        });
        let [found, of_start, of_end, of_weight] = [0, 1, 2, 3].map(|i| found[i][0]);
        let found = found as f32;
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
        let w64 = f64::from(weight);
        prop_assert!((of_start - (1.0 - w64)).abs() < 1e-7);
        prop_assert!((of_end - w64).abs() < 1e-7);
        let way = if a == b { 0.0 } else { b - a };
        let found = of_weight as f32;
        prop_assert!(found == way || (found.is_nan() && way.is_nan()), "{} for {}", found, way);
    }

    #[test]
    fn quantiles_lie_between_two_elements(
        x in proptest::collection::vec(special(), 1..8),
        q in prop_oneof![Just(0.0), Just(0.5), Just(1.0), 0.0f64..1.0],
    ) {
        let x = rounded(&x, DType::F32);
        let y = on_devices(|device| {
            let x = tensor(&x, DType::F32).to(device).unwrap();
            vec![wide(&f::quantile(&x, q, 0, false).unwrap())]
        })[0][0] as f32;
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
