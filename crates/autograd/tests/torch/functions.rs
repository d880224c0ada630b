//! Functions other than activations and losses, and the adaptive softmax.

use samebits::functional::{self as f, Windows};
use samebits::nn::{
    self, AdaptiveLogSoftmaxWithLoss, Attend, GRUCell, LSTMCell, Layer, LayerNorm, Module,
    Nonlinearity, RNNCell, TransformerActivation, TransformerDecoder, TransformerDecoderLayer,
    TransformerEncoder, TransformerEncoderLayer,
};
use samebits::{DType, Result, Tensor};
use serde_json::Value;

use super::{FIGURES, cases, close, leaf, numbers, text};

/// Returns the inputs of a case, with floats as leaves.
fn inputs(case: &Value) -> Vec<Tensor> {
    let parts = |key: &str| case[key].as_array().unwrap();
    let input = |i: usize| {
        let (values, shape) = (numbers(&parts("inputs")[i]), sizes(&parts("shapes")[i]));
        match parts("integers")[i].as_bool().unwrap() {
            true => Tensor::from_slice(&integers(&values), &shape).unwrap(),
            false => leaf(&values, &shape),
        }
    };
    (0..parts("inputs").len()).map(input).collect()
}

fn sizes(value: &Value) -> Vec<usize> {
    numbers(value).into_iter().map(|size| size as usize).collect()
}

fn integers(values: &[f64]) -> Vec<i64> {
    values.iter().map(|&value| value as i64).collect()
}

