use std::fmt;

use half::{bf16, f16};
use samebits::tensor_core::{Element, Tensor as Value};
use samebits::{DType, Error, Result, Tensor};

/// What has a shape, an element type and bits: tensors, slices, arrays and vectors.
pub trait Bits {
    /// The same as a tensor.
    ///
    /// # Errors
    ///
    /// There is no memory for it.
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

/// How two values differ.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Difference {
    /// Their shapes.
    #[error("shapes differ: {left:?} and {right:?}")]
    Shape {
        /// That of the first.
        left: Vec<usize>,
        /// That of the second.
        right: Vec<usize>,
    },
    /// Their element types.
    #[error("types differ: {} and {}", left.name(), right.name())]
    DType {
        /// That of the first.
        left: DType,
        /// That of the second.
        right: DType,
    },
    /// Their elements.
    #[error("{0}")]
    Elements(Box<Extent>),
    /// How many results there are.
    #[error("{left} results and {right}")]
    Count {
        /// How many first.
        left: usize,
        /// How many then.
        right: usize,
    },
    /// A value could not be read.
    #[error(transparent)]
    Unreadable(#[from] Error),
}

samebits::numerics::debug_is_message!(Difference);

/// Which elements of two values differ, and how far.
#[derive(Clone, Debug, PartialEq)]
pub struct Extent {
    /// The element type of both.
    pub dtype: DType,
    /// The shape of both.
    pub shape: Vec<usize>,
    /// How many elements differ.
    pub count: usize,
    /// The first one that differs.
    pub first: Place,
    /// The one that differs most, if all of them are floats and not NaN.
    pub farthest: Option<Place>,
}

/// One element that differs.
#[derive(Clone, Debug, PartialEq)]
pub struct Place {
    /// Its index in each dimension.
    pub index: Vec<usize>,
    /// The first value, with its bits.
    pub left: String,
    /// The second one.
    pub right: String,
    /// How many numbers of the type lie from one to the other, with 1 from -0 to +0; `None` for NaN
    /// and for what is no float.
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
/// The [`Difference`].
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

/// The value and, of floats, its bits.
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
    // Negative numbers count down from -1, so that -0 is the neighbour of +0.
    let rank = |bytes| {
        let bits = bits(bytes);
        let magnitude = bits & !sign;
        let rank =
            i128::from(if bits & sign == 0 { magnitude as i64 } else { -1 - magnitude as i64 });
        (magnitude <= infinity).then_some(rank)
    };
    u64::try_from((rank(a)? - rank(b)?).unsigned_abs()).ok()
}
