use std::fmt;

use half::{bf16, f16};
use samebits::tensor_core::{Element, Tensor as Value};
use samebits::{DType, Error, Result, Tensor};

/// Values with a shape, an element type and bits: tensors, slices, arrays and vectors.
pub trait Bits {
    /// Converts the value to a tensor.
    ///
    /// # Errors
    ///
    /// If memory runs out.
    fn tensor(&self) -> Result<Value>;
}

impl Bits for Value {
    fn tensor(&self) -> Result<Value> {
        Ok(self.clone())
    }
}

impl Bits for Tensor {
    fn tensor(&self) -> Result<Value> {
        Ok(self.value().clone())
    }
}

impl<T: Element> Bits for [T] {
    fn tensor(&self) -> Result<Value> {
        Value::from_slice(self, &[self.len()])
    }
}

impl<T: Element> Bits for Vec<T> {
    fn tensor(&self) -> Result<Value> {
        self[..].tensor()
    }
}

impl<T: Element, const N: usize> Bits for [T; N] {
    fn tensor(&self) -> Result<Value> {
        self[..].tensor()
    }
}

impl<B: Bits + ?Sized> Bits for &B {
    fn tensor(&self) -> Result<Value> {
        (**self).tensor()
    }
}

/// Difference between two values.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Difference {
    /// The shapes differ.
    #[error("shapes differ: {left:?} and {right:?}")]
    Shape {
        /// The first shape.
        left: Vec<usize>,
        /// The second shape.
        right: Vec<usize>,
    },
    /// The element types differ.
    #[error("types differ: {} and {}", left.name(), right.name())]
    DType {
        /// The first type.
        left: DType,
        /// The second type.
        right: DType,
    },
    /// The elements differ.
    #[error("{0}")]
    Elements(Box<Extent>),
    /// The numbers of results differ.
    #[error("{left} results and {right}")]
    Count {
        /// The first number.
        left: usize,
        /// The second number.
        right: usize,
    },
    /// A value could not be read.
    #[error(transparent)]
    Unreadable(#[from] Error),
}

samebits::numerics::debug_is_message!(Difference);

/// Extent of the difference between the elements of two values.
#[derive(Clone, Debug, PartialEq)]
pub struct Extent {
    /// The common element type.
    pub dtype: DType,
    /// The common shape.
    pub shape: Vec<usize>,
    /// The number of elements that differ.
    pub count: usize,
    /// The first one that differs.
    pub first: Place,
    /// The one with the largest distance, if all are floats and none is NaN.
    pub farthest: Option<Place>,
}

/// One element that differs.
#[derive(Clone, Debug, PartialEq)]
pub struct Place {
    /// Its index in each dimension.
    pub index: Vec<usize>,
    /// The first value, with its bits.
    pub left: String,
    /// The second value, with its bits.
    pub right: String,
    /// The number of steps between adjacent values of the type from one to the other, with 1 from
    /// -0 to +0; `None` for NaN and for other types than floats.
    pub ulps: Option<u64>,
}

impl fmt::Display for Extent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let total: usize = self.shape.iter().product();
        let (dtype, shape) = (self.dtype.name(), &self.shape);
        write!(
            f,
            "{} of {total} elements of {dtype} {shape:?} differ, first at {}",
            self.count, self.first
        )?;
        match &self.farthest {
            Some(farthest) if farthest != &self.first => write!(f, "; most at {farthest}"),
            _ => Ok(()),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {} and {}", self.index, self.left, self.right)?;
        match self.ulps {
            None => Ok(()),
            Some(1) => write!(f, ", 1 ulp"),
            Some(ulps) => write!(f, ", {ulps} ulps"),
        }
    }
}

/// Compares shape, element type and bits; the bits of a NaN count as any others.
///
/// # Errors
///
/// The [`Difference`], if any.
pub fn compare(
    left: &(impl Bits + ?Sized),
    right: &(impl Bits + ?Sized),
) -> Result<(), Difference> {
    compare_tensors(&left.tensor()?, &right.tensor()?)
}

pub(crate) fn compare_tensors(left: &Value, right: &Value) -> Result<(), Difference> {
    if left.shape() != right.shape() {
        let (left, right) = (left.shape().to_vec(), right.shape().to_vec());
        return Err(Difference::Shape { left, right });
    }
    let dtype = left.dtype();
    if dtype != right.dtype() {
        return Err(Difference::DType { left: dtype, right: right.dtype() });
    }
    let (a, b) = (left.to_bytes()?, right.to_bytes()?);
    let elements = || a.chunks_exact(dtype.size()).zip(b.chunks_exact(dtype.size())).enumerate();
    let differing = || elements().filter(|(_, (a, b))| a != b);
    let Some((first, (x, y))) = differing().next() else { return Ok(()) };
    let place = |i, a, b| Place {
        index: index_of(i, left.shape()),
        left: shown(dtype, a),
        right: shown(dtype, b),
        ulps: ulps(dtype, a, b),
    };
    let mut farthest = Some((first, 0));
    for (i, (a, b)) in differing() {
        farthest = match (farthest, ulps(dtype, a, b)) {
            (Some((_, least)), Some(ulps)) if ulps > least => Some((i, ulps)),
            (farthest, Some(_)) => farthest,
            (_, None) => None,
        };
        if farthest.is_none() {
            break;
        }
    }
    let size = dtype.size();
    let at = |i: usize| place(i, &a[i * size..][..size], &b[i * size..][..size]);
    Err(Difference::Elements(Box::new(Extent {
        dtype,
        shape: left.shape().to_vec(),
        count: differing().count(),
        first: place(first, x, y),
        farthest: farthest.map(|(i, _)| at(i)),
    })))
}

fn index_of(mut place: usize, shape: &[usize]) -> Vec<usize> {
    let mut index = vec![0; shape.len()];
    for (i, &size) in index.iter_mut().zip(shape).rev() {
        *i = place % size;
        place /= size;
    }
    index
}

/// Formats the value and, for floats, its bits.
fn shown(dtype: DType, bytes: &[u8]) -> String {
    let bits = bits(bytes);
    match dtype {
        DType::F32 => format!("{:?} ({bits:08x})", f32::from_bits(bits as u32)),
        DType::F64 => format!("{:?} ({bits:016x})", f64::from_bits(bits)),
        DType::F16 => format!("{:?} ({bits:04x})", f16::from_bits(bits as u16)),
        DType::BF16 => format!("{:?} ({bits:04x})", bf16::from_bits(bits as u16)),
        DType::I64 => (bits as i64).to_string(),
        DType::I32 => (bits as u32 as i32).to_string(),
        _ => bits.to_string(),
    }
}

fn bits(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |bits, &byte| bits << 8 | u64::from(byte))
}

fn ulps(dtype: DType, a: &[u8], b: &[u8]) -> Option<u64> {
    let infinity: u64 = match dtype {
        DType::F32 => 0x7f80_0000,
        DType::F64 => 0x7ff0_0000_0000_0000,
        DType::F16 => 0x7c00,
        DType::BF16 => 0x7f80,
        _ => return None,
    };
    let sign = 1 << (8 * dtype.size() - 1);
    // Negative numbers count down from -1, so that -0 is adjacent to +0.
    let rank = |bytes| {
        let bits = bits(bytes);
        let magnitude = bits & !sign;
        let rank =
            i128::from(if bits & sign == 0 { magnitude as i64 } else { -1 - magnitude as i64 });
        (magnitude <= infinity).then_some(rank)
    };
    u64::try_from((rank(a)? - rank(b)?).unsigned_abs()).ok()
}
