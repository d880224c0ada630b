//! Fused operations have the bits of their separate steps.

use samebits_autograd::functional::{self as f, ClassLoss, Reduction};
use samebits_autograd::{DType, Result, Tensor};
use samebits_rng::Generator;
use samebits_tensor_core::Tensor as Value;
use samebits_tensor_core::dispatch;
use samebits_tensor_core::ops::Cast;

type Function = fn(&Tensor) -> Result<Tensor>;
/// A computation with x that uses the function.
type Use = fn(Function, &Tensor) -> Result<Tensor>;

fn floats(values: &[f64], shape: &[usize], dtype: DType) -> Tensor {
    samebits_cpu_kernels::install();
    let x = Value::from_slice(values, shape).unwrap();
    Tensor::from(dispatch(&Cast { x, to: dtype }).unwrap())
}

fn normal(shape: &[usize], seed: u64) -> Vec<f64> {
    let drawn = f::randn_with(shape, &mut Generator::new(seed)).unwrap();
    drawn.to(DType::F64).unwrap().to_vec().unwrap()
}

/// Returns numbers of all magnitudes, infinities and NaN.
fn varied(n: usize, dtype: DType, seed: u64) -> Tensor {
    let mut values = normal(&[n], seed);
    for (i, x) in values.iter_mut().enumerate() {
        *x *= [1.0, 1e-3, 4.0, 1e-30, 60.0][i % 5];
    }
    let special = [0.0, -0.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 1e-320, 3e38, -1e300];
    values[..special.len()].copy_from_slice(&special);
    floats(&values, &[n], dtype)
}

fn same(a: &Tensor, b: &Tensor, what: &str) {
    assert!(a.to_bytes().unwrap() == b.to_bytes().unwrap(), "{what}: {a}\n{b}");
}

fn times(x: &Tensor, factor: f64) -> Result<Tensor> {
    f::affine(x, factor, -0.0)
}

fn gelu(x: &Tensor) -> Result<Tensor> {
    let share = f::erf(&times(x, std::f64::consts::FRAC_1_SQRT_2)?)?;
    f::mul(x, &f::affine(&share, 0.5, 0.5)?)
}

fn gelu_tanh(x: &Tensor) -> Result<Tensor> {
    let cube = f::mul(&f::mul(x, x)?, x)?;
    let inner = f::add(x, &times(&cube, 0.044715)?)?;
    let scale = std::f64::consts::FRAC_1_SQRT_2 * std::f64::consts::FRAC_2_SQRT_PI;
    let share = f::tanh(&times(&inner, scale)?)?;
    f::mul(x, &f::affine(&share, 0.5, 0.5)?)
}

fn silu(x: &Tensor) -> Result<Tensor> {
    f::mul(x, &f::sigmoid(x)?)
}

#[test]
fn units_have_the_bits_of_their_compositions() {
    // More than one piece of work.
    let n = 40_003;
    for dtype in [DType::F32, DType::F64] {
        let grad = varied(n, dtype, 1).flip([0]).unwrap();
        // Beyond these bounds, the composition multiplies 0 by a possibly infinite number.
        let varied = |n, dtype, seed| f::clamp(&varied(n, dtype, seed), Some(-64.0), Some(64.0));
        for (name, fused, composed) in [
            ("gelu", f::gelu as Function, gelu as Function),
            ("gelu_tanh", f::gelu_tanh, gelu_tanh),
            ("silu", f::silu, silu),
        ] {
            // The gradient of x alone, and added to the gradients of earlier and later uses of x.
            let alone = |g: Function, x: &Tensor| g(x);
            let among = |g: Function, x: &Tensor| {
                let before = f::sigmoid(x)?;
                let y = g(x)?;
                f::add(&f::add(&before, &y)?, &f::tanh(x)?)
            };
            let uses: [Use; 2] = [alone, among];
            for (i, uses) in uses.into_iter().enumerate() {
                let run = |g: Function, create_graph| {
                    let x = varied(n, dtype, 0).unwrap().set_requires_grad(true).unwrap();
                    let y = uses(g, &x).unwrap();
                    let gradients = y.backward_from(grad.clone(), create_graph).unwrap();
                    (y, gradients.of(&x).unwrap().clone())
                };
                let (y, expected) = run(composed, false);
                for create_graph in [false, true] {
                    let what = format!("{name}, {dtype}, use {i}, create_graph {create_graph}");
                    let (found, gradient) = run(fused, create_graph);
                    same(&found, &y, &what);
                    same(&gradient, &expected, &what);
                    assert_eq!(gradient.requires_grad(), create_graph, "{what}");
                }
            }
        }
    }
}

