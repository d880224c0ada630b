//! Layers and models: names, state, scopes, initial values.

use std::panic::{AssertUnwindSafe, catch_unwind};

use samebits_autograd::nn::{
    self, Attend, BatchNorm1d, BatchNorm2d, Bilinear, Conv2d, CosineSimilarity, Dropout, Embedding,
    Flatten, IncompatibleKeys, LSTM, Layer, Linear, Module, MultiheadAttention, PReLU, Padding,
    RMSNorm, Sequential, TransformerEncoderLayer, Unflatten, init,
};
use samebits_autograd::{Error, Result, Tensor, functional, sequential};
use samebits_rng::Generator;
use samebits_tensor_core::DType;
use samebits_tensor_core::ops::{ConvParams, PadMode};

fn drawn<R>(seed: u64, f: impl FnOnce() -> Result<R>) -> R {
    nn::draw_from(&mut Generator::new(seed), f).unwrap()
}

fn names(module: &dyn Module) -> Vec<String> {
    module.state_dict().into_iter().map(|(name, _)| name).collect()
}

fn normal(shape: &[usize], seed: u64) -> Tensor {
    let mut x = Tensor::zeros(shape, DType::F32).unwrap();
    drawn(seed, || init::normal(&mut x, 0.0, 1.0));
    x
}

fn bits(x: &Tensor) -> Vec<u8> {
    x.to_bytes().unwrap()
}

/// The names and shapes of `torch.nn` 2.x.
#[test]
fn state_has_the_names_of_torch() {
    #[track_caller]
    fn expect(module: &dyn Module, expected: &[(&str, &[usize])]) {
        let state = module.state_dict();
        let found: Vec<(&str, &[usize])> =
            state.iter().map(|(name, tensor)| (name.as_str(), tensor.shape())).collect();
        assert_eq!(found, expected);
    }
    expect(&drawn(0, || Linear::new(3, 2)), &[("weight", &[2, 3]), ("bias", &[2])]);
    expect(
        &drawn(0, || Conv2d::options(4, 6, [3, 5]).groups(2).init()),
        &[("weight", &[6, 2, 3, 5]), ("bias", &[6])],
    );
    let running: [(&str, &[usize]); 5] = [
        ("weight", &[3]),
        ("bias", &[3]),
        ("running_mean", &[3]),
        ("running_var", &[3]),
        ("num_batches_tracked", &[]),
    ];
    expect(&BatchNorm2d::new(3).unwrap(), &running);
    expect(&BatchNorm2d::options(3).affine(false).init().unwrap(), &running[2..]);
    expect(
        &drawn(0, || LSTM::options(3, 4).num_layers(2).bidirectional(true).init()),
        &[
            ("weight_ih_l0", &[16, 3]),
            ("weight_hh_l0", &[16, 4]),
            ("bias_ih_l0", &[16]),
            ("bias_hh_l0", &[16]),
            ("weight_ih_l0_reverse", &[16, 3]),
            ("weight_hh_l0_reverse", &[16, 4]),
            ("bias_ih_l0_reverse", &[16]),
            ("bias_hh_l0_reverse", &[16]),
            ("weight_ih_l1", &[16, 8]),
            ("weight_hh_l1", &[16, 4]),
            ("bias_ih_l1", &[16]),
            ("bias_hh_l1", &[16]),
            ("weight_ih_l1_reverse", &[16, 8]),
            ("weight_hh_l1_reverse", &[16, 4]),
            ("bias_ih_l1_reverse", &[16]),
            ("bias_hh_l1_reverse", &[16]),
        ],
    );
    expect(
        &drawn(0, || LSTM::options(3, 4).bias(false).proj_size(2).init()),
        &[("weight_ih_l0", &[16, 3]), ("weight_hh_l0", &[16, 2]), ("weight_hr_l0", &[2, 4])],
    );
    let attention: [(&str, &[usize]); 4] = [
        ("in_proj_weight", &[12, 4]),
        ("in_proj_bias", &[12]),
        ("out_proj.weight", &[4, 4]),
        ("out_proj.bias", &[4]),
    ];
    expect(&drawn(0, || MultiheadAttention::new(4, 2)), &attention);
    expect(
        &drawn(0, || MultiheadAttention::options(4, 2).kdim(3).vdim(5).bias(false).init()),
        &[
            ("q_proj_weight", &[4, 4]),
            ("k_proj_weight", &[4, 3]),
            ("v_proj_weight", &[4, 5]),
            ("out_proj.weight", &[4, 4]),
        ],
    );
    let layer = drawn(0, || TransformerEncoderLayer::options(4, 2).dim_feedforward(8).init());
    expect(
        &layer,
        &[
            ("self_attn.in_proj_weight", &[12, 4]),
            ("self_attn.in_proj_bias", &[12]),
            ("self_attn.out_proj.weight", &[4, 4]),
            ("self_attn.out_proj.bias", &[4]),
            ("linear1.weight", &[8, 4]),
            ("linear1.bias", &[8]),
            ("linear2.weight", &[4, 8]),
            ("linear2.bias", &[4]),
            ("norm1.weight", &[4]),
            ("norm1.bias", &[4]),
            ("norm2.weight", &[4]),
            ("norm2.bias", &[4]),
        ],
    );
}

