//! Element-wise comparison of tensors that both runs kept.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::{BufReader, Read as _};
use std::path::{Component, Path, PathBuf};

use serde::Serialize;

use crate::read::ReadError;
use crate::record::Tensor;

/// The number of differing elements that are listed.
const FIRST: usize = 8;

/// Differences between the elements of two tensors.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct TensorComparison {
    /// The tensor's description in the record.
    pub what: String,
    /// The element type.
    pub dtype: String,
    /// The number of elements.
    pub elements: u64,
    /// The number of elements that differ. NaNs are equal to each other.
    pub unequal: u64,
    /// The largest distance between two floats, in units in the last place.
    pub most_ulps: Option<u64>,
    /// The number of elements by distance.
    pub histogram: Vec<Bucket>,
    /// The first elements that differ.
    pub first: Vec<ElementDifference>,
}

/// A bar of a histogram of units in the last place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Bucket {
    /// The distances: `1`, `2-3`, `4-7` and so on; `0` means zeros of different sign.
    pub ulps: String,
    /// The number of elements.
    pub elements: u64,
}

/// An element that differs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ElementDifference {
    /// Its index along each dimension.
    pub index: Vec<u64>,
    /// The value in the first run.
    pub a: String,
    /// The value in the second run.
    pub b: String,
    /// The distance in units in the last place, if both are floats and neither is NaN.
    pub ulps: Option<u64>,
}

impl fmt::Display for TensorComparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TensorComparison { what, dtype, elements, unequal, .. } = self;
        write!(f, "  {what}: {unequal} of {elements} elements of {dtype} differ")?;
        self.most_ulps.iter().try_for_each(|ulps| write!(f, ", by up to {ulps} ulp"))?;
        writeln!(f)?;
        for ElementDifference { index, a, b, ulps } in self.first.iter().take(3) {
            write!(f, "    at {index:?}: {a} in A, {b} in B")?;
            ulps.iter().try_for_each(|ulps| write!(f, " ({ulps} ulp)"))?;
            writeln!(f)?;
        }
        Ok(())
    }
}

/// Compares the kept bytes of two tensors of equal shape and type. Returns `None` if one was not
/// kept, or the element type is unknown.
pub(super) fn compare(
    what: String,
    folders: [&Path; 2],
    a: &Tensor,
    b: &Tensor,
) -> Result<Option<TensorComparison>, ReadError> {
    let (Some(a_file), Some(b_file)) = (&a.file, &b.file) else { return Ok(None) };
    let Some(dtype) = DType::of(&a.dtype) else { return Ok(None) };
    if (&a.shape, &a.dtype) != (&b.shape, &b.dtype) {
        return Ok(None);
    }
    let mut a_bytes = Kept::open(folders[0], a_file, a, dtype)?;
    let mut b_bytes = Kept::open(folders[1], b_file, b, dtype)?;
    let elements = a_bytes.elements;
    let mut found = TensorComparison {
        what,
        dtype: a.dtype.clone(),
        elements,
        unequal: 0,
        most_ulps: None,
        histogram: Vec::new(),
        first: Vec::new(),
    };
    // Keyed by the bit length of the distance; elements without a distance come last.
    let mut histogram: BTreeMap<u32, u64> = BTreeMap::new();
    for element in 0..elements {
        let (a_bits, b_bits) = (a_bytes.next()?, b_bytes.next()?);
        if a_bits == b_bits || dtype.is_nan(a_bits) && dtype.is_nan(b_bits) {
            continue;
        }
        let ulps = dtype.ulps(a_bits, b_bits);
        found.unequal += 1;
        found.most_ulps = found.most_ulps.max(ulps);
        *histogram
            .entry(ulps.map_or(u32::MAX, |ulps| u64::BITS - ulps.leading_zeros()))
            .or_default() += 1;
        if found.first.len() < FIRST {
            let (a, b) = (dtype.show(a_bits), dtype.show(b_bits));
            let index = unravel(element, &a_bytes.shape);
            found.first.push(ElementDifference { index, a, b, ulps });
        }
    }
    if found.most_ulps.is_some() {
        let bucket = |(bits, elements)| Bucket { ulps: range(bits), elements };
        found.histogram = histogram.into_iter().map(bucket).collect();
    }
    Ok(Some(found))
}

/// Returns the range of numbers with this bit length.
fn range(bits: u32) -> String {
    match bits {
        0 | 1 => bits.to_string(),
        u32::MAX => "NaN".to_owned(),
        _ => format!("{}-{}", 1u64 << (bits - 1), u64::MAX >> (u64::BITS - bits)),
    }
}

fn unravel(mut element: u64, shape: &[u64]) -> Vec<u64> {
    let mut index = vec![0; shape.len()];
    for (place, &size) in index.iter_mut().zip(shape).rev() {
        *place = element % size;
        element /= size;
    }
    index
}