fn function(name: &str, x: &[Tensor]) -> Result<Tensor> {
    let windows =
        Windows { dilation: [1, 2], padding: [1, 0], stride: [2, 1], ..Windows::new([2, 3]) };
    match name {
        "addcdiv" => x[0].addcdiv(&x[1], &x[2], 0.5),
        "addcmul" => x[0].addcmul(&x[1], &x[2], -2.0),
        "block_diag" => f::block_diag(x),
        "bucketize" => x[0].bucketize(&x[1], false),
        "bucketize right" => x[0].bucketize(&x[1], true),
        "cartesian_prod" => f::cartesian_prod(x),
        "cdist" => x[0].cdist(&x[1], 2.0),
        "cdist 1" => x[0].cdist(&x[1], 1.0),
        "ceil" => x[0].ceil(),
        "channel_shuffle" => nn::ChannelShuffle::new(2).forward(&x[0]),
        "corrcoef" | "corrcoef vector" => x[0].corrcoef(),
        "count_nonzero" => x[0].count_nonzero(1),
        "cov" => x[0].cov(1, None, None),
        "cov vector" => x[0].cov(2, None, None),
        "cov aweights" => x[0].cov(1, None, Some(&x[1])),
        "cov fweights" => x[0].cov(0, Some(&x[1]), None),
        "cov weights" => x[0].cov(1, Some(&x[1]), Some(&x[2])),
        "diag" => x[0].diag(0),
        "diag 1" => x[0].diag(1),
        "diag_embed" => x[0].diag_embed(0, -2, -1),
        "diag_embed -2" => x[0].diag_embed(-2, 0, 2),
        "diff" => x[0].diff(1, -1),
        "diff 2" => x[0].diff(2, 0),
        "dot" => x[0].dot(&x[1]),
        "dstack" => f::dstack(x),
        "floor" => x[0].floor(),
        "fold" => nn::Fold::new([5, 6], windows).forward(&x[0]),
        "frac" => x[0].frac(),
        "hstack" | "hstack vectors" => f::hstack(x),
        "isclose" => x[0].isclose(&x[1], 1e-5, 1e-8, false),
        "isclose nan" => x[0].isclose(&x[1], 0.3, 0.1, true),
        "isfinite" => x[0].isfinite(),
        "isin" => x[0].isin(&x[1]),
        "isinf" => x[0].isinf(),
        "isnan" => x[0].isnan(),
        "kron" | "kron ranks" => x[0].kron(&x[1]),
        "lerp" => x[0].lerp(&x[1], 0.3),
        "lerp tensor" => x[0].lerp(&x[1], &x[2]),
        "logaddexp" | "logaddexp special" => x[0].logaddexp(&x[1]),
        "local_response_norm" => f::local_response_norm(&x[0], 3, 1e-4, 0.75, 1.0),
        "local_response_norm even" => {
            nn::LocalResponseNorm { alpha: 0.3, beta: 1.5, k: 0.7, ..nn::LocalResponseNorm::new(2) }
                .forward(&x[0])
        }
        "logical_and" => x[0].logical_and(&x[1]),
        "logical_not" => x[0].logical_not(),
        "logical_or" => x[0].logical_or(&x[1]),
        "logical_xor" | "logical_xor mixed" => x[0].logical_xor(&x[1]),
        "logit" => x[0].logit(None),
        "logit eps" => x[0].logit(Some(0.2)),
        "mm" => x[0].mm(&x[1]),
        "movedim" => x[0].movedim([0, 2], [-1, 0]),
        "mv" => x[0].mv(&x[1]),
        "nan_to_num" => x[0].nan_to_num(0.0, None, None),
        "nan_to_num given" => x[0].nan_to_num(3.0, Some(4.0), Some(-5.0)),
        "nanmean" => x[0].nanmean_keepdim(0),
        "nansum" => x[0].nansum(1),
        "outer" => x[0].outer(&x[1]),
        "quantile" => x[0].quantile(0.3, ()),
        "quantile along" => x[0].quantile_keepdim(0.85, 1),
        "quantile nan" => x[0].quantile(0.5, 0),
        "rot90" => x[0].rot90(1, 0, 1),
        "rot90 2" => x[0].rot90(2, 0, 2),
        "rot90 -1" => x[0].rot90(-1, 2, 1),
        "round" => x[0].round(),
        "rrelu" => nn::RReLU::default().forward(&x[0]),
        "rrelu training" => f::rrelu(&x[0], 0.3, 0.3),
        "rms_norm" => f::rms_norm(&x[0], &[4], Some(&x[1]), None),
        "rms_norm 2" => f::rms_norm(&x[0], &[3, 4], None, Some(0.1)),
        "rotary_embedding" => nn::RotaryEmbedding::new(4, 9)?.forward(&x[0], 6),
        "rotary_embedding interleaved" => {
            let options = nn::RotaryEmbedding::options(4, 9).interleaved(true).base(500.0);
            options.init()?.forward(&x[0], 6)
        }
        "rotary_embedding part" => nn::RotaryEmbedding::new(2, 9)?.forward(&x[0], 6),
        "scaled_dot_product_attention" => {
            f::scaled_dot_product_attention(&x[0], &x[1], &x[2], None, 0.0, false, None)
        }
        "scaled_dot_product_attention causal" => {
            f::scaled_dot_product_attention(&x[0], &x[1], &x[1], None, 0.0, true, Some(0.3))
        }
        "scaled_dot_product_attention mask" => {
            let mask = x[2].gt(0.0)?;
            f::scaled_dot_product_attention(&x[0], &x[1], &x[1], Some(&mask), 0.0, false, None)
        }
        "scaled_dot_product_attention sum" => {
            f::scaled_dot_product_attention(&x[0], &x[1], &x[1], Some(&x[2]), 0.0, false, None)
        }
        "searchsorted" => f::searchsorted(&x[0], &x[1], false),
        "searchsorted rows" => f::searchsorted(&x[0], &x[1], true),
        "t" => x[0].t(),
        "take_along_dim" => x[0].take_along_dim(&x[1], 1),
        "take_along_dim wide" => x[0].take_along_dim(&x[1], 2),
        "tensordot" => x[0].tensordot(&x[1], [1, 2], [1, 0]),
        "tensordot 0" => x[0].tensordot(&x[1], [0i64; 0], [0i64; 0]),
        "tile" => x[0].tile(&[2, 3]),
        "trace" => x[0].trace(),
        "trunc" => x[0].trunc(),
        "unbind" => Ok(x[0].unbind(1)?[2].clone()),
        "unfold" => nn::Unfold::new(windows).forward(&x[0]),
        "vstack" => f::vstack(x),
        "windows" => x[0].windows(1, 3, 2),
        _ => panic!("{name}"),
    }
}

