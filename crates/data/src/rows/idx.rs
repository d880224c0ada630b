//! The IDX format.
//!
//! Layout: two zero bytes, a type, the number of dimensions, the dimensions as 32-bit integers, the
//! numbers. All are big-endian.

use std::marker::PhantomData;
use std::sync::Arc;

use samebits_numerics::memory::product;

use super::{ByteOrder, Element, Rows, row_size};
use crate::source::Source;
use crate::{Error, Place, Result};

const OP: &str = "idx";

pub(super) fn open(source: Source) -> Result<Rows> {
    let fail = |offset, expected: String, found: String| {
        Error::malformed(OP, source.path(), Place::Offset(offset), expected, found)
    };
    let mut magic = [0; 4];
    source.read_at(OP, 0, &mut magic)?;
    let [0, 0, kind, dimensions] = magic else {
        let expected = "two zero bytes, a type and a number of dimensions".to_owned();
        return Err(fail(0, expected, format!("{magic:02x?}")));
    };
    let element = match kind {
        0x08 => Element::U8,
        0x09 => Element::I8,
        0x0b => Element::I16,
        0x0c => Element::I32,
        0x0d => Element::F32,
        0x0e => Element::F64,
        _ => {
            let expected = "a type among 08, 09, 0b, 0c, 0d, 0e".to_owned();
            return Err(fail(2, expected, format!("{kind:02x}")));
        }
    };
    if dimensions == 0 {
        return Err(fail(3, "at least one dimension".to_owned(), "0".to_owned()));
    }
    let mut sizes = vec![0; 4 * usize::from(dimensions)];
    source.read_at(OP, 4, &mut sizes)?;
    let sizes = sizes.as_chunks::<4>().0.iter().map(|&size| u32::from_be_bytes(size) as usize);
    let sizes: Vec<usize> = sizes.collect();
    let start = 4 + 4 * u64::from(dimensions);
    let data = source.len() - start;
    let bytes = product(&sizes).and_then(|count| count.checked_mul(element.size()));
    if bytes.map(|bytes| bytes as u64) != Some(data) {
        let size = element.size();
        let expected = format!("as many numbers of {size} bytes as {sizes:?} says");
        return Err(fail(start, expected, format!("{data} bytes")));
    }
    let (&len, shape) = sizes.split_first().expect("there is at least one dimension");
    let Some((width, _)) = row_size(shape, element) else {
        let expected = "rows with elements that fit the address space".to_owned();
        return Err(fail(8, expected, format!("{shape:?}")));
    };
    let shape = shape.to_vec();
    Ok(Rows {
        op: OP,
        source: Arc::new(source),
        start,
        element,
        order: ByteOrder::Big,
        len,
        shape,
        width,
        rounds: false,
        value: PhantomData,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(bytes: &[u8]) -> Result<Rows> {
        Rows::parse_idx("x.idx", bytes.to_vec())
    }

    #[test]
    fn mistakes_are_named() {
        let text = |bytes: &[u8]| parse(bytes).unwrap_err().to_string();
        assert_eq!(
            text(&[0, 1, 8, 1, 0, 0, 0, 0]),
            "idx: x.idx, offset 0: expected two zero bytes, a type and a number of dimensions, \
             found [00, 01, 08, 01]"
        );
        assert_eq!(
            text(&[0, 0, 10, 1, 0, 0, 0, 0]),
            "idx: x.idx, offset 2: expected a type among 08, 09, 0b, 0c, 0d, 0e, found 0a"
        );
        assert_eq!(
            text(&[0, 0, 8, 0]),
            "idx: x.idx, offset 3: expected at least one dimension, found 0"
        );
        assert_eq!(
            text(&[0, 0, 8, 2, 0, 0, 0, 2, 0, 0]),
            "idx: x.idx, offset 10: expected 8 bytes from offset 4, found the end of the file"
        );
        assert_eq!(
            text(&[0, 0, 11, 1, 0, 0, 0, 2, 1, 2, 3]),
            "idx: x.idx, offset 8: expected as many numbers of 2 bytes as [2] says, found 3 bytes"
        );
        let huge = [[0, 0, 8, 4], [0; 4], [255; 4], [255; 4], [255; 4]].concat();
        assert!(text(&huge).contains("expected rows with elements"), "{}", text(&huge));
    }

    #[test]
    fn numbers_are_read_most_significant_byte_first() {
        let rows = parse(&[0, 0, 11, 2, 0, 0, 0, 1, 0, 0, 0, 2, 1, 0, 255, 255]).unwrap();
        assert_eq!((rows.shape(), rows.element()), (&[2][..], Element::I16));
        assert_eq!(rows.clone().typed::<i64>().row(0).unwrap(), [256, -1]);
        assert!(rows.row_bytes(1).is_err());
        assert!(rows.into_labels().is_err());
    }
}
