//! Gradients against finite differences in f64, and second derivatives where they exist.

use samebits::functional as f;
use samebits::ops::{ConvParams, PoolParams};
use samebits::{DType, Generator, Result, Tensor, Var};
use workspace_tests::{indices, normal_of};

/// A function of some variables with a tensor as its value.
type Function<'a> = &'a dyn Fn(&[Var]) -> Result<Var>;

/// Compares the gradients of a fixed random projection of `function` with central differences.
#[track_caller]
fn check(name: &str, shapes: &[&[usize]], function: Function<'_>) {
    let inputs: Vec<Tensor> = shapes
        .iter()
        .enumerate()
        .map(|(i, shape)| normal_of(shape, DType::F64, 100 + i as u64))
        .collect();
    let variables: Vec<Var> = inputs.iter().cloned().map(Var::parameter).collect();
    let value = function(&variables).unwrap();
    let weights = normal_of(value.shape(), DType::F64, 99);
    // Nothing to walk: the value does not depend on the inputs, and neither do the differences.
    let gradients = value
        .requires_grad()
        .then(|| value.backward_from(Var::constant(weights.clone()), false).unwrap());
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

/// Central differences of the projection with respect to every element of input `i`.
fn differences(inputs: &[Tensor], i: usize, weights: &Tensor, function: Function<'_>) -> Vec<f64> {
    let step = 1e-5;
    let at = |k: usize, change: f64| {
        let mut inputs = inputs.to_vec();
        inputs[i].as_mut_slice::<f64>().unwrap()[k] += change;
        let variables: Vec<Var> = inputs.into_iter().map(Var::constant).collect();
        let values = function(&variables).unwrap().value().to_vec::<f64>().unwrap();
        let weights = weights.to_vec::<f64>().unwrap();
        values.iter().zip(&weights).fold(0.0, |sum, (x, w)| sum + x * w)
    };
    (0..inputs[i].numel()).map(|k| (at(k, step) - at(k, -step)) / (2.0 * step)).collect()
}

/// [`check`] for the function and for its gradients.
#[track_caller]
fn check_twice(name: &str, shapes: &[&[usize]], function: Function<'_>) {
    check(name, shapes, function);
    check(&format!("{name}, again"), shapes, &|x| {
        let variables: Vec<Var> = x
            .iter()
            .map(|x| if x.requires_grad() { x.clone() } else { Var::parameter(x.value().clone()) })
            .collect();
        let value = function(&variables)?;
        let weights = Var::constant(normal_of(value.shape(), DType::F64, 98));
        let gradients = value.backward_from(weights, true)?;
        let mut total = Var::constant(Tensor::zeros(&[], DType::F64));
        for variable in &variables {
            if let Some(grad) = gradients.var_of(variable) {
                total = total.add(&grad.square()?.sum_all()?)?;
            }
        }
        Ok(total)
    });
}

#[test]
fn elementwise() {
    check_twice("add", &[&[3, 4], &[4]], &|x| x[0].add(&x[1]));
    check_twice("sub", &[&[3, 1], &[2, 1, 4]], &|x| x[0].sub(&x[1]));
    check_twice("mul", &[&[3, 4], &[3, 1]], &|x| x[0].mul(&x[1]));
    check_twice("div", &[&[5], &[5]], &|x| x[0].div(&x[1].square()?.affine(1.0, 1.0)?));
    check_twice("affine", &[&[5]], &|x| x[0].affine(0.7, 3.0)?.neg());
    check_twice("square", &[&[5]], &|x| x[0].square());
    check_twice("sqrt", &[&[5]], &|x| x[0].square()?.affine(1.0, 1.0)?.sqrt());
    check_twice("relu", &[&[50]], &|x| x[0].relu());
}

#[test]
fn shapes_and_reductions() {
    check_twice("sum", &[&[3, 4, 2]], &|x| f::sum(&x[0].square()?, &[0, 2]));
    check_twice("mean", &[&[3, 4]], &|x| f::mean(&x[0].square()?, &[1]));
    check_twice("permute", &[&[2, 3, 4]], &|x| f::permute(&x[0].square()?, &[2, 0, 1]));
    check_twice("reshape", &[&[2, 6]], &|x| f::reshape(&x[0].square()?, &[3, 4]));
    check_twice("expand", &[&[3, 1]], &|x| f::expand(&x[0].square()?, &[2, 3, 4]));
    check_twice("reused", &[&[4]], &|x| x[0].mul(&x[0].square()?.add(&x[0])?));
}

#[test]
fn contractions() {
    check_twice("matmul", &[&[3, 5], &[5, 2]], &|x| f::matmul(&x[0], &x[1]));
    check_twice("batched", &[&[2, 1, 3, 4], &[5, 4, 2]], &|x| f::matmul(&x[0], &x[1]));
    check_twice("linear", &[&[2, 3, 5], &[4, 5], &[4]], &|x| f::linear(&x[0], &x[1], Some(&x[2])));
    let params =
        ConvParams { stride: vec![2, 1], padding: vec![1, 0], dilation: vec![1, 2], groups: 2 };
    check_twice("conv2d", &[&[2, 4, 5, 6], &[4, 2, 3, 2], &[4]], &|x| {
        f::conv(&x[0], &x[1], Some(&x[2]), &params)
    });
    check_twice("conv1d", &[&[1, 2, 7], &[3, 2, 3]], &|x| f::conv1d(&x[0], &x[1], None, 2));
    check_twice("conv3d", &[&[1, 1, 4, 3, 4], &[2, 1, 2, 2, 3]], &|x| {
        f::conv3d(&x[0], &x[1], None, 1)
    });
}

#[test]
fn pooling() {
    let params = PoolParams {
        kernel: vec![3, 2],
        stride: vec![2, 1],
        padding: vec![1, 0],
        dilation: vec![1, 1],
        ceil_mode: true,
    };
    check("max_pool", &[&[2, 2, 6, 5]], &|x| Ok(f::max_pool(&x[0], &params)?.0));
    for include in [true, false] {
        check_twice("avg_pool", &[&[2, 2, 6, 5]], &|x| f::avg_pool(&x[0], &params, include, None));
    }
}

#[test]
fn normalisation_and_losses() {
    check("batch_norm", &[&[3, 2, 4], &[2], &[2]], &|x| {
        Ok(f::batch_norm(&x[0], &x[1], &x[2], 1e-3)?.0)
    });
    check("layer_norm", &[&[3, 2, 4], &[2, 4], &[2, 4]], &|x| {
        f::layer_norm(&x[0], &x[1], &x[2], 1e-3)
    });
    let target = indices(4, 5, 3);
    check("nll_loss", &[&[4, 5]], &|x| f::nll_loss(&x[0], &target));
}

#[test]
fn indexing_and_dropout() {
    let index = indices(9, 4, 5);
    check_twice("index_select", &[&[2, 4, 3]], &|x| f::index_select(&x[0].square()?, 1, &index));
    check_twice("index_add", &[&[2, 4, 3], &[2, 9, 3]], &|x| {
        f::index_add(&x[0].square()?, 1, &index, &x[1].square()?, 0.5)
    });
    check_twice("embedding", &[&[4, 3]], &|x| {
        f::embedding(&x[0].square()?, &index.reshape(&[3, 3])?)
    });
    check_twice("dropout", &[&[40]], &|x| f::dropout(&x[0].square()?, 0.4, &mut Generator::new(6)));
}

#[test]
fn activations() {
    let positive = |x: &Var| x.square()?.affine(1.0, 0.5);
    check_twice("exp", &[&[9]], &|x| f::exp(&x[0]));
    check_twice("expm1", &[&[9]], &|x| f::expm1(&x[0]));
    check_twice("log", &[&[9]], &|x| f::log(&positive(&x[0])?));
    check_twice("log1p", &[&[9]], &|x| f::log1p(&x[0].square()?));
    check_twice("sin", &[&[9]], &|x| f::sin(&x[0]));
    check_twice("cos", &[&[9]], &|x| f::cos(&x[0]));
    check_twice("tanh", &[&[9]], &|x| f::tanh(&x[0]));
    check_twice("sigmoid", &[&[9]], &|x| f::sigmoid(&x[0]));
    check_twice("erf", &[&[9]], &|x| f::erf(&x[0]));
    check_twice("gelu", &[&[9]], &|x| f::gelu(&x[0]));
    check_twice("silu", &[&[9]], &|x| f::silu(&x[0]));
    check_twice("log_softmax", &[&[3, 4]], &|x| f::log_softmax(&x[0], 0));
    check_twice("softmax", &[&[3, 4]], &|x| f::softmax(&x[0], 1));
    let target = indices(3, 4, 8);
    check("cross_entropy", &[&[3, 4]], &|x| f::cross_entropy(&x[0], &target));
}
