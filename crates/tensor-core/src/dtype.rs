//! Element types.

use std::fmt;

/// The type of a tensor's elements.
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
    /// Truth value, one byte, 0 or 1.
    Bool,
}

impl DType {
    /// Every element type.
    pub const ALL: [DType; 5] = [DType::F32, DType::F64, DType::I64, DType::U8, DType::Bool];

    /// Bytes per element.
    pub fn size(self) -> usize {
        match self {
            DType::F32 => 4,
            DType::F64 | DType::I64 => 8,
            DType::U8 | DType::Bool => 1,
        }
    }

    /// True for `F32` and `F64`.
    pub fn is_float(self) -> bool {
        matches!(self, DType::F32 | DType::F64)
    }

    /// The name used in messages, files and the support matrix.
    pub fn name(self) -> &'static str {
        match self {
            DType::F32 => "f32",
            DType::F64 => "f64",
            DType::I64 => "i64",
            DType::U8 => "u8",
            DType::Bool => "bool",
        }
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A Rust type that tensor elements are read and written as. `u8` reads both `U8` and `Bool`.
pub trait Element: bytemuck::Pod + PartialEq + fmt::Debug + Send + Sync + sealed::Sealed {
    /// The element type that a new tensor of `Self` has.
    const DTYPE: DType;

    /// Whether a tensor of `dtype` stores `Self`.
    fn stores(dtype: DType) -> bool {
        dtype == Self::DTYPE
    }
}

impl Element for f32 {
    const DTYPE: DType = DType::F32;
}

impl Element for f64 {
    const DTYPE: DType = DType::F64;
}

impl Element for i64 {
    const DTYPE: DType = DType::I64;
}

impl Element for u8 {
    const DTYPE: DType = DType::U8;

    fn stores(dtype: DType) -> bool {
        matches!(dtype, DType::U8 | DType::Bool)
    }
}

/// Evaluates `$body` with `$t` standing for a float type: f32 for [`DType::F32`], else f64.
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

/// Evaluates `$body` with `$t` standing for the [`Element`] type, truth values as bytes.
#[macro_export]
macro_rules! with_element {
    ($dtype:expr, $t:ident => $body:expr) => {
        match $dtype {
            $crate::DType::I64 => {
                type $t = i64;
                $body
            }
            $crate::DType::U8 | $crate::DType::Bool => {
                type $t = u8;
                $body
            }
            dtype => $crate::with_float!(dtype, $t => $body),
        }
    };
}

/// Evaluates `$body` with `$t` standing for a type with an order: i64 for [`DType::I64`], else the
/// float type.
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
    impl Sealed for f32 {}
    impl Sealed for f64 {}
    impl Sealed for i64 {}
    impl Sealed for u8 {}
}
