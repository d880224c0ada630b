//! Elements as bytes.

use std::io::{ErrorKind, Read};

use samebits_tensor_core::with_element;

use super::{Result, Site};
use crate::tensor_core::Tensor as Value;
use crate::{DType, Tensor};

/// Reads the elements of one tensor, in row-major order, into its memory. `place` names it in
/// errors.
pub(super) fn read_tensor(
    site: Site<'_>,
    place: &str,
    reader: impl Read,
    dtype: DType,
    shape: &[usize],
    big_endian: bool,
) -> Result<Tensor> {
    // Pages that the file does not fill are never touched.
    let zeros = Value::zeros(shape, dtype).map_err(|error| error.called(site.op));
    let mut tensor = zeros.map_err(site.tensor(place))?;
    let swap = big_endian != cfg!(target_endian = "big");
    with_element!(dtype, T => {
        let elements = tensor.as_mut_slice::<T>().map_err(site.tensor(place))?;
        let bytes = bytemuck::cast_slice_mut(elements);
        fill(site, place, reader, shape, bytes)?;
        if swap {
            bytes.chunks_exact_mut(size_of::<T>()).for_each(<[u8]>::reverse);
        }
    });
    if dtype == DType::Bool {
        let bytes = tensor.as_slice::<u8>().map_err(site.tensor(place))?;
        if let Some(at) = bytes.iter().position(|&byte| byte > 1) {
            let message = format!("element {at}: a truth value should be 0 or 1, is {}", bytes[at]);
            return Err(site.content(place, message));
        }
    }
    Ok(tensor.into())
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
            let message = format!("ends before its {} bytes of shape {shape:?}", bytes.len());
            site.content(place, message)
        }
        _ => site.read()(error),
    })
}
