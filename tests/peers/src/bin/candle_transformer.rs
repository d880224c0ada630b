use candle_core::{D, DType, Device, Module, Result, Tensor};
use candle_nn::loss::mse;
use candle_nn::ops::{layer_norm_slow, softmax};
use candle_nn::{AdamW, LayerNorm, Linear, Optimizer, VarBuilder, VarMap, layer_norm, linear};

struct Block {
    ln1: LayerNorm,
    ln2: LayerNorm,
    qkv: Linear,
    out: Linear,
    up: Linear,
    down: Linear,
    heads: usize,
}

/// `LayerNorm::forward` has no gradient.
fn normalized(ln: &LayerNorm, x: &Tensor) -> Result<Tensor> {
    layer_norm_slow(x, ln.weight(), ln.bias().unwrap(), ln.eps() as f32)
}

impl Block {
    fn new(c: usize, heads: usize, vb: VarBuilder) -> Result<Block> {
        Ok(Block {
            ln1: layer_norm(c, 1e-5, vb.pp("ln1"))?,
            ln2: layer_norm(c, 1e-5, vb.pp("ln2"))?,
            qkv: linear(c, 3 * c, vb.pp("qkv"))?,
            out: linear(c, c, vb.pp("out"))?,
            up: linear(c, 4 * c, vb.pp("up"))?,
            down: linear(4 * c, c, vb.pp("down"))?,
            heads,
        })
    }

    fn attention(&self, x: &Tensor) -> Result<Tensor> {
        let (n, steps, c) = x.dims3()?;
        let shape = (n, steps, 3, self.heads, c / self.heads);
        let qkv = self.qkv.forward(x)?.reshape(shape)?.permute((2, 0, 3, 1, 4))?.contiguous()?;
        let (q, k, v) = (qkv.get(0)?, qkv.get(1)?, qkv.get(2)?);
        let scores = (q.matmul(&k.t()?)? / ((c / self.heads) as f64).sqrt())?;
        let future = (Tensor::tril2(steps, DType::F32, x.device())? - 1.0)? * 1e9;
        let weights = softmax(&scores.broadcast_add(&future?)?, D::Minus1)?;
        self.out.forward(&weights.matmul(&v)?.transpose(1, 2)?.reshape((n, steps, c))?)
    }

    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let x = (x + self.attention(&normalized(&self.ln1, x)?)?)?;
        let h = self.up.forward(&normalized(&self.ln2, &x)?)?.gelu_erf()?;
        x + self.down.forward(&h)?
    }
}

fn step(model: &Block, optimizer: &mut AdamW, x: &Tensor, y: &Tensor) -> Result<()> {
    optimizer.backward_step(&mse(&model.forward(x)?, y)?)
}

fn main() -> Result<()> {
    let (device, vars) = (Device::Cpu, VarMap::new());
    let model = Block::new(16, 4, VarBuilder::from_varmap(&vars, DType::F32, &device))?;
    let mut optimizer = AdamW::new_lr(vars.all_vars(), 1e-3)?;
    let x = Tensor::rand(0f32, 1f32, (2, 5, 16), &device)?;
    let y = Tensor::rand(0f32, 1f32, (2, 5, 16), &device)?;
    step(&model, &mut optimizer, &x, &y)
}