/// Returns the value and the slope of the logarithm of the sigmoid.
fn log_sigmoid(x: &Tensor) -> Result<[Tensor; 2]> {
    let zero = Tensor::zeros(x.shape(), x.dtype())?;
    let tail = f::log1p(&f::exp(&f::neg(&f::abs(x)?)?)?)?;
    Ok([f::sub(&f::minimum(x, &zero)?, &tail)?, f::sigmoid(&f::neg(x)?)?])
}

/// Returns the value and the slope of softplus.
fn softplus(x: &Tensor, beta: f64, threshold: f64) -> Result<[Tensor; 2]> {
    let scaled = times(x, beta)?;
    let straight = f::gt(&scaled, threshold)?;
    let curve = times(&f::log1p(&f::exp(&scaled)?)?, 1.0 / beta)?;
    let one = Tensor::ones(x.shape(), x.dtype())?;
    Ok([f::where_(&straight, x, &curve)?, f::where_(&straight, &one, &f::sigmoid(&scaled)?)?])
}

#[test]
fn ramps_have_the_bits_of_their_steps() {
    type Steps = fn(&Tensor) -> Result<[Tensor; 2]>;
    let functions: [(Function, Steps); 3] = [
        (f::log_sigmoid, log_sigmoid),
        (|x| f::softplus(x, 1.0, 20.0), |x| softplus(x, 1.0, 20.0)),
        (|x| f::softplus(x, -0.3, 0.7), |x| softplus(x, -0.3, 0.7)),
    ];
    for dtype in [DType::F32, DType::F64] {
        let grad = varied(40_003, dtype, 1).flip([0]).unwrap();
        for (i, (fused, steps)) in functions.into_iter().enumerate() {
            let x = varied(40_003, dtype, 0).set_requires_grad(true).unwrap();
            let [value, slope] = steps(&x.detach()).unwrap();
            for create_graph in [false, true] {
                let what = format!("function {i}, {dtype}, create_graph {create_graph}");
                let y = fused(&x).unwrap();
                same(&y, &value, &what);
                let gradients = y.backward_from(grad.clone(), create_graph).unwrap();
                let expected = f::mul(&grad, &slope).unwrap();
                same(gradients.of(&x).unwrap(), &expected, &what);
            }
        }
    }
}

#[test]
fn cross_entropy_has_the_bits_of_its_composition() {
    for (dtype, classes) in [(DType::F32, 7), (DType::F32, 5000), (DType::F64, 33)] {
        let rows = 12;
        let mut logits = normal(&[rows, classes], 2);
        logits.iter_mut().for_each(|x| *x *= 5.0);
        // Rows with infinities and NaN.
        logits[classes] = f64::NAN;
        logits[2 * classes + 1] = f64::INFINITY;
        logits[3 * classes..4 * classes].fill(f64::NEG_INFINITY);
        logits[4 * classes + 2] = 1e30;
        let targets: Vec<i64> =
            (0..rows as i64).map(|i| if i == 5 { -100 } else { 3 * i % classes as i64 }).collect();
        let target = Tensor::from_slice(&targets, &[rows]).unwrap();
        let weight: Vec<f64> = (0..classes).map(|class| (class % 4) as f64 * 0.7).collect();
        let weight = floats(&weight, &[classes], dtype);
        let each = [3.0, 0.0, -0.0, 1.0, -2.0, 5.0, f64::INFINITY, f64::NAN, 1e-310, 1.0, 7.0, 0.5];
        for reduction in [Reduction::None, Reduction::Sum, Reduction::Mean] {
            for weight in [None, Some(&weight)] {
                let options = ClassLoss { weight, reduction, ..ClassLoss::default() };
                let grad = match reduction {
                    Reduction::None => floats(&each, &[rows], dtype),
                    _ => floats(&[-1.5], &[], dtype),
                };
                let run = |fused: bool, create_graph| {
                    let x =
                        floats(&logits, &[rows, classes], dtype).set_requires_grad(true).unwrap();
                    let loss = if fused {
                        f::cross_entropy_with(&x, &target, &options)
                    } else {
                        f::nll_loss_with(&f::log_softmax(&x, 1).unwrap(), &target, &options)
                    };
                    let loss = loss.unwrap();
                    let gradients = loss.backward_from(grad.clone(), create_graph).unwrap();
                    (loss, gradients.of(&x).unwrap().clone())
                };
                for create_graph in [false, true] {
                    let what = format!("{dtype}, {classes} classes, {reduction:?}, {create_graph}");
                    let ((loss, gradient), (found, fused)) =
                        (run(false, create_graph), run(true, create_graph));
                    same(&found, &loss, &what);
                    same(&fused, &gradient, &what);
                }
            }
        }
    }
}

