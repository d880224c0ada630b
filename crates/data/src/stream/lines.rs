//! Text files, line by line.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::files::Files;
use super::{Records, ShardedDataset};
use crate::file::Opened;
use crate::{Error, Place, Result, SampleContext};

const OP: &str = "lines";
/// The most bytes of a line, unless options say otherwise.
pub(crate) const MOST_BYTES: usize = 16 << 20;

/// The lines of text files, one shard per file. A file whose name ends in `.gz` is unpacked on the
/// way.
///
/// A sample is a line without its end (`\n` or `\r\n`). Lines must be UTF-8.
#[derive(Clone, Debug)]
pub struct Lines {
    files: Files,
    most: usize,
}

impl Lines {
    /// The lines of these files.
    pub fn new(paths: Vec<PathBuf>) -> Self {
        Lines { files: Files::new(OP, paths), most: MOST_BYTES }
    }

    /// The most bytes that a line may have; 16 MiB by default. A longer one is
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
        let lines = LineReader::open(OP, &self.files, shard, skip, self.most)?;
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
    /// Counted from 1.
    pub(crate) number: u64,
    pub(crate) bytes: Vec<u8>,
}

/// Takes the end of a line away, `\n` or `\r\n`.
pub(crate) fn without_end(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\n").map_or(line, |line| line.strip_suffix(b"\r").unwrap_or(line))
}

/// Reads the lines of a file from front to back.
pub(crate) struct LineReader {
    op: &'static str,
    path: Arc<PathBuf>,
    reader: BufReader<Box<dyn Read + Send>>,
    line: u64,
    most: usize,
}

impl LineReader {
    /// Opens file `shard` of `files` behind its first `skip` lines.
    pub(crate) fn open(
        op: &'static str,
        files: &Files,
        shard: usize,
        skip: u64,
        most: usize,
    ) -> Result<Self> {
        let (path, file) = files.open(shard)?;
        let file: Box<dyn Read + Send> = match file {
            Opened::Plain(file) => Box::new(file),
            Opened::Packed(file) => Box::new(file),
        };
        let (path, reader) = (Arc::new(path.to_owned()), BufReader::new(file));
        let mut lines = LineReader { op, path, reader, line: 0, most };
        lines.pass_over(skip)?;
        Ok(lines)
    }

    /// Passes over `lines` lines, of whatever length and content.
    fn pass_over(&mut self, lines: u64) -> Result<()> {
        for _ in 0..lines {
            self.line += 1;
            match self.reader.skip_until(b'\n') {
                Ok(0) => break,
                Ok(_) => {}
                Err(source) => return Err(self.unreadable(&source)),
            }
        }
        Ok(())
    }

    fn unreadable(&self, source: &std::io::Error) -> Error {
        let place = Place::Line(self.line);
        Error::malformed(self.op, &self.path, place, "a readable line", source.to_string())
    }
}

impl Iterator for LineReader {
    type Item = Result<Line>;

    fn next(&mut self) -> Option<Result<Line>> {
        let mut bytes = Vec::new();
        self.line += 1;
        // A line of the greatest length and its end.
        let most = (self.most as u64).saturating_add(2);
        match self.reader.by_ref().take(most).read_until(b'\n', &mut bytes) {
            Ok(0) => None,
            Ok(_) => {
                bytes.truncate(without_end(&bytes).len());
                if bytes.len() > self.most {
                    return Some(Err(too_long(self.op, &self.path, self.line, self.most)));
                }
                Some(Ok(Line { path: Arc::clone(&self.path), number: self.line, bytes }))
            }
            Err(source) => Some(Err(self.unreadable(&source))),
        }
    }
}

/// The error of a line with more than `most` bytes.
pub(crate) fn too_long(op: &'static str, path: &Path, line: u64, most: usize) -> Error {
    let place = Place::Line(line);
    Error::TooLarge { op, path: path.to_owned(), place, what: "a line", most }
}
