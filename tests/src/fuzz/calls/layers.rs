//! Layers with tensors of their own: their options, and their first call.

use samebits::functional as f;
use samebits::nn::{
    self, AdaptiveLogSoftmaxWithLoss, Attend, BatchNorm2d, Bilinear, Conv2d, ConvTranspose2d,
    Embedding, EmbeddingBag, GRU, GRUCell, Gpt, GptActivation, GptNormKind, GptPositions,
    GroupNorm, InstanceNorm2d, KvCache, LSTM, LSTMCell, Layer, LayerNorm, Linear,
    MultiheadAttention, Nonlinearity, PReLU, RMSNorm, RNN, RNNCell, RotaryEmbedding, RotaryScaling,
    TransformerDecoder, TransformerDecoderLayer, TransformerEncoder, TransformerEncoderLayer,
};
use samebits::ops::{self, PadMode};
use samebits::{Generator, Result, Tensor};

use super::{Calls, Draw, Value, variable};

pub(super) fn add(calls: &mut Calls) {
    calls.function("layers", plain);
    calls.function("recurrent_layers", recurrent);
    calls.function("attention_layers", attention);
    calls.function("adaptive_log_softmax", adaptive);
    calls.function("rotary_embeddings", rotary);
    calls.op("rotary_embedding", |d| {
        let (n, length, half, rest) =
            (d.between(0, 2), d.between(0, 4), d.between(1, 3), d.below(2));
        let (dtype, interleaved) = (d.float(), d.flag());
        let [cos, sin] = [(); 2].map(|()| d.tensor(&[length, half], dtype));
        let x = d.tensor(&[n, length, 2 * half + rest], dtype);
        Ok(ops::RotaryEmbedding { x, cos, sin, interleaved })
    });
    calls.function("language_models", language);
}

/// Returns the results of a layer that draws from its own generator, training or not, and the
/// gradient of its input.
fn graded(
    d: &mut Draw,
    input: Value,
    run: impl FnOnce(&Tensor) -> Result<Vec<Tensor>>,
) -> Result<Vec<Value>> {
    let (x, train) = (variable(input)?, d.flag());
    let results = nn::draw_from(&mut Generator::new(d.word()), || match train {
        true => nn::train(|| run(&x)),
        false => run(&x),
    })?;
    let mut values: Vec<Value> = results.iter().map(Value::from).collect();
    if let Some(y) = results.iter().find(|y| y.requires_grad()) {
        let seed = super::like(d, y.value())?;
        let gradients = y.backward_from(Tensor::from(seed), false)?;
        values.extend(gradients.of(&x).map(Value::from));
    }
    Ok(values)
}

