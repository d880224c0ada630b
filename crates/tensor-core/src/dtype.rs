//! Element types.

use std::fmt;

use half::{bf16, f16};

/// The type of a tensor's elements.
///
/// Every type can be stored, moved, cast, compared and printed. Kernels compute in `F32`, `F64` and
/// `I64`; an operation returns an error for a type it does not support. Functions of users' tensors
/// take `F16` and `BF16`, too, between conversions to `F32`.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
#[non_exhaustive]
pub enum DType {
    /// IEEE binary32.
    F32,
    /// IEEE binary64.
    F64,
    /// 64-bit signed integer: indices and labels.
    I64,
    /// 8-bit unsigned integer.
    U8,
    /// Truth value in one byte: 0 or 1.
    Bool,
    /// 32-bit signed integer.
    I32,
    /// 32-bit unsigned integer.
    U32,
    /// IEEE binary16.
    F16,
    /// The upper half of a binary32: 8 bits of exponent, 7 of mantissa.
    BF16,
}

impl DType {
    /// Every element type.
    pub const ALL: [DType; 9] = [
        DType::F32,
        DType::F64,
        DType::I64,
        DType::U8,
        DType::Bool,
        DType::I32,
        DType::U32,
        DType::F16,
        DType::BF16,
    ];

    /// Returns the number of bytes per element.
    pub fn size(self) -> usize {
        match self {
            DType::F64 | DType::I64 => 8,
            DType::F32 | DType::I32 | DType::U32 => 4,
            DType::F16 | DType::BF16 => 2,
            DType::U8 | DType::Bool => 1,
        }
    }

    /// Returns true for `F32`, `F64`, `F16` and `BF16`.
    pub fn is_float(self) -> bool {
        matches!(self, DType::F32 | DType::F64 | DType::F16 | DType::BF16)
    }

    /// Returns true for `F16` and `BF16`.
    pub fn is_half(self) -> bool {
        matches!(self, DType::F16 | DType::BF16)
    }

    /// Returns true for the floats that operations compute in: `F32` and `F64`.
    pub fn is_full_float(self) -> bool {
        matches!(self, DType::F32 | DType::F64)
    }

    /// Returns the name used in messages, files and the support matrix.
    pub fn name(self) -> &'static str {
        match self {
            DType::F32 => "f32",
            DType::F64 => "f64",
            DType::I64 => "i64",
            DType::U8 => "u8",
            DType::Bool => "bool",
            DType::I32 => "i32",
            DType::U32 => "u32",
            DType::F16 => "f16",
            DType::BF16 => "bf16",
        }
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A Rust type in which tensor elements are read and written. `u8` reads both `U8` and `Bool`.
pub trait Element: bytemuck::Pod + PartialEq + fmt::Debug + Send + Sync + sealed::Sealed {
    /// The element type of a new tensor of `Self`.
    const DTYPE: DType;

    /// Returns true if a tensor of `dtype` stores `Self`.
    fn stores(dtype: DType) -> bool {
        dtype == Self::DTYPE
    }
}

macro_rules! elements {
    ($($element:ident is $dtype:ident),*) => {$(
        impl Element for $element {
            const DTYPE: DType = DType::$dtype;
        }

        impl sealed::Sealed for $element {}
    )*};
}
elements!(f32 is F32, f64 is F64, i64 is I64, i32 is I32, u32 is U32, f16 is F16, bf16 is BF16);

impl Element for u8 {
    const DTYPE: DType = DType::U8;

    fn stores(dtype: DType) -> bool {
        matches!(dtype, DType::U8 | DType::Bool)
    }
}

impl sealed::Sealed for u8 {}

/// The bits of an element of a given width. Operations that only move elements use it, so that one
/// compiled body serves all types of the width. See [`with_bits!`](crate::with_bits).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(transparent)]
pub struct Bits<W>(W);

macro_rules! bits {
    ($($word:ident is $dtype:ident),*) => {$(
        impl Element for Bits<$word> {
            const DTYPE: DType = DType::$dtype;

            fn stores(dtype: DType) -> bool {
                dtype.size() == size_of::<$word>()
            }
        }

        impl sealed::Sealed for Bits<$word> {}
    )*};
}
bits!(u8 is U8, u16 is F16, u32 is U32, u64 is I64);

/// Evaluates `$body` with `$t` as a float type: f32 for [`DType::F32`], else f64.
///
/// # Examples
///
/// ```
/// use samebits_tensor_core::{DType, with_float};
///
/// let size = with_float!(DType::F64, T => size_of::<T>());
/// assert_eq!(size, 8);
/// ```
#[macro_export]
macro_rules! with_float {
    ($dtype:expr, $t:ident => $body:expr) => {
        match $dtype {
            $crate::DType::F32 => {
                type $t = f32;
                $body
            }
            _ => {
                type $t = f64;
                $body
            }
        }
    };
}

/// Evaluates `$body` with `$t` as the [`Element`] type; truth values are bytes.
#[macro_export]
macro_rules! with_element {
    ($dtype:expr, $t:ident => $body:expr) => {
        match $dtype {
            $crate::DType::U8 | $crate::DType::Bool => {
                type $t = u8;
                $body
            }
            $crate::DType::I32 => {
                type $t = i32;
                $body
            }
            $crate::DType::U32 => {
                type $t = u32;
                $body
            }
            $crate::DType::F16 => {
                type $t = $crate::f16;
                $body
            }
            $crate::DType::BF16 => {
                type $t = $crate::bf16;
                $body
            }
            dtype => $crate::with_ordered!(dtype, $t => $body),
        }
    };
}

/// Evaluates `$body` with `$t` as the [`Bits`] of the elements' width.
///
/// # Examples
///
/// ```
/// use samebits_tensor_core::{DType, Tensor, with_bits};
///
/// let x = Tensor::from_slice(&[1.0f32, 2.0], &[2])?;
/// let equal = with_bits!(x.dtype(), T => {
///     let bits = x.as_slice::<T>()?;
///     bits[0] == bits[1]
/// });
/// assert!(!equal);
/// # Ok::<(), samebits_tensor_core::Error>(())
/// ```
#[macro_export]
macro_rules! with_bits {
    ($dtype:expr, $t:ident => $body:expr) => {
        match $crate::DType::size($dtype) {
            1 => {
                type $t = $crate::dtype::Bits<u8>;
                $body
            }
            2 => {
                type $t = $crate::dtype::Bits<u16>;
                $body
            }
            4 => {
                type $t = $crate::dtype::Bits<u32>;
                $body
            }
            _ => {
                type $t = $crate::dtype::Bits<u64>;
                $body
            }
        }
    };
}

/// Evaluates `$body` with `$t` as a type with an order: i64 for [`DType::I64`], else the float
/// type.
#[macro_export]
macro_rules! with_ordered {
    ($dtype:expr, $t:ident => $body:expr) => {
        match $dtype {
            $crate::DType::I64 => {
                type $t = i64;
                $body
            }
            dtype => $crate::with_float!(dtype, $t => $body),
        }
    };
}

mod sealed {
    pub trait Sealed {}
}
