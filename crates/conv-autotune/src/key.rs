//! What a choice for a convolution depends on.

use std::fmt;

use samebits_autotune::Key;
use samebits_tensor_core::geometry::{ConvParams, ConvPass, Convolution};
use samebits_tensor_core::{DType, Determinism};
use serde::{Deserialize, Serialize};

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
#[serde(from = "Written", into = "Written")]
pub struct ConvKey {
    /// The pass.
    pub pass: ConvPass,
    /// The element type.
    pub dtype: DType,
    /// The level required.
    pub level: Determinism,
    /// The shape `[n, in_channels, ..]` of the input.
    pub input: Vec<usize>,
    /// The shape `[out_channels, in_channels / groups, ..]` of the weight.
    pub weight: Vec<usize>,
    /// The options of the convolution.
    pub params: ConvParams,
}

impl ConvKey {
    /// Returns the key of a convolution of these shapes.
    #[must_use]
    pub fn new(
        pass: ConvPass,
        dtype: DType,
        input: &[usize],
        weight: &[usize],
        params: &ConvParams,
        level: Determinism,
    ) -> ConvKey {
        let (input, weight) = (input.to_vec(), weight.to_vec());
        ConvKey { pass, dtype, level, input, weight, params: params.clone() }
    }

    /// Returns the geometry of the convolution, checked.
    ///
    /// # Errors
    ///
    /// As [`Convolution::new`].
    pub fn geometry(&self) -> samebits_tensor_core::Result<Convolution> {
        Convolution::new(self.pass.op(), &self.input, &self.weight, &self.params)
    }
}

impl Key for ConvKey {
    fn level(&self) -> Determinism {
        self.level
    }
}

impl fmt::Display for ConvKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ConvKey { pass, dtype, level, input, weight, params } = self;
        let ConvParams { stride, padding, dilation, groups } = params;
        write!(
            f,
            "{pass} {dtype} input {input:?} weight {weight:?} stride {stride:?} padding {padding:?} \
             dilation {dilation:?} groups {groups} at {level}"
        )
    }
}

/// The form of a [`ConvKey`] in files.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    #[serde(with = "pass_name")]
    pass: ConvPass,
    #[serde(with = "dtype_name")]
    dtype: DType,
    level: Determinism,
    input: Vec<usize>,
    weight: Vec<usize>,
    stride: Vec<usize>,
    padding: Vec<usize>,
    dilation: Vec<usize>,
    groups: usize,
}

impl From<Written> for ConvKey {
    fn from(key: Written) -> ConvKey {
        let Written { pass, dtype, level, input, weight, stride, padding, dilation, groups } = key;
        let params = ConvParams { stride, padding, dilation, groups };
        ConvKey { pass, dtype, level, input, weight, params }
    }
}

impl From<ConvKey> for Written {
    fn from(key: ConvKey) -> Written {
        let ConvKey { pass, dtype, level, input, weight, params } = key;
        let ConvParams { stride, padding, dilation, groups } = params;
        Written { pass, dtype, level, input, weight, stride, padding, dilation, groups }
    }
}

/// Passes under their names. Files of earlier versions say `data-gradient` for the input gradient.
mod pass_name {
    use super::{ConvPass, Deserialize};
    use serde::de::Error;

    pub(super) fn serialize<S: serde::Serializer>(
        pass: &ConvPass,
        s: S,
    ) -> Result<S::Ok, S::Error> {
        s.serialize_str(pass.name())
    }

    pub(super) fn deserialize<'de, D: serde::Deserializer<'de>>(
        d: D,
    ) -> Result<ConvPass, D::Error> {
        let name = String::deserialize(d)?;
        if name == "data-gradient" {
            return Ok(ConvPass::InputGrad);
        }
        ConvPass::ALL
            .into_iter()
            .find(|pass| pass.name() == name)
            .ok_or_else(|| D::Error::custom(format!("unknown pass {name:?}")))
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
