mod conv;
mod dropout;
mod embedding;
mod linear;
mod norm;
mod pooling;
mod resample;

pub use conv::{
    Conv1d, Conv2d, Conv3d, ConvNd, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d,
    ConvTransposeNd,
};
pub use dropout::{AlphaDropout, Dropout, Dropout1d, Dropout2d, Dropout3d, FeatureAlphaDropout};
pub use embedding::{Embedding, EmbeddingBag};
pub use linear::Linear;
pub use norm::{BatchNorm, GroupNorm, InstanceNorm, LayerNorm, RunningStatistics};
pub use pooling::{
    AdaptiveAvgPool, AdaptiveMaxPool, AvgPool, FractionalMaxPool, LpPool, MaxPool, MaxUnpool1d,
    MaxUnpool2d, MaxUnpool3d, MaxUnpoolNd,
};
pub use resample::{Pad, PixelShuffle, PixelUnshuffle, Upsample};

use samebits_rng::{Draw, Generator};
use samebits_tensor_core::ops::Uniform;
use samebits_tensor_core::{DType, Device, Error, Result};

use crate::{Tensor, run};

/// `1 / √fan_in`.
pub(super) fn bound(fan_in: usize, layer: &'static str) -> Result<f64> {
    if fan_in == 0 {
        return Err(Error::invalid(layer, "a layer needs at least one input"));
    }
    Ok(1.0 / (fan_in as f64).sqrt())
}

/// A parameter uniform in ±`bound`.
pub(super) fn uniform(shape: &[usize], bound: f64, generator: &mut Generator) -> Result<Tensor> {
    let op = Uniform {
        shape: shape.to_vec(),
        dtype: DType::F32,
        device: Device::Cpu,
        low: -bound,
        high: bound,
        generator: generator.clone(),
    };
    let value = run(&op)?;
    generator.advance(Draw::blocks_u32(value.numel()));
    Ok(Tensor::from(value).set_requires_grad(true))
}
