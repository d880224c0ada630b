//! Numbers as element types, each conversion rounded once.

use half::{bf16, f16};
use samebits_numerics::nan::canonical;

use crate::Element;

/// The value of an element, exactly.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Exact {
    /// The value of an integer or a truth value.
    Integer(i64),
    /// The value of a float.
    Float(f64),
}

/// An [`Element`] as a number.
pub trait Scalar: Element {
    /// Returns the value of the element.
    fn exact(self) -> Exact;

    /// Casts `value` to this type.
    ///
    /// To a float: rounded once, to nearest even; NaN becomes the canonical NaN. From a float to an
    /// integer: truncated towards zero, then saturated; NaN becomes 0. Between integers: the low
    /// bits, as two's complement.
    ///
    /// # Examples
    ///
    /// ```
    /// use samebits_tensor_core::scalar::{Exact, Scalar};
    /// use samebits_tensor_core::f16;
    ///
    /// // Rounding by way of f32 would end at the tie, which is rounded to 1.
    /// let above = Exact::Float((1.0 + 1.0 / 2048.0) * (1.0 + f64::EPSILON));
    /// assert_eq!(f16::of(above).to_f64(), 1.0 + 1.0 / 1024.0);
    /// assert_eq!(i32::of(Exact::Float(-1e10)), i32::MIN);
    /// assert_eq!(u8::of(Exact::Integer(-1)), 255);
    /// ```
    #[must_use]
    fn of(value: Exact) -> Self;
}

macro_rules! integers {
    ($($integer:ident),*) => {$(
        impl Scalar for $integer {
            #[inline(always)]
            fn exact(self) -> Exact {
                Exact::Integer(self.into())
            }

            #[inline(always)]
            fn of(value: Exact) -> $integer {
                match value {
                    Exact::Integer(x) => x as $integer,
                    Exact::Float(x) => x as $integer,
                }
            }
        }
    )*};
}
integers!(u8, i32, u32, i64);

macro_rules! floats {
    ($($float:ident),*) => {$(
        impl Scalar for $float {
            #[inline(always)]
            fn exact(self) -> Exact {
                Exact::Float(self.into())
            }

            #[inline(always)]
            fn of(value: Exact) -> $float {
                match value {
                    Exact::Integer(x) => x as $float,
                    Exact::Float(x) => canonical(x as $float),
                }
            }
        }
    )*};
}
floats!(f32, f64);

// The conversion is done here because `half` is not consistent: it rounds an f64 by way of f32 if
// the machine has an instruction for that, and otherwise cuts off the low half of the bits first.
macro_rules! halves {
    ($($half:ident($exponent:literal, $mantissa:literal)),*) => {$(
        impl Scalar for $half {
            #[inline(always)]
            fn exact(self) -> Exact {
                Exact::Float(self.into())
            }

            #[inline(always)]
            fn of(value: Exact) -> $half {
                let x = match value {
                    Exact::Integer(x) => odd(x),
                    Exact::Float(x) => x,
                };
                $half::from_bits(narrowed::<$exponent, $mantissa>(x))
            }
        }
    )*};
}
halves!(f16(5, 10), bf16(8, 7));

/// Returns an f64 that rounds to any half as `x` does. From 2^53 on, the lowest bits become one
/// sticky bit, which is set if any of them was.
#[inline(always)]
fn odd(x: i64) -> f64 {
    let size = x.unsigned_abs();
    if size < 1 << 53 {
        return x as f64;
    }
    let kept = (size >> 11 | u64::from(size & 0x7ff != 0)) << 11;
    if x < 0 { -(kept as f64) } else { kept as f64 }
}

/// Returns the bits of the float with `EXPONENT` and `MANTISSA` bits that is nearest to `x`, ties
/// to even.
#[inline(always)]
fn narrowed<const EXPONENT: u32, const MANTISSA: u32>(x: f64) -> u16 {
    const WIDE: u32 = f64::MANTISSA_DIGITS - 1;
    let infinity = ((1u64 << EXPONENT) - 1) << MANTISSA;
    if x.is_nan() {
        return (infinity | 1 << (MANTISSA - 1)) as u16;
    }
    let sign = if x.is_sign_negative() { 1 << 15 } else { 0 };
    let bits = x.abs().to_bits();
    // The exponent field of a normal number of this value in the narrow type.
    let field = (bits >> WIDE) as i64 - 1023 + ((1 << (EXPONENT - 1)) - 1);
    let mantissa = bits & ((1 << WIDE) - 1);
    let (number, dropped) = if field > 0 {
        ((field as u64) << WIDE | mantissa, WIDE - MANTISSA)
    } else {
        // A subnormal number: below 2^-2 of its unit nothing is left.
        let dropped = u64::from(WIDE - MANTISSA) + field.abs_diff(1);
        (1 << WIDE | mantissa, dropped.min(63) as u32)
    };
    let (kept, rest) = (number >> dropped, number & ((1 << dropped) - 1));
    let half = 1 << (dropped - 1);
    let up = rest > half || (rest == half && kept & 1 == 1);
    // A carry out of the mantissa increments the exponent.
    (kept + u64::from(up)).min(infinity) as u16 | sign
}

/// Casts each element of `from` to `R`.
///
/// # Panics
///
/// If the slices differ in length.
pub fn cast<T: Scalar, R: Scalar>(from: &[T], to: &mut [R]) {
    assert_eq!(from.len(), to.len(), "cast: input and output differ in length");
    to.iter_mut().zip(from).for_each(|(to, from)| *to = R::of(from.exact()));
}
