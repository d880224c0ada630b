//! The measured training steps: five models, each with a batch or two. Their names are those of
//! `python/benchmarks/steps.py`.

use samebits::functional::{self as f, BagOptions};
use samebits::nn::{
    self, AdaptiveAvgPool2d, BatchNorm2d, Conv2d, Embedding, Flatten, LSTM, LayerNorm, Linear,
    ReLU, Sequential,
};
use samebits::ops::BagMode;
use samebits::optim::{AdamW, Sgd};
use samebits::prelude::*;
use samebits::{Gradients, Result, autocast, randint, randn, sequential};

/// A model in training.
pub(crate) trait Training {
    /// Takes a step, and returns the loss, if any, and the gradients.
    fn step(&mut self) -> Result<(Option<Tensor>, Gradients)>;

    /// Returns the model.
    #[allow(dead_code, reason = "not every benchmark looks at it")]
    fn model(&self) -> &dyn Module;
}

/// A constructor of a model and its batch.
pub(crate) type Make = fn() -> Result<Box<dyn Training>>;

/// Every training, by the name of its step.
pub(crate) const ALL: [(&str, Make); 6] = [
    ("step_mlp", mlp),
    ("step_cnn", cnn),
    ("step_gpt", gpt),
    ("step_gpt_1x512", gpt_of_one_text),
    ("step_lstm", lstm),
    ("step_recsys", recommender),
];

/// A model, the optimiser of all its parameters, and the loss of its batch.
pub(crate) struct ByLoss<M, O, F> {
    pub(crate) model: M,
    pub(crate) optimizer: O,
    pub(crate) loss: F,
}

impl<M, O, F> Training for ByLoss<M, O, F>
where
    M: Module,
    O: Optimizer,
    F: Fn(&M) -> Result<Tensor>,
{
    fn step(&mut self) -> Result<(Option<Tensor>, Gradients)> {
        let loss = nn::train(|| (self.loss)(&self.model))?;
        let gradients = loss.backward()?;
        self.optimizer.step(&mut self.model, &gradients)?;
        Ok((Some(loss), gradients))
    }

    fn model(&self) -> &dyn Module {
        &self.model
    }
}

fn sgd() -> Result<Sgd> {
    Sgd::options(0.01).momentum(0.9).init()
}

fn mlp() -> Result<Box<dyn Training>> {
    let model = sequential![
        Linear::new(784, 512)?,
        ReLU,
        Linear::new(512, 512)?,
        ReLU,
        Linear::new(512, 10)?,
    ];
    classifier(model, &[256, 784])
}

fn cnn() -> Result<Box<dyn Training>> {
    let mut model = Sequential::new();
    for channels in [3, 64, 64, 64, 64] {
        model = model
            .append(Conv2d::options(channels, 64, 3).padding(1).init()?)
            .append(BatchNorm2d::new(64)?)
            .append(ReLU);
    }
    let model = model
        .append(AdaptiveAvgPool2d::new(1))
        .append(Flatten::default())
        .append(Linear::new(64, 10)?);
    classifier(model, &[16, 3, 32, 32])
}

/// Returns the training of a classifier with ten classes.
fn classifier(model: Sequential, batch: &[usize]) -> Result<Box<dyn Training>> {
    let (x, y) = (randn(batch)?, randint(0, 10, &batch[..1])?);
    let loss = move |model: &Sequential| f::cross_entropy(&model.forward(&x)?, &y);
    Ok(Box::new(ByLoss { model, optimizer: sgd()?, loss }))
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
    fn new(c: usize, heads: usize) -> Result<Block> {
        Ok(Block {
            ln1: LayerNorm::new(c)?,
            qkv: Linear::new(c, 3 * c)?,
            proj: Linear::new(c, c)?,
            ln2: LayerNorm::new(c)?,
            up: Linear::new(c, 4 * c)?,
            down: Linear::new(4 * c, c)?,
            heads,
        })
    }

    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let &[n, t, c] = x.shape() else { unreachable!("[n, t, c]") };
        let width = c / self.heads;
        let qkv = self.qkv.forward(&self.ln1.forward(x)?)?;
        let heads = |x: &Tensor| f::transpose(&f::reshape(x, [n, t, self.heads, width])?, 1, 2);
        let [q, k, v] = &f::split(&qkv, &[c; 3], 2)?[..] else { unreachable!("three parts") };
        let (q, k, v) = (heads(q)?, heads(k)?, heads(v)?);
        let found = f::scaled_dot_product_attention(&q, &k, &v, None, 0.0, true, None)?;
        let found = f::transpose(&found, 1, 2)?;
        let x = (x + self.proj.forward(&f::reshape(&found, [n, t, c])?)?)?;
        let h = self.up.forward(&self.ln2.forward(&x)?)?.gelu()?;
        &x + self.down.forward(&h)?
    }
}

