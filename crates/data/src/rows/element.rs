//! Number formats of files.

use super::ByteOrder;

/// The type of the numbers in a file.
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
    /// Bytes per number.
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

    /// True if f32 has no exact value for some numbers of this type.
    pub(super) fn exceeds_f32(self) -> bool {
        matches!(self, Element::U32 | Element::I32 | Element::U64 | Element::I64 | Element::F64)
    }

    /// The numbers in `bytes`, rounded to nearest where f32 is too small.
    pub(super) fn to_f32(self, order: ByteOrder, bytes: &[u8]) -> Vec<f32> {
        match self {
            Element::Bool | Element::U8 => bytes.iter().map(|&byte| f32::from(byte)).collect(),
            Element::I8 => bytes.iter().map(|&byte| f32::from(byte as i8)).collect(),
            Element::U16 => words(order, bytes).map(|w| f32::from(u16::from_le_bytes(w))).collect(),
            Element::I16 => words(order, bytes).map(|w| f32::from(i16::from_le_bytes(w))).collect(),
            Element::U32 => words(order, bytes).map(|w| u32::from_le_bytes(w) as f32).collect(),
            Element::I32 => words(order, bytes).map(|w| i32::from_le_bytes(w) as f32).collect(),
            Element::U64 => words(order, bytes).map(|w| u64::from_le_bytes(w) as f32).collect(),
            Element::I64 => words(order, bytes).map(|w| i64::from_le_bytes(w) as f32).collect(),
            Element::F16 => words(order, bytes).map(|w| half(u16::from_le_bytes(w))).collect(),
            Element::Bf16 => words(order, bytes)
                .map(|w| f32::from_bits(u32::from(u16::from_le_bytes(w)) << 16))
                .collect(),
            Element::F32 => words(order, bytes).map(f32::from_le_bytes).collect(),
            Element::F64 => words(order, bytes).map(|w| f64::from_le_bytes(w) as f32).collect(),
        }
    }

    /// The numbers in `bytes`, exactly.
    pub(super) fn numbers(self, order: ByteOrder, bytes: &[u8]) -> impl Iterator<Item = Number> {
        bytes.chunks_exact(self.size()).map(move |bytes| self.number(order, bytes))
    }

    /// The number that `bytes` are, of which there are as many as the type has.
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
pub(super) enum Number {
    Integer(i128),
    Float(f64),
}

impl Number {
    /// This number as f32, unless that rounds it. A NaN stays one.
    pub(super) fn to_f32(self) -> Option<f32> {
        match self {
            Number::Integer(x) => Some(x as f32).filter(|&y| y as i128 == x),
            Number::Float(x) => Some(x as f32).filter(|&y| f64::from(y) == x || x.is_nan()),
        }
    }

    /// This number as f64, unless that rounds it.
    pub(super) fn to_f64(self) -> Option<f64> {
        match self {
            Number::Integer(x) => Some(x as f64).filter(|&y| y as i128 == x),
            Number::Float(x) => Some(x),
        }
    }

    /// This number as i64, unless it is another.
    pub(super) fn to_i64(self) -> Option<i64> {
        match self {
            Number::Integer(x) => i64::try_from(x).ok(),
            Number::Float(x) => {
                let y = x as i128;
                i64::try_from(y).ok().filter(|_| y as f64 == x)
            }
        }
    }
}

impl std::fmt::Display for Number {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Number::Integer(x) => x.fmt(f),
            Number::Float(x) => x.fmt(f),
        }
    }
}

/// The words of `bytes`, least significant byte first.
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

/// A binary16 number, exactly.
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
    use super::*;

    #[test]
    fn every_type_reads_in_both_orders() {
        let check = |element: Element, little: &[u8], float: f32, integer: Option<i64>| {
            let exact = element != Element::F64 && element != Element::U64;
            let big: Vec<u8> = little.iter().rev().copied().collect();
            for (order, bytes) in [(ByteOrder::Little, little), (ByteOrder::Big, &big[..])] {
                assert_eq!(bytes.len(), element.size());
                assert_eq!(element.to_f32(order, bytes)[0].to_bits(), float.to_bits());
                let number = element.numbers(order, bytes).next().unwrap();
                assert_eq!(number.to_i64(), integer, "{element:?}");
                let found = number.to_f32().map(f32::to_bits);
                assert_eq!(found, exact.then_some(float.to_bits()), "{element:?}");
                assert_eq!(number.to_f64().is_some(), element != Element::U64);
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
