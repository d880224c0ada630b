//! Normalisation.

use super::{expect_dtype, expect_float, expect_shape};
use crate::geometry::{Batch, Groups, Rows};
use crate::{Error, Op, Pass, Result, Tensor};

/// Batch normalisation with the batch's own statistics.
///
/// Mean and variance are taken per channel in f64 over the contract's fixed tree, in the logical
/// order of the channel's elements; then `y = fma(fma(x, scale, −mean) · rstd, weight, bias)` with mean and
/// rstd, those of the elements times `scale`, rounded to the element type first. `scale` is a power of
/// two, 1 unless the standard deviation is far outside of ordinary numbers;
/// [`samebits_numerics::reduce::Normal`] has the rule.
///
/// Returns the result, and of the unscaled elements the mean, the biased variance, each rounded once, and
/// rstd.
#[derive(Clone, Debug)]
pub struct BatchNorm {
    /// `[n, channels, ..]`
    pub input: Tensor,
    /// `[channels]`
    pub weight: Tensor,
    /// `[channels]`
    pub bias: Tensor,
    /// Added to the variance.
    pub eps: f64,
}

impl Op for BatchNorm {
    const NAME: &'static str = "batch_norm";
    type Plan = Batch;
    type Output = (Tensor, Tensor, Tensor, Tensor);

    crate::inputs![input, weight, bias];
    crate::parameters![eps];

    fn plan(&self) -> Result<Batch> {
        expect_eps(Self::NAME, self.eps)?;
        let batch = check_channels(Self::NAME, &self.input)?;
        check_per_channel(Self::NAME, "the weight", &self.weight, &self.input, batch)?;
        check_per_channel(Self::NAME, "the bias", &self.bias, &self.input, batch)?;
        if batch.n * batch.spatial == 0 || batch.channels == 0 {
            return Err(Error::invalid(
                Self::NAME,
                format!("needs a value per channel, got shape {:?}", self.input.shape()),
            ));
        }
        Ok(batch)
    }
}

/// The gradients of [`BatchNorm`]: input, weight and bias. If the elements were scaled, which `mean` and
/// `rstd` tell, their statistics are taken again.
#[derive(Clone, Debug)]
pub struct BatchNormGrad {
    /// The gradient of the result.
    pub grad: Tensor,
    /// As in the forward pass.
    pub input: Tensor,
    /// As in the forward pass.
    pub weight: Tensor,
    /// The mean that the forward pass returned.
    pub mean: Tensor,
    /// The rstd that the forward pass returned.
    pub rstd: Tensor,
    /// As in the forward pass.
    pub eps: f64,
}

impl Op for BatchNormGrad {
    const NAME: &'static str = "batch_norm";
    const PASS: Pass = Pass::Backward;
    type Plan = Batch;
    type Output = (Tensor, Tensor, Tensor);

    crate::inputs![grad, input, weight, mean, rstd];
    crate::parameters![eps];

    fn plan(&self) -> Result<Batch> {
        expect_eps(Self::NAME, self.eps)?;
        let batch = check_channels(Self::NAME, &self.input)?;
        expect_dtype(Self::NAME, "the gradient", &self.grad, self.input.dtype())?;
        expect_shape(Self::NAME, "the gradient", &self.grad, self.input.shape())?;
        for (what, x) in
            [("the weight", &self.weight), ("the mean", &self.mean), ("rstd", &self.rstd)]
        {
            check_per_channel(Self::NAME, what, x, &self.input, batch)?;
        }
        Ok(batch)
    }
}

/// Batch normalisation with given statistics: `fma((x − mean) · rstd, weight, bias)` with
/// `rstd = 1 / sqrt(var + eps)` in f64, rounded once.
#[derive(Clone, Debug)]
pub struct BatchNormInference {
    /// `[n, channels, ..]`
    pub input: Tensor,
    /// `[channels]`
    pub weight: Tensor,
    /// `[channels]`
    pub bias: Tensor,
    /// `[channels]`
    pub mean: Tensor,
    /// `[channels]`
    pub var: Tensor,
    /// Added to the variance.
    pub eps: f64,
}

