//! Elementwise integer arithmetic. Results that do not fit wrap around.
//!
//! # Determinism
//!
//! `Portable`: integers are not rounded.

use samebits_tensor_core::ops::{BinaryKind, UnaryKind};

use crate::elementwise::Operand;
use crate::error::{Error, Result, expect_len};
use crate::parallel::pieces;

/// Computes `out[i] = f(x[i])`.
///
/// # Errors
///
/// [`Error::Length`] if the slices differ in length; [`Error::Argument`] if `kind` has no integer
/// form.
///
/// # Examples
///
/// ```
/// use samebits_cpu_kernels::integer::unary;
/// use samebits_tensor_core::ops::UnaryKind;
///
/// let mut out = [0; 2];
/// unary(UnaryKind::Abs, &[-3, i64::MIN], &mut out)?;
/// assert_eq!(out, [3, i64::MIN]);
/// # Ok::<(), samebits_cpu_kernels::Error>(())
/// ```
pub fn unary(kind: UnaryKind, x: &[i64], out: &mut [i64]) -> Result<()> {
    expect_len("unary", "x", x.len(), out.len())?;
    let zero = Operand::Splat(0);
    let x = Operand::Each(x);
    match kind {
        UnaryKind::Neg => each(zero, x, out, i64::wrapping_sub),
        UnaryKind::Abs => each(x, zero, out, |x, _| x.wrapping_abs()),
        UnaryKind::Relu => each(x, zero, out, i64::max),
        UnaryKind::Square => each(x, x, out, i64::wrapping_mul),
        _ => return Err(Error::argument("unary", format!("integers have no {kind:?}"))),
    }
    Ok(())
}

/// Computes `out[i] = f(a[i], b[i])`.
///
/// # Errors
///
/// [`Error::Length`] if an operand differs from the result in length; [`Error::Argument`] for a
/// divisor of 0, a negative exponent, or if `kind` has no integer form.
///
/// # Examples
///
/// ```
/// use samebits_cpu_kernels::elementwise::Operand;
/// use samebits_cpu_kernels::integer::binary;
/// use samebits_tensor_core::ops::BinaryKind;
///
/// let (a, mut out) = ([7, -7], [0; 2]);
/// binary(BinaryKind::FloorDivide, Operand::Each(&a), Operand::Splat(2), &mut out)?;
/// assert_eq!(out, [3, -4]);
/// binary(BinaryKind::Remainder, Operand::Each(&a), Operand::Splat(2), &mut out)?;
/// assert_eq!(out, [1, 1]);
/// # Ok::<(), samebits_cpu_kernels::Error>(())
/// ```
///
/// # References
///
/// `torch.floor_divide`, `torch.remainder`, `torch.pow`.
pub fn binary(
    kind: BinaryKind,
    a: Operand<'_, i64>,
    b: Operand<'_, i64>,
    out: &mut [i64],
) -> Result<()> {
    const OP: &str = "binary";
    a.expect_len(OP, "a", out.len())?;
    b.expect_len(OP, "b", out.len())?;
    match kind {
        BinaryKind::Add => each(a, b, out, i64::wrapping_add),
        BinaryKind::Sub => each(a, b, out, i64::wrapping_sub),
        BinaryKind::Mul => each(a, b, out, i64::wrapping_mul),
        BinaryKind::Maximum => each(a, b, out, i64::max),
        BinaryKind::Minimum => each(a, b, out, i64::min),
        BinaryKind::FloorDivide => {
            expect_every(b, out.len(), "divisor", |b| b != 0)?;
            each(a, b, out, floor_divide);
        }
        BinaryKind::Remainder => {
            expect_every(b, out.len(), "divisor", |b| b != 0)?;
            each(a, b, out, remainder);
        }
        BinaryKind::Pow => {
            expect_every(b, out.len(), "exponent", |b| b >= 0)?;
            each(a, b, out, power);
        }
        _ => return Err(Error::argument(OP, format!("integers have no {kind:?}"))),
    }
    Ok(())
}

/// Returns the quotient, rounded down. The only quotient that overflows, `i64::MIN / -1`, wraps
/// around.
pub(crate) fn floor_divide(a: i64, b: i64) -> i64 {
    let (quotient, rest) = (a.wrapping_div(b), a.wrapping_rem(b));
    if rest != 0 && (rest < 0) != (b < 0) { quotient - 1 } else { quotient }
}

/// Returns the remainder of [`floor_divide`].
fn remainder(a: i64, b: i64) -> i64 {
    let rest = a.wrapping_rem(b);
    if rest != 0 && (rest < 0) != (b < 0) { rest + b } else { rest }
}

/// Computes the power by repeated squaring, for exponents that are not negative.
fn power(base: i64, exponent: i64) -> i64 {
    let (mut power, mut square, mut rest) = (1i64, base, exponent);
    while rest > 0 {
        if rest & 1 == 1 {
            power = power.wrapping_mul(square);
        }
        square = square.wrapping_mul(square);
        rest >>= 1;
    }
    power
}

fn each(
    a: Operand<'_, i64>,
    b: Operand<'_, i64>,
    out: &mut [i64],
    f: impl Fn(i64, i64) -> i64 + Send + Sync,
) {
    pieces(out, |start, piece| {
        let end = start + piece.len();
        match (a, b) {
            (Operand::Each(a), Operand::Each(b)) => {
                let pairs = a[start..end].iter().zip(&b[start..end]);
                piece.iter_mut().zip(pairs).for_each(|(out, (&a, &b))| *out = f(a, b));
            }
            (Operand::Each(a), Operand::Splat(b)) => {
                piece.iter_mut().zip(&a[start..end]).for_each(|(out, &a)| *out = f(a, b));
            }
            (Operand::Splat(a), Operand::Each(b)) => {
                piece.iter_mut().zip(&b[start..end]).for_each(|(out, &b)| *out = f(a, b));
            }
            (Operand::Splat(a), Operand::Splat(b)) => piece.fill(f(a, b)),
        }
    });
}

/// Returns an error unless `accepts` holds for all `n` elements of an operand.
fn expect_every(
    x: Operand<'_, i64>,
    n: usize,
    what: &str,
    accepts: impl Fn(i64) -> bool,
) -> Result<()> {
    let refused = match x {
        Operand::Each(x) => x.iter().copied().find(|&x| !accepts(x)),
        Operand::Splat(x) => Some(x).filter(|&x| n > 0 && !accepts(x)),
    };
    match refused {
        None => Ok(()),
        Some(x) => Err(Error::argument("binary", format!("{what} {x} of integers"))),
    }
}
