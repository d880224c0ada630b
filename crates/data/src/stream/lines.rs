//! Text files, line by line.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use flate2::read::MultiGzDecoder;

use super::{Records, ShardedDataset};
use crate::sampler::digest;
use crate::{Error, Place, Result, SampleContext};

const OP: &str = "lines";

/// The lines of text files, one shard per file. gzip-compressed files are unpacked on the way.
///
/// A sample is a line without its end (`\n` or `\r\n`). Lines must be UTF-8.
#[derive(Clone, Debug)]
pub struct Lines {
    paths: Vec<PathBuf>,
}

impl Lines {
    /// The lines of these files.
    pub fn new(paths: Vec<PathBuf>) -> Self {
        Lines { paths }
    }
}

impl ShardedDataset for Lines {
    type Raw = String;
    type Item = String;

    fn shards(&self) -> usize {
        self.paths.len()
    }

    fn describe(&self) -> String {
        // Names only, not folders: a dataset may move between a save and a resume.
        let names = self.paths.iter().filter_map(|path| path.file_name());
        let bytes = names.flat_map(|name| name.as_encoded_bytes().iter().copied().chain([0]));
        format!("lines of {} files, digest {:016x}", self.paths.len(), digest(bytes.map(u64::from)))
    }

    fn open(&self, shard: usize, skip: u64) -> Result<Records<String>> {
        let len = self.paths.len();
        let path =
            self.paths.get(shard).ok_or(Error::IndexOutOfRange { op: OP, index: shard, len })?;
        let file = File::open(path).map_err(|source| Error::io(OP, path, source))?;
        let mut plain = BufReader::new(file);
        let start = plain.fill_buf().map_err(|source| Error::io(OP, path, source))?;
        let zipped = start.starts_with(&[0x1f, 0x8b]);
        let reader: Box<dyn Read + Send> =
            if zipped { Box::new(MultiGzDecoder::new(plain)) } else { Box::new(plain) };
        let mut reader = LineReader { path: path.clone(), reader: BufReader::new(reader), line: 0 };
        for _ in 0..skip {
            // An error is met again, and reported, when the line itself is asked for.
            if !matches!(reader.next_bytes(), Some(Ok(_))) {
                break;
            }
        }
        Ok(Box::new(reader))
    }

    fn sample(&self, raw: String, _: &mut SampleContext<'_>) -> Result<String> {
        Ok(raw)
    }
}

struct LineReader {
    path: PathBuf,
    reader: BufReader<Box<dyn Read + Send>>,
    line: u64,
}

impl LineReader {
    fn next_bytes(&mut self) -> Option<Result<Vec<u8>>> {
        let mut bytes = Vec::new();
        self.line += 1;
        match self.reader.read_until(b'\n', &mut bytes) {
            Ok(0) => None,
            Ok(_) => {
                if bytes.ends_with(b"\n") {
                    bytes.pop();
                    if bytes.ends_with(b"\r") {
                        bytes.pop();
                    }
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
