use samebits::functional as f;
use samebits::ops::ConvParams;
use samebits::sparse::{SparseCoo, sparse_bmm, sparse_mm};
use samebits::tensor_core::Tensor as Value;
use samebits::{DType, Tensor};

use super::{check_chain, constant, ones, values};

/// The block lengths of the contract.
const BLOCK: usize = 256;
const WEIGHT_BLOCK: usize = 1024;
const FLOATS: [DType; 2] = [DType::F32, DType::F64];

fn everywhere(_: usize) -> bool {
    true
}

/// Returns the gradient of `x` for the incoming gradient `grad`.
fn gradient(y: &Tensor, grad: &Tensor, x: &Tensor) -> Vec<f32> {
    let gradients = y.backward_from(grad.clone(), false).unwrap();
    values(gradients.of(x).unwrap().value())
}

#[test]
fn products() {
    let k = 2 * BLOCK + 40;
    for dtype in FLOATS {
        check_chain("matmul", k, BLOCK, everywhere, |a| {
            let product = f::matmul(&constant(a, &[1, k], dtype), &ones(&[k, 37], dtype));
            values(product.unwrap().value())
        });
        check_chain("bmm, left", k, BLOCK, everywhere, |a| {
            let a = f::expand(&constant(a, &[1, 1, k], dtype), &[3, 5, k]).unwrap();
            values(f::bmm(&a, &ones(&[3, k, 7], dtype)).unwrap().value())
        });
        check_chain("bmm, right", k, BLOCK, everywhere, |b| {
            let b = f::expand(&constant(b, &[1, k, 1], dtype), &[3, k, 7]).unwrap();
            values(f::bmm(&ones(&[3, 5, k], dtype), &b).unwrap().value())
        });
        check_chain("linear", k, BLOCK, everywhere, |x| {
            let x = f::expand(&constant(x, &[1, k], dtype), &[6, k]).unwrap();
            values(f::linear(&x, &ones(&[9, k], dtype), None).unwrap().value())
        });
        check_chain("linear, gradient of the input", k, BLOCK, everywhere, |grad| {
            let x = Tensor::ones(&[1, 5], dtype).unwrap().set_requires_grad(true).unwrap();
            let y = f::linear(&x, &ones(&[k, 5], dtype), None).unwrap();
            gradient(&y, &constant(grad, &[1, k], dtype), &x)
        });
        check_chain("linear, gradient of the weight", k, BLOCK, everywhere, |grad| {
            let weight = Tensor::ones(&[1, 5], dtype).unwrap().set_requires_grad(true).unwrap();
            let y = f::linear(&ones(&[k, 5], dtype), &weight, None).unwrap();
            gradient(&y, &constant(grad, &[k, 1], dtype), &weight)
        });
    }
}

#[test]
fn a_bias_is_added_last() {
    for dtype in FLOATS {
        // If the bias came first, the huge terms would absorb it.
        let x = constant(&[1e30, -1e30, 1.0], &[1, 3], dtype);
        let y = f::linear(&x, &ones(&[2, 3], dtype), Some(&ones(&[2], dtype))).unwrap();
        assert_eq!(values(y.value()), [2.0, 2.0]);
        let x = constant(&[1e30, 1.0, 0.0], &[1, 3], dtype);
        let bias = constant(&[-1e30, -1e30], &[2], dtype);
        let y = f::linear(&x, &ones(&[2, 3], dtype), Some(&bias)).unwrap();
        assert_eq!(values(y.value()), [0.0, 0.0]);
    }
}

#[test]
fn sparse_products() {
    let k = 2 * BLOCK + 40;
    // All elements, and a choice that leaves a block empty.
    let some = |column: usize| column.is_multiple_of(3) && !(BLOCK..2 * BLOCK).contains(&column);
    let masks: [fn(usize) -> bool; 2] = [everywhere, some];
    for dtype in FLOATS {
        for present in masks {
            let columns = |probe: &[f32]| -> Vec<usize> {
                (0..k).filter(|&column| probe[column] != 0.0).collect()
            };
            check_chain("sparse_mm", k, BLOCK, present, |a| {
                let columns = columns(a);
                let count = columns.len();
                // From last to first: the list has another order.
                let places = vec![0; count].into_iter().chain(columns.iter().rev().copied());
                let places: Vec<i64> = places.map(|place| place as i64).collect();
                let elements: Vec<f32> = columns.iter().rev().map(|&column| a[column]).collect();
                let places = Value::from_slice(&places, &[2, count]).unwrap();
                let elements = constant(&elements, &[count], dtype);
                let sparse = SparseCoo::new(&Tensor::from(&places), &elements, &[1, k]).unwrap();
                values(sparse_mm(&sparse, &ones(&[k, 37], dtype)).unwrap().value())
            });
            check_chain("sparse_bmm", k, BLOCK, present, |a| {
                let columns = columns(a);
                let count = columns.len();
                let each = |line: usize| {
                    let columns = &columns;
                    (0..3).flat_map(move |batch| {
                        columns.iter().map(move |&column| [batch, 0, column as i64][line])
                    })
                };
                let places: Vec<i64> = (0..3).flat_map(each).collect();
                let elements: Vec<f32> = columns.iter().map(|&column| a[column]).collect();
                let places = Value::from_slice(&places, &[3, 3 * count]).unwrap();
                let elements = constant(&elements.repeat(3), &[3 * count], dtype);
                let sparse = SparseCoo::new(&Tensor::from(&places), &elements, &[3, 1, k]).unwrap();
                values(sparse_bmm(&sparse, &ones(&[3, k, 7], dtype)).unwrap().value())
            });
        }
    }
}

