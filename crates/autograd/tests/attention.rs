//! Attention: the keys that a query attends to.

use samebits_autograd::functional::{
    self, AttentionOptions, scaled_dot_product_attention, scaled_dot_product_attention_with,
};
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

/// Attention to the keys before a query, with and without a cache, is the same as with a mask.
#[test]
fn a_causal_offset_is_a_mask() {
    let (q, k, v) = (normal(&[2, 5, 4], 1), normal(&[2, 9, 4], 2), normal(&[2, 9, 3], 3));
    for offset in [0, 1, 4, 7, 8, 100, usize::MAX] {
        let shown: Vec<bool> =
            (0..5).flat_map(|i| (0..9).map(move |j| j <= i + offset.min(9))).collect();
        let shown = Tensor::from_bools(&shown, &[5, 9]).unwrap();
        let masked = AttentionOptions { attn_mask: Some(&shown), ..AttentionOptions::default() };
        let causal =
            AttentionOptions { causal_offset: Some(offset), ..AttentionOptions::default() };
        let [masked, causal] = [masked, causal]
            .map(|options| scaled_dot_product_attention_with(&q, &k, &v, &options).unwrap());
        assert_eq!(masked.to_bytes().unwrap(), causal.to_bytes().unwrap(), "{offset}");
    }
    // The last queries alone, as in decoding with a cache.
    let x = normal(&[2, 9, 4], 4);
    let all = AttentionOptions { causal_offset: Some(0), ..AttentionOptions::default() };
    let all = scaled_dot_product_attention_with(&x, &k, &v, &all).unwrap();
    for first in 0..9 {
        let last = functional::narrow(&x, 1, first, 9 - first).unwrap();
        let options =
            AttentionOptions { causal_offset: Some(first), ..AttentionOptions::default() };
        let y = scaled_dot_product_attention_with(&last, &k, &v, &options).unwrap();
        let expected = functional::narrow(&all, 1, first, 9 - first).unwrap();
        assert_eq!(y.to_bytes().unwrap(), expected.to_bytes().unwrap(), "from {first}");
    }
}

/// Grouped queries have the bits of repeated keys and values.
#[test]
fn grouped_queries_are_repeated_keys() {
    let x = |shape: &[usize], seed| normal(shape, seed).set_requires_grad(true).unwrap();
    let (q, k, v) = (x(&[2, 6, 5, 4], 1), x(&[2, 2, 7, 4], 2), x(&[2, 2, 7, 3], 3));
    let three = Tensor::from_slice(&[3i64], &[1]).unwrap();
    let repeated = |x: &Tensor| functional::repeat_interleave(x, &three, 1).unwrap();
    let masks = [None, Some(&[5, 7][..]), Some(&[6, 5, 7]), Some(&[2, 1, 1, 7])];
    for shape in masks {
        let mask = shape.map(|shape| normal(shape, 4));
        let grouped = AttentionOptions {
            attn_mask: mask.as_ref(),
            enable_gqa: true,
            ..AttentionOptions::default()
        };
        let plain = AttentionOptions { enable_gqa: false, ..grouped };
        let y = scaled_dot_product_attention_with(&q, &k, &v, &grouped).unwrap();
        let (keys, values) = (repeated(&k), repeated(&v));
        let z = scaled_dot_product_attention_with(&q, &keys, &values, &plain).unwrap();
        assert_eq!(y.shape(), [2, 6, 5, 3]);
        assert_eq!(y.to_bytes().unwrap(), z.to_bytes().unwrap());
        let [a, b] = [y, z].map(|y| y.square().unwrap().sum(()).unwrap().backward().unwrap());
        for (x, tolerance) in [(&q, 0.0), (&k, 1e-5), (&v, 1e-5)] {
            let [a, b] = [&a, &b].map(|all| all.of(x).unwrap().to_vec::<f32>().unwrap());
            assert!(a.iter().zip(&b).all(|(a, b)| (a - b).abs() <= tolerance * a.abs().max(1.0)));
        }
    }
}

