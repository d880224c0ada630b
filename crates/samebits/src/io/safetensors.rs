use std::fs::File;
use std::io::Read;
use std::path::Path;

use ::safetensors::Dtype;
use ::safetensors::tensor::{Metadata, TensorView};
use samebits_numerics::memory;

use super::bytes::read_tensor;
use super::whole::replace;
use super::{Result, Site, Tensors};
use crate::{DType, Tensor};

/// Reads the tensors of a safetensors file, onto the host.
///
/// # Errors
///
/// [`Error::Read`](super::Error::Read) if the system cannot read the file,
/// [`Error::Content`](super::Error::Content) if it is damaged or has elements of a type that is no
/// [`DType`].
pub fn load_safetensors(path: impl AsRef<Path>) -> Result<Tensors> {
    let site = Site { op: "load_safetensors", path: path.as_ref() };
    Ok(load(site)?.0)
}

/// Writes tensors to a safetensors file, whole or not at all.
///
/// # Errors
///
/// [`Error::Write`](super::Error::Write) if the system cannot write the file,
/// [`Error::Content`](super::Error::Content) if two tensors have one name,
/// [`Error::Tensor`](super::Error::Tensor) if a device does not hand its tensor over.
pub fn save_safetensors<'a>(
    path: impl AsRef<Path>,
    tensors: impl IntoIterator<Item = (impl AsRef<str>, &'a Tensor)>,
) -> Result<()> {
    let site = Site { op: "save_safetensors", path: path.as_ref() };
    let bytes = serialize(site, tensors, None)?;
    replace(site, |file| std::io::Write::write_all(file, &bytes).map_err(site.write()))
}

/// The tensors of a file, and what else its header says.
pub(super) fn load(site: Site<'_>) -> Result<(Tensors, Metadata)> {
    let file = File::open(site.path).map_err(site.read())?;
    let len = file.metadata().map_err(site.read())?.len();
    read(site, file, len)
}

/// The same of `len` bytes. Each tensor is read into its own memory, so that no more is needed
/// than that and the header's.
pub(super) fn read(site: Site<'_>, mut reader: impl Read, len: u64) -> Result<(Tensors, Metadata)> {
    let damaged = |message: String| {
        site.content("header", format!("not a whole safetensors file: {message}"))
    };
    let mut header_len = [0; 8];
    let Some(rest) = len.checked_sub(header_len.len() as u64) else {
        return Err(damaged(format!("expected at least 8 bytes, got {len}")));
    };
    reader.read_exact(&mut header_len).map_err(site.read())?;
    let header_len = u64::from_le_bytes(header_len);
    let Some(data_len) = rest.checked_sub(header_len) else {
        return Err(damaged(format!("expected a header of {header_len} bytes, got {rest}")));
    };
    let mut header = memory::zeroed::<u8>(header_len as usize)
        .map_err(|error| damaged(format!("its header: {error}")))?;
    reader.read_exact(&mut header).map_err(site.read())?;
    let header: Metadata =
        serde_json::from_slice(&header).map_err(|error| damaged(error.to_string()))?;
    if header.data_len() as u64 != data_len {
        let expected = header.data_len();
        return Err(damaged(format!("expected {expected} bytes of tensors, got {data_len}")));
    }
    let mut tensors = Tensors::new();
    // Without gaps, as was checked when the header was read.
    for name in header.offset_keys() {
        let info = header.info(&name).expect("a name of this header");
        let place = format!("tensor {name}");
        let Some(&(_, dtype)) = TYPES.iter().find(|(stored, _)| *stored == info.dtype) else {
            let known = DType::ALL.map(DType::name).join(", ");
            let message = format!("elements should be one of {known}, are {:?}", info.dtype);
            return Err(site.content(place, message));
        };
        let tensor = read_tensor(site, &place, &mut reader, dtype, &info.shape, false)?;
        tensors.insert(name, tensor);
    }
    Ok((tensors, header))
}

/// The types of elements that are read and written.
const TYPES: [(Dtype, DType); 9] = [
    (Dtype::F32, DType::F32),
    (Dtype::F64, DType::F64),
    (Dtype::I64, DType::I64),
    (Dtype::U8, DType::U8),
    (Dtype::BOOL, DType::Bool),
    (Dtype::I32, DType::I32),
    (Dtype::U32, DType::U32),
    (Dtype::F16, DType::F16),
    (Dtype::BF16, DType::BF16),
];

/// The content of a file. One entry of metadata at most: the order of more would be a hash map's.
pub(super) fn serialize<'a>(
    site: Site<'_>,
    tensors: impl IntoIterator<Item = (impl AsRef<str>, &'a Tensor)>,
    entry: Option<(&str, String)>,
) -> Result<Vec<u8>> {
    let mut contents = std::collections::BTreeMap::new();
    for (name, tensor) in tensors {
        let name = name.as_ref();
        let place = format!("tensor {name}");
        let bytes = tensor.to_bytes().map_err(site.tensor(&place))?;
        let Some(&(dtype, _)) = TYPES.iter().find(|(_, stored)| *stored == tensor.dtype()) else {
            let message = format!("elements of type {} are not saved", tensor.dtype());
            return Err(site.content(place, message));
        };
        if contents.insert(name.to_owned(), (dtype, tensor.shape().to_vec(), bytes)).is_some() {
            return Err(site.content(place, "two tensors have this name"));
        }
    }
    let views = contents
        .iter()
        .map(|(name, (dtype, shape, bytes))| {
            Ok((name, TensorView::new(*dtype, shape.clone(), bytes)?))
        })
        .collect::<Result<Vec<_>, _>>();
    let entry = entry.map(|(key, value)| [(key.to_owned(), value)].into_iter().collect());
    views
        .and_then(|views| ::safetensors::serialize(views, entry))
        .map_err(|error| site.content("header", error.to_string()))
}