fn plain(d: &mut Draw) -> Result<Vec<Value>> {
    let (n, c, width, size) = (d.between(0, 4), d.between(1, 6), d.size().min(9), d.between(1, 3));
    let (dtype, which) = (d.float(), d.below(12));
    let (channels, features, groups) = (d.count(c), d.count(4), d.count(1));
    let (kernel, stride, more) = (d.count(size), d.count(1), d.count(0));
    let (eps, flag, other) = (d.real(1e-5), d.flag(), d.flag());
    let images = [n, c, width, width];
    match which {
        0 => {
            let x = d.tensor(&[n, c], dtype);
            let linear = Linear::options(channels, features).bias(flag).dtype(dtype);
            graded(d, x, |x| Ok(vec![linear.init()?.forward(x)?]))
        }
        1 => {
            let x = d.tensor(&[n, c], dtype);
            let bilinear = Bilinear::options(channels, channels, features).bias(flag).dtype(dtype);
            graded(d, x, |x| Ok(vec![bilinear.init()?.forward(x, x)?]))
        }
        2 => {
            let (x, mode) =
                (d.tensor(&images, dtype), d.pick(&[PadMode::Circular, PadMode::Reflect]));
            let mut conv = Conv2d::options(channels, features, kernel).stride(stride).padding(more);
            conv = conv.dilation(stride).groups(groups).bias(flag).dtype(dtype);
            if other {
                conv = conv.padding_mode(mode);
            }
            graded(d, x, |x| Ok(vec![conv.init()?.forward(x)?]))
        }
        3 => {
            let x = d.tensor(&images, dtype);
            let conv = ConvTranspose2d::options(channels, features, kernel).stride(stride);
            let conv = conv.padding(more).output_padding(more).dilation(stride).groups(groups);
            graded(d, x, |x| Ok(vec![conv.bias(flag).dtype(dtype).init()?.forward(x)?]))
        }
        4 => {
            let (x, padding, norm) = (d.indices(&[n, width], 5), d.count(1), d.real(1.0));
            let mut table = Embedding::options(d.count(5), features).scale_grad_by_freq(flag);
            if other {
                table = table.padding_idx(padding).max_norm(norm).norm_type(eps);
            }
            graded(d, x, |x| Ok(vec![table.dtype(dtype).init()?.forward(x)?]))
        }
        5 => {
            let (x, norm) = (d.indices(&[n, width], 5), d.real(1.0));
            let mut table = EmbeddingBag::options(d.count(5), features).dtype(dtype);
            if other {
                table = table.max_norm(norm).norm_type(eps);
            }
            graded(d, x, |x| Ok(vec![table.init()?.forward(x, None, None)?]))
        }
        6 => {
            let (x, momentum) = (d.tensor(&images, dtype), d.real(0.1));
            let norm = BatchNorm2d::options(channels).eps(eps).momentum(momentum).affine(flag);
            let norm = norm.track_running_stats(other).dtype(dtype);
            graded(d, x, |x| Ok(vec![norm.init()?.forward(x)?]))
        }
        7 => {
            let (x, momentum) = (d.tensor(&images, dtype), d.real(0.1));
            let norm = InstanceNorm2d::options(channels).eps(eps).momentum(momentum).affine(flag);
            let norm = norm.track_running_stats(other).dtype(dtype);
            graded(d, x, |x| Ok(vec![norm.init()?.forward(x)?]))
        }
        8 => {
            let x = d.tensor(&images, dtype);
            let norm = GroupNorm::options(groups, channels).eps(eps).affine(flag).dtype(dtype);
            graded(d, x, |x| Ok(vec![norm.init()?.forward(x)?]))
        }
        9 => {
            let (x, row) = (d.tensor(&images, dtype), d.counts(&[width, width]));
            let norm = LayerNorm::options(&row[..]).eps(eps).elementwise_affine(flag).bias(other);
            graded(d, x, |x| Ok(vec![norm.dtype(dtype).init()?.forward(x)?]))
        }
        10 => {
            let (x, row) = (d.tensor(&images, dtype), d.counts(&[width, width]));
            let norm = RMSNorm::options(&row[..]).elementwise_affine(flag).dtype(dtype);
            let norm = if other { norm.eps(eps) } else { norm };
            graded(d, x, |x| Ok(vec![norm.init()?.forward(x)?]))
        }
        _ => {
            let x = d.tensor(&images, dtype);
            let prelu = PReLU::options().num_parameters(channels).value(eps).dtype(dtype);
            graded(d, x, |x| Ok(vec![prelu.init()?.forward(x)?]))
        }
    }
}