/// Dropout drops the numerators of the weights, in the order of the weights, and draws once.
#[test]
fn dropout_draws_a_number_for_each_weight() {
    let ones = Tensor::ones(&[2, 3, 4], DType::F32).unwrap();
    let [q, k] = [5, 6].map(|seed| normal(&[2, 3, 4], seed).set_requires_grad(true).unwrap());
    let v = Tensor::from_slice(&[1.0f32, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0], &[3, 3]).unwrap();
    let mut generator = Generator::new(3);
    let equal = Tensor::ones(&[2, 3, 3], DType::F32).unwrap();
    let expected = functional::dropout_with(&equal, 0.5, &mut generator).unwrap();
    let expected = (expected / 3.0).unwrap();
    let mut used = Generator::new(3);
    let options = AttentionOptions { dropout_p: 0.5, ..AttentionOptions::default() };
    let y =
        nn::draw_from(&mut used, || scaled_dot_product_attention_with(&ones, &ones, &v, &options))
            .unwrap();
    // Equal scores: the weights are thirds.
    assert_eq!(y.to_vec::<f32>().unwrap(), expected.to_vec::<f32>().unwrap());
    assert_eq!(used, generator);
    // The gradient has the same zeros: a difference quotient.
    let at = |k: &Tensor| {
        drawn(3, || scaled_dot_product_attention_with(&q, k, &v, &options)?.square()?.sum(()))
    };
    let grad = at(&k).backward().unwrap().of(&k).unwrap().to_vec::<f32>().unwrap();
    let base = k.to_vec::<f32>().unwrap();
    for i in 0..base.len() {
        let [above, below] = [1e-2f32, -1e-2].map(|step| {
            let mut moved = base.clone();
            moved[i] += step;
            f64::from(at(&Tensor::from_slice(&moved, &[2, 3, 4]).unwrap()).item::<f32>().unwrap())
        });
        let quotient = (above - below) / 2e-2;
        assert!((quotient - f64::from(grad[i])).abs() < 2e-3, "{quotient} {}", grad[i]);
    }
}

