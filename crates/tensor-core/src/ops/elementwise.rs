//! Elementwise operations.

use super::{expect_dtype, expect_float, expect_number, expect_shape};
use crate::layout::{PerDim, broadcast};
use crate::{DType, Op, Pass, Result, Tensor};

/// A function of one element. For i64 there are `Neg`, `Abs`, `Relu` and `Square`, which wrap
/// around.
#[derive(Clone, Debug)]
pub struct Unary {
    /// The function.
    pub kind: UnaryKind,
    /// Its argument.
    pub x: Tensor,
}

/// The functions that [`Unary`] computes. On f32 the transcendental ones are correctly rounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[allow(missing_docs, reason = "each is the function of its name")]
pub enum UnaryKind {
    Neg,
    Abs,
    Exp,
    Exp2,
    Expm1,
    Log,
    Log2,
    Log10,
    Log1p,
    Sqrt,
    /// `1 / sqrt(x)`, rounded once.
    Rsqrt,
    Sin,
    Cos,
    Tanh,
    Sigmoid,
    Erf,
    /// `max(x, 0)`; NaN stays NaN, and −0 becomes +0.
    Relu,
    /// `1 / x`.
    Reciprocal,
    /// `x · x`.
    Square,
}

impl Op for Unary {
    const NAME: &'static str = "unary";
    type Plan = ();
    type Output = Tensor;

    crate::inputs![x];
    crate::parameters![kind];

    fn plan(&self) -> Result<()> {
        match self.kind {
            UnaryKind::Neg | UnaryKind::Abs | UnaryKind::Relu | UnaryKind::Square => {
                expect_number(Self::NAME, "the input", &self.x)
            }
            _ => expect_float(Self::NAME, "the input", &self.x),
        }
    }
}

/// A function of two elements, with broadcasting.
///
/// For i64 there are `Add`, `Sub`, `Mul`, `Maximum`, `Minimum` and `Pow`, which wrap around;
/// `FloorDivide` and `Remainder` exist for i64 only.
#[derive(Clone, Debug)]
pub struct Binary {
    /// The function.
    pub kind: BinaryKind,
    /// Its first argument.
    pub a: Tensor,
    /// Its second argument.
    pub b: Tensor,
}

/// The functions that [`Binary`] computes; each operation is rounded once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[allow(missing_docs, reason = "each is the function of its name")]
pub enum BinaryKind {
    Add,
    Sub,
    Mul,
    Div,
    /// The larger argument; NaN counts as the largest, and of equal arguments the first is
    /// returned.
    Maximum,
    /// The smaller argument; NaN if either is NaN, and of equal arguments the first is returned.
    Minimum,
    /// The first to the power of the second, with the special values of C's `pow` (Annex F). For
    /// integers, a negative exponent is an error.
    Pow,
    /// `a · b`; if `a` is infinite and `b` is 0, a zero with the sign of the product, so that a
    /// weight of 0 contributes nothing.
    Weigh,
    /// The gradient of relu: `a` where `b > 0`, NaN where `b` is, else +0.
    ReluGrad,
    /// The gradient of tanh from its result: `a · (1 − b·b)`, three roundings.
    TanhGrad,
    /// The gradient of sigmoid from its result: `a · ((1 − b) · b)`, three roundings.
    SigmoidGrad,
    /// The quotient of integers, rounded down. A divisor of 0 is an error.
    FloorDivide,
    /// The remainder of `FloorDivide`, with the sign of the divisor. A divisor of 0 is an error.
    Remainder,
}

impl Op for Binary {
    const NAME: &'static str = "binary";
    /// The shape of the result.
    type Plan = PerDim;
    type Output = Tensor;

    crate::inputs![a, b];
    crate::parameters![kind];

    fn plan(&self) -> Result<PerDim> {
        match self.kind {
            BinaryKind::FloorDivide | BinaryKind::Remainder => {
                expect_dtype(Self::NAME, "the first operand", &self.a, DType::I64)?;
            }
            BinaryKind::Div
            | BinaryKind::Weigh
            | BinaryKind::ReluGrad
            | BinaryKind::TanhGrad
            | BinaryKind::SigmoidGrad => expect_float(Self::NAME, "the first operand", &self.a)?,
            _ => expect_number(Self::NAME, "the first operand", &self.a)?,
        }
        expect_dtype(Self::NAME, "the second operand", &self.b, self.a.dtype())?;
        broadcast(Self::NAME, self.a.shape(), self.b.shape())
    }
}

/// `x · scale + shift` with two roundings.
#[derive(Clone, Debug)]
pub struct Affine {
    /// The argument.
    pub x: Tensor,
    /// The factor, first rounded to the tensor's type.
    pub scale: f64,
    /// The addend, first rounded to the tensor's type.
    pub shift: f64,
}

