//! Whole files in memory, plain or gzip-compressed.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use flate2::read::MultiGzDecoder;

use crate::memory::reserve;
use crate::{Error, Place, Result};

/// Default limit on the bytes that a reader loads into memory.
pub(crate) const MOST_BYTES: usize = if usize::BITS < 64 { usize::MAX / 4 } else { 1 << 32 };

/// Returns true if the name says that the content is gzip-compressed. The content cannot tell:
/// numbers may begin with gzip's two magic bytes.
pub(crate) fn is_packed(name: &Path) -> bool {
    name.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("gz"))
}

/// An open file, at its start.
pub(crate) enum Opened {
    Plain(File),
    /// A file whose name ends in `.gz`.
    Packed(MultiGzDecoder<File>),
}

pub(crate) fn open(op: &'static str, path: &Path) -> Result<Opened> {
    let file = File::open(path).map_err(|source| Error::io(op, path, source))?;
    Ok(if is_packed(path) {
        Opened::Packed(MultiGzDecoder::new(file))
    } else {
        Opened::Plain(file)
    })
}

/// Reads a file of at most `most` bytes; decompresses it if the name ends in `.gz`.
pub(crate) fn read(op: &'static str, path: &Path, most: usize) -> Result<Vec<u8>> {
    let file = File::open(path).map_err(|source| Error::io(op, path, source))?;
    if is_packed(path) { unpack(path, file, most) } else { take(op, path, file, most) }
}

/// Decompresses a whole gzip file of one or more members into at most `most` bytes.
pub(crate) fn unpack(path: &Path, packed: impl Read, most: usize) -> Result<Vec<u8>> {
    let mut counted = Counted { reader: packed, count: 0 };
    let unpacked = take("gzip", path, MultiGzDecoder::new(&mut counted), most);
    unpacked.map_err(|error| match error {
        Error::Io { source, .. } => Error::malformed(
            "gzip",
            path,
            Place::Offset(counted.count),
            "a whole gzip file",
            source.to_string(),
        ),
        other => other,
    })
}

/// Reads `reader` to its end; more than `most` bytes are an error.
fn take(op: &'static str, path: &Path, mut reader: impl Read, most: usize) -> Result<Vec<u8>> {
    const PIECE: usize = 1 << 16;
    let mut bytes = Vec::new();
    loop {
        let len = bytes.len();
        if len > most {
            let place = Place::Offset(most as u64);
            return Err(Error::TooLarge { op, path: path.to_owned(), place, what: "a file", most });
        }
        reserve(op, &mut bytes, PIECE)?;
        let mut piece = reader.by_ref().take(PIECE as u64);
        let read = piece.read_to_end(&mut bytes).map_err(|source| Error::io(op, path, source))?;
        if read == 0 {
            return Ok(bytes);
        }
    }
}

/// Reader that counts the bytes it reads.
struct Counted<R> {
    reader: R,
    count: u64,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        let read = self.reader.read(out)?;
        self.count += read as u64;
        Ok(read)
    }
}
