//! Ledger files, to which records are appended.

use std::cell::Cell;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::ser::Formatter;

use crate::record::{End, Event, Header, Version};

/// Error of writing a ledger.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The system could not create or write the file.
    #[error("ledger: cannot write {}: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// The file already exists: a ledger holds one run.
    #[error("ledger: {} exists already; a run needs a file of its own", path.display())]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// An earlier line could not be written, so later lines would be useless.
    #[error("ledger: {} has ended: an earlier line could not be written", path.display())]
    Ended {
        /// The file.
        path: PathBuf,
    },
    /// The name asks for a compressed file, which this build cannot write.
    #[error(
        "ledger: {} is to be compressed, but `samebits-ledger` was built without its feature `zstd`",
        path.display()
    )]
    NoZstd {
        /// The file.
        path: PathBuf,
    },
}

samebits_numerics::debug_is_message!(Error);

/// Threshold in bytes from which lines are passed to the system.
const BUFFER: usize = 1 << 16;

/// Writer of the ledger of a rank.
///
/// Lines are buffered, and passed to the system whole: on [`flush`](Writer::flush), and whenever
/// the buffer is full. A killed process therefore leaves a readable prefix, in which at most the
/// last line is cut off. If lines cannot be written, nothing is written after them.
///
/// A file whose name ends in `.zst` is compressed (feature `zstd`). Each batch of lines is a
/// separate frame, so the file of a killed process can be decompressed.
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
pub struct Writer<W: Write = File> {
    lines: Lines,
    sink: Sink<W>,
}

impl Writer {
    /// Creates the file and its parent folders, and writes the header.
    ///
    /// # Errors
    ///
    /// [`Error::Exists`]; [`Error::Write`]; [`Error::NoZstd`].
    pub fn create(path: &Path, rank: u32, header: Header) -> Result<Writer, Error> {
        let (lines, sink) = create(path, rank, header)?;
        Ok(Writer { lines, sink })
    }
}

impl<W: Write> Writer<W> {
    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        self.sink.path()
    }

    /// Appends a line.
    ///
    /// # Errors
    ///
    /// [`Error::Write`]; [`Error::Ended`] after it.
    pub fn append(&mut self, event: Event) -> Result<(), Error> {
        self.sink.expect_open()?;
        self.lines.append(&event).map_err(|error| self.sink.failed(error.into()))?;
        if self.lines.bytes().len() < BUFFER { Ok(()) } else { self.flush() }
    }

    /// Passes all lines to the system.
    ///
    /// # Errors
    ///
    /// As [`append`](Self::append).
    pub fn flush(&mut self) -> Result<(), Error> {
        let written = self.sink.write(&self.lines.bytes);
        self.lines.bytes.clear();
        written
    }

    /// Writes the last line, which marks the file as complete.
    ///
    /// # Errors
    ///
    /// As [`append`](Self::append).
    pub fn finish(mut self) -> Result<(), Error> {
        let lines = std::mem::take(&mut self.lines);
        self.sink.finish(lines)
    }
}

impl<W: Write> Drop for Writer<W> {
    fn drop(&mut self) {
        // Errors cannot be reported any more.
        let _ = self.flush();
    }
}

/// Creates the file of a rank and its parent folders, and writes the header. Returns the two halves
/// of a [`Writer`], for recorders that format lines on one thread and write them on another.
///
/// # Errors
///
/// As [`Writer::create`].
pub fn create(path: &Path, rank: u32, header: Header) -> Result<(Lines, Sink), Error> {
    let failed = |source| Error::Write { path: path.to_owned(), source };
    let compressed = path.extension().is_some_and(|extension| extension == "zst");
    if compressed && !cfg!(feature = "zstd") {
        return Err(Error::NoZstd { path: path.to_owned() });
    }
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(failed)?;
    }
    let opened = File::options().append(true).create_new(true).open(path);
    let file = opened.map_err(|source| match source.kind() {
        io::ErrorKind::AlreadyExists => Error::Exists { path: path.to_owned() },
        _ => failed(source),
    })?;
    begin(path, file, compressed, rank, header).inspect_err(|_| {
        // A file without a header is no ledger, and would block the next attempt.
        let _ = fs::remove_file(path);
    })
}

