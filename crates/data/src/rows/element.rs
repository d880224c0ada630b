//! Number formats of files, and their conversion to Rust types.

use std::fmt;

use super::ByteOrder;

/// Type of the numbers in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Element {
    /// One byte, 0 or 1.
    Bool,
    /// 8-bit unsigned.
    U8,
    /// 8-bit signed.
    I8,
    /// 16-bit unsigned.
    U16,
    /// 16-bit signed.
    I16,
    /// 32-bit unsigned.
    U32,
    /// 32-bit signed.
    I32,
    /// 64-bit unsigned.
    U64,
    /// 64-bit signed.
    I64,
    /// IEEE binary16.
    F16,
    /// The upper half of a binary32.
    Bf16,
    /// IEEE binary32.
    F32,
    /// IEEE binary64.
    F64,
}

impl Element {
    /// Returns the number of bytes per number.
    pub fn size(self) -> usize {
        match self {
            Element::Bool | Element::U8 | Element::I8 => 1,
            Element::U16 | Element::I16 | Element::F16 | Element::Bf16 => 2,
            Element::U32 | Element::I32 | Element::F32 => 4,
            Element::U64 | Element::I64 | Element::F64 => 8,
        }
    }

    pub(super) fn is_integer(self) -> bool {
        !matches!(self, Element::F16 | Element::Bf16 | Element::F32 | Element::F64)
    }

    /// Appends the numbers in `bytes` to `out` through f32, if `T` holds every number of this type.
    /// Returns false otherwise.
    fn extend_small<T: From<f32>>(self, order: ByteOrder, bytes: &[u8], out: &mut Vec<T>) -> bool {
        fn extend<T: From<f32>, const N: usize>(
            order: ByteOrder,
            bytes: &[u8],
            out: &mut Vec<T>,
            number: impl Fn([u8; N]) -> f32,
        ) {
            out.extend(words(order, bytes).map(|word| T::from(number(word))));
        }
        match self {
            Element::Bool | Element::U8 => extend(order, bytes, out, |[byte]| f32::from(byte)),
            Element::I8 => extend(order, bytes, out, |w| f32::from(i8::from_le_bytes(w))),
            Element::U16 => extend(order, bytes, out, |w| f32::from(u16::from_le_bytes(w))),
            Element::I16 => extend(order, bytes, out, |w| f32::from(i16::from_le_bytes(w))),
            Element::F16 => extend(order, bytes, out, |w| half(u16::from_le_bytes(w))),
            Element::Bf16 => {
                let wide = |w| f32::from_bits(u32::from(u16::from_le_bytes(w)) << 16);
                extend(order, bytes, out, wide);
            }
            Element::F32 => extend(order, bytes, out, f32::from_le_bytes),
            Element::U32 | Element::I32 | Element::U64 | Element::I64 | Element::F64 => {
                return false;
            }
        }
        true
    }

    /// Converts `bytes` to numbers, exactly.
    pub(super) fn numbers(self, order: ByteOrder, bytes: &[u8]) -> impl Iterator<Item = Number> {
        bytes.chunks_exact(self.size()).map(move |bytes| self.number(order, bytes))
    }

    /// Converts the `size()` bytes of one number.
    fn number(self, order: ByteOrder, bytes: &[u8]) -> Number {
        // Least significant byte first, padded with zeros.
        let mut word = [0; 8];
        word[..bytes.len()].copy_from_slice(bytes);
        if order == ByteOrder::Big {
            word[..bytes.len()].reverse();
        }
        let word = u64::from_le_bytes(word);
        match self {
            Element::Bool | Element::U8 | Element::U16 | Element::U32 | Element::U64 => {
                Number::Integer(word.into())
            }
            Element::I8 => Number::Integer((word as i8).into()),
            Element::I16 => Number::Integer((word as i16).into()),
            Element::I32 => Number::Integer((word as i32).into()),
            Element::I64 => Number::Integer((word as i64).into()),
            Element::F16 => Number::Float(half(word as u16).into()),
            Element::Bf16 => Number::Float(f32::from_bits((word as u32) << 16).into()),
            Element::F32 => Number::Float(f32::from_bits(word as u32).into()),
            Element::F64 => Number::Float(f64::from_bits(word)),
        }
    }
}

