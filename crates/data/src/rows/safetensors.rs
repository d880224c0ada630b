//! One tensor of a safetensors file.

use std::marker::PhantomData;
use std::sync::Arc;

use safetensors::Dtype;
use safetensors::tensor::Metadata;
use samebits_numerics::memory;

use super::{ByteOrder, Element, Rows, row_size};
use crate::error::quote;
use crate::memory::allocated;
use crate::source::Source;
use crate::{Error, Place, Result};

const OP: &str = "safetensors";

/// The format's limit on the header, in bytes.
const LONGEST_HEADER: u64 = 100_000_000;

pub(super) fn open(source: Source, tensor: &str) -> Result<Rows> {
    let fail = |offset, expected: String, found: String| {
        Error::malformed(OP, source.path(), Place::Offset(offset), expected, found)
    };
    let mut length = [0; 8];
    source.read_at(OP, 0, &mut length)?;
    let length = u64::from_le_bytes(length);
    let most = LONGEST_HEADER.min(source.len() - 8);
    if length > most {
        let expected = format!("a header of at most {most} bytes");
        return Err(fail(0, expected, format!("a length of {length}")));
    }
    let mut header = allocated(OP, memory::zeroed(length as usize))?;
    source.read_at(OP, 8, &mut header)?;
    let metadata: Metadata = serde_json::from_slice(&header)
        .map_err(|error| fail(8, "a header that lists tensors".to_owned(), error.to_string()))?;
    let start = 8 + length;
    let data = source.len() - start;
    if metadata.data_len() as u64 != data {
        let expected = format!("{} bytes of data, as the header says", metadata.data_len());
        return Err(fail(start, expected, format!("{data} bytes")));
    }
    let Some(info) = metadata.info(tensor) else {
        let mut names = metadata.offset_keys();
        names.sort_unstable();
        let expected = format!("a tensor {}", quote(tensor));
        return Err(fail(8, expected, quote(&names.join(", "))));
    };
    let element = match info.dtype {
        Dtype::BOOL => Element::Bool,
        Dtype::U8 => Element::U8,
        Dtype::I8 => Element::I8,
        Dtype::U16 => Element::U16,
        Dtype::I16 => Element::I16,
        Dtype::U32 => Element::U32,
        Dtype::I32 => Element::I32,
        Dtype::U64 => Element::U64,
        Dtype::I64 => Element::I64,
        Dtype::F16 => Element::F16,
        Dtype::BF16 => Element::Bf16,
        Dtype::F32 => Element::F32,
        Dtype::F64 => Element::F64,
        other => {
            let expected = format!("a supported type of {}", quote(tensor));
            return Err(fail(8, expected, format!("{other:?}")));
        }
    };
    let Some((&len, shape)) = info.shape.split_first() else {
        let expected = format!("at least one dimension of {}", quote(tensor));
        return Err(fail(8, expected, "a single number".to_owned()));
    };
    let Some((width, _)) = row_size(shape, element) else {
        let expected = "rows with elements that fit the address space".to_owned();
        return Err(fail(8, expected, format!("{shape:?}")));
    };
    let (start, shape) = (start + info.data_offsets.0 as u64, shape.to_vec());
    Ok(Rows {
        op: OP,
        source: Arc::new(source),
        start,
        element,
        order: ByteOrder::Little,
        len,
        shape,
        width,
        rounds: false,
        value: PhantomData,
    })
}
