//! Attention: the keys that a query attends to.

use samebits_autograd::functional::{self, scaled_dot_product_attention};
use samebits_autograd::nn::{
    self, Attend, Module, MultiheadAttention, TransformerDecoderLayer, TransformerEncoderLayer,
    init,
};
use samebits_autograd::{Result, Tensor};
use samebits_rng::Generator;
use samebits_tensor_core::DType;

fn drawn<R>(seed: u64, f: impl FnOnce() -> Result<R>) -> R {
    nn::draw_from(&mut Generator::new(seed), f).unwrap()
}

fn normal(shape: &[usize], seed: u64) -> Tensor {
    let mut x = Tensor::zeros(shape, DType::F32).unwrap();
    drawn(seed, || init::normal(&mut x, 0.0, 1.0));
    x
}

/// A query whose keys are all masked gets zeros, and no gradient becomes infinite or NaN.
#[test]
fn a_query_without_keys_finds_zeros_in_every_attention() {
    let bools = |x: &[bool], shape: &[usize]| Tensor::from_bools(x, shape).unwrap();
    let floats = |x: &[bool], shape: &[usize]| {
        let numbers: Vec<f32> =
            x.iter().map(|&hidden| if hidden { f32::NEG_INFINITY } else { 0.25 }).collect();
        Tensor::from_slice(&numbers, shape).unwrap()
    };
    let finite = |name: &str, x: &Tensor| {
        let x = x.to_vec::<f32>().unwrap();
        assert!(x.iter().all(|x| x.is_finite()), "{name}: {x:?}");
    };

    let [q, k, v] = [1, 2, 3].map(|seed| normal(&[2, 3, 4], seed).set_requires_grad(true).unwrap());
    let hidden = [false, false, true, true, true, true, false, true, false];
    let seen = bools(&hidden.map(|hidden| !hidden), &[3, 3]);
    for mask in [seen, floats(&hidden, &[3, 3])] {
        let mask =
            if mask.dtype().is_float() { mask.set_requires_grad(true).unwrap() } else { mask };
        let y = scaled_dot_product_attention(&q, &k, &v, Some(&mask), 0.0, false, None).unwrap();
        for sample in y.to_vec::<f32>().unwrap().chunks(12) {
            assert_eq!(sample[4..8], [0.0; 4]);
            assert!(sample[..4].iter().chain(&sample[8..]).all(|&y| y != 0.0 && y.is_finite()));
        }
        let gradients = y.square().unwrap().sum(()).unwrap().backward().unwrap();
        for (name, x) in [("query", &q), ("key", &k), ("value", &v), ("mask", &mask)] {
            if x.requires_grad() {
                finite(name, gradients.of(x).unwrap());
            }
        }
        assert_eq!(gradients.of(&q).unwrap().to_vec::<f32>().unwrap()[4..8], [0.0; 4]);
    }

    let layer = drawn(6, || MultiheadAttention::options(4, 2).batch_first(true).init());
    let x = normal(&[2, 3, 4], 7);
    let padding = [false, false, true, true, true, true];
    for numbers in [false, true] {
        let make = if numbers { &floats as &dyn Fn(&[bool], &[usize]) -> Tensor } else { &bools };
        let (pairs, keys) = (make(&hidden, &[3, 3]), make(&padding, &[2, 3]));
        for is_causal in [false, true] {
            let attend = Attend {
                attn_mask: Some(&pairs),
                key_padding_mask: Some(&keys),
                is_causal,
                ..Attend::default()
            };
            let (y, weights) = layer.forward(&x, &x, &x, attend).unwrap();
            let weights = weights.unwrap().to_vec::<f32>().unwrap();
            // Query 1 of both samples, and all queries of the second.
            assert_eq!(weights[3..6], [0.0; 3]);
            assert_eq!(weights[9..], [0.0; 9]);
            assert!(weights[0] > 0.0 && weights[6] == 1.0, "{weights:?}");
            let bias = layer.out_proj.bias.as_ref().unwrap().to_vec::<f32>().unwrap();
            assert_eq!(y.to_vec::<f32>().unwrap()[4..8], bias[..]);
            let gradients = y.square().unwrap().sum(()).unwrap().backward().unwrap();
            for (name, parameter) in layer.named_parameters() {
                finite(&name, gradients.of(&parameter).unwrap());
            }
        }
    }
}

