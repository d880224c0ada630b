//! Files that records are appended to.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};

use crate::record::{End, Event, Header, Record, Version};

/// What can go wrong with a ledger that is written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The system cannot create or write the file.
    #[error("ledger: cannot write {}: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file exists already: a ledger holds one run.
    #[error("ledger: {} exists already; a run needs a file of its own", path.display())]
    Exists {
        /// The file.
        path: PathBuf,
    },
}

/// Appends records to the file of a rank.
///
/// Lines are buffered, and handed to the system whole: after a [`flush`](Writer::flush), and
/// whenever the buffer is full. What a killed process leaves is therefore a readable prefix, of
/// which at most the last line is cut off.
///
/// # Examples
///
/// ```
/// use samebits_ledger::record::{Detail, Digests, End, Event, Header, Program};
/// use samebits_ledger::{Record, Writer};
///
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("run");
/// let header = Header {
///     world_size: 1,
///     writer: Program { name: "example".to_owned(), version: "1".to_owned() },
///     detail: Detail::Op,
///     digests: Digests::Full,
///     environment: Default::default(),
///     seeds: [("default".to_owned(), 7)].into(),
///     data: None,
/// };
/// let file = samebits_ledger::writer::file_of_rank(&path, 0);
/// Writer::create(&file, 0, header)?.finish()?;
/// let text = std::fs::read_to_string(&file)?;
/// let last: Record = serde_json::from_str(text.lines().last().unwrap())?;
/// assert_eq!(last.event, Event::End(End { records: 1 }));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Writer {
    path: PathBuf,
    file: BufWriter<File>,
    rank: u32,
    sequence: u64,
    line: Vec<u8>,
}

impl Writer {
    /// Creates the file, with the folders above it, and writes the header.
    ///
    /// # Errors
    ///
    /// [`Error::Exists`]; [`Error::Write`].
    pub fn create(path: &Path, rank: u32, header: Header) -> Result<Writer, Error> {
        let failed = |source| Error::Write { path: path.to_owned(), source };
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(failed)?;
        }
        let opened = File::options().append(true).create_new(true).open(path);
        let file = opened.map_err(|source| match source.kind() {
            io::ErrorKind::AlreadyExists => Error::Exists { path: path.to_owned() },
            _ => failed(source),
        })?;
        let mut writer = Writer {
            path: path.to_owned(),
            file: BufWriter::with_capacity(1 << 16, file),
            rank,
            sequence: 0,
            line: Vec::new(),
        };
        if let Err(error) = writer.append(Event::Header(header)).and_then(|()| writer.flush()) {
            // Without its header it is no ledger, and the next attempt would find it in its way.
            let _ = fs::remove_file(path);
            return Err(error);
        }
        Ok(writer)
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Appends a line.
    ///
    /// # Errors
    ///
    /// [`Error::Write`].
    pub fn append(&mut self, event: Event) -> Result<(), Error> {
        let record = Record { schema: Version, rank: self.rank, sequence: self.sequence, event };
        self.line.clear();
        let written = serde_json::to_writer(&mut self.line, &record)
            .map_err(io::Error::from)
            .and_then(|()| {
                self.line.push(b'\n');
                // The buffer would cut a line in two where it is full.
                if self.file.capacity() - self.file.buffer().len() < self.line.len() {
                    self.file.flush()?;
                }
                self.file.write_all(&self.line)
            });
        written.map_err(|source| self.failed(source))?;
        self.sequence += 1;
        Ok(())
    }

    /// Hands all lines to the system.
    ///
    /// # Errors
    ///
    /// [`Error::Write`].
    pub fn flush(&mut self) -> Result<(), Error> {
        self.file.flush().map_err(|source| self.failed(source))
    }

    /// Writes the last line, which says that the file is complete.
    ///
    /// # Errors
    ///
    /// [`Error::Write`].
    pub fn finish(mut self) -> Result<(), Error> {
        self.append(Event::End(End { records: self.sequence }))?;
        self.flush()
    }

    fn failed(&self, source: io::Error) -> Error {
        Error::Write { path: self.path.clone(), source }
    }
}

