use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;

use ::safetensors::Dtype;
use ::safetensors::tensor::{Metadata, TensorInfo};
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

/// Writes tensors to a safetensors file, whole or not at all, and one after the other: no more memory
/// is needed than the largest of them takes.
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
    let contents = Contents::new(site, tensors, None)?;
    replace(site, |file| contents.write(site, file))
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

/// A file that is to be written: its header, and the tensors in the order of their elements.
pub(super) struct Contents<'a> {
    header: Vec<u8>,
    tensors: Vec<(String, &'a Tensor)>,
    /// The bytes of all elements.
    data_len: usize,
}

/// Readers of the format refuse longer headers.
const MOST_HEADER: usize = 100_000_000;
/// The length of a header is a multiple of this, and so is the start of the elements.
const ALIGNMENT: usize = 8;

impl<'a> Contents<'a> {
    /// One entry of metadata at most: the order of more would be a hash map's.
    pub(super) fn new(
        site: Site<'_>,
        tensors: impl IntoIterator<Item = (impl AsRef<str>, &'a Tensor)>,
        entry: Option<(&str, String)>,
    ) -> Result<Contents<'a>> {
        let (mut sorted, mut names) = (BTreeMap::new(), BTreeSet::new());
        for (name, tensor) in tensors {
            let name = name.as_ref();
            let place = || format!("tensor {name}");
            let Some(&(dtype, _)) = TYPES.iter().find(|(_, stored)| *stored == tensor.dtype())
            else {
                let message = format!("elements of type {} are not saved", tensor.dtype());
                return Err(site.content(place(), message));
            };
            if !names.insert(name.to_owned()) {
                return Err(site.content(place(), "two tensors have this name"));
            }
            // The widest type first, so that every element lies at a multiple of its size.
            sorted.insert((Reverse(dtype), name.to_owned()), tensor);
        }
        let (mut infos, mut tensors, mut data_len) = (Vec::new(), Vec::new(), 0usize);
        for ((Reverse(dtype), name), tensor) in sorted {
            let start = data_len;
            // Elements that share memory, as those of an expanded tensor, may be too many.
            data_len = tensor.numel().saturating_mul(tensor.dtype().size()).saturating_add(start);
            let (shape, data_offsets) = (tensor.shape().to_vec(), (start, data_len));
            infos.push((name.clone(), TensorInfo { dtype, shape, data_offsets }));
            tensors.push((name, tensor));
        }
        let entry = entry.map(|(key, value)| [(key.to_owned(), value)].into_iter().collect());
        let refused = |message: String| site.content("header", message);
        let header = Metadata::new(entry, infos).map_err(|error| refused(error.to_string()))?;
        let mut header = serde_json::to_vec(&header).map_err(|error| refused(error.to_string()))?;
        header.resize(header.len().next_multiple_of(ALIGNMENT), b' ');
        if header.len() > MOST_HEADER {
            let message = format!("{} bytes long, expected at most {MOST_HEADER}", header.len());
            return Err(refused(message));
        }
        Ok(Contents { header, tensors, data_len })
    }

    /// Writes everything, one tensor after the other: only one is in memory a second time.
    pub(super) fn write(&self, site: Site<'_>, mut file: impl Write) -> Result<()> {
        let len = (self.header.len() as u64).to_le_bytes();
        file.write_all(&len).and_then(|()| file.write_all(&self.header)).map_err(site.write())?;
        for (name, tensor) in &self.tensors {
            let bytes = tensor.to_bytes().map_err(site.tensor(format!("tensor {name}")))?;
            file.write_all(&bytes).map_err(site.write())?;
        }
        Ok(())
    }

    /// What [`write`](Contents::write) writes.
    pub(super) fn to_bytes(&self, site: Site<'_>) -> Result<Vec<u8>> {
        let len = size_of::<u64>() + self.header.len() + self.data_len;
        let mut bytes = memory::with_capacity(len).map_err(|error| {
            site.tensor("tensors")(crate::Error::out_of_host_memory(site.op)(error))
        })?;
        self.write(site, &mut bytes)?;
        Ok(bytes)
    }
}
