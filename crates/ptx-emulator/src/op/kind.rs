//! The operation of an instruction within its class, and its modifiers.

use super::Ty;

/// Integer operations of one or two operands of one width.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IntOp {
    Add,
    AddSatS,
    Sub,
    SubSatS,
    MulLo,
    MulHiS,
    MulHiU,
    DivS,
    DivU,
    RemS,
    RemU,
    MinS,
    MinU,
    MaxS,
    MaxU,
    And,
    Or,
    Xor,
    Neg,
    Not,
    Cnot,
    Abs,
    Brev,
}

/// Shifts; the amount is always a 32-bit value and is clamped to the width.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ShiftOp {
    Left,
    RightS,
    RightU,
}

/// Operations with three 32-bit operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TerOp {
    MadLo,
    MadHiS,
    MadHiU,
    SadS,
    SadU,
    BfeS,
    BfeU,
    Lop3(u8),
    Prmt(PrmtMode),
    /// Funnel shift: left or right, wrapped or clamped.
    Shf {
        left: bool,
        wrap: bool,
    },
    Dp4a {
        a_signed: bool,
        b_signed: bool,
    },
    Dp2a {
        a_signed: bool,
        b_signed: bool,
        high: bool,
    },
    Fns,
    BmskClamp,
    BmskWrap,
}

/// The byte selection of `prmt`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PrmtMode {
    Index,
    F4e,
    B4e,
    Rc8,
    Ecl,
    Ecr,
    Rc16,
}

/// Operations with a 32-bit result on one operand of either width.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CountOp {
    Popc,
    Clz,
    Bfind { signed: bool, shift: bool },
}

/// Additions, subtractions and multiplications with a carry in or out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Carry {
    pub(crate) op: CarryOp,
    /// True if the carry flag is an input (`addc`).
    pub(crate) take: bool,
    /// True if the carry flag is an output (`.cc`).
    pub(crate) give: bool,
}

/// The addend in a carry chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CarryOp {
    Add,
    Sub,
    MadLo,
    MadHiS,
    MadHiU,
}

/// The rounding of a floating-point result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Round {
    Nearest,
    Zero,
    Down,
    Up,
}

/// Floating-point operations of one or two operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FloatOp {
    Add,
    Sub,
    Mul,
    Div,
    Sqrt,
    Rcp,
    Min,
    Max,
    MinNan,
    MaxNan,
    Abs,
    Neg,
    CopySign,
}

/// The differences of a floating-point operation from the IEEE default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FloatMode {
    pub(crate) round: Round,
    /// If true, subnormal operands and results are flushed to zero.
    pub(crate) ftz: bool,
    /// If true, the result is clamped to [0, 1], and NaN becomes zero.
    pub(crate) sat: bool,
}

impl FloatMode {
    /// The IEEE mode: rounding to nearest, subnormals kept, no clamping.
    pub(crate) const IEEE: FloatMode = FloatMode { round: Round::Nearest, ftz: false, sat: false };
}

/// The approximate functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ApproxOp {
    Div,
    Rcp,
    Sqrt,
    Rsqrt,
    Sin,
    Cos,
    Lg2,
    Ex2,
    Tanh,
}

/// Comparisons.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cmp {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
    /// True if unordered or equal.
    Equ,
    Neu,
    Ltu,
    Leu,
    Gtu,
    Geu,
    Num,
    Nan,
}

/// The combination of a comparison with a predicate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Combine {
    And,
    Or,
    Xor,
}

/// Classes of `testp`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Test {
    Finite,
    Infinite,
    Number,
    NotANumber,
    Normal,
    Subnormal,
}

/// Logic on predicates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PredOp {
    And,
    Or,
    Xor,
    Not,
    Mov,
}

/// A conversion.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Convert {
    pub(crate) to: Ty,
    pub(crate) from: Ty,
    /// The rounding of a floating-point result.
    pub(crate) round: Round,
    /// The rounding to an integer (`.rni` and similar ones), also within a floating-point type.
    pub(crate) integer: Option<Round>,
    pub(crate) ftz: bool,
    pub(crate) sat: bool,
}