impl Op for BatchNormInference {
    const NAME: &'static str = "batch_norm_inference";
    type Plan = Batch;
    type Output = Tensor;

    crate::inputs![input, weight, bias, mean, var];
    crate::parameters![eps];

    fn plan(&self) -> Result<Batch> {
        expect_eps(Self::NAME, self.eps)?;
        let batch = check_channels(Self::NAME, &self.input)?;
        for (what, x) in [
            ("the weight", &self.weight),
            ("the bias", &self.bias),
            ("the mean", &self.mean),
            ("the variance", &self.var),
        ] {
            check_per_channel(Self::NAME, what, x, &self.input, batch)?;
        }
        Ok(batch)
    }
}

/// Normalisation of each group of channels of each sample: `y · weight + bias`, both rounded, where `y` is
/// the result of [`BatchNorm`] without weight and bias for a channel that holds the group. A missing
/// weight or bias is no operation.
///
/// Returns the result, and the mean and rstd of each group of each sample.
#[derive(Clone, Debug)]
pub struct GroupNorm {
    /// `[n, channels, ..]`
    pub input: Tensor,
    /// `[channels]`
    pub weight: Option<Tensor>,
    /// `[channels]`
    pub bias: Option<Tensor>,
    /// The number of groups, which divides that of the channels.
    pub groups: usize,
    /// Added to the variance.
    pub eps: f64,
}

impl Op for GroupNorm {
    const NAME: &'static str = "group_norm";
    type Plan = Groups;
    type Output = (Tensor, Tensor, Tensor);

    crate::inputs![input, weight, bias];
    crate::parameters![groups, eps];

    fn plan(&self) -> Result<Groups> {
        expect_eps(Self::NAME, self.eps)?;
        let groups = check_groups(Self::NAME, &self.input, self.weight.as_ref(), self.groups)?;
        check_group_parameter(Self::NAME, "the bias", self.bias.as_ref(), &self.input, groups)?;
        // As in PyTorch, several samples with one value per group are no error.
        if self.input.numel() == self.groups {
            let shape = self.input.shape();
            let message = format!("needs more than 1 value per group, got shape {shape:?}");
            return Err(Error::invalid(Self::NAME, message));
        }
        Ok(groups)
    }
}

/// The gradient of the input of [`GroupNorm`], and, if there is a weight, the gradient of the result times
/// the normalised input, rounded: its sum over samples and positions is the gradient of the weight.
///
/// With `g` the gradient times the weight, rounded, the gradient of the input is that of [`BatchNorm`]
/// for a channel that holds the group.
#[derive(Clone, Debug)]
pub struct GroupNormGrad {
    /// The gradient of the result.
    pub grad: Tensor,
    /// As in the forward pass.
    pub input: Tensor,
    /// As in the forward pass.
    pub weight: Option<Tensor>,
    /// The means that the forward pass returned.
    pub mean: Tensor,
    /// The rstd that the forward pass returned.
    pub rstd: Tensor,
    /// As in the forward pass.
    pub groups: usize,
    /// As in the forward pass.
    pub eps: f64,
}

impl Op for GroupNormGrad {
    const NAME: &'static str = "group_norm";
    const PASS: Pass = Pass::Backward;
    type Plan = Groups;
    type Output = (Tensor, Option<Tensor>);

    crate::inputs![grad, input, weight, mean, rstd];
    crate::parameters![groups, eps];

    fn plan(&self) -> Result<Groups> {
        expect_eps(Self::NAME, self.eps)?;
        let groups = check_groups(Self::NAME, &self.input, self.weight.as_ref(), self.groups)?;
        expect_dtype(Self::NAME, "the gradient", &self.grad, self.input.dtype())?;
        expect_shape(Self::NAME, "the gradient", &self.grad, self.input.shape())?;
        for (what, x) in [("the mean", &self.mean), ("rstd", &self.rstd)] {
            expect_dtype(Self::NAME, what, x, self.input.dtype())?;
            expect_shape(Self::NAME, what, x, &[groups.rows()])?;
        }
        Ok(groups)
    }
}

