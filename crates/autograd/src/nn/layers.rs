mod activation;
mod adaptive;
mod attention;
mod conv;
mod distance;
mod dropout;
mod embedding;
mod linear;
mod loss;
mod norm;
mod pads;
mod pooling;
mod resample;
mod rotary;
mod transformer;

pub use activation::{
    CELU, ELU, Flatten, GELU, GLU, Hardshrink, Hardsigmoid, Hardswish, Hardtanh, Identity,
    LeakyReLU, LogSigmoid, LogSoftmax, Mish, PReLU, PReLUOptions, RReLU, ReLU, ReLU6, SELU, SiLU,
    Sigmoid, Softmax, Softmax2d, Softmin, Softplus, Softshrink, Softsign, Tanh, Tanhshrink,
    Threshold, Unflatten,
};
pub use adaptive::{AdaptiveLogSoftmaxWithLoss, AdaptiveLogSoftmaxWithLossOptions};
pub use attention::{Attend, MultiheadAttention, MultiheadAttentionOptions};
pub use conv::{
    Conv1d, Conv2d, Conv3d, ConvNd, ConvOptions, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d,
    ConvTransposeNd, ConvTransposeOptions,
};
pub use distance::{CosineSimilarity, PairwiseDistance};
pub use dropout::{AlphaDropout, Dropout, Dropout1d, Dropout2d, Dropout3d, FeatureAlphaDropout};
pub use embedding::{Embedding, EmbeddingBag, EmbeddingBagOptions, EmbeddingOptions};
pub use linear::{Bilinear, BilinearOptions, Linear, LinearOptions};
pub use loss::{
    BCELoss, BCEWithLogitsLoss, CTCLoss, CosineEmbeddingLoss, CrossEntropyLoss, GaussianNLLLoss,
    HingeEmbeddingLoss, HuberLoss, KLDivLoss, L1Loss, MSELoss, MarginRankingLoss,
    MultiLabelMarginLoss, MultiLabelSoftMarginLoss, MultiMarginLoss, NLLLoss, PoissonNLLLoss,
    SmoothL1Loss, SoftMarginLoss, TripletMarginLoss,
};
pub use norm::{
    BatchNorm1d, BatchNorm2d, BatchNorm3d, BatchNormNd, BatchNormOptions, GroupNorm,
    GroupNormOptions, InstanceNorm1d, InstanceNorm2d, InstanceNorm3d, InstanceNormNd,
    InstanceNormOptions, LastDims, LayerNorm, LayerNormOptions, LocalResponseNorm, RMSNorm,
    RMSNormOptions, RunningStatistics,
};
pub use pads::{
    CircularPad1d, CircularPad2d, CircularPad3d, ConstantPad1d, ConstantPad2d, ConstantPad3d,
    ReflectionPad1d, ReflectionPad2d, ReflectionPad3d, ReplicationPad1d, ReplicationPad2d,
    ReplicationPad3d, ZeroPad1d, ZeroPad2d, ZeroPad3d,
};
pub use pooling::{
    AdaptiveAvgPool1d, AdaptiveAvgPool2d, AdaptiveAvgPool3d, AdaptiveAvgPoolNd, AdaptiveMaxPool1d,
    AdaptiveMaxPool2d, AdaptiveMaxPool3d, AdaptiveMaxPoolNd, AvgPool1d, AvgPool2d, AvgPool3d,
    AvgPoolNd, FractionalMaxPool2d, FractionalMaxPool3d, FractionalMaxPoolNd, LPPool1d, LPPool2d,
    LPPool3d, LPPoolNd, MaxPool1d, MaxPool2d, MaxPool3d, MaxPoolNd, MaxUnpool1d, MaxUnpool2d,
    MaxUnpool3d, MaxUnpoolNd,
};
pub use resample::{ChannelShuffle, Fold, Pad, PixelShuffle, PixelUnshuffle, Unfold, Upsample};
pub use rotary::{RotaryEmbedding, RotaryEmbeddingOptions, RotaryScaling};
pub use transformer::{
    TransformerActivation, TransformerDecoder, TransformerDecoderLayer, TransformerEncoder,
    TransformerEncoderLayer, TransformerEncoderLayerOptions, TransformerLayerOptions,
};

use samebits_tensor_core::{Error, Result};

/// Returns `1 / √fan_in`.
pub(super) fn bound(op: &'static str, fan_in: usize) -> Result<f64> {
    if fan_in == 0 {
        return Err(Error::invalid(op, "a layer needs at least one input"));
    }
    Ok(1.0 / (fan_in as f64).sqrt())
}