/// Compares values, signs of zeros, types and gradients.
#[test]
fn functions() {
    samebits_tensor_core::random::manual_seed(0);
    for case in cases("functions") {
        let name = text(case, "name");
        let x = inputs(case);
        let y = function(name, &x).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(y.shape(), sizes(&case["shape"]), "{name}");
        let found = y.to_dtype(DType::F64).unwrap().to_vec::<f64>().unwrap();
        close(&found, &case["y"], 1e-12, name);
        for (i, (a, b)) in found.iter().zip(numbers(&case["y"])).enumerate() {
            let signs = a.is_sign_negative() == b.is_sign_negative();
            assert!(*a != 0.0 || signs, "{name}, element {i}: {a} and {b}");
        }
        let n = y.numel() as f64;
        let line: Vec<f64> =
            (0..y.numel()).map(|i| -1.0 + 3.0 * i as f64 / (n - 1.0).max(1.0)).collect();
        let grads = case["grads"].as_array().unwrap();
        if grads.iter().all(Value::is_null) {
            assert!(!y.requires_grad(), "{name}");
            continue;
        }
        let gradients = y.requires_grad().then(|| {
            y.backward_from(Tensor::from_slice(&line, y.shape()).unwrap(), false).unwrap()
        });
        for (x, expected) in x.iter().zip(grads).filter(|(_, expected)| !expected.is_null()) {
            let found = gradients.as_ref().and_then(|gradients| gradients.of(x));
            // Where we have no gradient, PyTorch's is 0.
            let found = found.map_or(vec![0.0; x.numel()], |grad| grad.to_vec::<f64>().unwrap());
            let mut expected = expected.clone();
            if name == "rrelu" {
                // PyTorch's slope at NaN is that of a negative number.
                for (i, x) in x.to_vec::<f64>().unwrap().iter().enumerate().filter(|x| x.1.is_nan())
                {
                    assert!(found[i].is_nan(), "{name}({x})");
                    expected[i] = "nan".into();
                }
            }
            close(&found, &expected, 1e-9, &format!("gradient of {name}"));
        }
    }
}

#[test]
fn drawn_slopes_lie_between_the_bounds_and_repeat() {
    let x = Tensor::from_slice(&vec![-1.0f32; 4096], &[4096]).unwrap();
    let x = x.set_requires_grad(true).unwrap();
    let draw =
        |seed| f::rrelu_with(&x, 0.125, 0.5, &mut samebits_rng::Generator::new(seed)).unwrap();
    let y = draw(7);
    let slopes = y.neg().unwrap().to_vec::<f32>().unwrap();
    assert!(slopes.iter().all(|slope| (0.125..=0.5).contains(slope)));
    let mean = slopes.iter().map(|&slope| f64::from(slope)).sum::<f64>() / 4096.0;
    assert!((mean - 0.3125).abs() < 0.01, "{mean}");
    let gradients = y.sum(()).unwrap().backward().unwrap();
    assert_eq!(gradients.of(&x).unwrap().to_vec::<f32>().unwrap(), slopes);
    assert_eq!(draw(7).to_bytes().unwrap(), y.to_bytes().unwrap());
    assert_ne!(draw(8).to_bytes().unwrap(), y.to_bytes().unwrap());
    // The layer draws only in training, from the given generator.
    let layer = nn::RReLU::new(0.125, 0.5);
    let mut generator = samebits_rng::Generator::new(7);
    let trained = nn::train_with(&mut generator, || layer.forward(&x)).unwrap();
    assert_eq!(trained.to_bytes().unwrap(), y.to_bytes().unwrap());
    assert_eq!(layer.forward(&x).unwrap().to_vec::<f32>().unwrap(), vec![-0.3125; 4096]);
    let error = f::rrelu_with(&x, 0.5, f64::NAN, &mut generator).unwrap_err().to_string();
    assert_eq!(error, "rrelu_with: expected lower <= upper, got 0.5 and NaN");
}

