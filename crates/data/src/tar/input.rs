//! Inputs from which tar files are read.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use flate2::read::MultiGzDecoder;
use samebits_numerics::memory;

use super::OP;
use crate::memory::allocated;
use crate::source::Source;
use crate::{Error, Place, Result};

/// Byte source read from front to back, with skips.
pub(super) trait Input: Send {
    fn path(&self) -> &Path;

    /// Returns the offset of the next byte.
    fn offset(&self) -> u64;

    /// Fills `out`, or as much of it as there are bytes before the end.
    fn read(&mut self, out: &mut [u8]) -> Result<usize>;

    /// Skips `bytes` bytes; fewer are an error.
    fn pass_over(&mut self, bytes: u64) -> Result<()>;

    /// Reads the next `size` bytes.
    fn take(&mut self, size: usize) -> Result<Vec<u8>> {
        let start = self.offset();
        let mut bytes = allocated(OP, memory::zeroed(size))?;
        match self.read(&mut bytes)? {
            read if read == size => Ok(bytes),
            read => Err(ends_early(self.path(), start, size as u64, read as u64)),
        }
    }
}

fn ends_early(path: &Path, start: u64, size: u64, read: u64) -> Error {
    let expected = format!("{size} bytes from offset {start}");
    Error::malformed(
        OP,
        path,
        Place::Offset(start.saturating_add(read)),
        expected,
        "the end of the file",
    )
}

/// A file with random access.
pub(super) struct Placed {
    source: Arc<Source>,
    offset: u64,
}

impl Placed {
    pub(super) fn new(source: Arc<Source>) -> Self {
        Placed { source, offset: 0 }
    }

    /// Moves to `offset`, which must lie in the file.
    pub(super) fn place(&mut self, offset: u64) {
        self.offset = offset;
    }
}

impl Input for Placed {
    fn path(&self) -> &Path {
        self.source.path()
    }

    fn offset(&self) -> u64 {
        self.offset
    }

    fn read(&mut self, out: &mut [u8]) -> Result<usize> {
        let there = (self.source.len() - self.offset).min(out.len() as u64) as usize;
        self.source.read_at(OP, self.offset, &mut out[..there])?;
        self.offset += there as u64;
        Ok(there)
    }

    fn pass_over(&mut self, bytes: u64) -> Result<()> {
        let there = self.source.len() - self.offset;
        if bytes > there {
            return Err(ends_early(self.path(), self.offset, bytes, there));
        }
        self.offset += bytes;
        Ok(())
    }
}

/// A gzip file, decompressed while it is read.
pub(super) struct Packed {
    path: PathBuf,
    reader: BufReader<MultiGzDecoder<File>>,
    offset: u64,
}

impl Packed {
    pub(super) fn new(path: &Path, file: MultiGzDecoder<File>) -> Self {
        Packed { path: path.to_owned(), reader: BufReader::new(file), offset: 0 }
    }

    fn damaged(&self, source: &io::Error) -> Error {
        let place = Place::Offset(self.offset);
        Error::malformed(OP, &self.path, place, "a whole gzip file", source.to_string())
    }
}

impl Input for Packed {
    fn path(&self) -> &Path {
        &self.path
    }

    fn offset(&self) -> u64 {
        self.offset
    }

    fn read(&mut self, out: &mut [u8]) -> Result<usize> {
        let mut done = 0;
        while done < out.len() {
            match self.reader.read(&mut out[done..]) {
                Ok(0) => break,
                Ok(count) => done += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.damaged(&error)),
            }
        }
        self.offset += done as u64;
        Ok(done)
    }

    fn pass_over(&mut self, bytes: u64) -> Result<()> {
        let passed = io::copy(&mut self.reader.by_ref().take(bytes), &mut io::sink());
        let passed = passed.map_err(|error| self.damaged(&error))?;
        if passed < bytes {
            return Err(ends_early(&self.path, self.offset, bytes, passed));
        }
        self.offset += bytes;
        Ok(())
    }
}
