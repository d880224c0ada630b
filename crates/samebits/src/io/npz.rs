use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use zip::read::ZipFile;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, DateTime, ZipArchive, ZipWriter};

use super::whole::replace;
use super::{Entry, Error, Result, Site, Tensors, npy};
use crate::Tensor;

/// Reads the arrays of NumPy's `.npz` file, compressed or not, onto the host.
///
/// # Errors
///
/// As for [`load_npy`](super::load_npy). If a file also holds arrays of unsupported types, read
/// single arrays with [`NpzFile`].
pub fn load_npz(path: impl AsRef<Path>) -> Result<Tensors> {
    let mut file = NpzFile::of("load_npz", path.as_ref())?;
    let mut tensors = Tensors::new();
    for index in 0..file.archive.len() {
        let (name, tensor) = file.at(index)?;
        tensors.insert(name, tensor);
    }
    Ok(tensors)
}

/// NumPy's `.npz` file, for reading single arrays.
///
/// # Examples
///
/// ```
/// use samebits::Tensor;
/// use samebits::io::{NpzFile, save_npz};
///
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("x.npz");
/// save_npz(&path, [("x", &Tensor::scalar(2.5f32)), ("y", &Tensor::scalar(7i64))])?;
/// let mut file = NpzFile::open(&path)?;
/// let [x, y] = &file.entries()?[..] else { panic!("two arrays") };
/// assert_eq!((x.name.as_str(), x.dtype.as_str(), y.dtype.as_str()), ("x", "<f4", "<i8"));
/// assert_eq!(file.tensor("y")?.item::<i64>()?, 7);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct NpzFile {
    op: &'static str,
    path: PathBuf,
    archive: ZipArchive<BufReader<File>>,
}

impl NpzFile {
    /// Opens a file and reads the names in it.
    ///
    /// # Errors
    ///
    /// [`Error::Read`] if the system cannot read the file, [`Error::Content`] if it is not an
    /// archive.
    pub fn open(path: impl AsRef<Path>) -> Result<NpzFile> {
        NpzFile::of("NpzFile", path.as_ref())
    }

    fn of(op: &'static str, path: &Path) -> Result<NpzFile> {
        let site = Site { op, path };
        let file = File::open(path).map_err(site.read())?;
        let archive = ZipArchive::new(BufReader::new(file))
            .map_err(|error| damaged(site, "archive", error))?;
        Ok(NpzFile { op, path: path.to_owned(), archive })
    }

    /// Lists the contents of the file, in its order. A member that is not an array keeps its whole
    /// name and has an empty `dtype`.
    ///
    /// # Errors
    ///
    /// [`Error::Read`], and [`Error::Content`] if the header of an array is damaged.
    pub fn entries(&mut self) -> Result<Vec<Entry>> {
        let site = Site { op: self.op, path: &self.path };
        let mut entries = Vec::new();
        for index in 0..self.archive.len() {
            let member = member(site, &mut self.archive, index)?;
            entries.push(match array(member.name()).map(str::to_owned) {
                None => {
                    let name = member.name().to_owned();
                    Entry { name, dtype: String::new(), shape: Vec::new() }
                }
                Some(name) => {
                    let header = npy::read_header(site, &format!("array {name}, "), member)?;
                    Entry { name, dtype: header.descr, shape: header.shape }
                }
            });
        }
        Ok(entries)
    }

    /// Reads the array of this name, onto the host.
    ///
    /// # Errors
    ///
    /// As for [`load_npy`](super::load_npy), and [`Error::Content`] if there is no such array.
    pub fn tensor(&mut self, name: &str) -> Result<Tensor> {
        let Some(index) = self.archive.index_for_name(&format!("{name}.npy")) else {
            let names = self.archive.file_names().map(|name| array(name).unwrap_or(name));
            let site = Site { op: self.op, path: &self.path };
            return Err(site.missing(format!("array {name}"), names));
        };
        Ok(self.at(index)?.1)
    }

    fn at(&mut self, index: usize) -> Result<(String, Tensor)> {
        let site = Site { op: self.op, path: &self.path };
        let member = member(site, &mut self.archive, index)?;
        let Some(name) = array(member.name()).map(str::to_owned) else {
            let name = member.name();
            let message = format!("expected a name that ends in .npy, got {name:?}");
            return Err(site.content(format!("entry {index}"), message));
        };
        let tensor = npy::read(site, &format!("array {name}, "), member)?;
        Ok((name, tensor))
    }
}

fn member<'a>(
    site: Site<'_>,
    archive: &'a mut ZipArchive<BufReader<File>>,
    index: usize,
) -> Result<ZipFile<'a, BufReader<File>>> {
    archive.by_index(index).map_err(|error| damaged(site, &format!("entry {index}"), error))
}

/// Returns the name of the array in a member.
fn array(member: &str) -> Option<&str> {
    member.strip_suffix(".npy")
}

/// Writes NumPy's `.npz` file without compression, atomically.
///
/// # Errors
///
/// As for [`save_npy`](super::save_npy), and [`Error::Content`] if two tensors have the same name.
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

/// The size in bytes from which entries need the format's larger fields.
const MOST_PLAIN: usize = 1 << 31;

fn damaged(site: Site<'_>, place: &str, error: zip::result::ZipError) -> Error {
    match error {
        zip::result::ZipError::Io(error) => site.read()(error),
        other => site.content(place, other.to_string()),
    }
}