/// The file of a rank: `path` itself if it ends in `.jsonl`, and else `rank_000000.jsonl` in the
/// folder `path`, with the rank in six digits.
pub fn file_of_rank(path: &Path, rank: u32) -> PathBuf {
    if path.extension().is_some_and(|extension| extension == "jsonl") {
        path.to_owned()
    } else {
        path.join(format!("rank_{rank:06}.jsonl"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Data, Detail, Digests, Program, Tensor};

    fn header() -> Header {
        Header {
            world_size: 1,
            writer: Program { name: "test".to_owned(), version: "1".to_owned() },
            detail: Detail::Op,
            digests: Digests::Full,
            environment: Default::default(),
            seeds: Default::default(),
            data: None,
        }
    }

    /// A batch whose line is about `size` bytes long.
    fn batch(step: u64, size: usize) -> Event {
        let tensor = Tensor {
            shape: vec![2],
            dtype: "f32".to_owned(),
            device: "cpu".to_owned(),
            digest: crate::Digest(step),
            name: Some("x".repeat(size)),
            file: None,
        };
        Event::Data(Data { step, microbatch: 0, tensors: vec![tensor], indices: None })
    }

    #[test]
    fn a_killed_run_leaves_whole_lines() {
        let folder = tempfile::tempdir().unwrap();
        // Lines that fill the buffer at odd places, and one that is longer than it.
        for (name, flushed) in [("a.jsonl", 3), ("b.jsonl", 0)] {
            let path = folder.path().join(name);
            let mut writer = Writer::create(&path, 0, header()).unwrap();
            for step in 0..200 {
                let size = if step == 100 { 1 << 17 } else { 700 + step as usize * 13 };
                writer.append(batch(step, size)).unwrap();
                if step < flushed {
                    writer.flush().unwrap();
                }
            }
            // Neither flushed nor closed.
            std::mem::forget(writer);
            let text = fs::read_to_string(&path).unwrap();
            assert!(text.ends_with('\n'), "a line is cut off");
            let records: Vec<Record> =
                text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
            assert!(records.len() > 101 && records.len() < 201, "{}", records.len());
            assert!(records.iter().enumerate().all(|(i, record)| record.sequence == i as u64));
        }
    }

    /// In the process that may write no file at all: where to create one.
    #[cfg(unix)]
    const FULL: &str = "SAMEBITS_TEST_FULL_DISK";

    #[cfg(unix)]
    #[test]
    fn a_full_disk_leaves_no_file_without_a_header() {
        let Some(path) = std::env::var_os(FULL) else {
            let folder = tempfile::tempdir().unwrap();
            // The signal that goes with the error would end the process.
            let mut child = std::process::Command::new("sh");
            child.args(["-c", "trap '' XFSZ; ulimit -f 0; exec \"$0\" \"$@\""]);
            child.arg(std::env::current_exe().unwrap()).arg("--exact");
            child.arg("writer::tests::a_full_disk_leaves_no_file_without_a_header");
            let ended = child.env(FULL, folder.path().join("a.jsonl")).output().unwrap();
            assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stdout));
            assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
            assert!(String::from_utf8_lossy(&ended.stdout).contains("1 passed"));
            return;
        };
        let error = Writer::create(Path::new(&path), 0, header()).unwrap_err();
        assert!(matches!(error, Error::Write { .. }), "{error}");
    }

    #[test]
    fn a_file_is_never_written_over() {
        let folder = tempfile::tempdir().unwrap();
        let path = file_of_rank(&folder.path().join("run"), 3);
        assert!(path.ends_with("run/rank_000003.jsonl"));
        Writer::create(&path, 3, header()).unwrap().finish().unwrap();
        let before = fs::read(&path).unwrap();
        assert!(matches!(Writer::create(&path, 3, header()), Err(Error::Exists { .. })));
        assert_eq!(fs::read(&path).unwrap(), before);
        let below = path.join("run.jsonl");
        assert!(matches!(Writer::create(&below, 0, header()), Err(Error::Write { .. })));
        assert_eq!(file_of_rank(Path::new("a/b.jsonl"), 0), Path::new("a/b.jsonl"));
    }
}