/// Layer normalisation over the last dimensions, those of the weight: as [`BatchNorm`], with the
/// statistics of each row.
///
/// Returns the result, the mean and rstd of each row.
#[derive(Clone, Debug)]
pub struct LayerNorm {
    /// `[.., normalised dimensions]`
    pub input: Tensor,
    /// `[normalised dimensions]`
    pub weight: Tensor,
    /// `[normalised dimensions]`
    pub bias: Tensor,
    /// Added to the variance.
    pub eps: f64,
}

impl Op for LayerNorm {
    const NAME: &'static str = "layer_norm";
    type Plan = Rows;
    type Output = (Tensor, Tensor, Tensor);

    crate::inputs![input, weight, bias];
    crate::parameters![eps];

    fn plan(&self) -> Result<Rows> {
        expect_eps(Self::NAME, self.eps)?;
        let rows = check_rows(Self::NAME, &self.input, &self.weight)?;
        expect_dtype(Self::NAME, "the bias", &self.bias, self.input.dtype())?;
        expect_shape(Self::NAME, "the bias", &self.bias, self.weight.shape())?;
        Ok(rows)
    }
}

/// The gradients of [`LayerNorm`]: input, weight and bias.
#[derive(Clone, Debug)]
pub struct LayerNormGrad {
    /// The gradient of the result.
    pub grad: Tensor,
    /// As in the forward pass.
    pub input: Tensor,
    /// As in the forward pass.
    pub weight: Tensor,
    /// The mean that the forward pass returned.
    pub mean: Tensor,
    /// The rstd that the forward pass returned.
    pub rstd: Tensor,
    /// As in the forward pass.
    pub eps: f64,
}

impl Op for LayerNormGrad {
    const NAME: &'static str = "layer_norm";
    const PASS: Pass = Pass::Backward;
    type Plan = Rows;
    type Output = (Tensor, Tensor, Tensor);

    crate::inputs![grad, input, weight, mean, rstd];
    crate::parameters![eps];

    fn plan(&self) -> Result<Rows> {
        expect_eps(Self::NAME, self.eps)?;
        let rows = check_rows(Self::NAME, &self.input, &self.weight)?;
        expect_dtype(Self::NAME, "the gradient", &self.grad, self.input.dtype())?;
        expect_shape(Self::NAME, "the gradient", &self.grad, self.input.shape())?;
        for (what, x) in [("the mean", &self.mean), ("rstd", &self.rstd)] {
            expect_dtype(Self::NAME, what, x, self.input.dtype())?;
            expect_shape(Self::NAME, what, x, &[rows.count])?;
        }
        Ok(rows)
    }
}

/// Division by the root of the mean square over the last dimensions: `x · factor · rstd · weight`.
///
/// Each operation is rounded to the element type. Of a row, `size` is the largest magnitude that is not
/// NaN, or `√eps` if that is larger, and `factor` is 2 to the power of `−⌊log2 size⌋`, at least −100 and
/// at most 100 (800 for f64). With `s = x · factor`, `rstd` is the reciprocal root of `v = mean(s²) + eps ·
/// factor · factor`; the squares are rounded, and their mean is taken in f64 over the contract's fixed
/// tree and rounded.
///
/// Returns the result, the factor and `rstd` of each row.
#[derive(Clone, Debug)]
pub struct RmsNorm {
    /// `[.., normalised dimensions]`
    pub input: Tensor,
    /// `[normalised dimensions]`
    pub weight: Option<Tensor>,
    /// The last dimensions.
    pub normalized_shape: Vec<usize>,
    /// Added to the mean square.
    pub eps: f64,
}

impl Op for RmsNorm {
    const NAME: &'static str = "rms_norm";
    type Plan = Rows;
    type Output = (Tensor, Tensor, Tensor);

    crate::inputs![input, weight];
    crate::parameters![normalized_shape, eps];

    fn plan(&self) -> Result<Rows> {
        expect_eps(Self::NAME, self.eps)?;
        check_shapes(Self::NAME, &self.input, self.weight.as_ref(), &self.normalized_shape)
    }
}