/// A number of a file.
#[derive(Clone, Copy, Debug)]
pub enum Number {
    Integer(i128),
    Float(f64),
}

impl Number {
    /// Returns this number as an integer, if it is one.
    fn integer(self) -> Option<i128> {
        match self {
            Number::Integer(x) => Some(x),
            Number::Float(x) => Some(x as i128).filter(|&y| y as f64 == x),
        }
    }
}

/// Number types that [`Rows`](super::Rows) and other sources of numbers can produce.
///
/// Implemented for the integers of 8 to 64 bits, `f32` and `f64`. The trait is sealed.
pub trait Value: Copy + Default + fmt::Debug + Send + Sync + 'static + sealed::Value {}

pub(crate) mod sealed {
    use super::{ByteOrder, Element, Number};

    pub trait Value: Sized {
        /// The type's name in errors.
        const NAME: &'static str;

        /// Converts the number, or returns `None` if the type has no such value. A NaN stays a NaN.
        fn exact(number: Number) -> Option<Self>;

        /// Returns the value nearest to this number, or `None` if that is infinite and the number is not.
        /// Integers are never rounded.
        fn nearest(number: Number) -> Option<Self> {
            Self::exact(number)
        }

        /// Appends the numbers in `bytes` to `out`, faster than one by one, if the types need no
        /// check. Returns false otherwise.
        fn extend(element: Element, order: ByteOrder, bytes: &[u8], out: &mut Vec<Self>) -> bool;
    }
}

macro_rules! integers {
    ($($t:ident $element:ident)*) => {$(
        impl Value for $t {}

        impl sealed::Value for $t {
            const NAME: &'static str = stringify!($t);

            fn exact(number: Number) -> Option<Self> {
                number.integer().and_then(|x| x.try_into().ok())
            }

            fn extend(
                element: Element,
                order: ByteOrder,
                bytes: &[u8],
                out: &mut Vec<Self>,
            ) -> bool {
                let same = element == Element::$element;
                if same {
                    out.extend(words(order, bytes).map($t::from_le_bytes));
                }
                same
            }
        }
    )*};
}

integers!(u8 U8 i8 I8 u16 U16 i16 I16 u32 U32 i32 I32 u64 U64 i64 I64);

impl Value for f32 {}

impl sealed::Value for f32 {
    const NAME: &'static str = "f32";

    fn exact(number: Number) -> Option<Self> {
        let nearest = f32::nearest(number)?;
        let exact = match number {
            Number::Integer(x) => nearest as i128 == x,
            Number::Float(x) => f64::from(nearest) == x || x.is_nan(),
        };
        exact.then_some(nearest)
    }

    fn nearest(number: Number) -> Option<Self> {
        Some(match number {
            Number::Integer(x) => x as f32,
            Number::Float(x) => {
                Some(x as f32).filter(|nearest| nearest.is_finite() || !x.is_finite())?
            }
        })
    }

    fn extend(element: Element, order: ByteOrder, bytes: &[u8], out: &mut Vec<Self>) -> bool {
        element.extend_small(order, bytes, out)
    }
}

impl Value for f64 {}

impl sealed::Value for f64 {
    const NAME: &'static str = "f64";

    fn exact(number: Number) -> Option<Self> {
        let nearest = f64::nearest(number)?;
        match number {
            Number::Integer(x) => Some(nearest).filter(|&y| y as i128 == x),
            Number::Float(_) => Some(nearest),
        }
    }

    fn nearest(number: Number) -> Option<Self> {
        Some(match number {
            Number::Integer(x) => x as f64,
            Number::Float(x) => x,
        })
    }

    fn extend(element: Element, order: ByteOrder, bytes: &[u8], out: &mut Vec<Self>) -> bool {
        if element == Element::F64 {
            out.extend(words(order, bytes).map(f64::from_le_bytes));
            return true;
        }
        element.extend_small(order, bytes, out)
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Number::Integer(x) => x.fmt(f),
            Number::Float(x) => x.fmt(f),
        }
    }
}