#[test]
fn softmax_has_the_bits_of_its_composition() {
    let composed = |x: &Tensor, dim: usize| -> Result<Tensor> {
        let exps = f::exp(&f::sub(x, &f::amax(x, [dim], true)?)?)?;
        f::div(&exps, &f::sum(&exps, [dim], true)?)
    };
    let gradient = |grad: &Tensor, y: &Tensor, dim: usize| -> Result<Tensor> {
        let grad = f::mul(grad, y)?;
        f::sub(&grad, &f::mul(y, &f::sum(&grad, [dim], true)?)?)
    };
    for dtype in [DType::F32, DType::F64] {
        for shape in [&[1200, 33][..], &[5, 70, 33], &[9]] {
            let n = shape.iter().product();
            let x = varied(n, dtype, 3).reshape(shape).unwrap().set_requires_grad(true).unwrap();
            let grad = varied(n, dtype, 4).flip([0]).unwrap().reshape(shape).unwrap();
            for dim in 0..shape.len() {
                let expected = composed(&x.detach(), dim).unwrap();
                let found = f::softmax(&x, dim).unwrap();
                let what = format!("{dtype} {shape:?}, dimension {dim}");
                same(&found, &expected, &what);
                let gradients = found.backward_from(grad.clone(), true).unwrap();
                let expected = gradient(&grad, &expected, dim).unwrap();
                same(gradients.of(&x).unwrap(), &expected, &format!("gradient, {what}"));
            }
        }
    }
}

#[test]
fn losses_of_logits_have_the_bits_of_their_steps() {
    let n = 40_003;
    for dtype in [DType::F32, DType::F64] {
        let [logits, odds] = [5, 6].map(|seed| varied(n - 6, dtype, seed));
        let odds = f::sigmoid(&odds.flip([0]).unwrap()).unwrap();
        let inf = f64::INFINITY;
        let ends = floats(&[inf, inf, inf, -inf, -inf, -inf], &[6], dtype);
        let x = f::cat(&[logits, ends], 0).unwrap();
        let ends = floats(&[0.0, 0.5, 1.0, 0.0, 0.5, 1.0], &[6], dtype);
        let target = f::cat(&[odds, ends], 0).unwrap();
        let x = x.set_requires_grad(true).unwrap();
        // A factor of 1 takes the steps, which are those of the loss without a factor.
        let one = Tensor::ones(&[1], dtype).unwrap();
        let each = varied(n, dtype, 7).flip([0]).unwrap();
        for (reduction, grad) in
            [(Reduction::None, each.clone()), (Reduction::Mean, floats(&[-1.5], &[], dtype))]
        {
            let run = |factor: Option<&Tensor>, again: bool, create_graph| {
                let loss =
                    f::binary_cross_entropy_with_logits(&x, &target, None, factor, reduction);
                let loss = loss.unwrap();
                // A later use of x, whose gradient is there first.
                let sum = match again {
                    true => f::add(&loss, &f::mul(&x, &each).unwrap()).unwrap(),
                    false => loss.clone(),
                };
                let grad = grad.expand(sum.shape()).unwrap();
                let gradients = sum.backward_from(grad, create_graph).unwrap();
                (loss, gradients.of(&x).unwrap().clone())
            };
            for again in [false, true] {
                for create_graph in [false, true] {
                    let what = format!("{dtype}, {reduction:?}, again {again}, {create_graph}");
                    let (loss, gradient) = run(Some(&one), again, create_graph);
                    let (found, fused) = run(None, again, create_graph);
                    same(&found, &loss, &what);
                    same(&fused, &gradient, &what);
                }
            }
        }
    }
}

/// Returns zeros of `shape` around a part, which starts at `start` along `dim`.
fn padded(part: &Tensor, dim: usize, start: usize, shape: &[usize]) -> Tensor {
    let zeros = |size: usize| {
        let mut shape = shape.to_vec();
        shape[dim] = size;
        Tensor::zeros(&shape, part.dtype()).unwrap()
    };
    let after = shape[dim] - start - part.shape()[dim];
    f::cat(&[zeros(start), part.clone(), zeros(after)], dim).unwrap()
}

