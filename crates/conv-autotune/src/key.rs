//! What a choice for a convolution depends on.

use std::fmt;

use samebits_autotune::Key;
use samebits_tensor_core::ops::ConvParams;
use samebits_tensor_core::{DType, Determinism};
use serde::{Deserialize, Serialize};

/// Which of the three computations of a convolution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ConvPass {
    /// The output.
    Forward,
    /// The gradient of the input.
    DataGradient,
    /// The gradient of the weights.
    WeightGradient,
}

impl ConvPass {
    /// The three passes.
    pub const ALL: [ConvPass; 3] =
        [ConvPass::Forward, ConvPass::DataGradient, ConvPass::WeightGradient];
}

impl fmt::Display for ConvPass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ConvPass::Forward => "forward",
            ConvPass::DataGradient => "data-gradient",
            ConvPass::WeightGradient => "weight-gradient",
        })
    }
}

/// The [`Key`] of a convolution.
///
/// # Examples
///
/// ```
/// use samebits_conv_autotune::{ConvKey, ConvPass};
/// use samebits_tensor_core::{DType, Determinism, ops::ConvParams};
///
/// let key = ConvKey::new(
///     ConvPass::Forward,
///     DType::F32,
///     &[16, 64, 56, 56],
///     &[64, 64, 3, 3],
///     &ConvParams::padded(2, 1),
///     Determinism::RunToRun,
/// );
/// assert_eq!(
///     key.to_string(),
///     "forward f32 input [16, 64, 56, 56] weight [64, 64, 3, 3] stride [1, 1] padding [1, 1] \
///      dilation [1, 1] groups 1 at RunToRun"
/// );
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConvKey {
    /// Which computation.
    pub pass: ConvPass,
    /// The element type.
    #[serde(with = "dtype_name")]
    pub dtype: DType,
    /// The level required.
    pub level: Determinism,
    /// The shape `[n, in_channels, ..]` of the input.
    pub input: Vec<usize>,
    /// The shape `[out_channels, in_channels / groups, ..]` of the weights.
    pub weight: Vec<usize>,
    /// The distance between neighbouring windows.
    pub stride: Vec<usize>,
    /// How far the window reaches past each border.
    pub padding: Vec<usize>,
    /// The distance between neighbouring taps.
    pub dilation: Vec<usize>,
    /// The number of groups of channels that do not see each other.
    pub groups: usize,
}

impl ConvKey {
    /// The key of a convolution of these shapes.
    #[must_use]
    pub fn new(
        pass: ConvPass,
        dtype: DType,
        input: &[usize],
        weight: &[usize],
        params: &ConvParams,
        level: Determinism,
    ) -> ConvKey {
        ConvKey {
            pass,
            dtype,
            level,
            input: input.to_vec(),
            weight: weight.to_vec(),
            stride: params.stride.clone(),
            padding: params.padding.clone(),
            dilation: params.dilation.clone(),
            groups: params.groups,
        }
    }

    /// How the window moves.
    #[must_use]
    pub fn params(&self) -> ConvParams {
        ConvParams {
            stride: self.stride.clone(),
            padding: self.padding.clone(),
            dilation: self.dilation.clone(),
            groups: self.groups,
        }
    }

    /// The shape of the output.
    ///
    /// # Errors
    ///
    /// The shapes and parameters do not go together.
    pub fn output(&self) -> samebits_tensor_core::Result<Vec<usize>> {
        self.params().output_shape("autotune", &self.input, &self.weight)
    }
}

impl Key for ConvKey {
    fn level(&self) -> Determinism {
        self.level
    }
}

impl fmt::Display for ConvKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} {} input {:?} weight {:?} stride {:?} padding {:?} dilation {:?} groups {} at {}",
            self.pass,
            self.dtype,
            self.input,
            self.weight,
            self.stride,
            self.padding,
            self.dilation,
            self.groups,
            self.level
        )
    }
}

/// Element types under the names that messages and other files use.
mod dtype_name {
    use super::{DType, Deserialize};
    use serde::de::Error;

    pub(super) fn serialize<S: serde::Serializer>(dtype: &DType, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(dtype.name())
    }

    pub(super) fn deserialize<'de, D: serde::Deserializer<'de>>(d: D) -> Result<DType, D::Error> {
        let name = String::deserialize(d)?;
        DType::ALL
            .into_iter()
            .find(|dtype| dtype.name() == name)
            .ok_or_else(|| D::Error::custom(format!("unknown element type {name:?}")))
    }
}
