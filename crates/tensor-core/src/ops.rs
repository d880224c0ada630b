//! The operations: their arguments and the checks that are the same on every device.
//!
//! Each is a plain value that implements [`Op`](crate::Op). The kernels registered for it compute
//! it, and declare the level of the result.

mod attention;
mod bincount;
mod conv;
mod ctc;
mod elementwise;
mod embedding;
mod formula;
mod grid_sample;
mod index;
mod interpolate;
mod linalg;
mod loss;
mod matmul;
mod norm;
mod optim;
mod padding;
mod pooling;
mod random;
mod recurrent;
mod recurrent_layer;
mod reduce;
mod rotary;
mod scan;
mod scatter;
mod shape;
mod sort;
mod sparse;

pub use crate::geometry::{
    ConvParams, GridMode, GridPadding, GridParams, InterpolateMode, PadMode, PoolParams,
};
pub use attention::{Attention, AttentionDropout, AttentionGrad, AttentionMasks};
pub use bincount::{Bincount, BincountWeighted, Bins, Histc};
pub use conv::{Conv, ConvInputGrad, ConvWeightGrad};
pub use ctc::{CtcBatch, CtcLoss, CtcLossGrad, CtcTargets};
pub use elementwise::{
    Affine, Binary, BinaryKind, Cast, Compare, CompareKind, Gelu, GeluForm, GeluGrad, Ramp,
    RampGrad, RampKind, Silu, SiluGrad, Unary, UnaryKind, Where,
};
pub use embedding::{
    BagMode, BagParams, EmbeddingBag, EmbeddingBagGrad, EmbeddingBagWeightsGrad, EmbeddingGrad,
};
pub use formula::{Bowl, Formula, Step, truth_values};
pub use grid_sample::{GridSample, GridSampleGridGrad, GridSampleInputGrad};
pub use index::{
    Gather, Index, IndexAdd, IndexCopy, IndexPut, IndexPutAdd, IndexSelect, Nonzero, Scatter,
    indexed_shape,
};
pub use interpolate::{Interpolate, InterpolateGrad};
pub use linalg::{Qr, QrGrad, QrMode, Svd};
pub use loss::{
    CrossEntropyGrad, LogSoftmax, LogSoftmaxGrad, LogitLoss, LogitLossGrad, NllLoss, NllLossGrad,
    Reduction, Softmax, SoftmaxGrad,
};
pub use matmul::{HalfMatmul, Matmul};
pub use norm::{
    BatchNorm, BatchNormGrad, BatchNormInference, GroupNorm, GroupNormGrad, LayerNorm,
    LayerNormGrad, RmsNorm, RmsNormGrad,
};
pub use optim::{AdamParams, AdamStep, SgdParams, SgdStep};
pub use padding::{Pad, PadGrad};
pub use pooling::{
    AdaptiveAvgPool, AdaptiveAvgPoolGrad, AdaptiveMaxPool, AdaptiveMaxPoolGrad, AvgPool,
    AvgPoolGrad, FractionalMaxPool, FractionalMaxPoolGrad, MaxPool, MaxPoolGrad, MaxUnpool,
    MaxUnpoolGrad,
};
pub use random::{Dropout, Normal, Uniform};
pub use recurrent::{GruCell, GruCellGrad, LstmCell, LstmCellGrad};
pub use recurrent_layer::{RecurrentCell, RecurrentLayer, RecurrentLayerGrad};
pub use reduce::{ArgReduce, ArgReduceKind, Logsumexp, Norm, Reduce, ReduceKind, Variance};
pub use rotary::RotaryEmbedding;
pub use scan::{
    Cumextreme, Cumprod, CumprodGrad, CumprodGradGrad, Cumsum, Logcumsumexp, LogcumsumexpGrad,
};
pub use scatter::{IndexReduce, ScatterAdd, ScatterReduce, ScatterReduceKind};
pub use shape::{Cat, Flip, FlipGroup};
pub use sort::{Kthvalue, Median, Sort, Topk, Unique, UniqueDim};
pub use sparse::{SampledProduct, SparseMm};

use crate::geometry::spatial;
use crate::layout::numel;
use crate::{DType, Error, Result, Tensor};

/// Checks that a tensor has a float type that operations compute in.
pub(crate) fn expect_float(op: &'static str, what: &'static str, x: &Tensor) -> Result<()> {
    if x.dtype().is_full_float() {
        return Ok(());
    }
    Err(Error::DTypeMismatch { op, what, expected: DType::F32, got: x.dtype() })
}

/// Checks that a tensor has a type that operations compute in, including i64.
pub(crate) fn expect_number(op: &'static str, what: &'static str, x: &Tensor) -> Result<()> {
    if x.dtype() == DType::I64 { Ok(()) } else { expect_float(op, what, x) }
}

/// Checks the type of a tensor.
pub(crate) fn expect_dtype(
    op: &'static str,
    what: &'static str,
    x: &Tensor,
    expected: DType,
) -> Result<()> {
    if x.dtype() == expected {
        return Ok(());
    }
    Err(Error::DTypeMismatch { op, what, expected, got: x.dtype() })
}

/// Checks the shape of a tensor.
pub(crate) fn expect_shape(
    op: &'static str,
    what: &'static str,
    x: &Tensor,
    expected: &[usize],
) -> Result<()> {
    if x.shape() == expected {
        return Ok(());
    }
    Err(Error::ShapeMismatch { op, what, expected: expected.to_vec(), got: x.shape().to_vec() })
}

/// Returns `shape` if a tensor of this shape has a permitted number of elements.
pub(crate) fn checked_shape(op: &'static str, shape: &[usize]) -> Result<Vec<usize>> {
    numel(op, shape)?;
    Ok(shape.to_vec())
}
