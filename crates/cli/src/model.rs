//! The network: two convolutions, batch normalisation, pooling, dropout, one linear layer.

use samebits::functional::{flatten, relu};
use samebits::nn::{BatchNorm2d, Conv2d, Dropout, Layer, Linear, MaxPool2d, Module, layer};
use samebits::{Result, Tensor};

use crate::digits::{CLASSES, SIDE};

const CHANNELS: usize = 32;

#[derive(Debug, Module)]
pub(crate) struct Cnn {
    conv1: Conv2d,
    norm1: BatchNorm2d,
    conv2: Conv2d,
    norm2: BatchNorm2d,
    pool: MaxPool2d,
    dropout: Dropout,
    linear: Linear,
}

impl Cnn {
    pub(crate) fn new() -> Result<Cnn> {
        Ok(Cnn {
            conv1: Conv2d::options(1, CHANNELS, 3).padding(1).init()?,
            norm1: BatchNorm2d::new(CHANNELS)?,
            conv2: Conv2d::options(CHANNELS, CHANNELS, 3).padding(1).init()?,
            norm2: BatchNorm2d::new(CHANNELS)?,
            pool: MaxPool2d::new(2),
            dropout: Dropout::new(0.25),
            linear: Linear::new(CHANNELS * (SIDE / 2) * (SIDE / 2), CLASSES)?,
        })
    }

    #[layer]
    pub(crate) fn forward(&self, images: &Tensor) -> Result<Tensor> {
        let x = self.conv1.forward(images)?;
        let x = relu(&self.norm1.forward(&x)?)?;
        let x = self.conv2.forward(&x)?;
        let x = relu(&self.norm2.forward(&x)?)?;
        let x = self.dropout.forward(&self.pool.forward(&x)?)?;
        self.linear.forward(&flatten(&x, 1, -1)?)
    }
}
