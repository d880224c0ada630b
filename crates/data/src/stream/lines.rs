//! Text files, line by line.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use flate2::read::MultiGzDecoder;

use super::{Records, ShardedDataset};
use crate::file::is_packed;
use crate::sampler::digest;
use crate::{Error, Place, Result, SampleContext};

const OP: &str = "lines";

/// The lines of text files, one shard per file. A file whose name ends in `.gz` is unpacked on the
/// way.
///
/// A sample is a line without its end (`\n` or `\r\n`). Lines must be UTF-8.
#[derive(Clone, Debug)]
pub struct Lines {
    paths: Vec<PathBuf>,
    longest: usize,
}

impl Lines {
    /// The lines of these files.
    pub fn new(paths: Vec<PathBuf>) -> Self {
        Lines { paths, longest: 16 << 20 }
    }

    /// The most bytes that a line may have; 16 MiB by default. A longer one is
    /// [`Error::TooLarge`].
    #[must_use]
    pub fn longest(self, bytes: usize) -> Self {
        Lines { longest: bytes, ..self }
    }
}

impl ShardedDataset for Lines {
    type Raw = String;
    type Item = String;

    fn shards(&self) -> usize {
        self.paths.len()
    }

    fn describe(&self) -> String {
        // Names, not folders: a dataset may move between a save and a resume. A file that is not
        // there is told from an empty one.
        let words = self.paths.iter().flat_map(|path| {
            let name = path.file_name().unwrap_or_default().as_encoded_bytes();
            let size = path.metadata().map_or(u64::MAX, |file| file.len());
            name.iter().map(|&byte| u64::from(byte)).chain([u64::MAX, size])
        });
        format!(
            "lines of {} files, digest of names and sizes {:016x}",
            self.paths.len(),
            digest(words)
        )
    }

    fn open(&self, shard: usize, skip: u64) -> Result<Records<String>> {
        let len = self.paths.len();
        let path =
            self.paths.get(shard).ok_or(Error::IndexOutOfRange { op: OP, index: shard, len })?;
        let file = File::open(path).map_err(|source| Error::io(OP, path, source))?;
        let file: Box<dyn Read + Send> =
            if is_packed(path) { Box::new(MultiGzDecoder::new(file)) } else { Box::new(file) };
        let (path, reader) = (path.clone(), BufReader::new(file));
        let mut lines = LineReader { path, reader, line: 0, longest: self.longest };
        lines.pass_over(skip)?;
        Ok(Box::new(lines))
    }

    fn sample(&self, raw: String, _: &mut SampleContext<'_>) -> Result<String> {
        Ok(raw)
    }
}

struct LineReader {
    path: PathBuf,
    reader: BufReader<Box<dyn Read + Send>>,
    line: u64,
    longest: usize,
}

impl LineReader {
    /// Passes over `lines` lines, of whatever length and content.
    fn pass_over(&mut self, lines: u64) -> Result<()> {
        for _ in 0..lines {
            self.line += 1;
            match self.reader.skip_until(b'\n') {
                Ok(0) => break,
                Ok(_) => {}
                Err(source) => return Err(self.malformed("a readable line", source.to_string())),
            }
        }
        Ok(())
    }

    fn next_bytes(&mut self) -> Option<Result<Vec<u8>>> {
        let mut bytes = Vec::new();
        self.line += 1;
        // A line of the greatest length and its end.
        let most = (self.longest as u64).saturating_add(2);
        match self.reader.by_ref().take(most).read_until(b'\n', &mut bytes) {
            Ok(0) => None,
            Ok(_) => {
                if bytes.ends_with(b"\n") {
                    bytes.pop();
                    if bytes.ends_with(b"\r") {
                        bytes.pop();
                    }
                }
                if bytes.len() > self.longest {
                    return Some(Err(Error::TooLarge {
                        op: OP,
                        path: self.path.clone(),
                        place: Place::Line(self.line),
                        what: "a line",
                        most: self.longest,
                    }));
                }
                Some(Ok(bytes))
            }
            Err(source) => Some(Err(self.malformed("a readable line", source.to_string()))),
        }
    }

    fn malformed(&self, expected: &str, found: String) -> Error {
        let path: &Path = &self.path;
        Error::malformed(OP, path, Place::Line(self.line), expected, found)
    }
}

impl Iterator for LineReader {
    type Item = Result<String>;

    fn next(&mut self) -> Option<Result<String>> {
        let bytes = self.next_bytes()?;
        Some(bytes.and_then(|bytes| {
            String::from_utf8(bytes).map_err(|error| self.malformed("UTF-8", error.to_string()))
        }))
    }
}