#[test]
fn state_is_loaded_whole_or_not_at_all() {
    let make = |seed| drawn(seed, || Ok(sequential![Linear::new(2, 3)?, BatchNorm1d::new(3)?]));
    let (source, mut target) = (make(1), make(2));
    let x = normal(&[8, 2], 5);
    nn::train(|| source.forward(&x)).unwrap();
    let state = source.state_dict();
    let before: Vec<Vec<u8>> = target.state_dict().iter().map(|(_, x)| bits(x)).collect();
    let unchanged = |target: &Sequential| {
        let now: Vec<Vec<u8>> = target.state_dict().iter().map(|(_, x)| bits(x)).collect();
        now == before
    };

    let mut other = state.clone();
    other.remove(0);
    other.push(("2.weight".to_owned(), x.clone()));
    let error = target.load_state_dict(&other, true).unwrap_err().to_string();
    assert!(error.starts_with("load_state_dict: "), "{error}");
    assert!(error.contains("0.weight") && error.contains("2.weight"), "{error}");
    assert!(unchanged(&target));

    let mut other = state.clone();
    other[1].1 = Tensor::zeros(&[4], DType::F32).unwrap();
    let error = target.load_state_dict(&other, false).unwrap_err().to_string();
    assert!(
        error.contains("0.bias should be f32 of shape [3], but is f32 of shape [4]"),
        "{error}"
    );
    assert!(unchanged(&target));

    let keys = target.load_state_dict(&state[1..], false).unwrap();
    let missing = vec!["0.weight".to_owned()];
    assert_eq!(keys, IncompatibleKeys { missing, unexpected: Vec::new() });
    assert!(!unchanged(&target));
    assert_eq!(target.load_state_dict(&state, true).unwrap(), IncompatibleKeys::default());
    assert_eq!(bits(&source.forward(&x).unwrap()), bits(&target.forward(&x).unwrap()));
    assert_eq!(target.state_dict()[6].1.item::<i64>().unwrap(), 1);
    assert!(target.named_parameters().iter().all(|(_, x)| x.requires_grad()));
}

#[test]
fn frozen_parameters_keep_their_names() {
    let mut layer = drawn(0, || Linear::new(2, 2));
    layer.requires_grad_(false).unwrap();
    assert_eq!(names(&layer), ["weight", "bias"]);
    assert_eq!(layer.num_parameters(), 6);
    let summary = layer.summary().to_string();
    assert!(summary.ends_with("6 parameters, 0 of them trained; 0 elements of buffers\n"));
    layer.requires_grad_(true).unwrap();
    assert!(layer.parameters().iter().all(Tensor::requires_grad));
}

#[test]
fn evaluation_is_the_default_and_scopes_nest() {
    let seen = || nn::is_training();
    assert!(!seen());
    let (outer, inner, after) = nn::train(|| (seen(), nn::eval(seen), seen()));
    assert!(outer && !inner && after);
    assert!(catch_unwind(|| nn::train(|| panic!("planted"))).is_err());
    assert!(!seen());
}

#[test]
fn initialisers_without_a_distribution_are_pytorchs() {
    let mut x = Tensor::zeros(&[2, 3], DType::F64).unwrap();
    nn::init::eye(&mut x).unwrap();
    assert_eq!(x.to_vec::<f64>().unwrap(), [1.0, 0.0, 0.0, 0.0, 1.0, 0.0]);
    nn::init::ones(&mut x).unwrap();
    assert_eq!(x.to_vec::<f64>().unwrap(), [1.0; 6]);
    nn::init::zeros(&mut x).unwrap();
    assert_eq!(x.to_vec::<f64>().unwrap(), [0.0; 6]);
    assert!(nn::init::eye(&mut Tensor::scalar(1.0f32)).is_err());
    // torch.nn.init.dirac_(torch.empty(4, 3, 4), groups=2).nonzero()
    let mut x = Tensor::ones(&[4, 3, 4], DType::F32).unwrap();
    nn::init::dirac(&mut x, 2).unwrap();
    let places = x.nonzero().unwrap();
    assert_eq!(places.to_vec::<i64>().unwrap(), [0, 0, 2, 1, 1, 2, 2, 0, 2, 3, 1, 2]);
    assert!(nn::init::dirac(&mut x, 3).is_err());
    assert!(nn::init::dirac(&mut Tensor::ones(&[4, 3], DType::F32).unwrap(), 1).is_err());
    let mut x = Tensor::ones(&[10, 4], DType::F32).unwrap();
    nn::draw_from(&mut Generator::new(1), || nn::init::sparse(&mut x, 0.25, 0.01)).unwrap();
    let zeros = x.eq(0.0).unwrap().to_dtype(DType::I64).unwrap().sum(0).unwrap();
    assert_eq!(zeros.to_vec::<i64>().unwrap(), [3; 4]);
    let shares = |share| {
        nn::draw_from(&mut Generator::new(1), || {
            nn::init::sparse(&mut Tensor::ones(&[3, 2], DType::F32).unwrap(), share, 0.01)
        })
    };
    assert!(shares(1.0).is_ok() && shares(1.1).is_err() && shares(f64::NAN).is_err());
}

