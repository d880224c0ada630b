use burn::nn::loss::CrossEntropyLoss;
use burn::nn::{Linear, LinearConfig};
use burn::optim::{AdamWConfig, GradientsParams, ModuleOptimizer};
use burn::prelude::*;
use burn::tensor::Distribution::Uniform;
use burn::tensor::activation::relu;

#[derive(Module, Debug)]
struct Mlp {
    hidden: Linear,
    out: Linear,
}

impl Mlp {
    fn new(device: &Device) -> Mlp {
        Mlp {
            hidden: LinearConfig::new(784, 512).init(device),
            out: LinearConfig::new(512, 10).init(device),
        }
    }

    fn forward(&self, x: Tensor<2>) -> Tensor<2> {
        self.out.forward(relu(self.hidden.forward(x)))
    }
}

fn step(model: Mlp, optimizer: &mut ModuleOptimizer, x: Tensor<2>, y: Tensor<1, Int>) -> Mlp {
    let loss = CrossEntropyLoss::new(None, &x.device()).forward(model.forward(x), y);
    let gradients = GradientsParams::from_grads(loss.backward(), &model);
    optimizer.step(1e-3, model, gradients)
}

fn main() {
    let device = Device::flex().autodiff();
    let (model, mut optimizer) = (Mlp::new(&device), AdamWConfig::new().init());
    let x = Tensor::random([4, 784], Uniform(0.0, 1.0), &device);
    step(model, &mut optimizer, x, Tensor::from_data([3, 1, 4, 1], &device));
}
