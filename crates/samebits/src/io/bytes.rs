//! Conversion of elements from bytes.

use std::io::{ErrorKind, Read};

use samebits_tensor_core::with_element;

use super::{Result, Site};
use crate::tensor_core::Tensor as Value;
use crate::{DType, Tensor};

/// Element type in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stored {
    /// A type that tensors support.
    Own(DType),
    I8,
    I16,
    U16,
    U64,
}

impl Stored {
    /// Returns the type of the resulting tensor: 64-bit integers for types that tensors do not
    /// support.
    fn dtype(self) -> DType {
        match self {
            Stored::Own(dtype) => dtype,
            Stored::I8 | Stored::I16 | Stored::U16 | Stored::U64 => DType::I64,
        }
    }

    pub(super) fn size(self) -> usize {
        match self {
            Stored::Own(dtype) => dtype.size(),
            Stored::I8 => 1,
            Stored::I16 | Stored::U16 => 2,
            Stored::U64 => 8,
        }
    }
}

/// Reads the elements of one tensor, in row-major order, into its memory. `place` names it in
/// errors.
pub(super) fn read_tensor(
    site: Site<'_>,
    place: &str,
    reader: impl Read,
    stored: Stored,
    shape: &[usize],
    big_endian: bool,
) -> Result<Tensor> {
    let dtype = stored.dtype();
    // Pages that the file does not fill are never touched.
    let zeros = Value::zeros(shape, dtype).map_err(|error| error.called(site.op));
    let mut tensor = zeros.map_err(site.tensor(place))?;
    if let Stored::Own(_) = stored {
        let swap = big_endian != cfg!(target_endian = "big");
        with_element!(dtype, T => {
            let elements = tensor.as_mut_slice::<T>().map_err(site.tensor(place))?;
            let bytes = bytemuck::cast_slice_mut(elements);
            fill(site, place, reader, shape, bytes)?;
            if swap {
                bytes.chunks_exact_mut(size_of::<T>()).for_each(<[u8]>::reverse);
            }
        });
    } else {
        let out = tensor.as_mut_slice::<i64>().map_err(site.tensor(place))?;
        widen(site, place, reader, stored, shape, big_endian, out)?;
    }
    if dtype == DType::Bool {
        let bytes = tensor.as_slice::<u8>().map_err(site.tensor(place))?;
        if let Some(at) = bytes.iter().position(|&byte| byte > 1) {
            let message = format!("element {at}: a truth value should be 0 or 1, is {}", bytes[at]);
            return Err(site.content(place, message));
        }
    }
    Ok(tensor.into())
}

/// Reads integers of another type as 64-bit ones.
fn widen(
    site: Site<'_>,
    place: &str,
    mut reader: impl Read,
    stored: Stored,
    shape: &[usize],
    big_endian: bool,
    out: &mut [i64],
) -> Result<()> {
    const AT_ONCE: usize = 1 << 13;
    let size = stored.size();
    let mut piece = vec![0; AT_ONCE * size];
    for (number, out) in out.chunks_mut(AT_ONCE).enumerate() {
        let piece = &mut piece[..out.len() * size];
        fill(site, place, &mut reader, shape, piece)?;
        for (at, (out, bytes)) in out.iter_mut().zip(piece.chunks_exact(size)).enumerate() {
            // Least significant byte first, padded with zeros.
            let mut word = [0; 8];
            word[..size].copy_from_slice(bytes);
            if big_endian {
                word[..size].reverse();
            }
            let word = u64::from_le_bytes(word);
            *out = match stored {
                Stored::I8 => (word as i8).into(),
                Stored::I16 => (word as i16).into(),
                _ => i64::try_from(word).map_err(|_| {
                    let (at, most) = (number * AT_ONCE + at, i64::MAX);
                    let message = format!("element {at}: expected at most {most}, got {word}");
                    site.content(place, message)
                })?,
            };
        }
    }
    Ok(())
}

fn fill(
    site: Site<'_>,
    place: &str,
    mut reader: impl Read,
    shape: &[usize],
    bytes: &mut [u8],
) -> Result<()> {
    reader.read_exact(bytes).map_err(|error| match error.kind() {
        ErrorKind::UnexpectedEof => {
            site.content(place, format!("ends before its elements of shape {shape:?}"))
        }
        _ => site.read()(error),
    })
}