fn begin<W: Write>(
    path: &Path,
    file: W,
    compressed: bool,
    rank: u32,
    header: Header,
) -> Result<(Lines, Sink<W>), Error> {
    let mut sink = Sink { path: path.to_owned(), file, compressed, ended: false };
    let mut lines = Lines { rank, sequence: 0, bytes: Vec::with_capacity(2 * BUFFER) };
    lines.append(&Event::Header(header)).map_err(|error| sink.failed(error.into()))?;
    sink.write(&lines.take())?;
    Ok((lines, sink))
}

/// Formatted lines that are still to be written.
#[derive(Debug, Default)]
pub struct Lines {
    rank: u32,
    sequence: u64,
    bytes: Vec<u8>,
}

impl Lines {
    /// Appends a line for a value that serialises as an [`Event`] does. Byte strings
    /// ([`serialize_bytes`](serde::Serializer::serialize_bytes)) are placeholders: they are written
    /// as text, and their places in [`bytes`](Lines::bytes) are returned.
    ///
    /// # Errors
    ///
    /// If `event` cannot be written as JSON; no line is added then.
    pub fn append(&mut self, event: &impl Serialize) -> serde_json::Result<Vec<usize>> {
        #[derive(Serialize)]
        struct Line<'a, E> {
            schema: Version,
            rank: u32,
            sequence: u64,
            #[serde(flatten)]
            event: &'a E,
        }
        let (rank, sequence, before) = (self.rank, self.sequence, self.bytes.len());
        let line = Line { schema: Version, rank, sequence, event };
        let (written, mut places) = (Cell::new(before), Vec::new());
        let to = Counted { bytes: &mut self.bytes, written: &written };
        let format = Placeholders { written: &written, places: &mut places };
        line.serialize(&mut serde_json::Serializer::with_formatter(to, format))
            .inspect_err(|_| self.bytes.truncate(before))?;
        self.bytes.push(b'\n');
        self.sequence += 1;
        Ok(places)
    }

    /// Returns the sequence of the next line.
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    /// Returns the lines.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Takes the lines, to be written before later ones.
    pub fn take(&mut self) -> Vec<u8> {
        let room = Vec::with_capacity(self.bytes.capacity().min(2 * BUFFER));
        std::mem::replace(&mut self.bytes, room)
    }
}

/// Lines that are being written, and their length so far.
struct Counted<'a> {
    bytes: &'a mut Vec<u8>,
    written: &'a Cell<usize>,
}

impl Write for Counted<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.bytes.extend_from_slice(bytes);
        self.written.set(self.bytes.len());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Format of JSON that writes byte strings as text and notes their places.
struct Placeholders<'a> {
    written: &'a Cell<usize>,
    places: &'a mut Vec<usize>,
}

impl Formatter for Placeholders<'_> {
    fn write_byte_array<W: ?Sized + Write>(&mut self, to: &mut W, text: &[u8]) -> io::Result<()> {
        to.write_all(b"\"")?;
        self.places.push(self.written.get());
        to.write_all(text)?;
        to.write_all(b"\"")
    }
}

/// The file that receives [`Lines`].
#[derive(Debug)]
pub struct Sink<W: Write = File> {
    path: PathBuf,
    file: W,
    compressed: bool,
    /// True if lines were lost.
    ended: bool,
}

impl<W: Write> Sink<W> {
    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Passes lines to the system.
    ///
    /// # Errors
    ///
    /// [`Error::Write`]; [`Error::Ended`] after it.
    pub fn write(&mut self, lines: &[u8]) -> Result<(), Error> {
        self.expect_open()?;
        if lines.is_empty() { Ok(()) } else { self.frame(lines) }
    }

    /// Writes the last `lines`, and the line that marks the file as complete.
    ///
    /// # Errors
    ///
    /// As [`write`](Self::write).
    pub fn finish(&mut self, mut lines: Lines) -> Result<(), Error> {
        let end = Event::End(End { records: lines.sequence });
        lines.append(&end).map_err(|error| self.failed(error.into()))?;
        self.write(&lines.bytes)?;
        // A frame that follows distinguishes a damaged frame from the last one of an interrupted
        // run.
        if self.compressed { self.frame(&[]) } else { Ok(()) }
    }

    fn frame(&mut self, lines: &[u8]) -> Result<(), Error> {
        let written = match self.compressed {
            true => self.file.write_all(&compressed(lines)),
            false => self.file.write_all(lines),
        };
        written.map_err(|source| {
            self.ended = true;
            self.failed(source)
        })
    }