#[test]
fn random_options_draw_what_the_functions_do() {
    let options = functional::RandomOptions::new();
    let drawn = |f: &dyn Fn() -> samebits_autograd::Result<Tensor>| {
        nn::draw_from(&mut Generator::new(5), f).unwrap()
    };
    let same = |a: Tensor, b: Tensor| {
        assert_eq!((a.dtype(), bits(&a)), (b.dtype(), bits(&b)));
    };
    same(drawn(&|| options.rand(&[5])), drawn(&|| functional::rand(&[5])));
    same(drawn(&|| options.randn(&[5])), drawn(&|| functional::randn(&[5])));
    let normal = || functional::normal_scalar(1.0, 2.0, &[5]);
    same(drawn(&|| options.normal(1.0, 2.0, &[5])), drawn(&normal));
    let integers = || functional::randint(3, 9, &[5]);
    same(drawn(&|| options.randint(3, 9, &[5])), drawn(&integers));
    let wide = Tensor::zeros(&[5], DType::F64).unwrap();
    let options = options.dtype(DType::F64);
    same(drawn(&|| options.rand(&[5])), drawn(&|| wide.rand_like()));
    same(drawn(&|| options.randn(&[5])), drawn(&|| wide.randn_like()));
    assert_eq!(drawn(&|| options.randint(3, 9, &[5])).dtype(), DType::F64);
    let error = options.dtype(DType::I64).randn(&[5]).unwrap_err().to_string();
    assert!(error.starts_with("randn: expected the result of type f32, got i64"), "{error}");
}

#[test]
fn a_given_generator_moves_on_by_what_is_drawn() {
    let (dropout, x) = (Dropout::default(), Tensor::ones(&[8], DType::F32).unwrap());
    let mut expected = Generator::new(3);
    let first = functional::dropout_with(&x, 0.5, &mut expected).unwrap();
    let second = functional::dropout_with(&x, 0.5, &mut expected).unwrap();

    let mut generator = Generator::new(3);
    let y = nn::train_with(&mut generator, || {
        // An inner scope takes nothing from this one.
        nn::draw_from(&mut Generator::new(9), || dropout.forward(&x))?;
        dropout.forward(&x)
    });
    assert_eq!(bits(&y.unwrap()), bits(&first));
    let caught = catch_unwind(AssertUnwindSafe(|| {
        nn::train_with(&mut generator, || {
            assert_eq!(bits(&dropout.forward(&x).unwrap()), bits(&second));
            panic!("planted")
        })
    }));
    assert!(caught.is_err());
    assert_eq!(generator, expected);
    // Evaluation draws nothing and needs no generator.
    assert_eq!(bits(&dropout.forward(&x).unwrap()), bits(&x));
    // Without one, the default generators return an error on an unseeded thread.
    let error = std::thread::spawn(move || nn::train(|| dropout.forward(&x)).unwrap_err());
    let error = error.join().unwrap();
    assert!(matches!(error, Error::Unseeded { .. } | Error::ForeignThread { .. }), "{error}");
}

#[test]
fn a_clone_has_statistics_of_its_own() {
    let layer = BatchNorm1d::new(2).unwrap();
    let copy = layer.clone();
    nn::train(|| layer.forward(&normal(&[4, 2], 1))).unwrap();
    let mean = |layer: &BatchNorm1d| bits(&layer.running.as_ref().unwrap().running_mean.get());
    assert_ne!(mean(&layer), mean(&copy));
    let table = drawn(0, || Embedding::options(4, 2).max_norm(0.1).init());
    let copy = table.clone();
    table.forward(&Tensor::from_slice(&[1i64], &[1]).unwrap()).unwrap();
    assert_ne!(bits(&table.weight.get()), bits(&copy.weight.get()));
}

