//! Gradients against finite differences in f64, and second derivatives if they exist, for every
//! sample that has any. One file per family tests what differences cannot show: ties, zeros, ends
//! of ranges, and the errors of gradients that cannot be differentiated again.

mod elementwise;
mod embedding;
mod loss;
mod norm;
mod recurrent;
mod reduce;
mod scalar;
mod scan;
mod scatter;
mod sort;
mod sparse;

use std::collections::BTreeMap;

use rayon::prelude::*;
use samebits::registry::{self, Pass};
use samebits::tensor_core::Tensor as Value;
use samebits::{DType, DeviceKind, Result, Tensor, functional as f};
use workspace_tests::{Gradient, Input, Make, Order, Sample, Samples, normal, samples};

/// Returns seeded normal numbers.
fn normal_of(shape: &[usize], dtype: DType, seed: u64) -> Tensor {
    workspace_tests::normal_of(shape, dtype, seed).into()
}

/// Returns seeded indices below `bound`.
fn indices(count: usize, bound: i64, seed: u64) -> Tensor {
    workspace_tests::indices(count, bound, seed).into()
}

/// Gradients that the functions do not run on the host, with the reason.
const WITHOUT: [(&str, &str); 2] = [
    ("gru_cell", "the host has a kernel of whole layers; digests and batches run the cell alone"),
    ("lstm_cell", "the host has a kernel of whole layers; digests and batches run the cell alone"),
];

#[test]
fn gradients_are_what_differences_say() {
    let samples = samples();
    let checks = samples
        .iter()
        .flat_map(|(_, samples)| &samples.all)
        .flat_map(|sample| sample.gradients.iter().map(move |gradient| (sample, gradient)));
    let checks: Vec<(&Sample, &Gradient)> = checks.collect();
    let wrong: Vec<String> =
        checks.par_iter().flat_map_iter(|(sample, gradient)| check(sample, gradient)).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
    let kernels = registry::kernels().into_iter();
    let gradients =
        kernels.filter(|(k, _)| k.device == DeviceKind::Cpu && k.pass == Pass::Backward);
    let mut runs = BTreeMap::new();
    gradients.for_each(|(kernel, times)| *runs.entry(kernel.op).or_insert(0) += times);
    runs.retain(|op, times| *times == 0 && !WITHOUT.iter().any(|(known, _)| known == op));
    assert!(runs.is_empty(), "gradients that no sample reaches: {:?}", runs.keys());
    assert!(checks.len() >= 450, "only {} gradients", checks.len());
}

/// A gradient that is off by one part in a thousand is detected, and so is a second derivative.
#[test]
fn a_wrong_gradient_would_be_seen() {
    let mut samples = Samples::default();
    let value_of = |x: &Tensor| x.square();
    samples
        .add("gradient of another function", move |x| {
            // The value of `x²` with the hidden gradient of `1.001 x²`.
            let other = value_of(&x[0])?.affine(1.001, 0.0)?;
            let (value, unseen) = (value_of(&x[0].detach())?, other.detach());
            value.add(&other.sub(&unseen)?)
        })
        .twice([normal(&[5])]);
    samples
        .add("second gradient of another function", |x| {
            // The same value and gradient as `x³ / 3`, but the second derivative sees `x²` as a
            // constant.
            let slope = x[0].detach().square()?;
            let cube = x[0].detach().square()?.mul(&x[0].detach())?.affine(1.0 / 3.0, 0.0)?;
            cube.add(&slope.mul(&x[0].sub(&x[0].detach())?)?)
        })
        .twice([normal(&[5])]);
    for sample in &samples.all {
        assert!(!check(sample, &sample.gradients[0]).is_empty(), "{sample:?}");
    }
}