    fn expect_open(&self) -> Result<(), Error> {
        if self.ended { Err(Error::Ended { path: self.path.clone() }) } else { Ok(()) }
    }

    fn failed(&self, source: io::Error) -> Error {
        Error::Write { path: self.path.clone(), source }
    }
}

/// Compresses the lines into a separate frame.
#[cfg(feature = "zstd")]
fn compressed(lines: &[u8]) -> Vec<u8> {
    ruzstd::encoding::compress_to_vec(lines, ruzstd::encoding::CompressionLevel::Fastest)
}

/// Unreachable: compressed files are not created without the feature.
#[cfg(not(feature = "zstd"))]
fn compressed(lines: &[u8]) -> Vec<u8> {
    lines.to_vec()
}

/// Returns the file of a rank: `path` itself if it is the [name of a file](is_file_name), otherwise
/// `rank_000000.jsonl` in the folder `path`, with the rank in six digits. Files in a folder whose
/// name ends in `.zst` are compressed.
pub fn file_of_rank(path: &Path, rank: u32) -> PathBuf {
    if is_file_name(path) {
        return path.to_owned();
    }
    let compressed = path.extension().is_some_and(|extension| extension == "zst");
    path.join(format!("rank_{rank:06}.jsonl{}", if compressed { ".zst" } else { "" }))
}

/// Returns true if `path` names a ledger rather than a folder: it ends in `.jsonl` or `.jsonl.zst`.
pub fn is_file_name(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().as_encoded_bytes();
    name.ends_with(b".jsonl") || name.ends_with(b".jsonl.zst")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Data, Detail, Digests, Program, Record, Tensor};

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

    /// Makes a batch whose line is about `size` bytes long.
    fn batch(step: u64, size: usize) -> Event {
        let tensor = Tensor {
            shape: vec![2],
            dtype: "f32".to_owned(),
            device: "cpu".to_owned(),
            digest: Some(crate::Digest(step)),
            reason: None,
            name: Some("x".repeat(size)),
            file: None,
        };
        Event::Data(Data { step, microbatch: 0, tensors: vec![tensor], indices: None })
    }

    #[test]
    fn a_killed_run_leaves_whole_lines() {
        let folder = tempfile::tempdir().unwrap();
        // Lines that fill the buffer at odd positions, and one that is longer than the buffer.
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

    /// Writer that writes half of its input once, fails, and would then write again.
    struct Hiccup {
        written: Vec<u8>,
        fails_at: usize,
    }

    impl Write for Hiccup {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            if self.written.len() >= self.fails_at {
                self.fails_at = usize::MAX;
                return Err(io::ErrorKind::StorageFull.into());
            }
            let taken = bytes.len().min(self.fails_at - self.written.len());
            self.written.extend_from_slice(&bytes[..taken]);
            Ok(taken)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn nothing_follows_a_line_that_was_cut() {
        // In the middle of a line longer than the buffer, and of one of several in the buffer.
        for (long, fails_at) in [(2 * BUFFER, BUFFER + 100), (700, 2000)] {
            let mut file = Hiccup { written: Vec::new(), fails_at };
            let path = Path::new("run.jsonl");
            let (lines, sink) = begin(path, &mut file, false, 0, header()).unwrap();
            let mut writer = Writer { lines, sink };
            let mut results =
                (0..10).map(|step| writer.append(batch(step, long)).and_then(|()| writer.flush()));
            assert!(results.any(|result| matches!(result, Err(Error::Write { .. }))));
            assert!(results.all(|result| matches!(result, Err(Error::Ended { .. }))));
            drop(results);
            assert!(matches!(writer.flush(), Err(Error::Ended { .. })));
            assert!(matches!(writer.finish(), Err(Error::Ended { .. })));
            assert_eq!(file.written.len(), fails_at);
            let text = String::from_utf8(file.written).unwrap();
            let (whole, _cut) = text.rsplit_once('\n').unwrap();
            assert!(whole.lines().all(|line| serde_json::from_str::<Record>(line).is_ok()));
        }
    }

    /// Path for the child process, which may write no file at all.
    #[cfg(unix)]
    const FULL: &str = "SAMEBITS_TEST_FULL_DISK";

    #[cfg(unix)]
    #[test]
    fn a_full_disk_leaves_no_file_without_a_header() {
        let Some(path) = std::env::var_os(FULL) else {
            let folder = tempfile::tempdir().unwrap();
            // The signal that accompanies the error would end the process.
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