#[test]
fn arguments_that_do_not_fit_are_refused() {
    let x = |shape: &[usize]| Tensor::zeros(shape, DType::F32).unwrap();
    let wide = Tensor::zeros(&[2, 3, 4], DType::F64).unwrap();
    let none = AttentionOptions::default();
    let grouped = AttentionOptions { enable_gqa: true, ..none };
    let (long, tall) = (x(&[3, 4]), x(&[2, 3]));
    let masked = |mask| AttentionOptions { attn_mask: Some(mask), ..none };
    let cases: [(Tensor, Tensor, Tensor, AttentionOptions<'_>, &str); _] = [
        (x(&[4]), x(&[3, 4]), x(&[3, 4]), none, "got [4], [3, 4] and [3, 4]"),
        (x(&[2, 5]), x(&[3, 4]), x(&[3, 4]), none, "got [2, 5], [3, 4] and [3, 4]"),
        (x(&[2, 4]), x(&[3, 4]), x(&[5, 4]), none, "got [2, 4], [3, 4] and [5, 4]"),
        (x(&[2, 3, 4]), wide.clone(), wide.clone(), none, "one type, got f32 and f64"),
        (x(&[5, 2, 4]), x(&[2, 3, 4]), x(&[2, 3, 4]), grouped, "got [5, 2, 4], [2, 3, 4]"),
        (x(&[2, 4]), x(&[3, 4]), x(&[3, 4]), grouped, "got [2, 4], [3, 4] and [3, 4]"),
        (x(&[2, 4]), x(&[3, 4]), x(&[3, 4]), masked(&long), "broadcasts to [.., 2, 3], got [3, 4]"),
        (x(&[1, 4]), x(&[3, 4]), x(&[3, 4]), masked(&tall), "broadcasts to [.., 1, 3], got [2, 3]"),
    ];
    for (q, k, v, options, expected) in cases {
        let error = scaled_dot_product_attention_with(&q, &k, &v, &options).unwrap_err();
        let error = error.to_string();
        assert!(error.starts_with("scaled_dot_product_attention_with: "), "{error}");
        assert!(error.contains(expected), "{error}");
    }
    let q = x(&[3, 4]);
    let error = scaled_dot_product_attention(&q, &q, &q, Some(&x(&[3, 3])), 0.0, true, None);
    assert!(error.unwrap_err().to_string().starts_with("scaled_dot_product_attention: "));
}

/// Rotated rows are those of their positions alone, in both conventions; see `torch.rs` for values.
#[test]
fn rotated_rows_depend_on_their_positions_alone() {
    for interleaved in [false, true] {
        let rotary = nn::RotaryEmbedding::options(6, 40).interleaved(interleaved).init().unwrap();
        let x = normal(&[2, 3, 37, 8], 1);
        let whole = rotary.forward(&x, 3).unwrap();
        for (start, length) in [(0, 37), (0, 5), (5, 32), (36, 1), (7, 0)] {
            let part = rotary.forward(&x.narrow(2, start, length).unwrap(), 3 + start).unwrap();
            let expected = whole.narrow(2, start, length).unwrap();
            assert_eq!(part.to_bytes().unwrap(), expected.to_bytes().unwrap());
        }
        // Position 0 turns nothing, and the last two features never turn.
        let start = rotary.forward(&x.narrow(2, 0, 1).unwrap(), 0).unwrap();
        assert_eq!(
            start.to_vec::<f32>().unwrap(),
            x.narrow(2, 0, 1).unwrap().to_vec::<f32>().unwrap()
        );
        let tail = |x: &Tensor| x.narrow(3, 6, 2).unwrap().to_bytes().unwrap();
        assert_eq!(tail(&whole), tail(&x));
        let wide = x.narrow(2, 0, 3).unwrap().to_dtype(DType::F64).unwrap();
        let wide = wide.set_requires_grad(true).unwrap();
        let call = |x: &[Tensor]| rotary.forward(&x[0], 30);
        samebits_autograd::gradcheck(call, &[&wide]).unwrap();
        samebits_autograd::gradgradcheck(call, &[&wide]).unwrap();
    }
}

/// Rotations with tables that have gradients are a composition; all others have its bits.
#[test]
fn rotations_have_the_bits_of_their_composition() {
    let zeros = |x: &Tensor| {
        let mut numbers = x.to_vec::<f32>().unwrap();
        for (i, number) in numbers.iter_mut().enumerate() {
            match i % 11 {
                3 => *number = -0.0,
                5 => *number = 0.0,
                7 => *number *= 1e-40,
                _ => {}
            }
        }
        Tensor::from_slice(&numbers, x.shape()).unwrap()
    };
    for (seed, interleaved) in [(1, false), (2, true)] {
        for rows in [1, 2000] {
            let x = zeros(&normal(&[rows, 2, 3, 13], seed)).transpose(1, 2).unwrap();
            let grad = zeros(&normal(&[rows, 3, 2, 13], seed + 10));
            let [cos, sin] = [20, 30].map(|more| zeros(&normal(&[2, 5], seed + more)));
            let found = |tables: bool| {
                let x = x.detach().set_requires_grad(true).unwrap();
                let [cos, sin] = [&cos, &sin].map(|table| {
                    let table = table.reshape([1, 1, 2, 5]).unwrap().detach();
                    table.set_requires_grad(tables).unwrap()
                });
                let y = functional::rotary_embedding(&x, &cos, &sin, interleaved).unwrap();
                let gradients = y.backward_from(grad.clone(), false).unwrap();
                let gradient = gradients.of(&x).unwrap().to_vec::<f32>().unwrap();
                (y.to_bytes().unwrap(), gradient)
            };
            let ((y, gradient), (expected, composed)) = (found(false), found(true));
            assert!(y == expected, "{interleaved}, {rows}");
            // The composition adds zeros to the gradient, which turn -0 into +0.
            let composed = composed.iter().zip(&gradient);
            for (i, (&composed, &gradient)) in composed.enumerate() {
                let zero = if composed == 0.0 { gradient.abs() } else { gradient };
                assert_eq!(composed.to_bits(), zero.to_bits(), "{interleaved}, {rows}, {i}");
            }
        }
    }
}

/// Angles far out are as exact as those at the start.
#[test]
fn rotary_tables_are_exact_at_a_million() {
    let rotary = nn::RotaryEmbedding::options(2, (1 << 20) + 1).base(1.0).init().unwrap();
    let y = rotary.forward(&Tensor::new([[1.0f32, 0.0]]).unwrap(), 1 << 20).unwrap();
    // The cosine and sine of 2^20, by mpmath.
    assert_eq!(
        y.to_vec::<f32>().unwrap(),
        [0.943808393901312f64 as f32, 0.3304931400217347f64 as f32]
    );
}

#[test]
fn rotary_embeddings_name_what_does_not_fit() {
    let rotary = nn::RotaryEmbedding::new(4, 10).unwrap();
    let ones = |shape: &[usize]| Tensor::ones(shape, DType::F32).unwrap();
    let refused = |result: Result<Tensor>, expected: &str| {
        assert_eq!(result.unwrap_err().to_string(), expected);
    };
    refused(
        rotary.forward(&ones(&[1, 3, 4]), 8),
        "RotaryEmbedding: expected positions below 10, got 3 positions from 8",
    );
    refused(
        rotary.forward(&ones(&[1, 3, 4]), usize::MAX),
        &format!(
            "RotaryEmbedding: expected positions below 10, got 3 positions from {}",
            usize::MAX
        ),
    );
    refused(
        rotary.forward(&ones(&[3, 3]), 0),
        "RotaryEmbedding: expected at least 4 features, got 3",
    );
    refused(
        rotary.forward(&ones(&[4]), 0),
        "RotaryEmbedding: expected [.., length, width], got shape [4]",
    );
    let integers = Tensor::zeros(&[3, 4], DType::I64).unwrap();
    assert!(rotary.forward(&integers, 0).unwrap_err().to_string().starts_with("RotaryEmbedding: "));
    for features in [0, 3] {
        let error = nn::RotaryEmbedding::new(features, 4).unwrap_err().to_string();
        let expected = "RotaryEmbedding: expected a positive even number of features, got ";
        assert_eq!(error, format!("{expected}{features}"));
    }
    for base in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let error = nn::RotaryEmbedding::options(4, 4).base(base).init().unwrap_err().to_string();
        assert_eq!(error, format!("RotaryEmbedding: expected a positive finite base, got {base}"));
    }
    assert!(nn::RotaryEmbedding::new(4, usize::MAX / 2).is_err());
    let scaled = |scaling: nn::RotaryScaling| {
        let error = nn::RotaryEmbedding::options(4, 4).scaling(scaling).init().unwrap_err();
        error.to_string()
    };
    let llama = |factor: f64, low: f64, high: f64, original_positions: usize| {
        scaled(nn::RotaryScaling::Llama3 {
            factor,
            low_frequency_factor: low,
            high_frequency_factor: high,
            original_positions,
        })
    };
    for factor in [0.0, f64::NAN, f64::INFINITY] {
        let expected =
            format!("RotaryEmbedding: expected a positive finite factor of scaling, got {factor}");
        assert_eq!(scaled(nn::RotaryScaling::Linear { factor }), expected);
        assert_eq!(llama(factor, 1.0, 4.0, 8), expected);
    }
    for (low, high) in [(4.0, 1.0), (1.0, 1.0), (0.0, 1.0), (1.0, f64::NAN)] {
        let expected = "RotaryEmbedding: expected 0 < low_frequency_factor < high_frequency_factor";
        assert_eq!(llama(8.0, low, high, 8), format!("{expected}, got {low} and {high}"));
    }
    let expected = "RotaryEmbedding: expected original_positions of at least 1, got 0";
    assert_eq!(llama(8.0, 1.0, 4.0, 0), expected);
    let (x, table) = (ones(&[2, 3, 4]), ones(&[3, 2]));
    for (x, cos, sin) in [
        (&x, &ones(&[3, 3]), &ones(&[3, 3])),
        (&x, &table, &ones(&[3, 1])),
        (&x, &ones(&[4, 2]), &ones(&[4, 2])),
        (&x, &ones(&[5, 1, 3, 2]), &ones(&[5, 1, 3, 2])),
        (&x, &ones(&[3, 0]), &ones(&[3, 0])),
        (&ones(&[4]), &ones(&[2]), &ones(&[2])),
    ] {
        let error = functional::rotary_embedding(x, cos, sin, true).unwrap_err().to_string();
        assert!(error.starts_with("rotary_embedding: expected [.., length, width]"), "{error}");
    }
}

