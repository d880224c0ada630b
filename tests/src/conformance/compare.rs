use std::fmt;

use samebits::ops::Cast;
use samebits::tensor_core::Tensor as Value;
use samebits::{DType, dispatch};

/// A result of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantity<'a> {
    /// An output.
    Output(&'a str),
    /// The gradient of an input.
    Grad(&'a str),
}

impl fmt::Display for Quantity<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Quantity::Output(name) => write!(f, "output {name}"),
            Quantity::Grad(name) => write!(f, "gradient of {name}"),
        }
    }
}

/// The maximum distance of a result from the exact value. A unit is half a unit in the last place,
/// the maximum error of one rounding. Integers and booleans must be equal.
///
/// A result of half precision is computed in f32: the units are those of f32, and one rounding to
/// the half is added.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Tolerance {
    /// Nothing is computed: the elements are copies.
    Copied,
    /// This many units of each element. One unit means correctly rounded.
    Rounded(f64),
    /// This many units of the largest element of the whole result: for results whose elements are
    /// differences of intermediate values that large.
    Largest(f64),
    /// This many units of a number of this magnitude: for results that are differences of inputs
    /// that large.
    Beside {
        /// The magnitude.
        magnitude: f64,
        /// The number of units.
        units: f64,
    },
    /// This many units of the operator's result for the absolute values of its inputs and factors,
    /// with sums instead of differences. For an operator that sums products this is the classical
    /// bound: the number of consecutive roundings, times the sum of the products' magnitudes.
    Contraction(f64),
}

/// The maximum error of the reference itself, in units of f64.
const REFERENCE: f64 = 4096.0;

/// Returns the largest error of `found` in units of its tolerance. `magnitude` is the bound's base
/// for [`Tolerance::Contraction`].
pub(super) fn error(
    found: &Value,
    expected: &Value,
    tolerance: Tolerance,
    dtype: DType,
    magnitude: impl FnOnce() -> Result<Value, String>,
) -> Result<f64, String> {
    if found.shape() != expected.shape() {
        return Err(format!("shape {:?}, expected {:?}", found.shape(), expected.shape()));
    }
    if !expected.dtype().is_float() {
        let equal = found.dtype() == expected.dtype()
            && found.to_bytes().map_err(text)? == expected.to_bytes().map_err(text)?;
        return if equal { Ok(0.0) } else { Err("not equal".to_owned()) };
    }
    if found.dtype() != dtype {
        return Err(format!("type {}, expected {dtype}", found.dtype()));
    }
    let (found, expected) = (wide(found)?, wide(expected)?);
    let largest = expected.iter().filter(|x| x.is_finite()).fold(0.0, |m: f64, x| m.max(x.abs()));
    let magnitudes = match tolerance {
        Tolerance::Contraction(_) => wide(&magnitude()?)?,
        _ => vec![largest; expected.len()],
    };
    // Halves are results of f32, rounded once more.
    let (inside, half) = if dtype.is_half() { (DType::F32, Some(dtype)) } else { (dtype, None) };
    // The reference is rounded, too; that shows only against a result in f64.
    let slack = if dtype == DType::F64 { REFERENCE * half_ulp(largest, dtype) } else { 0.0 };
    let mut worst: f64 = 0.0;
    for (i, (&found, &expected)) in found.iter().zip(&expected).enumerate() {
        if found == expected || (found.is_nan() && expected.is_nan()) {
            continue;
        }
        let allowed = match tolerance {
            Tolerance::Copied => 0.0,
            Tolerance::Rounded(units) => units * half_ulp(expected, inside),
            Tolerance::Largest(units) => units * half_ulp(largest, inside),
            Tolerance::Beside { magnitude, units } => units * half_ulp(magnitude, inside),
            Tolerance::Contraction(units) => units * half_ulp(magnitudes[i], inside),
        } + slack;
        let Some(allowed) =
            half.map_or(Some(allowed), |half| rounded(allowed, found, expected, half))
        else {
            continue;
        };
        let error = (found - expected).abs() / allowed;
        if error.is_nan() || error > 1.0 {
            return Err(format!(
                "element {i} is {found:e}, expected {expected:e} within {allowed:.1e} \
                 ({tolerance:?})"
            ));
        }
        worst = worst.max(error);
    }
    Ok(worst)
}

/// Returns the error that a result of half precision may have if that of f32 may have this one, or
/// `None` if a number so near to the expected one is rounded to this infinity.
fn rounded(allowed: f64, found: f64, expected: f64, half: DType) -> Option<f64> {
    // The reference holds results in f32.
    let allowed = allowed + half_ulp(expected, DType::F32);
    if found.is_infinite() {
        let overflow = match half {
            DType::F16 => 65520.0,
            _ => (2.0 - power_of_two(-8)) * power_of_two(127),
        };
        let near = expected.is_sign_negative() == found.is_sign_negative();
        return (!near || expected.abs() + allowed < overflow).then_some(allowed);
    }
    // The number was rounded within the binade of the result, or up to its lower end.
    Some(allowed + half_ulp(found, half))
}

/// Returns half the distance between neighbouring numbers of the type at `x`, slightly enlarged so
/// that a tie decided by the reference's own error does not count.
fn half_ulp(x: f64, dtype: DType) -> f64 {
    let (digits, least) = match dtype {
        DType::F32 => (24, -149),
        DType::BF16 => (8, -133),
        DType::F16 => (11, -24),
        _ => (53, -1074),
    };
    // The exponent as stored; subnormal numbers of f64 share the smallest one.
    let exponent = ((x.to_bits() >> 52) & 0x7ff) as i64 - 1023;
    let unit = power_of_two((exponent - digits + 1).max(least));
    unit * 0.5 * (1.0 + 1e-6)
}

fn power_of_two(exponent: i64) -> f64 {
    match exponent {
        ..-1022 => f64::from_bits(1 << (exponent + 1074)),
        _ => f64::from_bits(((exponent + 1023) as u64) << 52),
    }
}

fn wide(x: &Value) -> Result<Vec<f64>, String> {
    dispatch(&Cast { x: x.clone(), to: DType::F64 }).and_then(|x| x.to_vec()).map_err(text)
}

fn text(error: samebits::Error) -> String {
    error.to_string()
}
