use burn::nn::loss::CrossEntropyLoss;
use burn::nn::{Embedding, EmbeddingConfig, Linear, LinearConfig, Lstm, LstmConfig};
use burn::optim::{AdamWConfig, GradientsParams, ModuleOptimizer};
use burn::prelude::*;

#[derive(Module, Debug)]
struct Tagger {
    embed: Embedding,
    lstm: Lstm,
    out: Linear,
}

impl Tagger {
    fn new(words: usize, tags: usize, device: &Device) -> Tagger {
        Tagger {
            embed: EmbeddingConfig::new(words, 64).init(device),
            lstm: LstmConfig::new(64, 256, true).init(device),
            out: LinearConfig::new(256, tags).init(device),
        }
    }

    fn forward(&self, ids: Tensor<2, Int>) -> Tensor<3> {
        let (h, _) = self.lstm.forward(self.embed.forward(ids), None);
        self.out.forward(h)
    }
}

fn step(
    model: Tagger,
    optimizer: &mut ModuleOptimizer,
    ids: Tensor<2, Int>,
    tags: Tensor<2, Int>,
) -> Tagger {
    let loss = CrossEntropyLoss::new(None, &ids.device())
        .forward(model.forward(ids).flatten(0, 1), tags.flatten(0, 1));
    let gradients = GradientsParams::from_grads(loss.backward(), &model);
    optimizer.step(1e-3, model, gradients)
}

fn main() {
    let device = Device::flex().autodiff();
    let (model, mut optimizer) = (Tagger::new(50, 7, &device), AdamWConfig::new().init());
    let ids = Tensor::from_data([[3, 1, 4], [1, 5, 9]], &device);
    step(model, &mut optimizer, ids, Tensor::from_data([[2, 6, 5], [3, 5, 0]], &device));
}
