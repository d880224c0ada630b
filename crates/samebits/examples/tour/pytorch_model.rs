//! Loads the state dict of a PyTorch model by its names, and compares with PyTorch's results.

use samebits::io::load_safetensors;
use samebits::nn::{Embedding, LSTM, Linear};
use samebits::prelude::*;

/// A file that `safetensors.torch.save_file` has written, with a model, its input and output.
const FILE: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/reference/state_dicts.safetensors");

/// The fields have the names of the Python attributes.
#[derive(Module)]
struct Tagger {
    embed: Embedding,
    lstm: LSTM,
    out: Linear,
}

pub(super) fn run() -> super::Result<()> {
    let tensors = load_safetensors(FILE)?;
    let part = |path: &str| -> Vec<(String, Tensor)> {
        let named = tensors.iter().filter_map(|(name, x)| Some((name.strip_prefix(path)?, x)));
        named.map(|(name, x)| (name.to_owned(), x.clone())).collect()
    };
    manual_seed(0); // the layers draw weights first, which the file then replaces
    let mut model = Tagger {
        embed: Embedding::options(10, 6).padding_idx(0).init()?,
        lstm: LSTM::options(6, 5).num_layers(2).bidirectional(true).batch_first(true).init()?,
        out: Linear::new(10, 3)?,
    };
    // Strict: names that are missing or superfluous are errors.
    model.load_state_dict(&part("tagger/state/"), true)?;

    let (input, expected) = (part("tagger/input/"), part("tagger/output/"));
    let (hidden, _) = model.lstm.forward(&model.embed.forward(&input[0].1)?, None)?;
    let found = model.out.forward(&hidden)?;
    // PyTorch computed in f64, this model in f32.
    let difference = (&found - expected[0].1.to_dtype(DType::F32)?)?.abs()?.amax(())?;
    println!("largest difference {}", difference.item::<f32>()?);
    assert!(difference.item::<f32>()? < 1e-6);
    Ok(())
}
