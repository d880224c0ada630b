//! Integer arithmetic, which wraps around.

use super::{BinaryKind, Pairing, UnaryKind, pair, without_kernel};
use crate::device::Device;
use crate::error::Result;
use crate::launch::kernels::elementwise as kernels;
use crate::launch::{Buffer, Launch};

/// Returns the names of the function and of its second operand, if some operands have no result.
fn refuses(kind: BinaryKind) -> Option<(&'static str, &'static str)> {
    match kind {
        BinaryKind::FloorDivide => Some(("floor_divide", "divisor")),
        BinaryKind::Remainder => Some(("remainder", "divisor")),
        BinaryKind::Pow => Some(("pow", "exponent")),
        _ => None,
    }
}

/// Returns true if [`check`] rejects some operands.
pub fn is_partial(kind: BinaryKind) -> bool {
    refuses(kind).is_some()
}

/// Computes `f(x)` for each element.
///
/// # Errors
///
/// [`CudaError::OutOfMemory`](crate::CudaError::OutOfMemory), or
/// [`CudaError::InvalidArgument`](crate::CudaError::InvalidArgument) for a function without a
/// kernel.
pub fn unary(device: &Device, kind: UnaryKind, x: &Buffer<i64>) -> Result<Buffer<i64>> {
    let (op, n) = ("unary", x.len());
    let mut out = device.uninitialised(op, n)?;
    macro_rules! launch {
        ($($kernel:ident)*) => {
            match kind {
                $(UnaryKind::$kernel => {
                    kernels::$kernel { out: &mut out, input: x, n }.fours(device, op, n)?;
                })*
                _ => return Err(without_kernel(op, kind)),
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
    kind: BinaryKind,
    a: &Buffer<i64>,
    b: &Buffer<i64>,
    pairing: Pairing<'_>,
) -> Result<Buffer<i64>> {
    let op = "binary";
    let (p, n) = pair(op, a, b, pairing)?;
    let mut out = device.uninitialised(op, n)?;
    macro_rules! launch {
        ($($how:ident: $($kernel:ident)*;)*) => {
            match kind {
                $($(BinaryKind::$kernel => {
                    kernels::$kernel { out: &mut out, left: a, right: b, p }.$how(device, op, n)?;
                })*)*
                _ => return Err(without_kernel(op, kind)),
            }
        };
    }
    launch! {
        fours: Add Sub Mul Maximum Minimum;
        threads: FloorDivide Remainder Pow;
    }
    Ok(out)
}

/// Reports the first element of `b` for which [`binary`] has no result: a divisor of 0, or a
/// negative exponent.
///
/// # Errors
///
/// [`CudaError::Operand`](crate::CudaError::Operand) at the next synchronisation.
pub fn check(device: &Device, kind: BinaryKind, b: &Buffer<i64>) -> Result<()> {
    let Some((op, what)) = refuses(kind) else {
        return Ok(());
    };
    let (n, exponent) = (b.len(), u32::from(kind == BinaryKind::Pow));
    let mut reports = device.reports();
    kernels::RefusedOperand { operand: b, n, exponent, status: reports.noted() }
        .threads(device, op, n)?;
    reports.collect_operand(device, op, what, b)
}