#[test]
fn convolutions() {
    let (channels, taps) = (70, 9);
    let k = channels * taps;
    let params = ConvParams::padded(2, 0);
    for dtype in FLOATS {
        check_chain("conv", k, BLOCK, everywhere, |x| {
            let x = constant(x, &[1, channels, 3, 3], dtype);
            values(f::conv(&x, &ones(&[4, channels, 3, 3], dtype), None, &params).unwrap().value())
        });
        check_chain("conv, gradient of the input", k, BLOCK, everywhere, |weight| {
            // The middle of the input is under every tap.
            let x = Tensor::ones(&[1, 1, 5, 5], dtype).unwrap().set_requires_grad(true).unwrap();
            let y = f::conv(&x, &constant(weight, &[channels, 1, 3, 3], dtype), None, &params);
            let all = gradient(&y.unwrap(), &ones(&[1, channels, 3, 3], dtype), &x);
            vec![all[2 * 5 + 2]]
        });
        check_chain("conv_transpose", k, BLOCK, everywhere, |weight| {
            let weight = constant(weight, &[channels, 1, 3, 3], dtype);
            let y = f::conv_transpose(
                &ones(&[1, channels, 3, 3], dtype),
                &weight,
                None,
                &params,
                &[0, 0],
            );
            vec![values(y.unwrap().value())[2 * 5 + 2]]
        });
        check_chain("conv_transpose, gradient of the input", k, BLOCK, everywhere, |grad| {
            let x = Tensor::ones(&[1, 1, 1, 1], dtype).unwrap().set_requires_grad(true).unwrap();
            let weight = ones(&[1, channels, 3, 3], dtype);
            let y = f::conv_transpose(&x, &weight, None, &params, &[0, 0]).unwrap();
            gradient(&y, &constant(grad, &[1, channels, 3, 3], dtype), &x)
        });
    }
}

#[test]
fn gradients_of_kernels() {
    let (images, length) = (3, WEIGHT_BLOCK + 50);
    let n = images * length;
    let params = ConvParams::padded(1, 0);
    for dtype in FLOATS {
        let weight = || Tensor::ones(&[1, 1, 1], dtype).unwrap().set_requires_grad(true).unwrap();
        check_chain("conv, gradient of the weight", n, WEIGHT_BLOCK, everywhere, |grad| {
            let weight = weight();
            let y = f::conv(&ones(&[images, 1, length], dtype), &weight, None, &params).unwrap();
            gradient(&y, &constant(grad, &[images, 1, length], dtype), &weight)
        });
        let name = "conv_transpose, gradient of the weight";
        check_chain(name, n, WEIGHT_BLOCK, everywhere, |grad| {
            let weight = weight();
            let x = ones(&[images, 1, length], dtype);
            let y = f::conv_transpose(&x, &weight, None, &params, &[0]).unwrap();
            gradient(&y, &constant(grad, &[images, 1, length], dtype), &weight)
        });
    }
}

#[test]
fn the_order_is_the_same_at_every_level() {
    let k = 2 * BLOCK + 40;
    test_support::at_every_level(|_| {
        check_chain("matmul", k, BLOCK, everywhere, |a| {
            let product = f::matmul(&constant(a, &[1, k], DType::F32), &ones(&[k, 37], DType::F32));
            values(product.unwrap().value())
        });
    });
}

/// A chain without blocks, and one with other blocks, differ from the written one.
#[test]
fn probing_tells_orders_apart() {
    let k = 2 * BLOCK + 40;
    for block in [1, 128, 255, k] {
        let other = |probe: &[f32]| -> Vec<f32> {
            let sums = probe.chunks(block).map(|block| block.iter().sum::<f32>());
            vec![sums.reduce(|total, partial| total + partial).unwrap()]
        };
        let compare = || check_chain("another order", k, BLOCK, everywhere, other);
        assert!(std::panic::catch_unwind(compare).is_err(), "blocks of {block}");
    }
}
