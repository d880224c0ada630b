use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, DateTime, ZipArchive, ZipWriter};

use super::whole::replace;
use super::{Error, Result, Site, Tensors, npy};
use crate::Tensor;

/// Reads the arrays of NumPy's `.npz` file, compressed or not, onto the host.
///
/// # Errors
///
/// As [`load_npy`](super::load_npy).
pub fn load_npz(path: impl AsRef<Path>) -> Result<Tensors> {
    let site = Site { op: "load_npz", path: path.as_ref() };
    let file = File::open(site.path).map_err(site.read())?;
    let mut archive =
        ZipArchive::new(BufReader::new(file)).map_err(|error| damaged(site, "archive", error))?;
    let mut tensors = Tensors::new();
    for index in 0..archive.len() {
        let place = format!("entry {index}");
        let entry = archive.by_index(index).map_err(|error| damaged(site, &place, error))?;
        let name = entry.name().to_owned();
        let Some(array) = name.strip_suffix(".npy") else {
            let message = format!("expected a name that ends in .npy, got {name:?}");
            return Err(site.content(place, message));
        };
        let tensor = npy::read(site, &format!("array {array}, "), entry)?;
        if tensors.insert(array.to_owned(), tensor).is_some() {
            return Err(site.content(place, format!("a second array named {array:?}")));
        }
    }
    Ok(tensors)
}

/// Writes NumPy's `.npz` file without compression, whole or not at all.
///
/// # Errors
///
/// As [`save_npy`](super::save_npy), and [`Error::Content`] if two tensors have one name.
pub fn save_npz<'a>(
    path: impl AsRef<Path>,
    tensors: impl IntoIterator<Item = (impl AsRef<str>, &'a Tensor)>,
) -> Result<()> {
    let site = Site { op: "save_npz", path: path.as_ref() };
    let mut sorted = BTreeMap::new();
    for (name, tensor) in tensors {
        let name = name.as_ref();
        if sorted.insert(name.to_owned(), tensor).is_some() {
            return Err(site.content(format!("array {name}"), "two tensors have this name"));
        }
    }
    replace(site, |file| {
        let mut archive = ZipWriter::new(file);
        // Without times, so that the bytes depend on the tensors alone.
        let options = SimpleFileOptions::default()
            .compression_method(CompressionMethod::Stored)
            .last_modified_time(DateTime::default());
        for (name, tensor) in sorted {
            let place = format!("array {name}");
            let large = tensor.numel().saturating_mul(tensor.dtype().size()) >= MOST_PLAIN;
            archive
                .start_file(format!("{name}.npy"), options.large_file(large))
                .map_err(|error| damaged(site, &place, error))?;
            npy::write(site, &place, tensor, &mut archive)?;
        }
        archive.finish().map_err(|error| damaged(site, "archive", error))?;
        Ok(())
    })
}

/// Entries of this many bytes need the format's larger fields.
const MOST_PLAIN: usize = 1 << 31;

fn damaged(site: Site<'_>, place: &str, error: zip::result::ZipError) -> Error {
    match error {
        zip::result::ZipError::Io(error) => site.read()(error),
        other => site.content(place, other.to_string()),
    }
}