#[test]
fn without_momentum_all_batches_enter_alike() {
    let layer = BatchNorm1d::options(1).momentum(None).init().unwrap();
    for x in [[0.0f32, 2.0], [4.0, 6.0], [8.0, 12.0]] {
        nn::train(|| layer.forward(&Tensor::from_slice(&x, &[2, 1])?)).unwrap();
    }
    let mean = layer.running.as_ref().unwrap().running_mean.get().item::<f32>().unwrap();
    assert!((mean - 16.0 / 3.0).abs() < 1e-6, "{mean}");
}

#[test]
fn initial_values_have_their_scale() {
    let mut weight =
        Tensor::zeros(&[64, 32, 3], DType::F32).unwrap().set_requires_grad(true).unwrap();
    let mut moments = |fill: &dyn Fn(&mut Tensor) -> Result<()>| {
        drawn(4, || fill(&mut weight));
        assert!(weight.requires_grad());
        let values = weight.to_vec::<f32>().unwrap();
        let most = values.iter().fold(0.0f32, |most, x| most.max(x.abs()));
        let squares: f64 = values.iter().map(|&x| f64::from(x) * f64::from(x)).sum();
        (f64::from(most), (squares / values.len() as f64).sqrt())
    };
    let close = |a: f64, b: f64| (a - b).abs() < 0.03 * b;
    // Fans of 96 and 192.
    let bound = (6.0f64 / 288.0).sqrt();
    assert!(close(moments(&|w| init::xavier_uniform(w, init::Gain::Linear)).0, bound));
    let std = (2.0f64 / 288.0).sqrt();
    assert!(close(moments(&|w| init::xavier_normal(w, init::Gain::Linear)).1, std));
    let relu = init::Gain::Relu;
    let bound = (6.0f64 / 96.0).sqrt();
    assert!(close(moments(&|w| init::kaiming_uniform(w, init::Fan::In, relu)).0, bound));
    let std = (2.0f64 / 192.0).sqrt();
    assert!(close(moments(&|w| init::kaiming_normal(w, init::Fan::Out, relu)).1, std));
    assert!(moments(&|w| init::trunc_normal(w, 0.0, 1.0, -2.0, 2.0)).0 <= 2.0);
    assert_eq!(moments(&|w| init::constant(w, 0.5)), (0.5, 0.5));
    // Orthonormal rows have the mean square 1 / columns.
    let std = (1.0f64 / 96.0).sqrt();
    assert!(close(moments(&|w| init::orthogonal(w, init::Gain::Linear)).1, std));
    let error = init::xavier_normal(&mut Tensor::scalar(1.0f32), init::Gain::Linear).unwrap_err();
    assert!(error.to_string().starts_with("xavier_normal: "), "{error}");
}

/// Every parameter is uniform within ±1 / √fan_in, and nearly reaches the bounds.
#[test]
fn layers_begin_within_the_bound_of_their_inputs() {
    let layers = drawn(5, || {
        let kernel = Conv2d::new(4, 64, [3, 3])?;
        let layers: [(Box<dyn Module>, f64); 4] = [
            (Box::new(Linear::new(64, 100)?), 64.0),
            (Box::new(Bilinear::new(25, 8, 64)?), 25.0),
            (Box::new(kernel), 36.0),
            (Box::new(LSTM::new(7, 49)?), 49.0),
        ];
        Ok(layers)
    });
    for (layer, fan_in) in layers {
        for (name, parameter) in layer.named_parameters() {
            let values = parameter.to_vec::<f32>().unwrap();
            let most = values.iter().fold(0.0, |most, x| x.abs().max(most));
            let share = f64::from(most) * fan_in.sqrt();
            assert!((0.9..1.0 + 1e-6).contains(&share), "{name} reaches {share} of its bound");
        }
    }
}

