//! A parameter shared by two layers is one parameter, through files and resumed runs.

use samebits::data::{DataLoader, Dataset, SampleContext};
use samebits::functional::cross_entropy;
use samebits::io::{Checkpoint, load_safetensors, save_safetensors};
use samebits::nn::{Embedding, Layer, Linear, Module, draw_from};
use samebits::optim::AdamW;
use samebits::trainer::{Outcome, Result, StackTensors, Trainer};
use samebits::{Device, Generator, Tensor};

const WORDS: usize = 7;

/// A model that predicts the next word, with one table at both ends.
#[derive(Module)]
struct Model {
    table: Embedding,
    head: Linear,
}

impl Model {
    fn new(seed: u64) -> Model {
        draw_from(&mut Generator::new(seed), || {
            let table = Embedding::new(WORDS, 4).unwrap();
            let head = Linear::new(4, WORDS).unwrap();
            Model { head: Linear { weight: table.weight.get(), ..head }, table }
        })
    }

    fn loss(&self, words: &Tensor, next: &Tensor) -> samebits::Result<Tensor> {
        cross_entropy(&self.head.forward(&self.table.forward(words)?)?, next)
    }

    #[track_caller]
    fn expect_tied(&self) {
        let table = self.table.weight.get();
        assert_eq!(table.to_bytes().unwrap(), self.head.weight.to_bytes().unwrap());
        let gradients = table.sum(()).unwrap().backward().unwrap();
        assert!(gradients.of(&self.head.weight).is_some());
        assert_eq!(self.num_parameters(), WORDS * 4 + WORDS);
    }
}

fn state(model: &Model) -> Vec<(String, Vec<u8>)> {
    let bytes = |(name, tensor): (String, Tensor)| (name, tensor.to_bytes().unwrap());
    model.state_dict().into_iter().map(bytes).collect()
}

#[test]
fn files_keep_a_weight_shared() {
    let folder = tempfile::tempdir().unwrap();
    let saved = Model::new(1);
    let path = folder.path().join("model.safetensors");
    let tensors = saved.state_dict();
    save_safetensors(&path, tensors.iter().map(|(name, tensor)| (name, tensor))).unwrap();
    let mut loaded = Model::new(2);
    let tensors: Vec<_> = load_safetensors(&path).unwrap().into_iter().collect();
    assert_eq!(tensors.len(), 3);
    loaded.load_state_dict(&tensors, true).unwrap();
    loaded.expect_tied();
    assert_eq!(state(&loaded), state(&saved));
    // As PyTorch's `safetensors.torch.save_model` writes it: one name for a shared tensor.
    for left_out in ["head.weight", "table.weight"] {
        let tensors: Vec<_> =
            tensors.iter().filter(|(name, _)| name != left_out).cloned().collect();
        let mut loaded = Model::new(2);
        loaded.load_state_dict(&tensors, true).unwrap();
        loaded.expect_tied();
        assert_eq!(state(&loaded), state(&saved));
        // Frozen weights need no more.
        let mut frozen = Model::new(3);
        frozen.requires_grad_(false).unwrap();
        frozen.load_state_dict(&tensors, true).unwrap();
        assert_eq!(state(&frozen), state(&saved));
    }

    let path = folder.path().join("checkpoint.safetensors");
    let tensors = saved.state_dict().into_iter().collect();
    Checkpoint { state: 0, tensors }.save(&path).unwrap();
    let Checkpoint { tensors, .. } = Checkpoint::<i32>::load(&path).unwrap();
    let mut loaded = Model::new(2);
    loaded.load_state_dict(&tensors.into_iter().collect::<Vec<_>>(), true).unwrap();
    loaded.to(Device::Cpu).unwrap();
    loaded.expect_tied();
    assert_eq!(state(&loaded), state(&saved));
}

/// A dataset of pairs of words.
struct Text;

impl Dataset for Text {
    type Item = (i64, i64);

    fn len(&self) -> usize {
        20
    }

    fn get(&self, index: usize, _: &mut SampleContext<'_>) -> samebits::data::Result<Self::Item> {
        let word = |i| (i * i % WORDS) as i64;
        Ok((word(index), word(index + 1)))
    }
}

type Run = Trainer<'static, Model, AdamW, DataLoader<Text, StackTensors>>;

fn run(seed: u64) -> Run {
    let loader = DataLoader::builder_with(Text, StackTensors).batch_size(4).shuffle(true);
    let optimizer = AdamW::options(0.05)
        .group(|name, _| name.ends_with("bias"), |options| options.weight_decay(0.0))
        .init()
        .unwrap();
    Trainer::new(Model::new(seed), optimizer, loader.build().unwrap(), Generator::new(3)).epochs(3)
}

fn fit(run: &mut Run) -> Outcome {
    let loss = |model: &Model, (words, next)| -> Result<Tensor> { Ok(model.loss(&words, &next)?) };
    let outcome = run.fit(loss).unwrap();
    run.model.expect_tied();
    outcome
}

#[test]
fn a_resumed_run_keeps_a_weight_shared() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.safetensors");
    let mut whole = run(1);
    assert_eq!(fit(&mut whole), Outcome::Finished);
    let mut cut = run(1).max_steps(7).checkpoint(&path);
    assert_eq!(fit(&mut cut), Outcome::MaxSteps);
    let mut resumed = run(2);
    resumed.resume(&path).unwrap();
    resumed.model.expect_tied();
    assert_eq!(fit(&mut resumed), Outcome::Finished);
    assert_eq!(state(&resumed.model), state(&whole.model));
    assert_ne!(state(&resumed.model), state(&Model::new(1)));
}
