use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use ::safetensors::Dtype;
use ::safetensors::tensor::{Metadata, TensorInfo};
use samebits_numerics::memory;

use super::bytes::{Stored, read_tensor};
use super::whole::replace;
use super::{Entry, Result, Site, Tensors};
use crate::{DType, Tensor};

/// Reads the tensors of a safetensors file, onto the host.
///
/// Integer types that tensors do not support (I8, I16, U16, U64) become i64 with the same values.
///
/// # Errors
///
/// [`Error::Read`](super::Error::Read) if the system cannot read the file,
/// [`Error::Content`](super::Error::Content) if it is damaged, has a U64 above `i64::MAX`, or has
/// complex numbers or floats of less than 16 bits; read single tensors of such a file with
/// [`SafetensorsFile`].
pub fn load_safetensors(path: impl AsRef<Path>) -> Result<Tensors> {
    let site = Site { op: "load_safetensors", path: path.as_ref() };
    Ok(load(site)?.0)
}

/// Writes tensors to a safetensors file, atomically and one after another: it needs memory only for
/// the largest.
///
/// # Errors
///
/// [`Error::Write`](super::Error::Write) if the system cannot write the file,
/// [`Error::Content`](super::Error::Content) if two tensors have the same name,
/// [`Error::Tensor`](super::Error::Tensor) if a device fails to return its tensor.
pub fn save_safetensors<'a>(
    path: impl AsRef<Path>,
    tensors: impl IntoIterator<Item = (impl AsRef<str>, &'a Tensor)>,
) -> Result<()> {
    let site = Site { op: "save_safetensors", path: path.as_ref() };
    let contents = Contents::new(site, tensors, None)?;
    replace(site, |file| contents.write(site, file))
}

/// A safetensors file, for reading single tensors.
///
/// # Examples
///
/// ```
/// use samebits::Tensor;
/// use samebits::io::{SafetensorsFile, save_safetensors};
///
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("x.safetensors");
/// save_safetensors(&path, [("x", &Tensor::scalar(2.5f32)), ("y", &Tensor::scalar(7i64))])?;
/// let mut file = SafetensorsFile::open(&path)?;
/// let [x, y] = &file.entries()[..] else { panic!("two tensors") };
/// assert_eq!((x.name.as_str(), x.dtype.as_str(), y.dtype.as_str()), ("x", "F32", "I64"));
/// assert_eq!(file.tensor("y")?.item::<i64>()?, 7);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct SafetensorsFile {
    path: PathBuf,
    file: File,
    header: Metadata,
    /// The offset of the first element.
    start: u64,
}

impl SafetensorsFile {
    /// Opens a file and reads its header.
    ///
    /// # Errors
    ///
    /// [`Error::Read`](super::Error::Read) if the system cannot read the file,
    /// [`Error::Content`](super::Error::Content) if its header is damaged or disagrees with the
    /// file size.
    pub fn open(path: impl AsRef<Path>) -> Result<SafetensorsFile> {
        let site = Site { op: "SafetensorsFile", path: path.as_ref() };
        let file = File::open(site.path).map_err(site.read())?;
        let len = file.metadata().map_err(site.read())?.len();
        let header = read_header(site, &file, len)?;
        let start = len - header.data_len() as u64;
        Ok(SafetensorsFile { path: site.path.to_owned(), file, header, start })
    }

    /// Lists the contents of the file, in the order of the names.
    pub fn entries(&self) -> Vec<Entry> {
        let tensors: BTreeMap<String, &TensorInfo> = self.header.tensors().into_iter().collect();
        let entry = |(name, info): (String, &TensorInfo)| {
            let (dtype, shape) = (format!("{:?}", info.dtype), info.shape.clone());
            Entry { name, dtype, shape }
        };
        tensors.into_iter().map(entry).collect()
    }

    /// Reads the tensor of this name, onto the host.
    ///
    /// # Errors
    ///
    /// As for [`load_safetensors`], and [`Error::Content`](super::Error::Content) if there is no
    /// such tensor.
    pub fn tensor(&mut self, name: &str) -> Result<Tensor> {
        let site = Site { op: "SafetensorsFile", path: &self.path };
        let Some(info) = self.header.info(name) else {
            let mut names = self.header.offset_keys();
            names.sort_unstable();
            let names = names.iter().map(String::as_str);
            return Err(site.missing(format!("tensor {name}"), names));
        };
        let start = self.start + info.data_offsets.0 as u64;
        self.file.seek(SeekFrom::Start(start)).map_err(site.read())?;
        read_one(site, name, info, &mut self.file)
    }
}