/// Splits `bytes` into words, least significant byte first.
fn words<const N: usize>(order: ByteOrder, bytes: &[u8]) -> impl Iterator<Item = [u8; N]> {
    bytes.as_chunks::<N>().0.iter().map(move |&word| match order {
        ByteOrder::Little => word,
        ByteOrder::Big => {
            let mut word = word;
            word.reverse();
            word
        }
    })
}

/// Converts a binary16 number to f32, exactly.
fn half(bits: u16) -> f32 {
    let sign = u32::from(bits >> 15) << 31;
    let exponent = u32::from(bits >> 10) & 0x1f;
    let fraction = u32::from(bits) & 0x3ff;
    match exponent {
        // A subnormal is its fraction times 2^-24, which f32 holds exactly.
        0 => {
            let magnitude = fraction as f32 * f32::from_bits(0x3380_0000);
            f32::from_bits(magnitude.to_bits() | sign)
        }
        0x1f if fraction != 0 => f32::from_bits(0x7fc0_0000),
        0x1f => f32::from_bits(sign | 0x7f80_0000),
        _ => f32::from_bits(sign | ((exponent + 112) << 23) | (fraction << 13)),
    }
}

#[cfg(test)]
mod tests {
    use super::sealed::Value as _;
    use super::*;

    /// Checks that the fast conversion, if any, agrees with the slow one.
    fn fast<T: Value + PartialEq>(element: Element, order: ByteOrder, bytes: &[u8]) {
        let mut out = Vec::new();
        if T::extend(element, order, bytes, &mut out) {
            let slow = T::exact(element.numbers(order, bytes).next().unwrap()).unwrap();
            assert_eq!(format!("{out:?}"), format!("{:?}", [slow]), "{element:?}");
        }
    }

    #[test]
    fn every_type_reads_in_both_orders() {
        let check = |element: Element, little: &[u8], float: f32, integer: Option<i64>| {
            let exact = element != Element::F64 && element != Element::U64;
            let big: Vec<u8> = little.iter().rev().copied().collect();
            for (order, bytes) in [(ByteOrder::Little, little), (ByteOrder::Big, &big[..])] {
                assert_eq!(bytes.len(), element.size());
                let number = element.numbers(order, bytes).next().unwrap();
                assert_eq!(f32::nearest(number).unwrap().to_bits(), float.to_bits());
                assert_eq!(i64::exact(number), integer, "{element:?}");
                let found = f32::exact(number).map(f32::to_bits);
                assert_eq!(found, exact.then_some(float.to_bits()), "{element:?}");
                assert_eq!(f64::exact(number).is_some(), element != Element::U64);
                fast::<f32>(element, order, bytes);
                fast::<f64>(element, order, bytes);
                fast::<i64>(element, order, bytes);
                fast::<u64>(element, order, bytes);
                fast::<u8>(element, order, bytes);
                fast::<i16>(element, order, bytes);
            }
        };
        check(Element::Bool, &[1], 1.0, Some(1));
        check(Element::U8, &[255], 255.0, Some(255));
        check(Element::I8, &[255], -1.0, Some(-1));
        check(Element::U16, &[1, 2], 513.0, Some(513));
        check(Element::I16, &[0, 0x80], -32768.0, Some(-32768));
        check(Element::U32, &[0, 0, 0, 255], 4278190080.0, Some(4278190080));
        check(Element::I32, &[254, 255, 255, 255], -2.0, Some(-2));
        check(Element::U64, &[255; 8], 18446744073709551616.0, None);
        check(Element::I64, &[255; 8], -1.0, Some(-1));
        check(Element::F16, &[0x00, 0x3c], 1.0, Some(1));
        check(Element::F16, &[0x01, 0x80], -5.9604645e-8, None);
        check(Element::F16, &[0xff, 0x7b], 65504.0, Some(65504));
        check(Element::F16, &[0x00, 0xfc], f32::NEG_INFINITY, None);
        check(Element::F16, &[0x01, 0xfc], f32::from_bits(0x7fc0_0000), None);
        check(Element::Bf16, &[0x80, 0x3f], 1.0, Some(1));
        check(Element::F32, &1.5_f32.to_le_bytes(), 1.5, None);
        check(Element::F64, &0.1_f64.to_le_bytes(), 0.1, None);
    }
}