fn recurrent(d: &mut Draw) -> Result<Vec<Value>> {
    let (steps, n, width, units) =
        (d.between(0, 4), d.between(0, 3), d.between(0, 5), d.between(1, 5));
    let (dtype, which) = (d.float(), d.below(6));
    let (input, hidden, layers) = (d.count(width), d.count(units), d.count(2));
    let (bias, both, first, dropout) = (d.flag(), d.flag(), d.flag(), d.real(0.25));
    let function = d.pick(&[Nonlinearity::Tanh, Nonlinearity::Relu]);
    let (state, given) = (Tensor::from(d.tensor(&[n, units], dtype)), d.flag());
    let state = given.then_some(&state);
    let sequence = if d.chance(4) { vec![steps, width] } else { vec![steps, n, width] };
    let step = if d.chance(4) { vec![width] } else { vec![n, width] };
    let shape = if which < 3 { &sequence } else { &step };
    let (x, projected) = (d.tensor(shape, dtype), d.count(0));
    /// Sets the options that the three networks share.
    macro_rules! network {
        ($options:expr) => {
            $options
                .num_layers(layers)
                .bias(bias)
                .batch_first(first)
                .dropout(dropout)
                .bidirectional(both)
                .dtype(dtype)
                .init()?
        };
    }
    graded(d, x, |x| {
        Ok(match which {
            0 => {
                let rnn = network!(RNN::options(input, hidden).nonlinearity(function));
                let (y, h) = rnn.forward(x, None)?;
                vec![y, h]
            }
            1 => {
                let (y, h) = network!(GRU::options(input, hidden)).forward(x, None)?;
                vec![y, h]
            }
            2 => {
                let lstm = network!(LSTM::options(input, hidden).proj_size(projected));
                let (y, (h, c)) = lstm.forward(x, None)?;
                vec![y, h, c]
            }
            3 => {
                let cell = RNNCell::options(input, hidden).nonlinearity(function).bias(bias);
                vec![cell.dtype(dtype).init()?.forward(x, state)?]
            }
            4 => {
                let cell = GRUCell::options(input, hidden).bias(bias).dtype(dtype);
                vec![cell.init()?.forward(x, state)?]
            }
            _ => {
                let cell = LSTMCell::options(input, hidden).bias(bias).dtype(dtype).init()?;
                let (h, c) = cell.forward(x, state.zip(state))?;
                vec![h, c]
            }
        })
    })
}

fn attention(d: &mut Draw) -> Result<Vec<Value>> {
    let (steps, n, heads, per_head) =
        (d.between(0, 4), d.between(0, 3), d.between(1, 3), d.between(1, 3));
    let (dtype, which, width) = (d.float(), d.below(3), heads * per_head);
    let (c, heads, wide, layers) = (d.count(width), d.count(heads), d.count(5), d.count(2));
    let (dropout, eps) = (d.real(0.25), d.real(1e-5));
    let (bias, first, before, causal, weights) = (d.flag(), d.flag(), d.flag(), d.flag(), d.flag());
    let masks = d.flag().then(|| {
        let mask_type = d.pick(&[dtype, samebits::DType::Bool]);
        [[n, steps], [steps, steps]].map(|shape| Tensor::from(d.tensor(&shape, mask_type)))
    });
    let attend = Attend {
        key_padding_mask: masks.as_ref().map(|masks| &masks[0]),
        attn_mask: masks.as_ref().map(|masks| &masks[1]),
        is_causal: causal,
        need_weights: weights,
        average_attn_weights: before,
    };
    let shape = if first { [n, steps, width] } else { [steps, n, width] };
    let x = d.tensor(&shape, dtype);
    /// Sets the options that the two transformers share.
    macro_rules! layer {
        ($options:expr) => {
            &$options
                .dim_feedforward(wide)
                .dropout(dropout)
                .layer_norm_eps(eps)
                .batch_first(first)
                .norm_first(before)
                .bias(bias)
                .dtype(dtype)
        };
    }
    graded(d, x, |x| {
        Ok(match which {
            0 => {
                let attention = MultiheadAttention::options(c, heads).dropout(dropout).bias(bias);
                let attention = attention.kdim(c).vdim(width).batch_first(first).dtype(dtype);
                let (y, weights) = attention.init()?.forward(x, x, x, attend)?;
                std::iter::once(y).chain(weights).collect()
            }
            1 => {
                let layer = layer!(TransformerEncoderLayer::options(c, heads));
                vec![TransformerEncoder::new(layer, layers)?.forward_with(x, attend)?]
            }
            _ => {
                let layer = layer!(TransformerDecoderLayer::options(c, heads));
                vec![TransformerDecoder::new(layer, layers)?.forward(x, x, attend, attend)?]
            }
        })
    })
}

