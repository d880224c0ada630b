//! -0 stays -0 if nothing is added to it.

use samebits_autograd::Tensor;
use samebits_autograd::functional::{self as f, addmm, baddbmm, conv, index_add};
use samebits_rng::Generator;
use samebits_tensor_core::Tensor as Value;
use samebits_tensor_core::ops::{Cast, ConvParams};
use samebits_tensor_core::{DType, dispatch};

fn floats(values: &[f64], shape: &[usize], dtype: DType) -> Tensor {
    samebits_cpu_kernels::install();
    let x = Value::from_slice(values, shape).unwrap();
    Tensor::from(dispatch(&Cast { x, to: dtype }).unwrap())
}

/// Returns the bits as f64, which represents every f32.
fn bits(x: &Value) -> Vec<u64> {
    let wide = dispatch(&Cast { x: x.clone(), to: DType::F64 }).unwrap();
    wide.to_vec::<f64>().unwrap().into_iter().map(f64::to_bits).collect()
}

#[test]
fn the_gradient_of_index_add_keeps_the_sign_of_zero() {
    for dtype in [DType::F32, DType::F64] {
        for (alpha, expected) in [(1.0, [-0.0, 3.0]), (2.0, [-0.0, 6.0]), (-1.0, [0.0, -3.0])] {
            let input = floats(&[0.0; 3], &[3], dtype);
            let source = Tensor::ones(&[2], dtype).unwrap().set_requires_grad(true).unwrap();
            let index = Tensor::from_slice(&[2i64, 0], &[2]).unwrap();
            let y = index_add(&input, 0, &index, &source, alpha).unwrap();
            let grad = floats(&[3.0, 1.0, -0.0], &[3], dtype);
            let gradients = y.backward_from(grad, false).unwrap();
            let found = bits(gradients.of(&source).unwrap().value());
            assert_eq!(found, expected.map(f64::to_bits), "{dtype}, alpha {alpha}");
        }
    }
}

/// Gradients that are a number times a constant.
#[test]
fn a_product_with_a_constant_keeps_the_sign_of_zero() {
    type Function = fn(&Tensor) -> samebits_autograd::Result<Tensor>;
    let gradients: [(&str, Function); 6] = [
        ("affine", |x| f::affine(x, 2.0, 1.0)),
        ("mean", |x| f::mean(x, 1, false)),
        ("mean of var_mean", |x| Ok(f::var_mean(x, 1, 1.0, false)?.1)),
        ("dropout", |x| f::dropout_with(x, 0.5, &mut Generator::new(0))),
        ("maximum of equals", |x| f::maximum(x, &x.detach())),
        ("softplus", |x| f::softplus(x, 2.0, 20.0)),
    ];
    for dtype in [DType::F32, DType::F64] {
        for (name, function) in gradients {
            let x = floats(&[-1.0, -2.0], &[1, 2], dtype).set_requires_grad(true).unwrap();
            let y = function(&x).unwrap();
            let grad = floats(&[-0.0, -0.0][..y.numel()], y.shape(), dtype);
            let gradients = y.backward_from(grad, false).unwrap();
            let found = bits(gradients.of(&x).unwrap().value());
            assert_eq!(found, [(-0.0f64).to_bits(); 2], "gradient of {name}, {dtype}");
        }
    }
    let x = floats(&[1.0], &[1], DType::F32).set_requires_grad(true).unwrap();
    let grad = floats(&[-0.0], &[1], DType::F32);
    let mut gradients = f::neg(&x).unwrap().backward_from(f::neg(&grad).unwrap(), false).unwrap();
    gradients.scale(0.5).unwrap();
    assert_eq!(bits(gradients.of(&x).unwrap().value()), [(-0.0f64).to_bits()], "Gradients::scale");
}

#[test]
fn activations_keep_the_sign_of_zero() {
    type Activation = fn(&Tensor) -> samebits_autograd::Result<Tensor>;
    let activations: [(&str, Activation); 3] = [
        ("leaky_relu", |x| f::leaky_relu(x, 0.5)),
        ("elu", |x| f::elu(x, 2.0)),
        ("prelu", |x| f::prelu(x, &floats(&[0.5], &[1], x.dtype()))),
    ];
    for dtype in [DType::F32, DType::F64] {
        for (name, activation) in activations {
            let what = format!("{name}, {dtype}");
            let x = floats(&[-0.0, 0.0, -1.0, 1.0], &[4], dtype).set_requires_grad(true).unwrap();
            let y = activation(&x).unwrap();
            assert_eq!(bits(y.value())[..2], [-0.0f64, 0.0].map(f64::to_bits), "{what}");
            let gradients = y.backward_from(floats(&[-0.0; 4], &[4], dtype), false).unwrap();
            let found = bits(gradients.of(&x).unwrap().value());
            assert_eq!(found, [(-0.0f64).to_bits(); 4], "gradient of {what}");
        }
    }
}

