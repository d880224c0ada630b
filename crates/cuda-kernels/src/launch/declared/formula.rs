//! Parameters of `kernels/formula.cu`.

use bytemuck::{Pod, Zeroable};

/// The largest number of steps.
pub(crate) const FORMULA_STEPS: usize = 32;
/// The values that a thread can hold at once.
pub(crate) const FORMULA_SLOTS: usize = 10;
/// The largest number of inputs.
pub(crate) const FORMULA_INPUTS: usize = 5;

/// The function of a step.
#[derive(Clone, Copy)]
#[repr(u32)]
pub(crate) enum Code {
    Number,
    Affine,
    Where,
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
    Rsqrt,
    Sin,
    Cos,
    Tanh,
    Sigmoid,
    Erf,
    Relu,
    Reciprocal,
    Square,
    Add,
    Sub,
    Mul,
    Div,
    Maximum,
    Minimum,
    Pow,
    Weigh,
    ReluGrad,
    TanhGrad,
    SigmoidGrad,
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
}

/// Steps that compute a value of each of `n` elements from values in slots: first the inputs, of which
/// each is `apart` elements from one element to the next, 0 or 1.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct RawFormula {
    pub(crate) n: usize,
    pub(crate) apart: [usize; FORMULA_INPUTS],
    pub(crate) x: [f64; FORMULA_STEPS],
    pub(crate) y: [f64; FORMULA_STEPS],
    pub(crate) code: [u32; FORMULA_STEPS],
    pub(crate) a: [u32; FORMULA_STEPS],
    pub(crate) b: [u32; FORMULA_STEPS],
    pub(crate) c: [u32; FORMULA_STEPS],
    pub(crate) to: [u32; FORMULA_STEPS],
    pub(crate) inputs: u32,
    pub(crate) steps: u32,
}
