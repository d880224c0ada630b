//! PyTorch's state dicts: each loads by name into the model of the same architecture, which then
//! computes PyTorch's results. `reference/state_dicts.py` wrote them.

use samebits::io::{Tensors, load_safetensors};
use samebits::nn::{
    Attend, BatchNorm1d, BatchNorm2d, Bilinear, Conv2d, ConvTranspose2d, Embedding, EmbeddingBag,
    Flatten, GRU, GroupNorm, InstanceNorm1d, LSTM, Layer, LayerNorm, Linear, MaxPool2d, Module,
    MultiheadAttention, Nonlinearity, RMSNorm, RNN, ReLU, Sequential, TransformerEncoderLayer,
};
use samebits::{Result, Tensor, manual_seed, sequential};
use workspace_tests::conformance::{Tolerance, error, reference_file};

/// Returns the tensors of one model, without its name.
fn part(of: &Tensors, path: &str) -> Vec<(String, Tensor)> {
    let named = of.iter().filter_map(|(name, x)| Some((name.strip_prefix(path)?, x)));
    named.map(|(name, x)| (name.to_owned(), x.clone())).collect()
}

/// Loads the model `name` and compares its results. The tolerance is one unit for each term added
/// along the longest path from the input to the output, and as many again for the rounding of the
/// products.
#[track_caller]
fn check<M: Module>(
    name: &str,
    terms: usize,
    model: impl FnOnce() -> Result<M>,
    forward: impl Fn(&M, &[Tensor]) -> Result<Vec<Tensor>>,
) {
    let all = load_safetensors(reference_file("state_dicts.safetensors")).unwrap();
    let tensors = |kind: &str| -> Vec<Tensor> {
        part(&all, &format!("{name}/{kind}/")).into_iter().map(|(_, x)| x).collect()
    };
    let state = part(&all, &format!("{name}/state/"));
    assert!(!state.is_empty(), "{name}: no such model in the file");
    manual_seed(0);
    let mut model = model().unwrap();
    let inputs = tensors("input");
    let before = forward(&model, &inputs).unwrap();
    model.load_state_dict(&state, true).unwrap_or_else(|error| panic!("{name}: {error}"));
    let found = forward(&model, &inputs).unwrap();
    let expected = tensors("output");
    assert_eq!(found.len(), expected.len(), "{name}");
    let tolerance = Tolerance::Largest(2.0 * terms as f64);
    for (i, (found, expected)) in found.iter().zip(&expected).enumerate() {
        error(found, expected, tolerance).unwrap_or_else(|wrong| panic!("{name}, {i}: {wrong}"));
        // The bound distinguishes a model that was not loaded.
        error(&before[i], expected, tolerance).unwrap_err();
    }
}

/// `save_model` writes a shared weight once; `save_file` rejects it.
#[test]
fn a_weight_that_pytorch_has_tied_stays_tied() {
    #[derive(Module)]
    struct Tied {
        table: Embedding,
        head: Linear,
    }
    manual_seed(0);
    let (table, head) = (Embedding::new(5, 4).unwrap(), Linear::new(4, 5).unwrap());
    let mut model = Tied { head: Linear { weight: table.weight.get(), ..head }, table };
    let state = load_safetensors(reference_file("tied.safetensors")).unwrap();
    let names: Vec<&str> = state.keys().map(String::as_str).collect();
    assert_eq!(names, ["head.bias", "head.weight"]);
    let state: Vec<_> = state.into_iter().collect();
    model.load_state_dict(&state, true).unwrap();
    let weight = state[1].1.to_bytes().unwrap();
    assert_eq!(model.table.weight.get().to_bytes().unwrap(), weight);
    assert_eq!(model.head.weight.to_bytes().unwrap(), weight);
    assert_eq!(model.num_parameters(), 5 * 4 + 5);
}

#[test]
fn layers_in_sequence_are_numbered() {
    let model = || Ok(sequential![Linear::new(6, 8)?, ReLU, Linear::new(8, 3)?]);
    check("perceptron", 6 + 8, model, |model, x| Ok(vec![model.forward(&x[0])?]));
    let model = || {
        Ok(sequential![
            Conv2d::options(2, 4, 3).padding(1).init()?,
            BatchNorm2d::new(4)?,
            ReLU,
            MaxPool2d::new(2),
            Conv2d::options(4, 6, 3).groups(2).bias(false).init()?,
            BatchNorm2d::new(6)?,
            ReLU,
            ConvTranspose2d::options(6, 2, 2).stride(2).init()?,
            Flatten::default(),
            Linear::new(32, 3)?,
        ])
    };
    let terms = 2 * 9 + 2 + 2 * 9 + 2 + 6 + 32;
    check("cnn", terms, model, |model: &Sequential, x| Ok(vec![model.forward(&x[0])?]));
}

