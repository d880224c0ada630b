//! Rotary position embedding.

use super::{expect_dtype, expect_float};
use crate::geometry::Rotation;
use crate::{Op, Result, Tensor};

/// Pairs of features, rotated by angles that depend on the position. A pair `(a, b)` becomes `(a · cos
/// − b · sin, b · cos + a · sin)`; each operation is rounded.
#[derive(Clone, Debug)]
pub struct RotaryEmbedding {
    /// `[.., length, width]`.
    pub x: Tensor,
    /// The cosine for each position and pair, `[length, half]`. Features from `2 · half` on stay.
    pub cos: Tensor,
    /// The sines.
    pub sin: Tensor,
    /// If true, a pair are features `2i` and `2i + 1`; else `i` and `i + half`.
    pub interleaved: bool,
}

impl Op for RotaryEmbedding {
    const NAME: &'static str = "rotary_embedding";
    type Plan = Rotation;
    type Output = Tensor;

    crate::inputs![x, cos, sin];
    crate::parameters![interleaved];

    fn plan(&self) -> Result<Rotation> {
        expect_float(Self::NAME, "the input", &self.x)?;
        expect_dtype(Self::NAME, "the cosines", &self.cos, self.x.dtype())?;
        expect_dtype(Self::NAME, "the sines", &self.sin, self.x.dtype())?;
        Rotation::new(Self::NAME, self.x.shape(), self.cos.shape(), self.sin.shape())
    }
}
