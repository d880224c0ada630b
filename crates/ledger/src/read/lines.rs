//! Line-by-line reading of a file, with one line in memory at a time.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};

use super::ReadError;
use crate::record::Record;

/// Limit on the bytes of a line. No recorder writes longer lines, and memory for them might be
/// lacking.
const LONGEST: u64 = 1 << 28;

/// Appends a line, including its end, to `line`.
pub(super) fn read(file: &mut BufReader<File>, mut line: Vec<u8>) -> io::Result<Vec<u8>> {
    if file.take(LONGEST).read_until(b'\n', &mut line)? as u64 == LONGEST {
        let problem = format!("a line is longer than {LONGEST} bytes");
        return Err(io::Error::new(io::ErrorKind::InvalidData, problem));
    }
    Ok(line)
}

/// Content of a ledger line.
pub(super) enum Line {
    Record(Box<Record>),
    /// A line without an end: the writer was stopped.
    Cut,
    EndOfFile,
}

pub(super) struct Lines {
    path: PathBuf,
    reader: BufReader<File>,
    number: u64,
    offset: u64,
    line: Vec<u8>,
}

impl Lines {
    pub(super) fn new(path: &Path, file: File) -> Lines {
        let reader = BufReader::with_capacity(1 << 16, file);
        Lines { path: path.to_owned(), reader, number: 0, offset: 0, line: Vec::new() }
    }

    /// Returns the number of the last line read, counted from 1.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// Excludes the last line read from [`Self::number`].
    pub(super) fn uncount(&mut self) {
        self.number -= 1;
    }

    /// Returns the offset of the next line.
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    pub(super) fn into_reader(self) -> BufReader<File> {
        self.reader
    }

    /// Makes an error for the last line read.
    pub(super) fn wrong(&self, problem: impl ToString) -> ReadError {
        ReadError::Line { path: self.path.clone(), line: self.number, problem: problem.to_string() }
    }

    /// Reads the next line, including its end.
    pub(super) fn bytes(&mut self) -> Result<Option<&[u8]>, ReadError> {
        let mut line = std::mem::take(&mut self.line);
        line.clear();
        self.line = read(&mut self.reader, line).map_err(ReadError::io(&self.path))?;
        self.number += 1;
        self.offset += self.line.len() as u64;
        Ok((!self.line.is_empty()).then_some(&self.line))
    }

    /// Reads the next line as text, without its end.
    pub(super) fn text(&mut self) -> Result<Option<&str>, ReadError> {
        if self.bytes()?.is_none() {
            return Ok(None);
        }
        match std::str::from_utf8(&self.line) {
            Ok(text) => Ok(Some(text.trim_end_matches(['\n', '\r']))),
            Err(error) => Err(self.wrong(error)),
        }
    }

    /// Reads the next line as a record.
    pub(super) fn record(&mut self) -> Result<Line, ReadError> {
        let Some(line) = self.bytes()? else { return Ok(Line::EndOfFile) };
        if !line.ends_with(b"\n") {
            return Ok(Line::Cut);
        }
        serde_json::from_slice(line)
            .map(|record| Line::Record(Box::new(record)))
            .map_err(|error| self.wrong(error))
    }
}