/// Returns the parameters of a case's module.
fn state(case: &Value) -> Vec<(String, Tensor)> {
    let tensors = case["state"].as_object().unwrap().iter();
    tensors
        .map(|(name, tensor)| {
            let values = numbers(&tensor["values"]);
            (name.clone(), Tensor::from_slice(&values, &sizes(&tensor["shape"])).unwrap())
        })
        .collect()
}

/// Loads the state of a case by name, and compares results and gradients of all parameters.
fn compare<M: Module>(case: &Value, layer: Result<M>, run: impl FnOnce(&M) -> Result<Tensor>) {
    let (mut layer, what) = (layer.unwrap(), text(case, "name"));
    layer.load_state_dict(&state(case), true).unwrap();
    let y = run(&layer).unwrap();
    close(&y.to_vec::<f64>().unwrap(), &case["y"], 1e-11, what);
    let steps = (y.numel() - 1) as f64;
    let line: Vec<f64> = (0..y.numel()).map(|i| -1.0 + 3.0 * i as f64 / steps).collect();
    let gradients = y.backward_from(Tensor::from_slice(&line, y.shape()).unwrap(), false).unwrap();
    for (name, parameter) in layer.named_parameters() {
        let found = gradients.of(&parameter).unwrap().to_vec::<f64>().unwrap();
        close(&found, &case["grads"][&name], 1e-8, &format!("{name} of {what}"));
    }
}

#[test]
fn cells_and_stacks_of_layers() {
    samebits_tensor_core::random::manual_seed(0);
    let wide = DType::F64;
    for case in cases("layers") {
        let input = |name: &str, shape: &[usize]| leaf(&numbers(&case["inputs"][name]), shape);
        let (x, memory) = (input("x", &[3, 2, 4]), input("memory", &[5, 2, 4]));
        let (h, c) = (input("h", &[2, 3]), input("c", &[2, 3]));
        let step = x.select(0, 0).unwrap();
        let both = |(h, c): (Tensor, Tensor)| f::cat(&[h, c], 0);
        let (plain, causal) = (Attend::default(), Attend { is_causal: true, ..Attend::default() });
        let encoder = TransformerEncoderLayer::options(4, 2).dim_feedforward(6).dropout(0.0);
        let decoder = TransformerDecoderLayer::options(4, 2).dim_feedforward(6).dropout(0.0);
        let norm = || LayerNorm::options(4).dtype(wide).init().map(Some);
        match text(case, "name") {
            "RNNCell" => {
                let cell = RNNCell::options(4, 3).dtype(wide).init();
                compare(case, cell, |cell| cell.forward(&step, Some(&h)));
            }
            "RNNCell relu" => {
                let cell = RNNCell::options(4, 3).nonlinearity(Nonlinearity::Relu).bias(false);
                compare(case, cell.dtype(wide).init(), |cell| cell.forward(&step, None));
            }
            "GRUCell" => {
                let cell = GRUCell::options(4, 3).dtype(wide).init();
                compare(case, cell, |cell| cell.forward(&step, Some(&h)));
            }
            "LSTMCell" => {
                let cell = LSTMCell::options(4, 3).dtype(wide).init();
                compare(case, cell, |cell| both(cell.forward(&step, Some((&h, &c)))?));
            }
            "LSTMCell alone" => {
                let cell = LSTMCell::options(4, 3).dtype(wide).init();
                compare(case, cell, |cell| both(cell.forward(&step.select(0, 0)?, None)?));
            }
            "TransformerEncoder" => {
                let mut stack = TransformerEncoder::new(&encoder.dtype(wide), 2).unwrap();
                stack.norm = norm().unwrap();
                compare(case, Ok(stack), |stack| stack.forward_with(&x, causal));
            }
            "TransformerDecoder" => {
                let layer = decoder.activation(TransformerActivation::Gelu).dtype(wide);
                let stack = TransformerDecoder::new(&layer, 2);
                compare(case, stack, |stack| stack.forward(&x, &memory, causal, plain));
            }
            "TransformerDecoder first" => {
                let layer = decoder.norm_first(true).dtype(wide);
                let mut stack = TransformerDecoder::new(&layer, 1).unwrap();
                stack.norm = norm().unwrap();
                compare(case, Ok(stack), |stack| stack.forward(&x, &memory, plain, plain));
            }
            name => panic!("{name}"),
        }
    }
    let error = GRUCell::new(4, 3).unwrap().forward(&leaf(&[1.0; 5], &[5]), None).unwrap_err();
    assert!(error.to_string().starts_with("GRUCell: "), "{error}");
}

