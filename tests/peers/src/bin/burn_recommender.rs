use burn::nn::loss::CrossEntropyLoss;
use burn::nn::{Embedding, EmbeddingConfig, Linear, LinearConfig};
use burn::optim::{AdamWConfig, GradientsParams, ModuleOptimizer};
use burn::prelude::*;
use burn::tensor::activation::relu;

#[derive(Module, Debug)]
struct Recommender {
    bag: Embedding,
    hidden: Linear,
    out: Linear,
}

impl Recommender {
    fn new(items: usize, device: &Device) -> Recommender {
        Recommender {
            bag: EmbeddingConfig::new(items, 64).init(device),
            hidden: LinearConfig::new(64, 128).init(device),
            out: LinearConfig::new(128, items).init(device),
        }
    }

    fn forward(&self, history: Tensor<2, Int>) -> Tensor<2> {
        let x = self.bag.forward(history).mean_dim(1).squeeze_dim(1);
        self.out.forward(relu(self.hidden.forward(x)))
    }
}

fn step(
    model: Recommender,
    optimizer: &mut ModuleOptimizer,
    x: Tensor<2, Int>,
    y: Tensor<1, Int>,
) -> Recommender {
    let loss = CrossEntropyLoss::new(None, &x.device()).forward(model.forward(x), y);
    let gradients = GradientsParams::from_grads(loss.backward(), &model);
    optimizer.step(1e-3, model, gradients)
}

fn main() {
    let device = Device::flex().autodiff();
    let (model, mut optimizer) = (Recommender::new(30, &device), AdamWConfig::new().init());
    let x = Tensor::from_data([[3, 1, 4], [1, 5, 9]], &device);
    step(model, &mut optimizer, x, Tensor::from_data([2, 6], &device));
}