/// Reader of a tensor's bytes, row-major and little-endian.
struct Kept {
    path: PathBuf,
    file: BufReader<File>,
    shape: Vec<u64>,
    elements: u64,
    size: usize,
}

impl Kept {
    fn open(folder: &Path, name: &str, tensor: &Tensor, dtype: DType) -> Result<Kept, ReadError> {
        let path = folder.join(name);
        // A ledger may name only files beside it.
        if !Path::new(name).components().all(|part| matches!(part, Component::Normal(_))) {
            return Err(ReadError::unusable(&path, "is not a path below the ledger's folder"));
        }
        let file = File::open(&path).map_err(ReadError::io(&path))?;
        let found = file.metadata().map_err(ReadError::io(&path))?.len();
        let elements = tensor.shape.iter().try_fold(1u64, |all, &size| all.checked_mul(size));
        let size = dtype.size();
        match elements.filter(|&elements| elements.checked_mul(size as u64) == Some(found)) {
            Some(elements) => Ok(Kept {
                path,
                file: BufReader::with_capacity(1 << 16, file),
                shape: tensor.shape.clone(),
                elements,
                size,
            }),
            None => {
                let problem =
                    format!("{found} bytes of a tensor {}{:?}", tensor.dtype, tensor.shape);
                Err(ReadError::unusable(&path, problem))
            }
        }
    }

    /// Reads the bits of the next element.
    fn next(&mut self) -> Result<u64, ReadError> {
        let mut bytes = [0; 8];
        self.file.read_exact(&mut bytes[..self.size]).map_err(ReadError::io(&self.path))?;
        Ok(u64::from_le_bytes(bytes))
    }
}

#[derive(Clone, Copy)]
enum DType {
    Unsigned { bits: u32 },
    Signed { bits: u32 },
    Float { bits: u32, mantissa: u32 },
}

impl DType {
    fn of(name: &str) -> Option<DType> {
        Some(match name {
            "bool" | "u8" => DType::Unsigned { bits: 8 },
            "u32" => DType::Unsigned { bits: 32 },
            "u64" => DType::Unsigned { bits: 64 },
            "i8" => DType::Signed { bits: 8 },
            "i16" => DType::Signed { bits: 16 },
            "i32" => DType::Signed { bits: 32 },
            "i64" => DType::Signed { bits: 64 },
            "f16" => DType::Float { bits: 16, mantissa: 10 },
            "bf16" => DType::Float { bits: 16, mantissa: 7 },
            "f32" => DType::Float { bits: 32, mantissa: 23 },
            "f64" => DType::Float { bits: 64, mantissa: 52 },
            _ => return None,
        })
    }

    fn bits(self) -> u32 {
        let (DType::Unsigned { bits } | DType::Signed { bits } | DType::Float { bits, .. }) = self;
        bits
    }

    fn size(self) -> usize {
        self.bits() as usize / 8
    }

    /// Returns the bits without the sign.
    fn magnitude(self, bits: u64) -> u64 {
        bits & (u64::MAX >> (u64::BITS - self.bits() + 1))
    }

    fn is_nan(self, bits: u64) -> bool {
        let DType::Float { bits: width, mantissa } = self else { return false };
        let infinity = ((1u64 << (width - 1 - mantissa)) - 1) << mantissa;
        self.magnitude(bits) > infinity
    }

    /// Returns the number of floats of the type between `a` and `b`.
    fn ulps(self, a: u64, b: u64) -> Option<u64> {
        let DType::Float { bits: width, .. } = self else { return None };
        if self.is_nan(a) || self.is_nan(b) {
            return None;
        }
        let (x, y) = (self.magnitude(a), self.magnitude(b));
        let other_signs = (a ^ b) >> (width - 1) != 0;
        Some(if other_signs { x + y } else { x.abs_diff(y) })
    }

    /// Formats the number, for floats with its bits.
    fn show(self, bits: u64) -> String {
        match self {
            DType::Unsigned { .. } => bits.to_string(),
            DType::Signed { bits: width } => {
                let unused = u64::BITS - width;
                ((bits << unused).cast_signed() >> unused).to_string()
            }
            DType::Float { bits: 64, .. } => format!("{:?} (0x{bits:016x})", f64::from_bits(bits)),
            DType::Float { bits: 32, .. } => {
                format!("{:?} (0x{bits:08x})", f32::from_bits(bits as u32))
            }
            DType::Float { mantissa: 7, .. } => {
                format!("{:?} (0x{bits:04x})", half::bf16::from_bits(bits as u16).to_f32())
            }
            DType::Float { .. } => {
                format!("{:?} (0x{bits:04x})", half::f16::from_bits(bits as u16).to_f32())
            }
        }
    }
}