/// Gradients with a factor that is a product with a constant: a root or an argument of 0.
#[test]
fn slopes_keep_the_sign_of_zero() {
    type Function = fn(&Tensor) -> samebits_autograd::Result<Tensor>;
    const INF: f64 = f64::INFINITY;
    let slopes: [(&str, Function, f64, f64); 3] = [
        ("rsqrt", f::rsqrt, INF, -0.0),
        ("log2", f::log2, -0.0, -INF),
        ("log10", f::log10, -0.0, -INF),
    ];
    for dtype in [DType::F32, DType::F64] {
        for (name, function, at, slope) in slopes {
            let x = floats(&[at], &[1], dtype).set_requires_grad(true).unwrap();
            let gradients = function(&x).unwrap().backward().unwrap();
            let found = bits(gradients.of(&x).unwrap().value());
            assert_eq!(found, [slope.to_bits()], "gradient of {name} at {at}, {dtype}");
        }
    }
}

/// Products that are zeros of both signs: both types add them in the same order.
#[test]
fn convolution_has_one_sign_of_zero_in_both_types() {
    let input = [-0.0, 0.0, -1.0, 1.0, -0.0, -0.0];
    for weight in [[1.0, 0.0], [-1.0, -0.0], [1.0, -1.0], [-0.0, -0.0]] {
        for bias in [None, Some(-0.0), Some(0.0)] {
            for padding in [0, 1] {
                let run = |dtype| {
                    let (x, w) =
                        (floats(&input, &[1, 1, 6], dtype), floats(&weight, &[1, 1, 2], dtype));
                    let bias = bias.map(|bias| floats(&[bias], &[1], dtype));
                    let y = conv(&x, &w, bias.as_ref(), &ConvParams::padded(1, padding)).unwrap();
                    bits(y.value())
                };
                assert_eq!(run(DType::F32), run(DType::F64), "{weight:?}, {bias:?}, {padding}");
            }
        }
    }
}

/// Factors including 1 and 0; every number here is exact in both types.
#[test]
fn addmm_and_baddbmm_keep_the_sign_of_zero_and_spread_nan_as_written() {
    const NAN: f64 = f64::NAN;
    const INF: f64 = f64::INFINITY;
    let canonical = |x: f64| if x.is_nan() { NAN.to_bits() } else { x.to_bits() };
    let grad = [-0.0, 0.0, 2.0, -1.0];
    let power = |exponent: u64| f64::from_bits(exponent << 52);
    // Powers of two, far above the subnormal numbers of their type.
    for (dtype, tiny) in [(DType::F32, power(1023 - 100)), (DType::F64, power(1023 - 600))] {
        // One product each; the first underflows.
        let (a, products) = ([-tiny, 3.0 / tiny, NAN, INF], [-0.0, 3.0, NAN, INF]);
        for input in [[-0.0; 4], [0.0, -3.0, 1.0, -INF], [INF, -INF, 1.0, 0.0], [NAN; 4]] {
            for (beta, alpha) in [1.0, 0.0, 2.0, -1.0]
                .into_iter()
                .flat_map(|beta| [1.0, 0.0, 0.5, -1.0].map(|alpha| (beta, alpha)))
            {
                let sum = |(x, product): (&f64, &f64)| match beta {
                    0.0 => alpha * product,
                    _ => beta * x + alpha * product,
                };
                let sums = input.iter().zip(&products).map(sum).map(canonical);
                let sums: Vec<u64> = sums.collect();
                let slopes =
                    (beta != 0.0).then(|| grad.map(|grad| (beta * grad).to_bits()).to_vec());
                for batched in [false, true] {
                    let matrix = |values: &[f64]| {
                        let shape = [1, values.len(), 1];
                        floats(values, if batched { &shape } else { &shape[1..] }, dtype)
                    };
                    let what = format!("{dtype}, batched {batched}, {input:?}, {beta}, {alpha}");
                    let input = matrix(&input).set_requires_grad(true).unwrap();
                    let sum = if batched { baddbmm } else { addmm };
                    let a = matrix(&a).set_requires_grad(true).unwrap();
                    let y = sum(&input, &a, &matrix(&[tiny]), beta, alpha).unwrap();
                    assert_eq!(bits(y.value()), sums, "{what}");
                    let gradients = y.backward_from(matrix(&grad), false).unwrap();
                    let found = gradients.of(&input).map(|grad| bits(grad.value()));
                    assert_eq!(found, slopes, "{what}: gradient");
                }
            }
        }
    }
}

#[test]
fn addmm_checks_an_input_that_it_does_not_use() {
    let product = [floats(&[1.0; 2], &[2, 1], DType::F32), floats(&[1.0], &[1, 1], DType::F32)];
    let error = |input: &Tensor, beta| {
        addmm(input, &product[0], &product[1], beta, 1.0).unwrap_err().to_string()
    };
    for beta in [0.0, 1.0] {
        assert_eq!(
            error(&floats(&[1.0; 6], &[2, 3], DType::F32), beta),
            "addmm: expected the sum with the input of shape [2, 1], got [2, 3]"
        );
        assert_eq!(
            error(&floats(&[1.0; 3], &[3, 1], DType::F32), beta),
            "addmm: shapes [3, 1] and [2, 1] cannot be broadcast together"
        );
        assert_eq!(
            error(&floats(&[1.0], &[], DType::F64), beta),
            "addmm: expected the input of type f32, got f64"
        );
    }
}