#[test]
fn gradients_of_parts_have_the_bits_of_the_sum_of_padded_ones() {
    let shape = [3, 4, 5];
    // Dimension, start and length of each part.
    let uses: [&[(usize, usize, usize)]; 9] = [
        &[(2, 1, 2)],
        &[(2, 0, 2), (2, 2, 1), (2, 3, 2)],
        &[(2, 3, 2), (2, 0, 1)],
        &[(0, 2, 1), (0, 0, 1), (0, 1, 1)],
        &[(1, 0, 4), (1, 1, 2)],
        &[(1, 0, 2), (1, 3, 1), (1, 1, 2), (1, 0, 1)],
        &[(1, 2, 2), (1, 2, 1), (1, 0, 2)],
        &[(0, 0, 1), (2, 0, 1), (0, 1, 2)],
        &[(1, 2, 0), (1, 2, 2), (1, 0, 2), (1, 4, 0)],
    ];
    for dtype in [DType::F32, DType::F64] {
        for uses in uses {
            // The part after which the whole tensor is used, too.
            for whole in [None, Some(0), Some(1)] {
                let x = Tensor::zeros(&shape, dtype).unwrap().set_requires_grad(true).unwrap();
                let (mut results, mut grads) = (Vec::new(), Vec::new());
                for (i, &(dim, start, length)) in uses.iter().enumerate() {
                    let part = f::narrow(&x, dim, start, length).unwrap();
                    let grad = varied(60, dtype, i as u64).reshape(shape).unwrap();
                    let grad = f::narrow(&grad, dim, 0, length).unwrap();
                    grads.push(padded(&grad, dim, start, &shape));
                    results.push((part, grad));
                    if whole == Some(i) {
                        let grad = varied(60, dtype, 99).flip([0]).unwrap().reshape(shape).unwrap();
                        grads.push(f::neg(&grad).unwrap());
                        results.push((f::neg(&x).unwrap(), grad));
                    }
                }
                let results: Vec<_> = results.iter().map(|(y, grad)| (y, grad.clone())).collect();
                let mut expected = grads.into_iter().rev();
                let first = expected.next().unwrap();
                let expected = expected.fold(first, |sum, grad| f::add(&sum, &grad).unwrap());
                for create_graph in [false, true] {
                    let found = samebits_autograd::backward(&results, create_graph).unwrap();
                    let what = format!("{uses:?}, the whole after {whole:?}, {dtype}");
                    same(found.of(&x).unwrap(), &expected, &what);
                }
            }
        }
    }
}

#[test]
fn a_weight_of_classes_has_no_gradient() {
    let x = floats(&[1.0, 2.0], &[1, 2], DType::F32);
    let weight = floats(&[1.0, 2.0], &[2], DType::F32).set_requires_grad(true).unwrap();
    let target = Tensor::from_slice(&[1i64], &[1]).unwrap();
    let options = ClassLoss { weight: Some(&weight), ..ClassLoss::default() };
    let loss = f::cross_entropy_with(&x, &target, &options).unwrap();
    let error = loss.backward().unwrap_err().to_string();
    assert_eq!(error, "nll_loss: the weight has no gradient");
}

/// The optimiser reads the gradient of a weight in the weight's layout; a transposed gradient would
/// be copied first.
#[test]
fn the_gradient_of_a_factor_seen_transposed_lies_as_the_factor_does() {
    let numbers = |shape: &[usize], seed| floats(&normal(shape, seed), shape, DType::F32);
    // More than a block of steps, and a batch whose gradients are added.
    for (left, weight) in
        [(&[300, 5][..], &[7, 5][..]), (&[2, 300, 5], &[7, 5]), (&[4, 5], &[1, 5])]
    {
        let (x, weight) = (numbers(left, 3), numbers(weight, 4).set_requires_grad(true).unwrap());
        let flipped = f::transpose(&weight, 0, 1).unwrap();
        let copy = Tensor::from(flipped.value().contiguous().unwrap());
        let copy = copy.set_requires_grad(true).unwrap();
        let gradient = |factor: &Tensor, of: &Tensor| {
            let product = f::matmul(&x, factor).unwrap();
            let grad = numbers(product.shape(), 5);
            product.backward_from(grad, false).unwrap().of(of).unwrap().clone()
        };
        let found = gradient(&flipped, &weight);
        assert!(found.value().is_contiguous(), "{left:?}");
        let expected = f::transpose(&gradient(&copy, &copy), 0, 1).unwrap();
        same(&found, &expected, &format!("{left:?}"));
    }
}