#[test]
#[allow(clippy::disallowed_methods, reason = "an oracle that is compared with a tolerance")]
fn attention_is_what_its_formula_says() {
    let (n, length, width, heads) = (2, 3, 4, 2);
    let layer = drawn(6, || MultiheadAttention::options(4, 2).batch_first(true).init());
    let x = normal(&[n, length, width], 7);
    let causal = Attend { is_causal: true, average_attn_weights: false, ..Attend::default() };
    let (y, weights) = layer.forward(&x, &x, &x, causal).unwrap();
    assert_eq!(weights.unwrap().shape(), [n, heads, length, length]);

    let wide = |x: &Tensor| -> Vec<f64> {
        x.to_vec::<f32>().unwrap().into_iter().map(f64::from).collect()
    };
    let (x, project) = (wide(&x), wide(layer.in_proj_weight.as_ref().unwrap()));
    let out = wide(&layer.out_proj.weight);
    let dot = |row: &[f64], column: &[f64]| row.iter().zip(column).map(|(a, b)| a * b).sum::<f64>();
    let each = width / heads;
    let mut expected = Vec::new();
    for sample in x.chunks(length * width) {
        let rows: Vec<&[f64]> = sample.chunks(width).collect();
        // Queries (0), keys (1) or values (2).
        let part = |which: usize, row: &[f64], unit: usize| {
            dot(row, &project[(which * width + unit) * width..][..width])
        };
        for query in 0..length {
            let mut found = vec![0.0; width];
            for head in 0..heads {
                let units = head * each..(head + 1) * each;
                let score = |key: usize| {
                    let product = |unit| part(0, rows[query], unit) * part(1, rows[key], unit);
                    units.clone().map(product).sum::<f64>() / (each as f64).sqrt()
                };
                let scores: Vec<f64> = (0..=query).map(|key| score(key).exp()).collect();
                for unit in units.clone() {
                    let value = |key: usize| part(2, rows[key], unit) * scores[key];
                    found[unit] = (0..=query).map(value).sum::<f64>() / scores.iter().sum::<f64>();
                }
            }
            expected.extend(out.chunks(width).map(|row| dot(row, &found)));
        }
    }
    for (y, expected) in wide(&y).iter().zip(expected) {
        assert!((y - expected).abs() < 1e-5, "{y} {expected}");
    }
}

#[test]
fn masks_of_truth_values_and_of_numbers_agree() {
    let layer = drawn(6, || MultiheadAttention::new(4, 2));
    let x = normal(&[3, 2, 4], 7);
    let truth = [false, true, true, false, false, true, false, false, false];
    let numbers = truth.map(|masked| if masked { f32::NEG_INFINITY } else { 0.0 });
    let truth = Tensor::from_bools(&truth, &[3, 3]).unwrap();
    let numbers = Tensor::from_slice(&numbers, &[3, 3]).unwrap();
    let run = |attend| bits(&layer.forward(&x, &x, &x, attend).unwrap().0);
    let masked = run(Attend { attn_mask: Some(&truth), ..Attend::default() });
    assert_eq!(masked, run(Attend { attn_mask: Some(&numbers), ..Attend::default() }));
    assert_eq!(masked, run(Attend { is_causal: true, ..Attend::default() }));
    assert_ne!(masked, run(Attend::default()));
    // A padded key counts as if it were missing.
    let padding = Tensor::from_bools(&[false, false, true, false, false, true], &[2, 3]).unwrap();
    let shorter = functional::narrow(&x, 0, 0, 2).unwrap();
    let attend = Attend { key_padding_mask: Some(&padding), ..Attend::default() };
    let (y, _) = layer.forward(&x, &x, &x, attend).unwrap();
    let (z, _) = layer.forward(&x, &shorter, &shorter, Attend::default()).unwrap();
    let pairs = y.to_vec::<f32>().unwrap().into_iter().zip(z.to_vec::<f32>().unwrap());
    assert!(pairs.into_iter().all(|(y, z)| (y - z).abs() < 1e-6));
}

#[test]
fn a_transformer_layer_has_gradients_of_all_parameters() {
    for norm_first in [false, true] {
        let options = TransformerEncoderLayer::options(4, 2).dim_feedforward(8);
        let layer = drawn(1, || options.norm_first(norm_first).init());
        let x = normal(&[3, 2, 4], 2);
        let loss = nn::train_with(&mut Generator::new(5), || layer.forward(&x)?.square()?.sum(()));
        let gradients = loss.unwrap().backward().unwrap();
        for (name, parameter) in layer.named_parameters() {
            assert!(gradients.of(&parameter).is_some(), "{name}");
        }
    }
}

#[test]
fn small_layers_compute_their_formulas() {
    let bilinear = drawn(1, || Bilinear::options(2, 3, 2).bias(false).init());
    let (a, b) = (normal(&[4, 2], 1), normal(&[4, 3], 2));
    let y = bilinear.forward(&a, &b).unwrap().to_vec::<f32>().unwrap();
    let [w, a, b] = [&bilinear.weight, &a, &b].map(|x| x.to_vec::<f32>().unwrap());
    for (i, y) in y.into_iter().enumerate() {
        let (row, k) = (i / 2, i % 2);
        let term = |j: usize| a[row * 2 + j / 3] * w[k * 6 + j] * b[row * 3 + j % 3];
        assert!((y - (0..6).map(term).sum::<f32>()).abs() < 1e-5);
    }
    let x = normal(&[2, 5], 3);
    let y = RMSNorm::new(5).unwrap().forward(&x).unwrap().to_vec::<f32>().unwrap();
    assert!((y[..5].iter().map(|y| y * y).sum::<f32>() - 5.0).abs() < 1e-4);
    let same = CosineSimilarity::default().forward(&x, &x).unwrap();
    assert!(same.to_vec::<f32>().unwrap().iter().all(|c| (c - 1.0).abs() < 1e-6));
}

