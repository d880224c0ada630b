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

mod sealed {
    pub trait Sealed {}
    impl Sealed for f32 {}
    impl Sealed for f64 {}
    impl Sealed for i64 {}
    impl Sealed for u8 {}
}
