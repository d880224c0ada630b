use proptest::prelude::*;
use samebits::functional as f;
use samebits::numerics::math::f64 as math;
use samebits::{DType, Tensor};
use workspace_tests::normal_of;

use super::index::{flat, positions};
use super::{cases, has_dim, shape};

proptest! {
    #![proptest_config(cases(1))]

    #[test]
    fn scans_are_right_or_an_error(shape in shape(3), dim in 0usize..4, seed in 0u64..1000) {
        let x = normal_of(&shape, DType::F64, seed);
        let var = Tensor::from(x.clone());
        let found = [f::cumsum(&var, dim), f::cumprod(&var, dim), f::logcumsumexp(&var, dim)];
        let (largest, smallest) = (f::cummax(&var, dim), f::cummin(&var, dim));
        if !has_dim(&shape, dim) {
            prop_assert!(found.iter().all(Result::is_err));
            prop_assert!(largest.is_err() && smallest.is_err());
            return Ok(());
        }
        let (shape, x) = if shape.is_empty() { (vec![1], x.reshape(&[1]).unwrap()) } else { (shape, x) };
        let found = found.map(|y| y.unwrap().to_vec::<f64>().unwrap());
        let (largest, smallest) = (largest.unwrap(), smallest.unwrap());
        let x = x.to_vec::<f64>().unwrap();
        for at in positions(&shape) {
            let before: Vec<f64> = (0..=at[dim])
                .map(|i| {
                    let mut at = at.clone();
                    at[dim] = i;
                    x[flat(&shape, &at)]
                })
                .collect();
            let place = flat(&shape, &at);
            let sum: f64 = before.iter().sum();
            let product: f64 = before.iter().product();
            let log = math::log(before.iter().map(|&x| math::exp(x)).sum());
            for (found, expected) in found.iter().zip([sum, product, log]) {
                prop_assert!((found[place] - expected).abs() < 1e-12 * (1.0 + expected.abs()));
            }
            for ((values, indices), better) in [
                (&largest, f64::max as fn(f64, f64) -> f64),
                (&smallest, f64::min),
            ] {
                let best = before.iter().copied().reduce(better).unwrap();
                let first = before.iter().position(|&x| x == best).unwrap();
                prop_assert_eq!(values.to_vec::<f64>().unwrap()[place], best);
                prop_assert_eq!(indices.to_vec::<i64>().unwrap()[place], first as i64);
            }
        }
    }
}