impl Op for Affine {
    const NAME: &'static str = "affine";
    type Plan = ();
    type Output = Tensor;

    crate::inputs![x];
    crate::parameters![scale, shift];

    fn plan(&self) -> Result<()> {
        expect_float(Self::NAME, "the input", &self.x)
    }
}

/// The Gaussian error linear unit: `x · share`, with the share computed as `form` says. Each
/// operation is rounded; the result at −∞ is −0.
#[derive(Clone, Debug)]
pub struct Gelu {
    /// The formula of the share.
    pub form: GeluForm,
    /// The argument.
    pub x: Tensor,
}

/// The formula of the share of `x` that [`Gelu`] lets through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GeluForm {
    /// `erf(x / √2) · 0.5 + 0.5`, with `1 / √2` rounded to the tensor's type.
    Erf,
    /// `tanh((x + (x·x·x) · 0.044715) · √(2/π)) · 0.5 + 0.5`, with both constants rounded.
    Tanh,
}

impl Op for Gelu {
    const NAME: &'static str = "gelu";
    type Plan = ();
    type Output = Tensor;

    crate::inputs![x];
    crate::parameters![form];

    fn plan(&self) -> Result<()> {
        expect_float(Self::NAME, "the input", &self.x)
    }
}

/// The gradient of [`Gelu`], added to the gradient of `x` found so far.
///
/// `x` occurs several times in the formula, and the gradient is the sum over these occurrences. The
/// order of additions is that of a backward pass through the composition: first the gradient found
/// so far, then, with the gradient `g` of the result,
///
/// - [`Erf`](GeluForm::Erf), `z = x · c`: `g · share`; `g · x · 0.5 · exp(−z·z) · (2/√π) · c`.
/// - [`Tanh`](GeluForm::Tanh), `t` the hyperbolic tangent, `h = g · x · 0.5 · (1 − t·t) · √(2/π)` and
///   `k = h · 0.044715`: `g · share`; `h`; `k · (x·x)`; `k · x · x` twice.
///
/// Products are evaluated from left to right. An `x` beyond ±64 is replaced by ±64: from there on
/// the share is 0 or 1 and its slope is 0, and `0 · ∞` would be NaN.
#[derive(Clone, Debug)]
pub struct GeluGrad {
    /// As in the forward pass.
    pub form: GeluForm,
    /// The gradient of the result.
    pub grad: Tensor,
    /// As in the forward pass.
    pub x: Tensor,
    /// The gradient of `x` found so far, if any.
    pub found: Option<Tensor>,
}

impl Op for GeluGrad {
    const NAME: &'static str = "gelu";
    const PASS: Pass = Pass::Backward;
    type Plan = ();
    type Output = Tensor;

    crate::inputs![grad, x, found];
    crate::parameters![form];

    fn plan(&self) -> Result<()> {
        expect_float(Self::NAME, "the input", &self.x)?;
        expect_gradients(Self::NAME, &self.x, &self.grad, self.found.as_ref())
    }
}

/// Checks that the gradient of a result and the gradient of `x` found so far are like `x`.
fn expect_gradients(
    op: &'static str,
    x: &Tensor,
    grad: &Tensor,
    found: Option<&Tensor>,
) -> Result<()> {
    for (what, grad) in [("the gradient", Some(grad)), ("the sum", found)] {
        let Some(grad) = grad else { continue };
        expect_dtype(op, what, grad, x.dtype())?;
        expect_shape(op, what, grad, x.shape())?;
    }
    Ok(())
}

/// The sigmoid linear unit: `x · sigmoid(x)`, each rounded; the result at −∞ is −0.
#[derive(Clone, Debug)]
pub struct Silu {
    /// The argument.
    pub x: Tensor,
}

impl Op for Silu {
    const NAME: &'static str = "silu";
    type Plan = ();
    type Output = Tensor;

    crate::inputs![x];

    fn plan(&self) -> Result<()> {
        expect_float(Self::NAME, "the input", &self.x)
    }
}

/// The gradient of [`Silu`], added to the gradient of `x` found so far.
///
/// With the gradient `g` of the result and `s = sigmoid(x)`: the gradient found so far, plus `g · s`,
/// plus `g · x · ((1 − s) · s)`. Products are evaluated from left to right and each operation is
/// rounded. An `x` beyond ±1024 is replaced by ±1024: there the slope of `s` is 0, and `0 · ∞`
/// would be NaN.
#[derive(Clone, Debug)]
pub struct SiluGrad {
    /// The gradient of the result.
    pub grad: Tensor,
    /// As in the forward pass.
    pub x: Tensor,
    /// The gradient of `x` found so far, if any.
    pub found: Option<Tensor>,
}

