use proptest::prelude::*;
use samebits::functional as f;
use samebits::numerics::math::f64 as math;
use samebits::tensor_core::Tensor as Value;
use samebits::{DType, Tensor};
use workspace_tests::normal_of;

use super::{cases, shape};

proptest! {
    #![proptest_config(cases(2))]

    #[test]
    fn reductions_are_right_or_an_error(
        shape in shape(3),
        dims in proptest::collection::btree_set(0usize..4, 0..4),
        keepdim in any::<bool>(),
        p in prop_oneof![
            Just(0.0), Just(1.0), Just(2.0), Just(3.0), Just(f64::INFINITY), Just(f64::NAN)
        ],
        correction in 0usize..3,
    ) {
        let dims: Vec<usize> = dims.into_iter().collect();
        let x = normal_of(&shape, DType::F64, 1);
        let var = Tensor::from(x.clone());
        let correction = correction as f64;
        let results = [
            f::prod(&var, &dims, keepdim),
            f::var(&var, &dims, correction, keepdim),
            f::std(&var, &dims, correction, keepdim),
            f::logsumexp(&var, &dims, keepdim),
        ];
        let others = [
            f::norm(&var, p, &dims, keepdim),
            f::amax(&var, &dims, keepdim),
            f::amin(&var, &dims, keepdim),
        ];
        let truths = [f::any(&Tensor::from(&x), &dims, keepdim), f::all(&Tensor::from(&x), &dims, keepdim)];
        if shape.is_empty() && dims == [0] {
            prop_assert!(results.iter().chain(&others[1..]).all(Result::is_ok));
            prop_assert!(others[0].is_ok() != p.is_nan() && truths.iter().all(Result::is_ok));
            return Ok(());
        }
        if dims.last().is_some_and(|&dim| dim >= shape.len()) {
            prop_assert!(results.iter().chain(&others).all(Result::is_err));
            prop_assert!(truths.iter().all(Result::is_err));
            return Ok(());
        }
        let n: usize = dims.iter().map(|&dim| shape[dim]).product();
        prop_assert_eq!(others[0].is_ok(), !p.is_nan() && (n > 0 || p.is_finite()));
        prop_assert!(others[1].is_ok() == (n > 0) && others[2].is_ok() == (n > 0));
        let kept: Vec<usize> = (0..shape.len()).filter(|dim| !dims.contains(dim)).collect();
        let sizes: Vec<usize> = kept.iter().map(|&dim| shape[dim]).collect();
        let mut expected_shape = sizes.clone();
        if keepdim {
            expected_shape = shape.clone();
            dims.iter().for_each(|&dim| expected_shape[dim] = 1);
        }
        let order: Vec<usize> = kept.iter().chain(&dims).copied().collect();
        let rows = x.permute(&order).unwrap().to_vec::<f64>().unwrap();
        let lines: Vec<&[f64]> = if n == 0 {
            vec![&[]; sizes.iter().product()]
        } else {
            rows.chunks_exact(n).collect()
        };
        let [prod, var, std, log] = results.map(Result::unwrap);
        prop_assert_eq!(prod.shape(), &expected_shape[..]);
        let values = |y: &Tensor| y.to_vec::<f64>().unwrap();
        let near = |a: f64, b: f64| {
            a == b || (a.is_nan() && b.is_nan()) || (a - b).abs() < 1e-12 * (1.0 + b.abs())
        };
        for (i, line) in lines.iter().enumerate() {
            let product: f64 = line.iter().product();
            let mean = line.iter().sum::<f64>() / n as f64;
            let squares: f64 = line.iter().map(|x| (x - mean) * (x - mean)).sum();
            let variance = squares / (n as f64 - correction).max(0.0);
            let exponentials = math::log(line.iter().map(|&x| math::exp(x)).sum());
            prop_assert!(near(values(&prod)[i], product));
            prop_assert!(near(values(&var)[i], variance));
            prop_assert!(near(values(&std)[i], variance.sqrt()));
            prop_assert!(near(values(&log)[i], exponentials));
            if let Ok(norm) = &others[0] {
                let expected = match p {
                    0.0 => line.iter().filter(|&&x| x != 0.0).count() as f64,
                    f64::INFINITY => line.iter().fold(0.0, |m, x| x.abs().max(m)),
                    p => math::pow(line.iter().map(|x| math::pow(x.abs(), p)).sum(), 1.0 / p),
                };
                prop_assert!(near(values(norm)[i], expected));
            }
            if n > 0 {
                let [largest, smallest] = [1, 2].map(|which| values(others[which].as_ref().unwrap()));
                prop_assert_eq!(largest[i], line.iter().copied().fold(f64::MIN, f64::max));
                prop_assert_eq!(smallest[i], line.iter().copied().fold(f64::MAX, f64::min));
            }
        }
    }

    #[test]
    fn truths_are_right(
        values in proptest::collection::vec(
            prop_oneof![4 => Just(0.0), 1 => Just(-0.0), 1 => Just(1e-300), 1 => Just(f64::NAN)],
            0..6,
        ),
    ) {
        let x = Value::from_slice(&values, &[values.len()]).unwrap();
        let any = f::any(&Tensor::from(&x), [0], false).unwrap().to_bools().unwrap();
        let all = f::all(&Tensor::from(&x), [0], false).unwrap().to_bools().unwrap();
        prop_assert_eq!(any, [values.iter().any(|&x| x != 0.0)]);
        prop_assert_eq!(all, [values.iter().all(|&x| x != 0.0)]);
    }
}