#[derive(Module)]
struct Gpt {
    emb: Embedding,
    pos: Tensor,
    blocks: Vec<Block>,
    ln: LayerNorm,
    head: Linear,
}

impl Gpt {
    fn new(words: usize, c: usize, layers: usize, heads: usize, t: usize) -> Result<Gpt> {
        Ok(Gpt {
            emb: Embedding::new(words, c)?,
            pos: randn(&[t, c])?.set_requires_grad(true)?,
            blocks: (0..layers).map(|_| Block::new(c, heads)).collect::<Result<_>>()?,
            ln: LayerNorm::new(c)?,
            head: Linear::new(c, words)?,
        })
    }

    fn forward(&self, ids: &Tensor) -> Result<Tensor> {
        let mut x = (self.emb.forward(ids)? + &self.pos)?;
        for block in &self.blocks {
            x = block.forward(&x)?;
        }
        self.head.forward(&self.ln.forward(&x)?)
    }
}

fn gpt() -> Result<Box<dyn Training>> {
    gpt_in(DType::F32, 8, 128)
}

fn gpt_of_one_text() -> Result<Box<dyn Training>> {
    gpt_in(DType::F32, 1, 512)
}

/// Makes the training of a language model with mixed precision of this type, on `batch` texts of
/// `length` words.
pub(crate) fn gpt_in(dtype: DType, batch: usize, length: usize) -> Result<Box<dyn Training>> {
    let model = Gpt::new(1000, 256, 2, 4, length)?;
    let (ids, y) = (randint(0, 1000, &[batch, length])?, randint(0, 1000, &[batch * length])?);
    let optimizer = AdamW::options(1e-3).weight_decay(0.0).init()?;
    let loss = move |model: &Gpt| {
        autocast(dtype, || {
            f::cross_entropy(&f::reshape(&model.forward(&ids)?, [batch * length, 1000])?, &y)
        })?
    };
    Ok(Box::new(ByLoss { model, optimizer, loss }))
}

/// Both passes of a recurrent network, given the gradient of its output.
struct Recurrent {
    model: LSTM,
    x: Tensor,
    grad: Tensor,
}

fn lstm() -> Result<Box<dyn Training>> {
    let shape = [64, 32, 256];
    let x = randn(&shape)?.set_requires_grad(true)?;
    Ok(Box::new(Recurrent { model: LSTM::new(256, 256)?, x, grad: randn(&shape)? }))
}

impl Training for Recurrent {
    fn step(&mut self) -> Result<(Option<Tensor>, Gradients)> {
        let out = self.model.forward(&self.x, None)?.0;
        Ok((None, out.backward_from(self.grad.clone(), false)?))
    }

    fn model(&self) -> &dyn Module {
        &self.model
    }
}

/// Sums of embeddings with a small network on them; only the network is optimised.
#[derive(Module)]
struct Recommender {
    items: Tensor,
    out: Sequential,
    #[module(skip)]
    batch: [Tensor; 2],
    #[module(skip)]
    optimizer: Sgd,
}

fn recommender() -> Result<Box<dyn Training>> {
    Ok(Box::new(Recommender {
        items: randn(&[100_000, 64])?.set_requires_grad(true)?,
        out: sequential![Linear::new(64, 256)?, ReLU, Linear::new(256, 2)?],
        batch: [randint(0, 100_000, &[512, 64])?, randint(0, 2, &[512])?],
        optimizer: sgd()?,
    }))
}

impl Training for Recommender {
    fn step(&mut self) -> Result<(Option<Tensor>, Gradients)> {
        let [ids, y] = &self.batch;
        let sums = BagOptions { mode: BagMode::Sum, ..BagOptions::default() };
        let bags = f::embedding_bag(&self.items, ids, None, None, sums)?;
        let loss = f::cross_entropy(&self.out.forward(&bags)?, y)?;
        let gradients = loss.backward()?;
        self.optimizer.step(&mut self.out, &gradients)?;
        Ok((Some(loss), gradients))
    }

    fn model(&self) -> &dyn Module {
        self
    }
}
