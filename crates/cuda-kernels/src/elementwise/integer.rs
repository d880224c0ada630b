//! Integer arithmetic, which wraps around.

use super::{Pairing, pair};
use crate::device::Device;
use crate::error::Result;
use crate::launch::kernels::elementwise as kernels;
use crate::launch::{Buffer, Launch};

/// A function of one integer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "each is the function of its name")]
pub enum Unary {
    Neg,
    Abs,
    Relu,
    Square,
}

/// A function of two integers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "each is the function of its name")]
pub enum Binary {
    Add,
    Sub,
    Mul,
    Maximum,
    Minimum,
    /// The quotient, rounded down.
    FloorDivide,
    /// The remainder of [`Binary::FloorDivide`], with the sign of the divisor.
    Remainder,
    /// `a` to the power `b`.
    Pow,
}

impl Binary {
    /// Returns the names of the function and of its second operand, if some operands have no
    /// result.
    fn refuses(self) -> Option<(&'static str, &'static str)> {
        match self {
            Binary::FloorDivide => Some(("floor_divide", "divisor")),
            Binary::Remainder => Some(("remainder", "divisor")),
            Binary::Pow => Some(("pow", "exponent")),
            _ => None,
        }
    }

    /// Returns true if [`check`] rejects some operands.
    pub fn is_partial(self) -> bool {
        self.refuses().is_some()
    }
}

/// Computes `f(x)` for each element.
///
/// # Errors
///
/// [`CudaError::OutOfMemory`](crate::CudaError::OutOfMemory).
pub fn unary(device: &Device, kind: Unary, x: &Buffer<i64>) -> Result<Buffer<i64>> {
    let (op, n) = ("unary", x.len());
    let mut out = device.uninitialised(op, n)?;
    macro_rules! launch {
        ($($kernel:ident)*) => {
            match kind {
                $(Unary::$kernel => {
                    kernels::$kernel { out: &mut out, input: x, n }.threads(device, op, n)?;
                })*
            }
        };
    }
    launch! { Neg Abs Relu Square }
    Ok(out)
}

/// Computes `f(a, b)` for each pair of elements. [`check`] finds operands that have no result; here
/// a division by 0 gives 0 or its dividend, and a negative power gives 1.
///
/// # Errors
///
/// As [`super::binary`].
pub fn binary(
    device: &Device,
    kind: Binary,
    a: &Buffer<i64>,
    b: &Buffer<i64>,
    pairing: Pairing<'_>,
) -> Result<Buffer<i64>> {
    let op = "binary";
    let (p, n) = pair(op, a, b, pairing)?;
    let mut out = device.uninitialised(op, n)?;
    macro_rules! launch {
        ($($kernel:ident)*) => {
            match kind {
                $(Binary::$kernel => {
                    kernels::$kernel { out: &mut out, left: a, right: b, p }
                        .threads(device, op, n)?;
                })*
            }
        };
    }
    launch! { Add Sub Mul Maximum Minimum FloorDivide Remainder Pow }
    Ok(out)
}

/// Reports the first element of `b` for which [`binary`] has no result: a divisor of 0, or a
/// negative exponent.
///
/// # Errors
///
/// [`CudaError::Operand`](crate::CudaError::Operand) at the next synchronisation.
pub fn check(device: &Device, kind: Binary, b: &Buffer<i64>) -> Result<()> {
    let Some((op, what)) = kind.refuses() else {
        return Ok(());
    };
    let (n, exponent) = (b.len(), u32::from(kind == Binary::Pow));
    let mut reports = device.reports();
    kernels::RefusedOperand { operand: b, n, exponent, status: reports.noted() }
        .threads(device, op, n)?;
    reports.collect_operand(device, op, what, b)
}
