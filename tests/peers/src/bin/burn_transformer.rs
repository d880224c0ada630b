use burn::nn::attention::{
    MhaInput, MultiHeadAttention, MultiHeadAttentionConfig, generate_autoregressive_mask,
};
use burn::nn::loss::{MseLoss, Reduction};
use burn::nn::{LayerNorm, LayerNormConfig, Linear, LinearConfig};
use burn::optim::{AdamWConfig, GradientsParams, ModuleOptimizer};
use burn::prelude::*;
use burn::tensor::Distribution::Uniform;
use burn::tensor::activation::gelu;

#[derive(Module, Debug)]
struct Block {
    ln1: LayerNorm,
    ln2: LayerNorm,
    attention: MultiHeadAttention,
    up: Linear,
    down: Linear,
}

impl Block {
    fn new(c: usize, heads: usize, device: &Device) -> Block {
        Block {
            ln1: LayerNormConfig::new(c).init(device),
            ln2: LayerNormConfig::new(c).init(device),
            attention: MultiHeadAttentionConfig::new(c, heads).with_dropout(0.0).init(device),
            up: LinearConfig::new(c, 4 * c).init(device),
            down: LinearConfig::new(4 * c, c).init(device),
        }
    }

    fn forward(&self, x: Tensor<3>) -> Tensor<3> {
        let [n, steps, _] = x.dims();
        let causal = generate_autoregressive_mask(n, steps, &x.device());
        let h = MhaInput::self_attn(self.ln1.forward(x.clone())).mask_attn(causal);
        let x = x + self.attention.forward(h).context;
        let h = gelu(self.up.forward(self.ln2.forward(x.clone())));
        x + self.down.forward(h)
    }
}

fn step(model: Block, optimizer: &mut ModuleOptimizer, x: Tensor<3>, y: Tensor<3>) -> Block {
    let loss = MseLoss::new().forward(model.forward(x), y, Reduction::Mean);
    let gradients = GradientsParams::from_grads(loss.backward(), &model);
    optimizer.step(1e-3, model, gradients)
}

fn main() {
    let device = Device::flex().autodiff();
    let (model, mut optimizer) = (Block::new(16, 4, &device), AdamWConfig::new().init());
    let [x, y] = [(); 2].map(|()| Tensor::random([2, 5, 16], Uniform(0.0, 1.0), &device));
    step(model, &mut optimizer, x, y);
}