fn adaptive(d: &mut Draw) -> Result<Vec<Value>> {
    let (n, width, which) = (d.between(0, 5), d.between(1, 20), d.below(3));
    let (dtype, cutoffs) = (d.float(), d.counts(&[2, 5]));
    let (features, classes) = (d.count(width), d.count(9));
    let target = Tensor::from(d.indices(&[n], 9));
    let options = AdaptiveLogSoftmaxWithLoss::options(features, classes, cutoffs);
    let options = options.div_value(d.real(2.0)).head_bias(d.flag()).dtype(dtype);
    let x = d.tensor(&[n, width], dtype);
    graded(d, x, |x| {
        let layer = options.init()?;
        Ok(match which {
            0 => {
                let (output, loss) = layer.forward(x, &target)?;
                vec![loss, output]
            }
            1 => vec![layer.log_prob(x)?],
            _ => vec![layer.predict(x)?],
        })
    })
}

/// Returns a size of a table of angles. One of 2^33 numbers may fit, but takes minutes to compute.
fn extent(d: &mut Draw, valid: usize) -> usize {
    match d.count(valid) {
        n if n > 1 << 10 => usize::MAX / 4,
        n => n,
    }
}

fn scaling(d: &mut Draw) -> RotaryScaling {
    let (factor, low, high) = (d.real(8.0), d.real(1.0), d.real(4.0));
    let scalings = [
        RotaryScaling::None,
        RotaryScaling::Linear { factor },
        RotaryScaling::Llama3 {
            factor,
            low_frequency_factor: low,
            high_frequency_factor: high,
            original_positions: d.count(64),
        },
    ];
    d.pick(&scalings)
}

fn rotary(d: &mut Draw) -> Result<Vec<Value>> {
    d.expand_less();
    let (n, steps, half, rest) = (d.between(0, 2), d.between(0, 4), d.between(1, 3), d.below(2));
    let (dtype, interleaved, layer) = (d.float(), d.flag(), d.flag());
    let (features, positions, offset, base) =
        (extent(d, 2 * half), extent(d, 7), d.count(3), d.real(100.0));
    let tables = [(); 2].map(|()| Tensor::from(d.tensor(&[steps, half], dtype)));
    let scaling = scaling(d);
    let x = d.tensor(&[n, steps, 2 * half + rest], dtype);
    graded(d, x, |x| {
        Ok(vec![match layer {
            true => RotaryEmbedding::options(features, positions)
                .base(base)
                .scaling(scaling)
                .interleaved(interleaved)
                .init()?
                .forward(x, offset)?,
            false => f::rotary_embedding(x, &tables[0], &tables[1], interleaved)?,
        }])
    })
}

fn language(d: &mut Draw) -> Result<Vec<Value>> {
    d.expand_less();
    let (n, steps, groups, each) =
        (d.between(0, 2), d.between(0, 4), d.between(1, 2), d.between(1, 2));
    let (width, heads, groups) =
        (d.count(4 * groups * each), d.count(groups * each), d.count(groups));
    let (context, layers, hidden) = (extent(d, 6), d.count(2), d.count(5));
    let options = Gpt::options(9, width, heads, layers).context(context).kv_heads(groups);
    let options = options.hidden(hidden).norm(d.pick(&[GptNormKind::Layer, GptNormKind::Rms]));
    let rotary = GptPositions::Rotary { base: d.real(100.0) };
    let options = options.positions(d.pick(&[GptPositions::Learned, rotary])).bias(d.flag());
    let options = options.activation(d.pick(&[GptActivation::Gelu, GptActivation::SwiGlu]));
    let options = options.tie(d.flag()).dropout(d.real(0.25)).dtype(d.float());
    let options = match d.flag() {
        true => options.head_width(d.count(2)).attention_bias(d.flag()).feedforward_bias(d.flag()),
        false => options.rotary_scaling(scaling(d)),
    };
    let (tokens, cached) = (Tensor::from(d.indices(&[n, steps], 9)), d.flag());
    let row = Tensor::from(d.indices(&[steps], 9));
    nn::draw_from(&mut Generator::new(d.word()), || {
        let model = options.init()?;
        let y = match cached {
            true => model.forward_cached(&row, &mut KvCache::new())?,
            false => model.forward(&tokens)?,
        };
        Ok(vec![Value::from(&y)])
    })
}