#[test]
fn adaptive_softmax() {
    samebits_tensor_core::random::manual_seed(0);
    let case = &FIGURES["adaptive"];
    let options = AdaptiveLogSoftmaxWithLoss::options(8, 12, [3, 7]).div_value(2.0).head_bias(true);
    let mut layer = options.dtype(DType::F64).init().unwrap();
    layer.load_state_dict(&state(case), true).unwrap();
    let x = leaf(&numbers(&case["x"]), &[6, 8]);
    let target = Tensor::from_slice(&integers(&numbers(&case["target"])), &[6]).unwrap();
    let (output, loss) = layer.forward(&x, &target).unwrap();
    close(&output.to_vec::<f64>().unwrap(), &case["output"], 1e-12, "output");
    assert!((loss.item::<f64>().unwrap() - case["loss"].as_f64().unwrap()).abs() < 1e-12);
    let gradients = loss.backward().unwrap();
    close(&gradients.of(&x).unwrap().to_vec::<f64>().unwrap(), &case["grad"], 1e-10, "input");
    for (name, parameter) in layer.named_parameters() {
        let found = gradients.of(&parameter).unwrap().to_vec::<f64>().unwrap();
        close(&found, &case["grads"][&name], 1e-10, &name);
    }
    let all = layer.log_prob(&x).unwrap().to_vec::<f64>().unwrap();
    close(&all, &case["log_prob"], 1e-12, "log_prob");
    let classes = layer.predict(&x).unwrap().to_vec::<i64>().unwrap();
    assert_eq!(classes, integers(&numbers(&case["predict"])));
    // One sample without a batch.
    let (one, _) = layer.forward(&x.select(0, 1).unwrap(), &target.select(0, 1).unwrap()).unwrap();
    assert_eq!(one.item::<f64>().unwrap(), output.to_vec::<f64>().unwrap()[1]);
    let bad = Tensor::new([0i64, 11, 12, 7, 3, 6]).unwrap();
    let error = layer.forward(&x, &bad).unwrap_err().to_string();
    assert_eq!(error, "AdaptiveLogSoftmaxWithLoss: expected targets in 0..12, got 12");
    for cutoffs in [vec![], vec![0, 3], vec![3, 3], vec![5, 3], vec![3, 12]] {
        let error = AdaptiveLogSoftmaxWithLoss::new(8, 12, cutoffs).unwrap_err().to_string();
        assert!(
            error.starts_with("AdaptiveLogSoftmaxWithLoss: expected ascending cutoffs"),
            "{error}"
        );
    }
}