#[test]
fn inputs_that_do_not_fit_are_errors() {
    let x = normal(&[2, 3, 4], 1);
    let flat = normal(&[4], 1);
    for (op, result) in [
        ("BatchNorm", BatchNorm2d::new(3).and_then(|layer| layer.forward(&x))),
        ("RMSNorm", RMSNorm::new(3).and_then(|layer| layer.forward(&x))),
        ("softmax", nn::Softmax::new(3).forward(&x)),
        ("softmax", nn::Softmax::new(-4).forward(&x)),
        ("cosine_similarity", CosineSimilarity::default().forward(&flat, &flat)),
    ] {
        let error = result.unwrap_err().to_string();
        assert!(error.starts_with(&format!("{op}: ")), "{error}");
    }
    let layer = drawn(0, || MultiheadAttention::new(4, 2));
    let error = layer.forward(&flat, &flat, &flat, Attend::default()).unwrap_err().to_string();
    assert!(error.starts_with("MultiheadAttention: "), "{error}");
    let error = MultiheadAttention::new(5, 2).unwrap_err().to_string();
    assert_eq!(error, "MultiheadAttention: a width of 5 is not divisible by 2 heads");
    assert!(Linear::new(0, 2).unwrap_err().to_string().starts_with("Linear: "));
}

#[test]
fn padding_that_keeps_the_size() {
    let x = normal(&[2, 3, 9, 8], 1);
    for (kernel, dilation) in [([3, 3], 1), ([4, 2], 1), ([2, 3], 3), ([1, 6], 2)] {
        let options = Conv2d::options(3, 4, kernel).dilation(dilation).padding(Padding::Same);
        let layer = drawn(2, || options.init());
        let y = layer.forward(&x).unwrap();
        assert_eq!(y.shape(), [2, 4, 9, 8]);
        // The end gets the odd element.
        let pads: Vec<i64> = kernel
            .iter()
            .rev()
            .flat_map(|&taps| {
                let total = ((taps - 1) * dilation) as i64;
                [total / 2, total - total / 2]
            })
            .collect();
        for mode in [PadMode::Constant, PadMode::Reflect, PadMode::Circular] {
            let layer = nn::ConvNd { padding_mode: mode, ..layer.clone() };
            let padded = functional::pad(&x, &pads, mode, 0.0).unwrap();
            let params = ConvParams { dilation: vec![dilation; 2], ..ConvParams::padded(2, 0) };
            let expected =
                functional::conv(&padded, &layer.weight, layer.bias.as_ref(), &params).unwrap();
            let y = layer.forward(&x).unwrap();
            assert_eq!(bits(&y), bits(&expected), "{kernel:?} {dilation} {mode:?}");
        }
    }
    let error = Conv2d::options(3, 4, 3).stride(2).padding(Padding::Same).init().unwrap_err();
    assert_eq!(error.to_string(), "Conv: padding that keeps the size needs stride 1, got [2, 2]");
}

#[test]
fn layers_of_shapes_and_slopes() {
    let x = normal(&[2, 6, 4], 1);
    let there = Flatten::new(1, 2).forward(&x).unwrap();
    assert_eq!(there.shape(), [2, 24]);
    assert_eq!(Flatten::default().forward(&x).unwrap().shape(), [2, 24]);
    let back = Unflatten::new(-1, [6, -1]).forward(&there).unwrap();
    assert_eq!((back.shape(), bits(&back)), (x.shape(), bits(&x)));
    let slopes = PReLU::options().num_parameters(6).value(0.5).init().unwrap();
    assert_eq!(names(&slopes), ["weight"]);
    let y = slopes.forward(&x).unwrap();
    assert_eq!(bits(&y), bits(&x.leaky_relu(0.5).unwrap()));
    let error = slopes.forward(&normal(&[2, 4], 1)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "prelu: a weight of shape [6] does not match an input of shape [2, 4]"
    );
}

#[test]
fn a_model_is_converted_without_its_counts() {
    let mut model = drawn(1, || Ok(sequential![Linear::new(4, 3)?, BatchNorm1d::new(3)?]));
    let types = |model: &Sequential| -> Vec<DType> {
        model.state_dict().into_iter().map(|(_, tensor)| tensor.dtype()).collect()
    };
    model.to_dtype(DType::F64).unwrap();
    let mut expected = vec![DType::F64; 6];
    expected.push(DType::I64);
    assert_eq!(types(&model), expected);
    assert!(model.parameters().iter().all(Tensor::requires_grad));
    let x = normal(&[5, 4], 2).to_dtype(DType::F64).unwrap();
    assert_eq!(model.forward(&x).unwrap().dtype(), DType::F64);
    let error = model.to_dtype(DType::I64).unwrap_err();
    assert!(matches!(error, Error::DTypeMismatch { op: "to_dtype", .. }), "{error}");
    assert_eq!(types(&model), expected);
}

