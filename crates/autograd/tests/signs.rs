//! -0 stays -0 where nothing is added to it.

use samebits_autograd::Tensor;
use samebits_autograd::functional::{conv, index_add};
use samebits_tensor_core::Tensor as Value;
use samebits_tensor_core::ops::{Cast, ConvParams};
use samebits_tensor_core::{DType, dispatch};

fn floats(values: &[f64], shape: &[usize], dtype: DType) -> Tensor {
    samebits_cpu_kernels::install();
    let x = Value::from_slice(values, shape).unwrap();
    Tensor::from(dispatch(&Cast { x, to: dtype }).unwrap())
}

/// The bits as f64, in which every f32 has its own.
fn bits(x: &Value) -> Vec<u64> {
    let wide = dispatch(&Cast { x: x.clone(), to: DType::F64 }).unwrap();
    wide.to_vec::<f64>().unwrap().into_iter().map(f64::to_bits).collect()
}

#[test]
fn the_gradient_of_index_add_keeps_the_sign_of_zero() {
    for dtype in [DType::F32, DType::F64] {
        for (alpha, expected) in [(1.0, [-0.0, 3.0]), (2.0, [-0.0, 6.0]), (-1.0, [0.0, -3.0])] {
            let input = floats(&[0.0; 3], &[3], dtype);
            let source = Tensor::ones(&[2], dtype).unwrap().set_requires_grad(true);
            let index = Tensor::from_slice(&[2i64, 0], &[2]).unwrap();
            let y = index_add(&input, 0, &index, &source, alpha).unwrap();
            let grad = floats(&[3.0, 1.0, -0.0], &[3], dtype);
            let gradients = y.backward_from(grad, false).unwrap();
            let found = bits(gradients.of(&source).unwrap().value());
            assert_eq!(found, expected.map(f64::to_bits), "{dtype}, alpha {alpha}");
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
