use std::path::Path;

use ::safetensors::tensor::{Metadata, TensorView};
use ::safetensors::{Dtype, SafeTensors};

use super::bytes::read_tensor;
use super::whole::replace;
use super::{Result, Site, Tensors};
use crate::{DType, Tensor};

/// Reads the tensors of a safetensors file, onto the host.
///
/// # Errors
///
/// [`Error::Read`](super::Error::Read) if the system cannot read the file,
/// [`Error::Content`](super::Error::Content) if it is damaged or has elements of a type other than
/// f32, f64, i64, u8 and bool.
pub fn load_safetensors(path: impl AsRef<Path>) -> Result<Tensors> {
    let site = Site { op: "load_safetensors", path: path.as_ref() };
    Ok(parse(site, &site.bytes()?)?.0)
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

/// The tensors of a file, and the entry `key` of its metadata.
pub(super) fn parse(site: Site<'_>, bytes: &[u8]) -> Result<(Tensors, Header)> {
    let damaged = |error| site.content("header", format!("not a whole safetensors file: {error}"));
    let (_, header) = SafeTensors::read_metadata(bytes).map_err(damaged)?;
    let file = SafeTensors::deserialize(bytes).map_err(damaged)?;
    let mut tensors = Tensors::new();
    for (name, view) in file.tensors() {
        let place = format!("tensor {name}");
        let dtype = match view.dtype() {
            Dtype::F32 => DType::F32,
            Dtype::F64 => DType::F64,
            Dtype::I64 => DType::I64,
            Dtype::U8 => DType::U8,
            Dtype::BOOL => DType::Bool,
            other => {
                let message =
                    format!("elements should be f32, f64, i64, u8 or bool, are {other:?}");
                return Err(site.content(place, message));
            }
        };
        let tensor = read_tensor(site, &place, view.data(), dtype, view.shape(), false)?;
        tensors.insert(name, tensor);
    }
    Ok((tensors, header))
}

pub(super) type Header = Metadata;

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
        let dtype = match tensor.dtype() {
            DType::F32 => Dtype::F32,
            DType::F64 => Dtype::F64,
            DType::I64 => Dtype::I64,
            DType::U8 => Dtype::U8,
            DType::Bool => Dtype::BOOL,
            other => {
                return Err(site.content(place, format!("elements of type {other} are not saved")));
            }
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
