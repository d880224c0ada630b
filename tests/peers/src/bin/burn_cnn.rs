use burn::nn::PaddingConfig2d::Same;
use burn::nn::conv::{Conv2d, Conv2dConfig};
use burn::nn::loss::CrossEntropyLoss;
use burn::nn::pool::MaxPool2dConfig;
use burn::nn::{BatchNorm, BatchNormConfig, Linear, LinearConfig};
use burn::optim::{AdamWConfig, GradientsParams, ModuleOptimizer};
use burn::prelude::*;
use burn::tensor::Distribution::Uniform;
use burn::tensor::activation::relu;
use burn::tensor::module::adaptive_avg_pool2d;

#[derive(Module, Debug)]
struct Cnn {
    conv1: Conv2d,
    norm1: BatchNorm,
    conv2: Conv2d,
    norm2: BatchNorm,
    out: Linear,
}

impl Cnn {
    fn new(device: &Device) -> Cnn {
        Cnn {
            conv1: Conv2dConfig::new([3, 64], [3, 3]).with_padding(Same).init(device),
            norm1: BatchNormConfig::new(64).init(device),
            conv2: Conv2dConfig::new([64, 128], [3, 3]).with_padding(Same).init(device),
            norm2: BatchNormConfig::new(128).init(device),
            out: LinearConfig::new(128, 10).init(device),
        }
    }

    fn forward(&self, x: Tensor<4>) -> Tensor<2> {
        let x = relu(self.norm1.forward(self.conv1.forward(x)));
        let x = MaxPool2dConfig::new([2, 2]).init().forward(x);
        let x = relu(self.norm2.forward(self.conv2.forward(x)));
        self.out.forward(adaptive_avg_pool2d(x, [1, 1]).flatten(1, 3))
    }
}

fn step(model: Cnn, optimizer: &mut ModuleOptimizer, x: Tensor<4>, y: Tensor<1, Int>) -> Cnn {
    let loss = CrossEntropyLoss::new(None, &x.device()).forward(model.forward(x), y);
    let gradients = GradientsParams::from_grads(loss.backward(), &model);
    optimizer.step(1e-3, model, gradients)
}

fn main() {
    let device = Device::flex().autodiff();
    let (model, mut optimizer) = (Cnn::new(&device), AdamWConfig::new().init());
    let x = Tensor::random([2, 3, 16, 16], Uniform(0.0, 1.0), &device);
    step(model, &mut optimizer, x, Tensor::from_data([3, 1], &device));
}
