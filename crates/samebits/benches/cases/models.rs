//! Steps of small models, and of optimisers alone.

use samebits::functional as f;
use samebits::nn::{
    self, AdaptiveAvgPool2d, BatchNorm2d, Conv2d, Flatten, GRU, LSTM, LayerNorm, Linear, ReLU,
    Sequential,
};
use samebits::optim::{Adagrad, Adam, AdamW, RmsProp, Sgd};
use samebits::prelude::*;
use samebits::{Gradients, Result, no_grad, randint, randn};

use super::{Call, Case, device};

/// A forward pass of a model, or a step of its training.
trait Model: Module {
    fn forward(&self, x: &Tensor) -> Result<Tensor>;
}

impl Model for Sequential {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        nn::Layer::forward(self, x)
    }
}

#[derive(Module)]
struct Block {
    ln1: LayerNorm,
    qkv: Linear,
    proj: Linear,
    ln2: LayerNorm,
    up: Linear,
    down: Linear,
    #[module(skip)]
    heads: usize,
}

impl Block {
    fn new(width: usize, heads: usize) -> Result<Block> {
        Ok(Block {
            ln1: LayerNorm::new(width)?,
            qkv: Linear::new(width, 3 * width)?,
            proj: Linear::new(width, width)?,
            ln2: LayerNorm::new(width)?,
            up: Linear::new(width, 4 * width)?,
            down: Linear::new(4 * width, width)?,
            heads,
        })
    }

    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let &[n, t, c] = x.shape() else { unreachable!("[n, t, c]") };
        let qkv = self.qkv.forward(&self.ln1.forward(x)?)?;
        let heads = |x: &Tensor| x.reshape([n, t, self.heads, c / self.heads])?.transpose(1, 2);
        let [q, k, v] = &f::split(&qkv, &[c; 3], 2)?[..] else { unreachable!("three parts") };
        let (q, k, v) = (heads(q)?, heads(k)?, heads(v)?);
        let found = f::scaled_dot_product_attention(&q, &k, &v, None, 0.0, true, None)?;
        let found = found.transpose(1, 2)?.reshape([n, t, c])?;
        let x = (x + self.proj.forward(&found)?)?;
        let h = self.up.forward(&self.ln2.forward(&x)?)?.gelu()?;
        &x + self.down.forward(&h)?
    }
}

#[derive(Module)]
struct Transformer {
    blocks: Vec<Block>,
    head: Linear,
}

impl Model for Transformer {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let mut x = x.clone();
        for block in &self.blocks {
            x = block.forward(&x)?;
        }
        self.head.forward(&x.mean(1)?)
    }
}

#[derive(Module)]
struct Lstm {
    body: LSTM,
    head: Linear,
}

impl Model for Lstm {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.head.forward(&self.body.forward(x, None)?.0.select(0, -1)?)
    }
}

#[derive(Module)]
struct Gru {
    body: GRU,
    head: Linear,
}

impl Model for Gru {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.head.forward(&self.body.forward(x, None)?.0.select(0, -1)?)
    }
}

/// What is timed of a case of models or of optimisers.
pub(super) fn call(case: &Case) -> Result<Call> {
    if !case.inputs.is_empty() {
        return optimiser(case);
    }
    let (batch, depth) = (case.int("batch"), case.int("depth"));
    match case.op.as_str() {
        "mlp" => {
            let (inputs, width) = (case.int("inputs"), case.int("width"));
            let mut model = Sequential::new();
            for layer in 0..depth {
                let from = if layer == 0 { inputs } else { width };
                model = model.append(Linear::new(from, width)?);
                if case.flag("norm") {
                    model = model.append(LayerNorm::new(width)?);
                }
                model = model.append(ReLU);
            }
            steps(case, model.append(Linear::new(width, 10)?), randn(&[batch, inputs])?)
        }
        "cnn" => {
            let (width, size) = (case.int("width"), case.int("size"));
            let mut model = Sequential::new();
            for layer in 0..depth {
                let from = if layer == 0 { 3 } else { width };
                model = model.append(Conv2d::options(from, width, 3).padding(1).init()?);
                if case.flag("norm") {
                    model = model.append(BatchNorm2d::new(width)?);
                }
                model = model.append(ReLU);
            }
            let model = model.append(AdaptiveAvgPool2d::new(1)).append(Flatten::default());
            let images = randn(&[batch, 3, size, size])?;
            steps(case, model.append(Linear::new(width, 10)?), images)
        }
        "transformer" => {
            let (width, heads) = (case.int("width"), case.int("heads"));
            let blocks = (0..depth).map(|_| Block::new(width, heads)).collect::<Result<_>>()?;
            let model = Transformer { blocks, head: Linear::new(width, 10)? };
            steps(case, model, randn(&[batch, case.int("length"), width])?)
        }
        op => {
            let (inputs, width) = (case.int("inputs"), case.int("width"));
            let x = randn(&[case.int("length"), batch, inputs])?;
            let head = Linear::new(width, 10)?;
            if op == "lstm" {
                let body = LSTM::options(inputs, width).num_layers(depth).init()?;
                steps(case, Lstm { body, head }, x)
            } else {
                let body = GRU::options(inputs, width).num_layers(depth).init()?;
                steps(case, Gru { body, head }, x)
            }
        }
    }
}

fn steps(case: &Case, mut model: impl Model + 'static, x: Tensor) -> Result<Call> {
    model.to(device())?;
    let x = x.to(device())?;
    if !case.flag("train") {
        return Ok(Box::new(move || no_grad(|| model.forward(&x)).map(|y| y.numel() * 4)));
    }
    let y = randint(0, 10, &[case.int("batch")])?.to(device())?;
    let mut optimizer: Box<dyn Optimizer> = match case.text("optimizer") {
        "sgd" => Box::new(Sgd::options(0.01).momentum(0.9).init()?),
        _ => Box::new(Adam::new(1e-3)?),
    };
    Ok(Box::new(move || {
        let loss = nn::train(|| f::cross_entropy(&model.forward(&x)?, &y))?;
        let gradients = loss.backward()?;
        optimizer.step(&mut model, &gradients)?;
        Ok(4)
    }))
}

/// Parameters alone.
#[derive(Module)]
struct Parameters {
    tensors: Vec<Tensor>,
}

/// A step with gradients that stay.
fn optimiser(case: &Case) -> Result<Call> {
    let make = |input: &super::Input| input.make(case.dtype())?.set_requires_grad(true);
    let mut model = Parameters { tensors: case.inputs.iter().map(make).collect::<Result<_>>()? };
    let mut optimizer: Box<dyn Optimizer> = match case.op.as_str() {
        "sgd" => Box::new(Sgd::new(0.01)?),
        "momentum" => Box::new(Sgd::options(0.01).momentum(0.9).init()?),
        "adam" => Box::new(Adam::new(1e-3)?),
        "adamw" => Box::new(AdamW::new(1e-3)?),
        "rmsprop" => Box::new(RmsProp::new(1e-3)?),
        _ => Box::new(Adagrad::new(1e-3)?),
    };
    let values: Vec<Tensor> =
        case.inputs.iter().map(|input| input.make(case.dtype())).collect::<Result<_>>()?;
    let bytes = values.iter().map(|x| x.numel() * x.dtype().size()).sum();
    Ok(Box::new(move || {
        let mut gradients = Gradients::default();
        for (parameter, gradient) in model.tensors.iter().zip(&values) {
            gradients.set(parameter, Some(gradient.clone()))?;
        }
        optimizer.step(&mut model, &gradients)?;
        Ok(bytes)
    }))
}