/// The defaults in the signatures of `torch.nn` 2.11. Sizes have no default.
#[test]
fn defaults_are_those_of_pytorch() {
    let adaptive = nn::AdaptiveLogSoftmaxWithLoss::options(1, 2, [1]);
    for (layer, defaults) in [
        (format!("{:?}", nn::LeakyReLU::default()), "negative_slope: 0.01"),
        (format!("{:?}", nn::ELU::default()), "alpha: 1.0"),
        (format!("{:?}", nn::CELU::default()), "alpha: 1.0"),
        (format!("{:?}", nn::Softshrink::default()), "lambda: 0.5"),
        (format!("{:?}", nn::Hardshrink::default()), "lambda: 0.5"),
        (format!("{:?}", nn::GLU::default()), "dim: -1"),
        (format!("{:?}", nn::GELU::default()), "Exact"),
        (format!("{:?}", nn::Hardtanh::default()), "min: -1.0, max: 1.0"),
        (format!("{:?}", nn::Softplus::default()), "beta: 1.0, threshold: 20.0"),
        (format!("{:?}", nn::RReLU::default()), "lower: 0.125, upper: 0.3333333333333333"),
        (format!("{:?}", nn::PReLU::options()), "num_parameters: 1, value: 0.25"),
        (format!("{:?}", nn::Flatten::default()), "start_dim: 1, end_dim: -1"),
        (format!("{:?}", nn::Dropout::default()), "p: 0.5"),
        (format!("{:?}", nn::Dropout2d::default()), "p: 0.5"),
        (format!("{:?}", nn::AlphaDropout::default()), "p: 0.5"),
        (format!("{:?}", nn::FeatureAlphaDropout::default()), "p: 0.5"),
        (format!("{:?}", nn::CosineSimilarity::default()), "dim: 1, eps: 1e-8"),
        (format!("{:?}", nn::PairwiseDistance::default()), "p: 2.0, eps: 1e-6, keepdim: false"),
        (format!("{:?}", nn::MSELoss::default()), "reduction: Mean"),
        (format!("{:?}", nn::L1Loss::default()), "reduction: Mean"),
        (format!("{:?}", nn::SmoothL1Loss::default()), "beta: 1.0, reduction: Mean"),
        (format!("{:?}", nn::HuberLoss::default()), "delta: 1.0, reduction: Mean"),
        (
            format!("{:?}", nn::CrossEntropyLoss::default()),
            "weight: None, ignore_index: -100, label_smoothing: 0.0, reduction: Mean",
        ),
        (format!("{:?}", nn::NLLLoss::default()), "weight: None, ignore_index: -100"),
        (format!("{:?}", nn::BCELoss::default()), "weight: None, reduction: Mean"),
        (format!("{:?}", nn::BCEWithLogitsLoss::default()), "weight: None, pos_weight: None"),
        (
            format!("{:?}", nn::CTCLoss::default()),
            "blank: 0, reduction: Mean, zero_infinity: false",
        ),
        (format!("{:?}", nn::CosineEmbeddingLoss::default()), "margin: 0.0, reduction: Mean"),
        (format!("{:?}", nn::GaussianNLLLoss::default()), "full: false, eps: 1e-6"),
        (format!("{:?}", nn::HingeEmbeddingLoss::default()), "margin: 1.0, reduction: Mean"),
        (format!("{:?}", nn::KLDivLoss::default()), "reduction: Of(Mean), log_target: false"),
        (format!("{:?}", nn::MarginRankingLoss::default()), "margin: 0.0, reduction: Mean"),
        (format!("{:?}", nn::MultiMarginLoss::default()), "p: 1, margin: 1.0, weight: None"),
        (
            format!("{:?}", nn::PoissonNLLLoss::default()),
            "log_input: true, full: false, eps: 1e-8, reduction: Mean",
        ),
        (
            format!("{:?}", nn::TripletMarginLoss::default()),
            "margin: 1.0, p: 2.0, eps: 1e-6, swap: false, reduction: Mean",
        ),
        (
            format!("{:?}", nn::BatchNorm2d::options(1)),
            "eps: 1e-5, momentum: Some(0.1), affine: true, track_running_stats: true",
        ),
        (
            format!("{:?}", nn::InstanceNorm2d::options(1)),
            "eps: 1e-5, momentum: Some(0.1), affine: false, track_running_stats: false",
        ),
        (format!("{:?}", nn::GroupNorm::options(1, 1)), "eps: 1e-5, affine: true"),
        (
            format!("{:?}", nn::LayerNorm::options(1)),
            "eps: 1e-5, elementwise_affine: true, bias: true",
        ),
        (format!("{:?}", nn::RMSNorm::options(1)), "eps: None, elementwise_affine: true"),
        (format!("{:?}", nn::Linear::options(1, 1)), "bias: true"),
        (format!("{:?}", nn::Bilinear::options(1, 1, 1)), "bias: true"),
        (
            format!("{:?}", nn::Embedding::options(1, 1)),
            "padding_idx: None, max_norm: None, norm_type: 2.0, scale_grad_by_freq: false",
        ),
        (
            format!("{:?}", nn::MultiheadAttention::options(1, 1)),
            "dropout: 0.0, bias: true, kdim: None, vdim: None, batch_first: false",
        ),
        (
            format!("{:?}", nn::TransformerEncoderLayer::options(1, 1)),
            "dim_feedforward: 2048, dropout: 0.1, activation: Relu, layer_norm_eps: 1e-5, \
             batch_first: false, norm_first: false, bias: true",
        ),
        (
            format!("{:?}", nn::LSTM::options(1, 1)),
            "num_layers: 1, bias: true, batch_first: false, dropout: 0.0, bidirectional: false, \
             proj_size: 0",
        ),
        (format!("{adaptive:?}"), "div_value: 4.0, head_bias: false"),
    ] {
        assert!(layer.contains(defaults), "{layer} lacks {defaults}");
    }
}