/// A sample whose keys are all padding does not affect the loss of another sample: the input of
/// pytorch#41508.
#[test]
fn padding_alone_leaves_the_gradients_of_transformer_layers_finite() {
    let padding = Tensor::from_bools(&[false, false, true, true, true, true], &[2, 3]).unwrap();
    let attend = || Attend { key_padding_mask: Some(&padding), ..Attend::default() };
    let x = normal(&[3, 2, 4], 2);
    for norm_first in [false, true] {
        let encoder = drawn(1, || {
            TransformerEncoderLayer::options(4, 2).dim_feedforward(8).norm_first(norm_first).init()
        });
        let decoder = drawn(1, || {
            TransformerDecoderLayer::options(4, 2).dim_feedforward(8).norm_first(norm_first).init()
        });
        let encoded = encoder.forward_with(&x, attend()).unwrap();
        let decoded = decoder.forward(&x, &x, attend(), attend()).unwrap();
        let parameters = [encoder.named_parameters(), decoder.named_parameters()];
        for (y, parameters) in [encoded, decoded].iter().zip(parameters) {
            assert!(y.to_vec::<f32>().unwrap().iter().all(|y| y.is_finite()));
            for sample in 0..2 {
                let own = functional::narrow(y, 1, sample, 1).unwrap();
                let gradients = own.square().unwrap().sum(()).unwrap().backward().unwrap();
                for (name, parameter) in &parameters {
                    let grad = gradients.of(parameter).unwrap().to_vec::<f32>().unwrap();
                    assert!(
                        grad.iter().all(|x| x.is_finite()),
                        "{name}, sample {sample}: {grad:?}"
                    );
                }
            }
        }
    }
}

/// A masked key has no influence; an unmasked NaN has.
#[test]
fn the_mask_alone_decides_what_is_hidden() {
    let attention = |k: &[f32], mask: &Tensor| {
        let [q, v] =
            [&[1.0f32, 1.0][..], &[3.0, 5.0]].map(|x| Tensor::from_slice(x, &[2, 1]).unwrap());
        let k = Tensor::from_slice(k, &[2, 1]).unwrap();
        let y = scaled_dot_product_attention(&q, &k, &v, Some(mask), 0.0, false, None).unwrap();
        y.to_vec::<f32>().unwrap()
    };
    let first = Tensor::from_bools(&[true, false], &[2]).unwrap();
    let numbers = Tensor::from_slice(&[0.0, f32::NEG_INFINITY], &[2]).unwrap();
    for mask in [&first, &numbers] {
        for other in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 1e30] {
            assert_eq!(attention(&[0.0, other], mask), [3.0; 2], "{other}");
            let seen = attention(&[other, 0.0], mask);
            assert!(seen.iter().all(|y| if other == 1e30 { *y == 3.0 } else { y.is_nan() }));
        }
    }
}

#[test]
fn attention_without_keys_or_with_more_queries_than_keys() {
    let attention = |queries: usize, keys: usize, mask: Option<&Tensor>, is_causal| {
        let x = |n: usize, seed| normal(&[2, n, 4], seed).set_requires_grad(true).unwrap();
        let (q, k, v) = (x(queries, 1), x(keys, 2), x(keys, 3));
        let y = scaled_dot_product_attention(&q, &k, &v, mask, 0.0, is_causal, None).unwrap();
        let gradients = y.square().unwrap().sum(()).unwrap().backward().unwrap();
        let grad = gradients.of(&q).unwrap().to_vec::<f32>().unwrap();
        assert!(grad.iter().all(|x| x.is_finite()));
        y.to_vec::<f32>().unwrap()
    };
    let none = Tensor::from_bools(&[], &[3, 0]).unwrap();
    for (mask, is_causal) in [(None, false), (None, true), (Some(&none), false)] {
        assert_eq!(attention(3, 0, mask, is_causal), [0.0; 24]);
    }
    assert!(attention(5, 2, None, true).iter().all(|&y| y.is_finite() && y != 0.0));
    let one = Tensor::from_bools(&[true, false, true], &[3, 1]).unwrap();
    let y = attention(3, 2, Some(&one), false);
    assert_eq!((y[4..8].to_vec(), y[16..20].to_vec()), (vec![0.0; 4], vec![0.0; 4]));
    assert!(y[0] != 0.0);

    let layer = drawn(6, || MultiheadAttention::options(4, 2).batch_first(true).init());
    let (x, nothing) = (normal(&[2, 3, 4], 7), Tensor::zeros(&[2, 0, 4], DType::F32).unwrap());
    let (y, weights) = layer.forward(&x, &nothing, &nothing, Attend::default()).unwrap();
    let bias = layer.out_proj.bias.as_ref().unwrap().to_vec::<f32>().unwrap();
    assert!(y.to_vec::<f32>().unwrap().chunks(4).all(|row| row == bias));
    assert_eq!(weights.unwrap().shape(), [2, 3, 0]);
}

#[test]
fn a_mask_that_is_none_is_refused() {
    let x = normal(&[2, 3, 4], 7);
    let mask = Tensor::from_slice(&[0i64; 9], &[3, 3]).unwrap();
    let error = scaled_dot_product_attention(&x, &x, &x, Some(&mask), 0.0, false, None);
    let error = error.unwrap_err().to_string();
    let expected = "expected a mask of type bool or f32, got i64";
    assert_eq!(error, format!("scaled_dot_product_attention: {expected}"));
    let layer = drawn(6, || MultiheadAttention::new(4, 2));
    let attend = Attend { attn_mask: Some(&mask), ..Attend::default() };
    let error = layer.forward(&x, &x, &x, attend).unwrap_err().to_string();
    assert_eq!(error, format!("MultiheadAttention: {expected}"));
}
