//! The operations: their arguments and the checks that every device makes alike.
//!
//! Each is a plain value that implements [`Op`](crate::Op). How it is computed, and what level
//! the result has, is up to the kernels registered for it.

mod bincount;
mod conv;
mod elementwise;
mod embedding;
mod index;
mod loss;
mod matmul;
mod norm;
mod optim;
mod pooling;
mod random;
mod reduce;
mod scan;
mod scatter;
mod sort;

pub use bincount::{Bincount, BincountWeighted, Histc};
pub use conv::{Conv, ConvInputGrad, ConvParams, ConvWeightGrad};
pub use elementwise::{
    Affine, Binary, BinaryKind, Cast, Compare, CompareKind, Unary, UnaryKind, Where,
};
pub use embedding::{
    BagMode, BagParams, EmbeddingBag, EmbeddingBagGrad, EmbeddingBagWeightsGrad, EmbeddingGrad,
};
pub use index::{
    Gather, Index, IndexAdd, IndexCopy, IndexPut, IndexPutAdd, IndexSelect, Nonzero, Scatter,
    indexed_shape,
};
pub use loss::{LogSoftmax, LogSoftmaxGrad, NllLoss, NllLossGrad, Reduction};
pub use matmul::Matmul;
pub use norm::{BatchNorm, BatchNormGrad, BatchNormInference, LayerNorm, LayerNormGrad};
pub use optim::{AdamParams, AdamStep, SgdParams, SgdStep};
pub use pooling::{AvgPool, AvgPoolGrad, MaxPool, MaxPoolGrad, PoolParams};
pub use random::{Dropout, Normal, Uniform};
pub use reduce::{ArgReduce, ArgReduceKind, Logsumexp, Norm, Reduce, ReduceKind, Variance};
pub use scan::{Cumextreme, Cumprod, CumprodGrad, Cumsum, Logcumsumexp, LogcumsumexpGrad};
pub use scatter::{IndexReduce, ScatterAdd, ScatterReduce, ScatterReduceKind};
pub use sort::{Kthvalue, Median, Sort, Topk, Unique};

use crate::{DType, Error, Result, Tensor};

/// Requires a float tensor.
pub(crate) fn expect_float(op: &'static str, what: &'static str, x: &Tensor) -> Result<()> {
    if x.dtype().is_float() {
        return Ok(());
    }
    Err(Error::DTypeMismatch { op, what, expected: DType::F32, got: x.dtype() })
}

/// Requires a type.
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

/// Requires a shape.
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