/// Reads the tensors of a file, and the metadata of its header.
pub(super) fn load(site: Site<'_>) -> Result<(Tensors, Metadata)> {
    let file = File::open(site.path).map_err(site.read())?;
    let len = file.metadata().map_err(site.read())?.len();
    read(site, file, len)
}

/// Reads the tensors and the metadata from `len` bytes. Each tensor is read straight into its
/// memory, so nothing more is needed besides the header's.
pub(super) fn read(site: Site<'_>, mut reader: impl Read, len: u64) -> Result<(Tensors, Metadata)> {
    let header = read_header(site, &mut reader, len)?;
    let mut tensors = Tensors::new();
    // The tensors are adjacent, as was checked when the header was read.
    for name in header.offset_keys() {
        let info = header.info(&name).expect("a name of this header");
        let tensor = read_one(site, &name, info, &mut reader)?;
        tensors.insert(name, tensor);
    }
    Ok((tensors, header))
}

/// Reads the header of a file of `len` bytes.
fn read_header(site: Site<'_>, mut reader: impl Read, len: u64) -> Result<Metadata> {
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
    Ok(header)
}

/// Reads one tensor; `reader` must stand at its elements.
fn read_one(site: Site<'_>, name: &str, info: &TensorInfo, reader: impl Read) -> Result<Tensor> {
    let place = format!("tensor {name}");
    let own = TYPES.iter().find(|(stored, _)| *stored == info.dtype);
    let stored = match (own, info.dtype) {
        (Some(&(_, dtype)), _) => Stored::Own(dtype),
        (_, Dtype::I8) => Stored::I8,
        (_, Dtype::I16) => Stored::I16,
        (_, Dtype::U16) => Stored::U16,
        (_, Dtype::U64) => Stored::U64,
        (_, foreign) => {
            let known = DType::ALL.map(DType::name).join(", ");
            let mut message =
                format!("elements should be one of {known}, i8, i16, u16, u64, are {foreign:?}");
            if site.op == "load_safetensors" {
                message += "; `SafetensorsFile` reads the other tensors by name";
            }
            return Err(site.content(place, message));
        }
    };
    read_tensor(site, &place, reader, stored, &info.shape, false)
}

/// Element types that are read and written as they are.
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

/// Contents of a file to write: its header, and the tensors in the order of their elements.
pub(super) struct Contents<'a> {
    header: Vec<u8>,
    tensors: Vec<(String, &'a Tensor)>,
    /// The number of bytes of all elements.
    data_len: usize,
}

/// Limit on the bytes of a header; readers of the format reject longer ones.
const MOST_HEADER: usize = 100_000_000;
/// Alignment of the header's length, and therefore of the start of the elements.
const ALIGNMENT: usize = 8;

impl<'a> Contents<'a> {
    /// Prepares the contents, with at most one `entry` of metadata: several would be written in a
    /// hash map's order.
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
            // Tensors that share memory, such as expanded ones, may exceed any size.
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

    /// Writes everything, one tensor after another: at most one is in memory twice.
    pub(super) fn write(&self, site: Site<'_>, mut file: impl Write) -> Result<()> {
        let len = (self.header.len() as u64).to_le_bytes();
        file.write_all(&len).and_then(|()| file.write_all(&self.header)).map_err(site.write())?;
        for (name, tensor) in &self.tensors {
            let bytes = tensor.to_bytes().map_err(site.tensor(format!("tensor {name}")))?;
            file.write_all(&bytes).map_err(site.write())?;
        }
        Ok(())
    }

    /// Returns the bytes that [`write`](Contents::write) writes.
    pub(super) fn to_bytes(&self, site: Site<'_>) -> Result<Vec<u8>> {
        let len = size_of::<u64>() + self.header.len() + self.data_len;
        let mut bytes = memory::with_capacity(len).map_err(|error| {
            site.tensor("tensors")(crate::Error::out_of_host_memory(site.op)(error))
        })?;
        self.write(site, &mut bytes)?;
        Ok(bytes)
    }
}