#[test]
fn norms() {
    #[derive(Module)]
    struct Norms {
        layer: LayerNorm,
        group: GroupNorm,
        instance: InstanceNorm1d,
        rms: RMSNorm,
        batch: BatchNorm1d,
    }
    let model = || {
        Ok(Norms {
            layer: LayerNorm::new([4, 6])?,
            group: GroupNorm::new(2, 4)?,
            instance: InstanceNorm1d::options(4).affine(true).track_running_stats(true).init()?,
            rms: RMSNorm::new(6)?,
            batch: BatchNorm1d::options(4).affine(false).init()?,
        })
    };
    check("norms", 24 + 12 + 2 + 6 + 2, model, |model, x| {
        let x = model.group.forward(&model.layer.forward(&x[0])?)?;
        let x = model.rms.forward(&model.instance.forward(&x)?)?;
        Ok(vec![model.batch.forward(&x)?])
    });
}

#[test]
fn embeddings_and_recurrent_layers() {
    #[derive(Module)]
    struct Tagger {
        embed: Embedding,
        lstm: LSTM,
        out: Linear,
    }
    let model = || {
        let lstm = LSTM::options(6, 5).num_layers(2).bidirectional(true).batch_first(true);
        Ok(Tagger {
            embed: Embedding::options(10, 6).padding_idx(0).init()?,
            lstm: lstm.init()?,
            out: Linear::new(10, 3)?,
        })
    };
    check("tagger", 4 * (6 + 5 + 10 + 5) + 10, model, |model, ids| {
        let (y, (h, c)) = model.lstm.forward(&model.embed.forward(&ids[0])?, None)?;
        Ok(vec![model.out.forward(&y)?, h, c])
    });

    #[derive(Module)]
    struct Recurrent {
        gru: GRU,
        rnn: RNN,
        projected: LSTM,
    }
    let model = || {
        Ok(Recurrent {
            gru: GRU::options(4, 5).num_layers(2).init()?,
            rnn: RNN::options(5, 4).nonlinearity(Nonlinearity::Relu).init()?,
            projected: LSTM::options(4, 6).proj_size(3).init()?,
        })
    };
    let terms = 5 * (4 + 5 + 5 + 5) + 5 * (5 + 4) + 5 * (4 + 3 + 6);
    check("recurrent", terms, model, |model, x| {
        let (x, _) = model.gru.forward(&x[0], None)?;
        let (x, _) = model.rnn.forward(&x, None)?;
        Ok(vec![model.projected.forward(&x, None)?.0])
    });
}

#[test]
fn attention() {
    #[derive(Module)]
    struct Attention {
        alike: MultiheadAttention,
        unlike: MultiheadAttention,
    }
    let model = || {
        let unlike = MultiheadAttention::options(8, 4).kdim(6).vdim(5).batch_first(true);
        Ok(Attention {
            alike: MultiheadAttention::options(8, 2).batch_first(true).init()?,
            unlike: unlike.init()?,
        })
    };
    let terms = (8 + 4 + 3 + 8) + (8 + 2 + 5 + 8);
    check("attention", terms, model, |model, x| {
        let (y, _) = model.alike.forward(&x[0], &x[0], &x[0], Attend::default())?;
        let (y, weights) = model.unlike.forward(&y, &x[1], &x[2], Attend::default())?;
        Ok(vec![y, weights.expect("wanted by default")])
    });

    #[derive(Module)]
    struct Encoder {
        layers: Vec<TransformerEncoderLayer>,
    }
    let model = || {
        let layer = TransformerEncoderLayer::options(8, 2).dim_feedforward(12).batch_first(true);
        Ok(Encoder { layers: vec![layer.init()?, layer.init()?] })
    };
    let terms = 2 * ((8 + 4 + 5 + 8) + 8 + 8 + 12 + 8);
    check("encoder", terms, model, |model, x| {
        let y = model.layers.iter().try_fold(x[0].clone(), |x, layer| layer.forward(&x))?;
        Ok(vec![y])
    });
}

#[test]
fn bags_and_lists_of_layers() {
    #[derive(Module)]
    struct Recommender {
        bag: EmbeddingBag,
        towers: Vec<Linear>,
        r#match: Bilinear,
    }
    let model = || {
        Ok(Recommender {
            bag: EmbeddingBag::new(12, 4)?,
            towers: vec![Linear::new(4, 5)?, Linear::new(4, 6)?],
            r#match: Bilinear::new(5, 6, 3)?,
        })
    };
    check("recommender", 3 + 4 + 5 * 6, model, |model, history| {
        let x = model.bag.forward(&history[0], None, None)?;
        let (a, b) = (model.towers[0].forward(&x)?, model.towers[1].forward(&x)?);
        Ok(vec![model.r#match.forward(&a, &b)?])
    });
}
