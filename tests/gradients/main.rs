//! Gradients against finite differences in f64, and second derivatives where they exist; one
//! file per family of operations.

mod contraction;
mod elementwise;
mod embedding;
mod index;
mod loss;
mod norm;
mod pooling;
mod recurrent;
mod reduce;
mod resample;
mod scalar;
mod scan;
mod scatter;
mod shape;
mod sort;
mod sparse;

use samebits::tensor_core::Tensor as Value;
use samebits::{DType, Result, Tensor};

/// Seeded normal numbers.
fn normal_of(shape: &[usize], dtype: DType, seed: u64) -> Tensor {
    workspace_tests::normal_of(shape, dtype, seed).into()
}

/// Seeded indices below `bound`.
fn indices(count: usize, bound: i64, seed: u64) -> Tensor {
    workspace_tests::indices(count, bound, seed).into()
}

/// A function of some variables with a tensor as its value.
type Function<'a> = &'a dyn Fn(&[Tensor]) -> Result<Tensor>;

/// Compares the gradients of a fixed random projection of `function` with central differences.
#[track_caller]
fn check(name: &str, shapes: &[&[usize]], function: Function<'_>) {
    let inputs: Vec<Value> = shapes
        .iter()
        .enumerate()
        .map(|(i, shape)| workspace_tests::normal_of(shape, DType::F64, 100 + i as u64))
        .collect();
    let variables: Vec<Tensor> =
        inputs.iter().cloned().map(|x| Tensor::from(x).set_requires_grad(true)).collect();
    let value = function(&variables).unwrap();
    let weights = normal_of(value.shape(), DType::F64, 99);
    // Nothing to walk: the value does not depend on the inputs, and neither do the differences.
    let gradients =
        value.requires_grad().then(|| value.backward_from(weights.clone(), false).unwrap());
    for (i, input) in inputs.iter().enumerate() {
        let found = gradients.as_ref().and_then(|gradients| gradients.of(&variables[i]));
        let found = match found {
            Some(found) => found.to_vec::<f64>().unwrap(),
            None => vec![0.0; input.numel()],
        };
        let expected = differences(&inputs, i, &weights, function);
        assert_eq!(found.len(), input.numel());
        for (k, (found, expected)) in found.iter().zip(&expected).enumerate() {
            let error = (found - expected).abs();
            assert!(
                error < 1e-6 * (1.0 + expected.abs()),
                "{name}: gradient of input {i} at {k}: {found}, by differences {expected}"
            );
        }
    }
}

/// Input `i` of a check, moved to zero at some places.
fn with_zeros(x: &Tensor, i: u64, zeros: impl Fn(usize) -> bool) -> Result<Tensor> {
    let start = normal_of(x.shape(), DType::F64, 100 + i).to_vec::<f64>()?;
    let shift: Vec<f64> =
        start.iter().enumerate().map(|(at, &x)| if zeros(at) { x } else { 0.0 }).collect();
    x.sub(&Tensor::from_slice(&shift, x.shape())?)
}

/// Central differences of the projection with respect to every element of input `i`.
fn differences(inputs: &[Value], i: usize, weights: &Tensor, function: Function<'_>) -> Vec<f64> {
    let step = 1e-5;
    let at = |k: usize, change: f64| {
        let mut inputs = inputs.to_vec();
        inputs[i].as_mut_slice::<f64>().unwrap()[k] += change;
        let variables: Vec<Tensor> = inputs.into_iter().map(Tensor::from).collect();
        let values = function(&variables).unwrap().to_vec::<f64>().unwrap();
        let weights = weights.to_vec::<f64>().unwrap();
        values.iter().zip(&weights).fold(0.0, |sum, (x, w)| sum + x * w)
    };
    (0..inputs[i].numel()).map(|k| (at(k, step) - at(k, -step)) / (2.0 * step)).collect()
}

/// [`check`] for the function and for its gradients.
#[track_caller]
fn check_twice(name: &str, shapes: &[&[usize]], function: Function<'_>) {
    check(name, shapes, function);
    check(&format!("{name}, again"), shapes, &|x| gradients(x, function));
}

/// [`check`] for the gradients of the gradients.
#[track_caller]
fn check_thrice(name: &str, shapes: &[&[usize]], function: Function<'_>) {
    let twice = |x: &[Tensor]| gradients(x, function);
    check(&format!("{name}, thrice"), shapes, &|x| gradients(x, &twice));
}

/// The sum of the squares of the gradients of a projection of `function`.
fn gradients(x: &[Tensor], function: Function<'_>) -> Result<Tensor> {
    let variables: Vec<Tensor> = x
        .iter()
        .map(|x| if x.requires_grad() { x.clone() } else { x.detach().set_requires_grad(true) })
        .collect();
    let value = function(&variables)?;
    let weights = normal_of(value.shape(), DType::F64, 98);
    let gradients = value.backward_from(weights, true)?;
    let mut total = Tensor::zeros(&[], DType::F64).unwrap();
    for variable in &variables {
        if let Some(grad) = gradients.of(variable) {
            total = total.add(&grad.square()?.sum_all()?)?;
        }
    }
    Ok(total)
}