/// Hidden keys at the front have no influence by their contents. By their length they move the keys
/// to other lanes and blocks of the sums: that changes bits, unless it moves by whole blocks.
#[test]
fn padding_at_the_front_changes_what_the_numerics_say() {
    let (queries, keys, width) = (40, 300, 8);
    let q = normal(&[queries, width], 1);
    let [k, v] = [2, 3].map(|seed| normal(&[keys, width], seed));
    let alone = scaled_dot_product_attention(&q, &k, &v, None, 0.0, false, None).unwrap();
    let alone = alone.to_vec::<f32>().unwrap();
    let padded = |length: usize, seed: u64, numbers: bool| {
        let rows = |x: &Tensor, seed: u64| {
            let padding = normal(&[length, width], seed).affine(100.0, -7.0).unwrap();
            functional::cat(&[&padding, x], 0).unwrap()
        };
        let shown: Vec<bool> = (0..length + keys).map(|key| key >= length).collect();
        let mask = match numbers {
            false => Tensor::from_bools(&shown, &[1, length + keys]).unwrap(),
            true => {
                let numbers =
                    shown.iter().map(|&shown| if shown { 0.0 } else { f32::NEG_INFINITY });
                Tensor::from_slice(&numbers.collect::<Vec<_>>(), &[1, length + keys]).unwrap()
            }
        };
        let (k, v) = (rows(&k, seed), rows(&v, seed + 1));
        let y = scaled_dot_product_attention(&q, &k, &v, Some(&mask), 0.0, false, None).unwrap();
        y.to_vec::<f32>().unwrap()
    };
    let bits = |x: &[f32]| x.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
    for length in [1, 3, 32, 100, 255, 256, 257, 512] {
        let found = padded(length, 10, false);
        assert_eq!(bits(&found), bits(&padded(length, 20, false)), "contents, {length}");
        assert_eq!(bits(&found), bits(&padded(length, 20, true)), "a mask of numbers, {length}");
        let same = bits(&found) == bits(&alone);
        assert_eq!(same, length % 256 == 0, "{length}");
        for (x, y) in found.iter().zip(&alone) {
            assert!((x - y).abs() < 1e-6, "{length}: {x}, {y}");
        }
    }
}
