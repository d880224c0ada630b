//! Values at the edges: NaN and infinities among sorted elements, sources that are overwritten.

use samebits_autograd::{Tensor, functional as f};
use samebits_tensor_core::DType;
use samebits_tensor_core::ops::PoolParams;

const INF: f32 = f32::INFINITY;
const NAN: f32 = f32::NAN;

fn tensor(values: &[f32]) -> Tensor {
    Tensor::from_slice(values, &[values.len()]).unwrap()
}

fn variable(values: &[f32]) -> Tensor {
    tensor(values).set_requires_grad(true).unwrap()
}

/// The gradient of the sum of `y` by `x`.
fn gradient(y: &Tensor, x: &Tensor) -> Vec<f32> {
    y.sum_all().unwrap().backward().unwrap().of(x).unwrap().to_vec().unwrap()
}

#[test]
fn numbers_are_found_in_front_of_nan() {
    let found = |sorted: &[f32], value: f32| {
        [false, true].map(|right| {
            let places = f::searchsorted(&tensor(sorted), &tensor(&[value]), right).unwrap();
            let same = f::bucketize(&tensor(&[value]), &tensor(sorted), right).unwrap();
            let places = places.to_vec::<i64>().unwrap();
            assert_eq!(same.to_vec::<i64>().unwrap(), places);
            places[0]
        })
    };
    assert_eq!(found(&[1.0, 3.0, NAN], 4.0), [2, 2]);
    assert_eq!(found(&[1.0, 3.0, NAN], 3.0), [1, 2]);
    assert_eq!(found(&[1.0, 3.0, NAN, NAN], NAN), [2, 4]);
    assert_eq!(found(&[1.0, 3.0], NAN), [2, 2]);
    assert_eq!(found(&[NAN, NAN, NAN], 0.0), [0, 0]);
    assert_eq!(found(&[], NAN), [0, 0]);
    assert_eq!(found(&[-INF, -0.0, 0.0, INF, NAN], 0.0), [1, 3]);
    assert_eq!(found(&[-INF, -0.0, 0.0, INF, NAN], INF), [3, 4]);
}

#[test]
fn an_element_is_found_beside_nan() {
    let among = |x: &[f32], elements: &[f32]| {
        f::isin(&tensor(x), &tensor(elements)).unwrap().to_bools().unwrap()
    };
    assert_eq!(among(&[1.0], &[1.0, NAN]), [true]);
    assert_eq!(among(&[1.0, NAN, INF, 2.0], &[NAN, INF, NAN, 1.0]), [true, false, true, false]);
}

#[test]
fn only_the_last_source_of_a_place_has_a_gradient() {
    let x = variable(&[0.5, 0.25, 0.75, 2.0]).reshape([1, 1, 4]).unwrap().detach();
    let x = x.set_requires_grad(true).unwrap();
    let indices = Tensor::from_slice(&[4i64, 2, 3, 4], &[1, 1, 4]).unwrap();
    let y = f::max_unpool1d(&x, &indices, &PoolParams::square(1, 2), None).unwrap();
    assert_eq!(y.to_vec::<f32>().unwrap()[2..5], [0.25, 0.75, 2.0]);
    assert_eq!(gradient(&y, &x), [0.0, 1.0, 1.0, 1.0]);
}

#[test]
fn between_infinities() {
    let quantile = |x: &[f32], q: f64| {
        let (x, all) = (variable(x), f::quantile(&variable(x), q, (), false).unwrap());
        let y = f::quantile(&x, q, 0, false).unwrap();
        assert_eq!(y.to_bytes().unwrap(), all.to_bytes().unwrap());
        (y.item::<f32>().unwrap(), gradient(&y, &x))
    };
    assert_eq!(quantile(&[INF, INF], 0.5), (INF, vec![0.5, 0.5]));
    assert_eq!(quantile(&[3.0, INF], 0.25), (INF, vec![0.75, 0.25]));
    assert_eq!(quantile(&[3.0, INF], 0.75), (INF, vec![0.25, 0.75]));
    assert_eq!(quantile(&[3.0, INF], 0.0), (3.0, vec![1.0, 0.0]));
    assert_eq!(quantile(&[3.0, -INF], 0.25), (-INF, vec![0.25, 0.75]));
    assert_eq!(quantile(&[-3e38, 3e38], 0.5), (0.0, vec![0.5, 0.5]));
    assert!(quantile(&[-INF, INF], 0.5).0.is_nan());
    assert!(quantile(&[1.0, NAN], 0.0).0.is_nan());
}

#[test]
fn numbers_of_equal_distance_over_the_whole_type() {
    let (low, high) = (f64::MIN, f64::MAX);
    let x = Tensor::linspace(low, high, 3, DType::F64).unwrap().to_vec::<f64>().unwrap();
    assert_eq!(x, [low, 0.0, high]);
}

#[test]
fn the_way_between_equal_numbers_has_a_slope() {
    let (a, b, w) = (variable(&[2.0, INF]), variable(&[2.0, INF]), variable(&[0.25, 0.75]));
    let y = f::lerp(&a, &b, &w).unwrap();
    assert_eq!(y.to_vec::<f32>().unwrap(), [2.0, INF]);
    let gradients = y.backward_from(variable(&[1.0, 1.0]), true).unwrap();
    let slope = gradients.of(&w).unwrap();
    assert_eq!(slope.to_vec::<f32>().unwrap(), [0.0, 0.0]);
    assert_eq!(gradients.of(&a).unwrap().to_vec::<f32>().unwrap(), [0.75, 0.25]);
    // The slope by the weight grows with the end.
    assert_eq!(gradient(slope, &b), [1.0, 0.0]);
}