/// Fails before the first draw; otherwise the call would not end.
#[test]
fn more_layers_than_memory_holds_are_refused() {
    let refused = |expected: &str, draw: &dyn Fn(usize) -> Result<()>| {
        for layers in [1 << 45, usize::MAX] {
            let mut generator = Generator::new(0);
            let error = nn::draw_from(&mut generator, || draw(layers)).unwrap_err();
            assert!(matches!(error, Error::OutOfMemory { op, .. } if op == expected), "{error}");
            assert_eq!(generator, Generator::new(0));
        }
    };
    refused("LSTM", &|layers| nn::LSTM::options(1, 1).num_layers(layers).init().map(drop));
    refused("TransformerEncoder", &|layers| {
        nn::TransformerEncoder::new(&nn::TransformerEncoderLayer::options(2, 1), layers).map(drop)
    });
    refused("TransformerDecoder", &|layers| {
        nn::TransformerDecoder::new(&nn::TransformerDecoderLayer::options(2, 1), layers).map(drop)
    });
}

#[test]
fn softmax2d_is_over_the_channels() {
    let x = normal(&[2, 3, 4, 5], 1);
    let over = |x: &Tensor, dim: i64| bits(&functional::softmax(x, dim).unwrap());
    assert_eq!(bits(&nn::Softmax2d.forward(&x).unwrap()), over(&x, 1));
    let image = x.select(0, 1).unwrap();
    assert_eq!(bits(&nn::Softmax2d.forward(&image).unwrap()), over(&image, 0));
}

/// If it is recorded to be differentiated again, the gradient is computed differently.
#[test]
fn the_recorded_gradient_of_layer_norm_is_its_gradient() {
    let [x, weight, bias] = [(&[3, 2, 4][..], 1), (&[2, 4], 2), (&[2, 4], 3)]
        .map(|(shape, seed)| normal(shape, seed).set_requires_grad(true).unwrap());
    let y = functional::layer_norm(&x, &[2, 4], Some(&weight), Some(&bias), 1e-5).unwrap();
    let [once, again] =
        [false, true].map(|record| y.backward_from(normal(&[3, 2, 4], 4), record).unwrap());
    for input in [&x, &weight, &bias] {
        let (once, again) = (once.of(input).unwrap(), again.of(input).unwrap());
        assert!(functional::allclose(once, &again.detach(), 1e-5, 1e-5, false).unwrap());
    }
}

#[test]
fn a_transposed_convolution_needs_a_parameter_for_each_dimension() {
    let (x, weight) = (normal(&[1, 2, 4, 4], 1), normal(&[2, 3, 3, 3], 2));
    let ones = |n| vec![1; n];
    for [stride, padding, dilation, more] in
        [[2, 1, 2, 2], [2, 2, 3, 2], [2, 2, 2, 1], [4, 4, 4, 4], [0, 0, 0, 0]]
    {
        let params = ConvParams {
            stride: ones(stride),
            padding: ones(padding),
            dilation: ones(dilation),
            groups: 1,
        };
        let result = functional::conv_transpose(&x, &weight, None, &params, &vec![0; more]);
        let error = result.unwrap_err().to_string();
        assert!(error.starts_with("conv_transpose: "), "{error}");
        assert!(error.contains("one entry per spatial dimension"), "{error}");
    }
}
