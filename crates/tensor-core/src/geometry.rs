//! The geometry of operations: sizes, windows and positions, checked once.
//!
//! Each type has one checked constructor, which takes the name of the operation for its errors. It
//! rejects sizes and parameters that do not fit together, and ensures that the sums and products
//! which kernels form of its sizes do not overflow. [`Op::plan`](crate::Op::plan) returns the type,
//! and the kernels on plain slices of every device take it.

mod attention;
mod bags;
mod batch;
mod bins;
mod conv;
mod grid_sample;
mod interpolate;
mod matrices;
mod padding;
mod places;
mod planes;
mod pooling;
mod reduction;
mod rotary;
mod split;

pub use attention::AttentionSizes;
pub use bags::BagBounds;
pub use batch::{Batch, Groups, Rows};
pub use bins::bin_edges;
pub use conv::{ConvParams, ConvPass, ConvSizes, Convolution};
pub use grid_sample::{GridMode, GridPadding, GridParams, Sampling};
pub use interpolate::{InterpolateMode, Resize, ResizedAxis, Taps, cubic_weights};
pub use matrices::{Matrices, Products};
pub use padding::{PadMode, PaddedAxis, Padding};
pub use places::{IndexedElements, IndexedSlices};
pub use planes::{Axis, Planes};
pub use pooling::{
    AdaptiveAxis, AdaptivePool, Average, FractionalAxis, FractionalPool, Pool, PoolAxis, PoolParams,
};
pub use reduction::Reduction;
pub use rotary::Rotation;
pub use split::Split;

use std::ops::RangeInclusive;

use crate::{Error, Result};

/// Splits a shape into its batch and channel dimensions and its spatial ones; their number must be
/// in `dims`.
pub(crate) fn spatial<'a>(
    op: &'static str,
    shape: &'a [usize],
    dims: RangeInclusive<usize>,
) -> Result<(&'a [usize], &'a [usize])> {
    if dims.contains(&shape.len().saturating_sub(2)) {
        return Ok(shape.split_at(2));
    }
    Err(Error::invalid(
        op,
        format!(
            "expected [n, channels, ..] with {} to {} spatial dimensions, got shape {shape:?}",
            dims.start(),
            dims.end()
        ),
    ))
}
