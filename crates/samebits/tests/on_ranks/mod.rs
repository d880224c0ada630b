//! The training whose bits must not depend on the number of ranks.

use samebits::data::{DataLoader, Dataset, SampleContext, Stacked};
use samebits::functional::cross_entropy;
use samebits::nn::{
    BatchNorm1d, Dropout, Layer, Linear, Module, TransformerEncoderLayer, draw_from,
};
use samebits::optim::{AdamW, CosineAnnealingLr};
use samebits::trainer::{Per, Result, Trainer};
use samebits::{Generator, Tensor};

pub(crate) const FEATURES: usize = 8;
pub(crate) const EPOCHS: u64 = 2;

/// A dataset of 44 samples with noise of their own: 15 batches of 3, the last of 2.
pub(crate) struct Data;

impl Dataset for Data {
    type Item = (Vec<f32>, i64);

    fn len(&self) -> usize {
        44
    }

    fn get(&self, index: usize, cx: &mut SampleContext<'_>) -> samebits::data::Result<Self::Item> {
        let noise = cx.rng().next_block()[0] as f32 / u32::MAX as f32;
        let value = |i| ((index * 7 + i * 5) % 11) as f32 / 11.0 + 0.3 * noise;
        Ok(((0..FEATURES).map(value).collect(), (index % 3) as i64))
    }
}

/// A model with batch norm, dropout, and a layer that some micro-batches do not use.
#[derive(Module)]
pub(crate) struct Net {
    pub(crate) first: Linear,
    pub(crate) norm: BatchNorm1d,
    pub(crate) rare: Linear,
    pub(crate) last: Linear,
}

impl Net {
    pub(crate) fn new(generator: &mut Generator) -> Net {
        draw_from(generator, || Net {
            first: Linear::new(FEATURES, 6).unwrap(),
            norm: BatchNorm1d::new(6).unwrap(),
            rare: Linear::new(6, 6).unwrap(),
            last: Linear::new(6, 3).unwrap(),
        })
    }
}

pub(crate) type Batch = (Stacked<f32>, Vec<i64>);

pub(crate) fn tensors((x, classes): Batch) -> samebits::Result<(Tensor, Tensor)> {
    let x = Tensor::from_slice(&x.values, &[x.rows, x.columns])?;
    Ok((x, Tensor::from_slice(&classes, &[classes.len()])?))
}

pub(crate) fn loss(net: &Net, batch: Batch) -> Result<Tensor> {
    let rare = batch.1.iter().sum::<i64>() % 2 == 0;
    let (x, classes) = tensors(batch)?;
    let mut x = net.norm.forward(&net.first.forward(&x)?)?.relu()?;
    x = Dropout::new(0.25).forward(&x)?;
    if rare {
        x = net.rare.forward(&x)?;
    }
    Ok(cross_entropy(&net.last.forward(&x)?, &classes)?)
}

pub(crate) type Run<M> = Trainer<'static, M, AdamW, DataLoader<Data>>;

pub(crate) fn run<M: Module>(model: M, micro_batches: u64, batch: usize) -> Run<M> {
    let loader = DataLoader::builder(Data).batch_size(batch).shuffle(true).seed(9).build().unwrap();
    Trainer::new(model, AdamW::new(0.05).unwrap(), loader, Generator::new(7))
        .run("seed 7")
        .epochs(EPOCHS)
        .accumulate(micro_batches)
        .clip_grad_norm(0.5, 2.0)
        .schedule(Per::Step, CosineAnnealingLr::new(20))
}

pub(crate) fn net(micro_batches: u64) -> Run<Net> {
    run(Net::new(&mut Generator::new(5)), micro_batches, 3)
}

pub(crate) fn bytes<M: Module>(run: &Run<M>) -> Vec<u8> {
    run.state().unwrap().to_bytes().unwrap()
}

/// A transformer with dropout and batch norm.
#[derive(Module)]
pub(crate) struct Encoder {
    pub(crate) layer: TransformerEncoderLayer,
    pub(crate) norm: BatchNorm1d,
    pub(crate) last: Linear,
}

impl Encoder {
    pub(crate) fn new(generator: &mut Generator) -> samebits::Result<Encoder> {
        draw_from(generator, || {
            let layer = TransformerEncoderLayer::new(4, 2)?;
            Ok(Encoder { layer, norm: BatchNorm1d::new(8)?, last: Linear::new(8, 3)? })
        })
    }

    pub(crate) fn loss(&self, batch: Batch) -> Result<Tensor> {
        let (x, classes) = tensors(batch)?;
        let n = x.shape()[0];
        let x = self.layer.forward(&x.reshape([n, 2, 4])?)?.reshape([n, 8])?;
        Ok(cross_entropy(&self.last.forward(&self.norm.forward(&x)?)?, &classes)?)
    }
}

pub(crate) fn encoder(micro_batches: u64) -> Result<Run<Encoder>> {
    Ok(run(Encoder::new(&mut Generator::new(3))?, micro_batches, 4))
}