/// Compares as many derivatives with differences as the sample has.
fn check(sample: &Sample, gradient: &Gradient) -> Vec<String> {
    let inputs = &gradient.inputs;
    let function = |x: &[Tensor]| joined(sample.call(inputs, x, &(0..0))?);
    let once = |x: &[Tensor]| slopes(x, inputs, &function);
    let twice = |x: &[Tensor]| slopes(x, inputs, &once);
    let functions: [Function<'_>; 3] = [&function, &once, &twice];
    let order = match gradient.order {
        Order::Once(_) => 1,
        Order::Twice => 2,
        Order::Thrice => 3,
    };
    let derivatives = functions[..order].iter().enumerate();
    derivatives
        .filter_map(|(i, function)| {
            let wrong = wrong_slope(inputs, *function)?;
            Some(format!("{} {inputs:?}, derivative {}: {wrong}", sample.name, i + 1))
        })
        .collect()
}

/// Joins all results that have derivatives.
fn joined(results: Vec<Tensor>) -> Result<Tensor> {
    let mut floats: Vec<Tensor> = results.into_iter().filter(|y| y.dtype().is_float()).collect();
    if floats.len() == 1 {
        return Ok(floats.remove(0));
    }
    let flat: Result<Vec<Tensor>> = floats.iter().map(|x| f::reshape(x, [x.numel()])).collect();
    f::cat(&flat?, 0)
}

/// A function of some variables with a tensor as its value.
type Function<'a> = &'a dyn Fn(&[Tensor]) -> Result<Tensor>;

fn variables(inputs: &[Input], values: &[Value]) -> Vec<Tensor> {
    let variable =
        |(input, x): (&Input, &Value)| Tensor::from(x).set_requires_grad(!input.constant).unwrap();
    inputs.iter().zip(values).map(variable).collect()
}

/// Compares the gradients of a fixed random projection of `function` with central differences.
fn wrong_slope(inputs: &[Input], function: Function<'_>) -> Option<String> {
    let values: Vec<Value> =
        inputs.iter().enumerate().map(|(i, x)| x.make(Make::HOST, DType::F64, i)).collect();
    let variables = variables(inputs, &values);
    let value = match function(&variables) {
        Ok(value) => value,
        Err(error) => return Some(error.to_string()),
    };
    let weights = normal_of(value.shape(), DType::F64, 99);
    // Nothing to walk: the value does not depend on the inputs, and neither do the differences.
    let gradients =
        value.requires_grad().then(|| value.backward_from(weights.clone(), false).unwrap());
    for (i, x) in values.iter().enumerate().filter(|&(i, _)| !inputs[i].constant) {
        let found = gradients.as_ref().and_then(|gradients| gradients.of(&variables[i]));
        let found = match found {
            Some(found) => found.to_vec::<f64>().unwrap(),
            None => vec![0.0; x.numel()],
        };
        let expected = differences(&values, i, &weights, function);
        assert_eq!(found.len(), x.numel());
        for (k, (found, expected)) in found.iter().zip(&expected).enumerate() {
            // This form treats a NaN as wrong.
            let right = (found - expected).abs() < 1e-6 * (1.0 + expected.abs());
            if !right {
                return Some(format!("of input {i} at {k}: {found}, by differences {expected}"));
            }
        }
    }
    None
}

/// Returns central differences of the projection with respect to every element of input `i`.
fn differences(inputs: &[Value], i: usize, weights: &Tensor, function: Function<'_>) -> Vec<f64> {
    let step = 1e-5;
    let weights = weights.to_vec::<f64>().unwrap();
    let at = |k: usize, change: f64| {
        let mut inputs = inputs.to_vec();
        inputs[i].as_mut_slice::<f64>().unwrap()[k] += change;
        let variables: Vec<Tensor> = inputs.into_iter().map(Tensor::from).collect();
        let values = function(&variables).unwrap().to_vec::<f64>().unwrap();
        values.iter().zip(&weights).fold(0.0, |sum, (x, w)| sum + x * w)
    };
    (0..inputs[i].numel()).map(|k| (at(k, step) - at(k, -step)) / (2.0 * step)).collect()
}

/// Returns the sum of the squared gradients of a projection of `function`.
fn slopes(x: &[Tensor], inputs: &[Input], function: Function<'_>) -> Result<Tensor> {
    let variable = |(x, input): (&Tensor, &Input)| {
        if x.requires_grad() || input.constant {
            Ok(x.clone())
        } else {
            x.detach().set_requires_grad(true)
        }
    };
    let variables: Vec<Tensor> = x.iter().zip(inputs).map(variable).collect::<Result<_>>()?;
    let value = function(&variables)?;
    let weights = normal_of(value.shape(), DType::F64, 98);
    let gradients = value.backward_from(weights, true)?;
    let mut total = Tensor::zeros(&[], DType::F64).unwrap();
    for gradient in variables.iter().filter_map(|variable| gradients.of(variable)) {
        total = total.add(&gradient.square()?.sum_all()?)?;
    }
    Ok(total)
}