impl Op for SiluGrad {
    const NAME: &'static str = "silu";
    const PASS: Pass = Pass::Backward;
    type Plan = ();
    type Output = Tensor;

    crate::inputs![grad, x, found];

    fn plan(&self) -> Result<()> {
        expect_float(Self::NAME, "the input", &self.x)?;
        expect_gradients(Self::NAME, &self.x, &self.grad, self.found.as_ref())
    }
}

/// A smooth form of a ramp. Each operation is rounded, and so are the constants first.
#[derive(Clone, Debug)]
pub struct Ramp {
    /// The function.
    pub kind: RampKind,
    /// Its argument.
    pub x: Tensor,
}

/// The functions that [`Ramp`] computes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RampKind {
    /// `min(x, 0) − log1p(exp(−|x|))`.
    LogSigmoid,
    /// `log1p(exp(x · beta)) · (1 / beta)`, or `x` if `x · beta` exceeds the threshold.
    Softplus {
        /// The steepness.
        beta: f64,
        /// The bound of the curved part.
        threshold: f64,
    },
}

impl Op for Ramp {
    const NAME: &'static str = "ramp";
    type Plan = ();
    type Output = Tensor;

    crate::inputs![x];
    crate::parameters![kind];

    fn plan(&self) -> Result<()> {
        expect_float(Self::NAME, "the input", &self.x)
    }
}

/// The gradient of [`Ramp`]: `grad · sigmoid(−x)` of the logarithm of the sigmoid;
/// `grad · sigmoid(x · beta)` of softplus, or `grad · 1` if `x · beta` exceeds the threshold.
#[derive(Clone, Debug)]
pub struct RampGrad {
    /// As in the forward pass.
    pub kind: RampKind,
    /// The gradient of the result.
    pub grad: Tensor,
    /// As in the forward pass.
    pub x: Tensor,
}

impl Op for RampGrad {
    const NAME: &'static str = "ramp";
    const PASS: Pass = Pass::Backward;
    type Plan = ();
    type Output = Tensor;

    crate::inputs![grad, x];
    crate::parameters![kind];

    fn plan(&self) -> Result<()> {
        expect_float(Self::NAME, "the input", &self.x)?;
        expect_dtype(Self::NAME, "the gradient", &self.grad, self.x.dtype())?;
        expect_shape(Self::NAME, "the gradient", &self.grad, self.x.shape())
    }
}

/// A comparison, with broadcasting; the result is of type `Bool`.
#[derive(Clone, Debug)]
pub struct Compare {
    /// The comparison.
    pub kind: CompareKind,
    /// Its first argument.
    pub a: Tensor,
    /// Its second argument.
    pub b: Tensor,
}

/// The comparisons of IEEE 754: all except `Ne` are false for NaN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "each is the comparison of its name")]
pub enum CompareKind {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
}

impl Op for Compare {
    const NAME: &'static str = "compare";
    /// The shape of the result.
    type Plan = PerDim;
    type Output = Tensor;

    crate::inputs![a, b];
    crate::parameters![kind];

    fn plan(&self) -> Result<PerDim> {
        expect_dtype(Self::NAME, "the second operand", &self.b, self.a.dtype())?;
        broadcast(Self::NAME, self.a.shape(), self.b.shape())
    }
}

/// `a` where the condition holds, else `b`, with broadcasting.
#[derive(Clone, Debug)]
pub struct Where {
    /// Of type `Bool`.
    pub condition: Tensor,
    /// Taken where the condition holds.
    pub a: Tensor,
    /// Taken elsewhere.
    pub b: Tensor,
}

impl Op for Where {
    const NAME: &'static str = "where";
    /// The shape of the result.
    type Plan = PerDim;
    type Output = Tensor;

    crate::inputs![a, b, condition];

    fn plan(&self) -> Result<PerDim> {
        expect_dtype(Self::NAME, "the condition", &self.condition, DType::Bool)?;
        expect_dtype(Self::NAME, "the second choice", &self.b, self.a.dtype())?;
        let shape = broadcast(Self::NAME, self.a.shape(), self.b.shape())?;
        broadcast(Self::NAME, &shape, self.condition.shape())
    }
}

/// The conversion of values to another element type, as [`Scalar::of`](crate::scalar::Scalar::of).
/// To floats: rounded once, to nearest even. From floats to integers: truncated towards zero and
/// saturated, NaN to 0. Between integers: the low bits. To truth values: all but 0 becomes true.
#[derive(Clone, Debug)]
pub struct Cast {
    /// The argument.
    pub x: Tensor,
    /// The type of the result.
    pub to: DType,
}

impl Op for Cast {
    const NAME: &'static str = "cast";
    type Plan = ();
    type Output = Tensor;

    crate::inputs![x];
    crate::parameters![to];

    fn plan(&self) -> Result<()> {
        Ok(())
    }
}