/// The gradients of [`RmsNorm`]: input and, if there is a weight, weight. Each operation is rounded to
/// the element type.
///
/// With `g` the gradient times the weight, `d = Σ g · s` over a row and `c = (d · (rstd · rstd · rstd · −½))
/// · (1 / n)`, the gradient of an element is `(g · rstd + c · (s · 2)) · factor`. That of the weight is
/// the sum of `grad · (s · rstd)` down the rows. Both sums add rounded products in f64 over the fixed
/// tree; there is none over a row of one element, nor down the rows of an input that has the shape of
/// the weight.
#[derive(Clone, Debug)]
pub struct RmsNormGrad {
    /// The gradient of the result.
    pub grad: Tensor,
    /// As in the forward pass.
    pub input: Tensor,
    /// As in the forward pass.
    pub weight: Option<Tensor>,
    /// As in the forward pass.
    pub normalized_shape: Vec<usize>,
    /// The factors that the forward pass returned.
    pub factor: Tensor,
    /// The rstd that the forward pass returned.
    pub rstd: Tensor,
}

impl Op for RmsNormGrad {
    const NAME: &'static str = "rms_norm";
    const PASS: Pass = Pass::Backward;
    type Plan = Rows;
    type Output = (Tensor, Option<Tensor>);

    crate::inputs![grad, input, weight, factor, rstd];
    crate::parameters![normalized_shape];

    fn plan(&self) -> Result<Rows> {
        let rows =
            check_shapes(Self::NAME, &self.input, self.weight.as_ref(), &self.normalized_shape)?;
        expect_dtype(Self::NAME, "the gradient", &self.grad, self.input.dtype())?;
        expect_shape(Self::NAME, "the gradient", &self.grad, self.input.shape())?;
        for (what, x) in [("the factor", &self.factor), ("rstd", &self.rstd)] {
            expect_dtype(Self::NAME, what, x, self.input.dtype())?;
            expect_shape(Self::NAME, what, x, &[rows.count])?;
        }
        Ok(rows)
    }
}

/// Requires a number of at least 0.
fn expect_eps(op: &'static str, eps: f64) -> Result<()> {
    if eps >= 0.0 {
        return Ok(());
    }
    Err(Error::invalid(op, format!("eps should be at least 0, got {eps}")))
}

fn check_channels(op: &'static str, input: &Tensor) -> Result<Batch> {
    expect_float(op, "the input", input)?;
    Batch::new(op, input.shape())
}

fn check_per_channel(
    op: &'static str,
    what: &'static str,
    x: &Tensor,
    input: &Tensor,
    batch: Batch,
) -> Result<()> {
    expect_dtype(op, what, x, input.dtype())?;
    expect_shape(op, what, x, &[batch.channels])
}

/// Checks the shapes and returns the groups of the input.
fn check_groups(
    op: &'static str,
    input: &Tensor,
    weight: Option<&Tensor>,
    groups: usize,
) -> Result<Groups> {
    expect_float(op, "the input", input)?;
    let groups = Groups::new(op, input.shape(), groups)?;
    check_group_parameter(op, "the weight", weight, input, groups)?;
    Ok(groups)
}

fn check_group_parameter(
    op: &'static str,
    what: &'static str,
    x: Option<&Tensor>,
    input: &Tensor,
    groups: Groups,
) -> Result<()> {
    let Some(x) = x else { return Ok(()) };
    expect_dtype(op, what, x, input.dtype())?;
    expect_shape(op, what, x, &[groups.groups * groups.channels])
}

/// Checks the shapes and returns the rows of the input.
fn check_rows(op: &'static str, input: &Tensor, weight: &Tensor) -> Result<Rows> {
    expect_float(op, "the input", input)?;
    expect_dtype(op, "the weight", weight, input.dtype())?;
    Rows::new(op, input.shape(), weight.shape())
}

/// Checks the shapes of a normalisation whose weight may be missing, and returns the rows of the input.
fn check_shapes(
    op: &'static str,
    input: &Tensor,
    weight: Option<&Tensor>,
    shape: &[usize],
) -> Result<Rows> {
    expect_float(op, "the input", input)?;
    if let Some(weight) = weight {
        expect_dtype(op, "the weight", weight, input.dtype())?;
        expect_shape(op, "the weight", weight, shape)?;
    }
    Rows::new(op, input.shape(), shape)
}
