//! The network: two convolutions, batch normalisation, pooling, dropout, one linear layer.

use samebits::functional::{flatten_from, max_pool, relu};
use samebits::nn::{BatchNorm, Context, Conv2d, Dropout, Linear, Module, Slot, join};
use samebits::ops::{ConvParams, PoolParams};
use samebits::{Generator, Result, Tensor};

use crate::digits::{CLASSES, SIDE};

const CHANNELS: usize = 32;

#[derive(Debug)]
pub(crate) struct Cnn {
    conv1: Conv2d,
    norm1: BatchNorm,
    conv2: Conv2d,
    norm2: BatchNorm,
    dropout: Dropout,
    linear: Linear,
}

impl Cnn {
    pub(crate) fn new(generator: &mut Generator) -> Result<Cnn> {
        let same = ConvParams::padded(2, 1);
        let features = CHANNELS * (SIDE / 2) * (SIDE / 2);
        Ok(Cnn {
            conv1: Conv2d::new(1, CHANNELS, 3, same.clone(), generator)?,
            norm1: BatchNorm::new(CHANNELS)?,
            conv2: Conv2d::new(CHANNELS, CHANNELS, 3, same, generator)?,
            norm2: BatchNorm::new(CHANNELS)?,
            dropout: Dropout { p: 0.25 },
            linear: Linear::new(features, CLASSES, generator)?,
        })
    }
}

impl Module for Cnn {
    fn forward(&mut self, x: &Tensor, context: &mut Context<'_>) -> Result<Tensor> {
        let x = self.conv1.forward(x, context)?;
        let x = relu(&self.norm1.forward(&x, context)?)?;
        let x = self.conv2.forward(&x, context)?;
        let x = relu(&self.norm2.forward(&x, context)?)?;
        let (x, _) = max_pool(&x, &PoolParams::square(2, 2))?;
        let x = self.dropout.forward(&x, context)?;
        self.linear.forward(&flatten_from(&x, 1)?, context)
    }

    fn visit(&mut self, path: &str, visit: &mut dyn FnMut(&str, Slot<'_>)) {
        self.conv1.visit(&join(path, "conv1"), visit);
        self.norm1.visit(&join(path, "norm1"), visit);
        self.conv2.visit(&join(path, "conv2"), visit);
        self.norm2.visit(&join(path, "norm2"), visit);
        self.linear.visit(&join(path, "linear"), visit);
    }
}
