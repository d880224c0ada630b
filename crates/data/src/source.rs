//! Random-access bytes, shared by threads.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use crate::file::{self, MOST_BYTES};
use crate::memory::reserve;
use crate::sampler::digest;
use crate::{Error, Place, Result};

/// A file, or bytes in memory.
#[derive(Debug)]
pub(crate) struct Source {
    path: PathBuf,
    len: u64,
    bytes: Bytes,
}

#[derive(Debug)]
enum Bytes {
    File(File),
    Memory(Vec<u8>),
}

impl Source {
    /// Opens a file; a file whose name ends in `.gz` is decompressed into memory.
    pub(crate) fn open(op: &'static str, path: &Path) -> Result<Self> {
        if file::is_packed(path) {
            return Ok(Source::of(path.to_path_buf(), file::read(op, path, MOST_BYTES)?));
        }
        let file = File::open(path).map_err(|source| Error::io(op, path, source))?;
        Source::of_file(op, path, file)
    }

    /// Wraps an open file as it is.
    pub(crate) fn of_file(op: &'static str, path: &Path, file: File) -> Result<Self> {
        let len = file.metadata().map_err(|source| Error::io(op, path, source))?.len();
        Ok(Source { path: path.to_path_buf(), len, bytes: Bytes::File(file) })
    }

    /// Wraps bytes in memory as the content of a file of this name.
    pub(crate) fn memory(path: PathBuf, bytes: Vec<u8>) -> Result<Self> {
        let packed = file::is_packed(&path);
        let bytes = if packed { file::unpack(&path, &bytes[..], MOST_BYTES)? } else { bytes };
        Ok(Source::of(path, bytes))
    }

    fn of(path: PathBuf, bytes: Vec<u8>) -> Self {
        Source { path, len: bytes.len() as u64, bytes: Bytes::Memory(bytes) }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the length at the time of opening.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// Fills `out` with the bytes from `offset` on.
    pub(crate) fn read_at(&self, op: &'static str, offset: u64, out: &mut [u8]) -> Result<()> {
        let mut done = 0;
        while done < out.len() {
            let at = offset + done as u64;
            let read = match &self.bytes {
                Bytes::File(file) => read_at(file, at, &mut out[done..]),
                Bytes::Memory(bytes) => {
                    let rest = usize::try_from(at).ok().and_then(|at| bytes.get(at..));
                    let rest = rest.unwrap_or_default();
                    let count = rest.len().min(out.len() - done);
                    out[done..done + count].copy_from_slice(&rest[..count]);
                    Ok(count)
                }
            };
            match read {
                Ok(0) => return Err(self.too_short(op, offset, out.len(), at)),
                Ok(count) => done += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(Error::io(op, &self.path, error)),
            }
        }
        Ok(())
    }

    /// Fills `out` with the `size` bytes from `offset` on, replacing its contents.
    pub(crate) fn read_into(
        &self,
        op: &'static str,
        offset: u64,
        size: usize,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        out.clear();
        reserve(op, out, size)?;
        out.resize(size, 0);
        self.read_at(op, offset, out)
    }

    /// Returns a description that identifies the file in a saved state.
    pub(crate) fn describe(&self, op: &str) -> String {
        // The name without the folder: a dataset may move between a save and a resume.
        let name = self.path.file_name().unwrap_or_default().display();
        let (size, digest) = (self.len, self.digest_of_ends());
        format!("{op} {name:?} of {size} bytes, digest of its ends {digest:016x}")
    }

    /// Digests the first and the last bytes. This distinguishes files of equal size and different
    /// numbers without reading them whole, unless they differ only in the middle.
    fn digest_of_ends(&self) -> u64 {
        const END: u64 = 1 << 16;
        let mut bytes = [0; END as usize];
        let mut words = Vec::new();
        for offset in [0, self.len.saturating_sub(END)] {
            let end = &mut bytes[..self.len.min(END) as usize];
            // The error itself surfaces when the rows are read.
            words.push(u64::from(self.read_at("describe", offset, end).is_ok()));
            words.extend(end.iter().map(|&byte| u64::from(byte)));
        }
        digest(words.into_iter())
    }

    fn too_short(&self, op: &'static str, offset: u64, wanted: usize, end: u64) -> Error {
        let shortened = if end < self.len {
            format!(", though the file had {} bytes when it was opened", self.len)
        } else {
            String::new()
        };
        Error::malformed(
            op,
            &self.path,
            Place::Offset(end),
            format!("{wanted} bytes from offset {offset}"),
            format!("the end of the file{shortened}"),
        )
    }
}

#[cfg(unix)]
fn read_at(file: &File, offset: u64, out: &mut [u8]) -> io::Result<usize> {
    std::os::unix::fs::FileExt::read_at(file, out, offset)
}

#[cfg(windows)]
fn read_at(file: &File, offset: u64, out: &mut [u8]) -> io::Result<usize> {
    std::os::windows::fs::FileExt::seek_read(file, out, offset)
}
