//! Text files, line by line.

use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::files::Files;
use super::{Records, ShardedDataset};
use crate::file::Opened;
use crate::{Error, Place, Result, SampleContext};

const OP: &str = "lines";
/// Default limit on the bytes of a line.
pub(crate) const MOST_BYTES: usize = 16 << 20;

/// Dataset of the lines of text files, one shard per file. Files whose names end in `.gz` are
/// decompressed while they are read.
///
/// A sample is a line without its end (`\n` or `\r\n`); an empty line is also a sample. Lines must
/// be UTF-8. A leading byte order mark is dropped.
#[derive(Clone, Debug)]
pub struct Lines {
    files: Files,
    most: usize,
}

impl Lines {
    /// Creates the dataset of the lines of these files.
    pub fn new(paths: Vec<PathBuf>) -> Self {
        Lines { files: Files::new(OP, paths), most: MOST_BYTES }
    }

    /// Sets the limit on the bytes of a line; 16 MiB by default. A longer line gives
    /// [`Error::TooLarge`].
    #[must_use]
    pub fn most_bytes(self, bytes: usize) -> Self {
        Lines { most: bytes, ..self }
    }
}

impl ShardedDataset for Lines {
    type Raw = String;
    type Item = String;

    fn shards(&self) -> usize {
        self.files.count()
    }

    fn describe(&self) -> String {
        self.files.describe()
    }

    fn open(&self, shard: usize, skip: u64) -> Result<Records<String>> {
        let lines = LineReader::open(OP, &self.files, shard, skip, self.most, false)?;
        Ok(Box::new(lines.map(|line| {
            let Line { path, number, bytes } = line?;
            String::from_utf8(bytes).map_err(|error| {
                Error::malformed(OP, &path, Place::Line(number), "UTF-8", error.to_string())
            })
        })))
    }

    fn sample(&self, raw: String, _: &mut SampleContext<'_>) -> Result<String> {
        Ok(raw)
    }
}

/// A line without its end.
#[derive(Debug)]
pub struct Line {
    pub(crate) path: Arc<PathBuf>,
    /// The line's number, counted from 1.
    pub(crate) number: u64,
    pub(crate) bytes: Vec<u8>,
}

/// UTF-8's byte order mark, which some editors write at the start of a file.
pub(crate) const MARK: &[u8] = b"\xef\xbb\xbf";

/// Returns true for whitespace between JSON values.
pub(crate) fn is_blank(byte: &u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n')
}

/// Strips the end of a line, `\n` or `\r\n`.
pub(crate) fn without_end(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\n").map_or(line, |line| line.strip_suffix(b"\r").unwrap_or(line))
}

/// Reader of a file's lines, from front to back.
pub(crate) struct LineReader {
    op: &'static str,
    path: Arc<PathBuf>,
    reader: BufReader<Box<dyn Read + Send>>,
    line: u64,
    most: usize,
    /// True if whitespace-only lines are not samples.
    passes_blank: bool,
}

impl LineReader {
    /// Opens file `shard` of `files` behind its first `skip` samples. Blank lines are samples
    /// unless `passes_blank`.
    pub(crate) fn open(
        op: &'static str,
        files: &Files,
        shard: usize,
        skip: u64,
        most: usize,
        passes_blank: bool,
    ) -> Result<Self> {
        let (path, file) = files.open(shard)?;
        let mut file: Box<dyn Read + Send> = match file {
            Opened::Plain(file) => Box::new(file),
            Opened::Packed(file) => Box::new(file),
        };
        let mut start = Vec::new();
        if let Err(source) = file.by_ref().take(MARK.len() as u64).read_to_end(&mut start) {
            return Err(unreadable(op, path, 1, &source));
        }
        if start == MARK {
            start.clear();
        }
        let reader = BufReader::new(Box::new(io::Cursor::new(start).chain(file)) as Box<_>);
        let path = Arc::new(path.to_owned());
        let mut lines = LineReader { op, path, reader, line: 0, most, passes_blank };
        lines.pass_over(skip)?;
        Ok(lines)
    }

    /// Skips `samples` samples, whatever their length and content.
    fn pass_over(&mut self, mut samples: u64) -> Result<()> {
        while samples > 0 {
            self.line += 1;
            match self.skip_line() {
                Ok(None) => break,
                Ok(Some(blank)) => samples -= u64::from(!(blank && self.passes_blank)),
                Err(source) => return Err(self.unreadable(&source)),
            }
        }
        Ok(())
    }

    /// Skips the next line and returns whether it is blank; `None` at the end.
    fn skip_line(&mut self) -> io::Result<Option<bool>> {
        let (mut any, mut blank) = (false, true);
        loop {
            let piece = match self.reader.fill_buf() {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                piece => piece?,
            };
            if piece.is_empty() {
                return Ok(any.then_some(blank));
            }
            any = true;
            let end = memchr::memchr(b'\n', piece);
            let line = &piece[..end.unwrap_or(piece.len())];
            blank = blank && line.iter().all(is_blank);
            let used = end.map_or(piece.len(), |end| end + 1);
            self.reader.consume(used);
            if end.is_some() {
                return Ok(Some(blank));
            }
        }
    }

    fn unreadable(&self, source: &io::Error) -> Error {
        unreadable(self.op, &self.path, self.line, source)
    }
}

impl Iterator for LineReader {
    type Item = Result<Line>;

    fn next(&mut self) -> Option<Result<Line>> {
        let mut bytes = Vec::new();
        // A line of the greatest length, with its end.
        let most = (self.most as u64).saturating_add(2);
        loop {
            self.line += 1;
            match self.reader.by_ref().take(most).read_until(b'\n', &mut bytes) {
                Ok(0) => return None,
                Ok(_) => {}
                Err(source) => return Some(Err(self.unreadable(&source))),
            }
            bytes.truncate(without_end(&bytes).len());
            if bytes.len() > self.most {
                return Some(Err(too_long(self.op, &self.path, self.line, self.most)));
            }
            if !(self.passes_blank && bytes.iter().all(is_blank)) {
                return Some(Ok(Line { path: Arc::clone(&self.path), number: self.line, bytes }));
            }
            bytes.clear();
        }
    }
}

fn unreadable(op: &'static str, path: &Path, line: u64, source: &io::Error) -> Error {
    Error::malformed(op, path, Place::Line(line), "a readable line", source.to_string())
}

/// Makes the error for a line of more than `most` bytes.
pub(crate) fn too_long(op: &'static str, path: &Path, line: u64, most: usize) -> Error {
    let place = Place::Line(line);
    Error::TooLarge { op, path: path.to_owned(), place, what: "a line", most }
}
