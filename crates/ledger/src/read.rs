//! Reading of ledgers and of other recorders' files, with checks.
//!
//! For each record, an [`Entry`] of fixed size stays in memory. The record itself is read again on
//! demand, so a ledger may be larger than memory.

mod debug_mode;
mod entry;
mod foreign;
mod lines;
mod megatron;
mod run;
mod zstd;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufReader, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use serde::de::IgnoredAny;

pub(crate) use entry::{Entry, Group, Kind, Names, Prints};
pub(crate) use run::Run;

use foreign::Opened;
use lines::{Line, Lines};

use crate::record::{Event, Header, Record};

/// Reason why a ledger is unusable.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The system could not read a file or folder.
    #[error("diff: cannot read {}: {source}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// A line breaks the schema.
    #[error("diff: {}, line {line}: {problem}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1.
        line: u64,
        /// The fault.
        problem: String,
    },
    /// A file or folder as a whole, or a pair of them, cannot be used.
    #[error("diff: {}: {problem}", path.display())]
    Unusable {
        /// The file or folder.
        path: PathBuf,
        /// The fault.
        problem: String,
    },
}

samebits_numerics::debug_is_message!(ReadError);

impl ReadError {
    pub(crate) fn io(path: &Path) -> impl FnOnce(io::Error) -> ReadError {
        move |source| ReadError::Io { path: path.to_owned(), source }
    }

    pub(crate) fn unusable(path: &Path, problem: impl Into<String>) -> ReadError {
        ReadError::Unusable { path: path.to_owned(), problem: problem.into() }
    }
}

/// Ending of a ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The ledger has its `end` record.
    Clean,
    /// The format has no `end` record.
    Unknown,
    /// The `end` record is missing: the run was interrupted. `cut` is the number of an incomplete
    /// last line.
    Interrupted { cut: Option<u64> },
}

/// The checked ledger of one rank, with an entry for each record between header and end.
#[derive(Debug)]
pub(crate) struct Ledger {
    pub(crate) path: PathBuf,
    pub(crate) rank: u32,
    pub(crate) header: Header,
    pub(crate) entries: Vec<Entry>,
    pub(crate) end: End,
    /// Descriptions of the parts of the file that have no entry.
    pub(crate) left_out: Vec<String>,
    file: RefCell<BufReader<File>>,
}

impl Ledger {
    /// Reads and checks a whole file. For formats without a header, the run is assumed to have
    /// `world_size` ranks.
    pub(crate) fn open(
        path: &Path,
        world_size: u32,
        names: &mut Names,
    ) -> Result<Ledger, ReadError> {
        let Opened { file, is_foreign, left_out } = open(path, world_size)?;
        let mut lines = Lines::new(path, file);
        let (rank, header) = header_of(&mut lines)?;
        if is_foreign {
            lines.uncount();
        }
        let (entries, mut end) = index(&mut lines, rank, (!is_foreign).then_some(0), names)?;
        if entries.is_empty() {
            return Err(ReadError::unusable(path, "holds no records after the header"));
        }
        if is_foreign {
            end = End::Unknown;
        }
        let file = RefCell::new(lines.into_reader());
        let ledger = Ledger { path: path.to_owned(), rank, header, entries, end, left_out, file };
        ledger.check_unique(names)?;
        Ok(ledger)
    }

    /// Checks that no two records share a key.
    fn check_unique(&self, names: &Names) -> Result<(), ReadError> {
        let mut order: Vec<usize> = (0..self.entries.len()).collect();
        order.sort_unstable_by_key(|&i| (self.entries[i].key(), i));
        let twice = order
            .windows(2)
            .filter(|two| self.entries[two[0]].key() == self.entries[two[1]].key())
            .min_by_key(|two| two[1]);
        let Some(&[first, second]) = twice else { return Ok(()) };
        let [first, second] = [first, second].map(|i| &self.entries[i]);
        let Group { step, microbatch, .. } = second.group;
        let problem = format!(
            "records {} and {} have one key: {}, step {step}, microbatch {microbatch}, occurrence {}",
            first.sequence,
            second.sequence,
            names.of(second),
            second.occurrence
        );
        Err(ReadError::unusable(&self.path, problem))
    }

    /// Reads the record of an entry again.
    pub(crate) fn record(&self, index: usize) -> Result<Record, ReadError> {
        let entry = &self.entries[index];
        let mut file = self.file.borrow_mut();
        let line = (|| {
            // Records are mostly read in order, from the buffer.
            let here = file.stream_position()?;
            match i64::try_from(entry.offset.wrapping_sub(here)) {
                Ok(ahead) => file.seek_relative(ahead)?,
                Err(_) => drop(file.seek(SeekFrom::Start(entry.offset))?),
            }
            lines::read(&mut file, Vec::new())
        })()
        .map_err(ReadError::io(&self.path))?;
        match serde_json::from_slice::<Record>(&line) {
            Ok(record) if record.sequence == entry.sequence => Ok(record),
            _ => Err(ReadError::unusable(&self.path, "changed while it was read")),
        }
    }

    /// Returns the folder to which the names of kept tensors are relative.
    pub(crate) fn folder(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new(""))
    }
}

/// Reads only the header.
fn header(path: &Path, world_size: u32) -> Result<(u32, Header), ReadError> {
    let opened = open(path, world_size)?;
    header_of(&mut Lines::new(path, opened.file))
}

fn header_of(lines: &mut Lines) -> Result<(u32, Header), ReadError> {
    let Line::Record(record) = lines.record()? else {
        return Err(lines.wrong("expected the header"));
    };
    match *record {
        Record { rank, event: Event::Header(header), .. } if rank < header.world_size => {
            Ok((rank, header))
        }
        Record { rank, event: Event::Header(header), .. } => {
            Err(lines.wrong(format!("rank {rank} of {} ranks", header.world_size)))
        }
        _ => Err(lines.wrong("expected the header")),
    }
}

/// Indexes all records after the header, with sequences above `last`, and returns the ending of the
/// file.
fn index(
    lines: &mut Lines,
    rank: u32,
    mut last: Option<u64>,
    names: &mut Names,
) -> Result<(Vec<Entry>, End), ReadError> {
    let mut entries = Vec::new();
    loop {
        let offset = lines.offset();
        let record = match lines.record()? {
            Line::Record(record) => record,
            Line::Cut => return Ok((entries, End::Interrupted { cut: Some(lines.number()) })),
            Line::EndOfFile => return Ok((entries, End::Interrupted { cut: None })),
        };
        if record.rank != rank {
            return Err(lines.wrong(format!("rank {} in the file of rank {rank}", record.rank)));
        }
        if let Some(last) = last.filter(|&last| record.sequence <= last) {
            return Err(lines.wrong(format!("sequence {} after {last}", record.sequence)));
        }
        last = Some(record.sequence);
        match &record.event {
            Event::Header(_) => return Err(lines.wrong("a second header")),
            Event::End(end) => {
                let before = lines.number() - 1;
                if end.records != before {
                    let problem = format!("counts {} records of {before}", end.records);
                    return Err(lines.wrong(problem));
                }
                return match lines.record()? {
                    Line::EndOfFile => Ok((entries, End::Clean)),
                    _ => Err(lines.wrong("comes after the end")),
                };
            }
            Event::Abandoned(abandoned) => {
                entries.retain(|entry: &Entry| entry.sequence < abandoned.from)
            }
            event => entries.extend(Entry::new(offset, record.sequence, event, names)),
        }
    }
}

/// Opens a file of the schema. Files of other recorders are first translated into an unnamed file
/// of the schema; compressed files are decompressed into one.
fn open(path: &Path, world_size: u32) -> Result<Opened, ReadError> {
    let file = File::open(path).map_err(ReadError::io(path))?;
    let mut lines = Lines::new(path, file);
    let Some(first) = lines.bytes()? else {
        return Err(ReadError::unusable(path, "is empty"));
    };
    let is_compressed = zstd::is_compressed(first);
    let mut opened = if is_compressed {
        let mut file = lines.into_reader().into_inner();
        file.rewind().map_err(ReadError::io(path))?;
        return Ok(Opened::ledger(zstd::decompressed(path, file)?));
    } else if megatron::is_trace(first) {
        megatron::translate(path, world_size)?
    } else if debug_mode::is_dump(first) {
        debug_mode::translate(path, world_size)?
    } else if debug_mode::is_saved(&beginning(path)?) {
        debug_mode::translate_saved(path, world_size)?
    } else if let Some(fields) = fields_of_another(first) {
        let problem = format!("is JSON but not a ledger: a ledger has `schema`, this has {fields}");
        return Err(ReadError::unusable(path, problem));
    } else {
        Opened::ledger(lines.into_reader().into_inner())
    };
    opened.file.rewind().map_err(ReadError::io(path))?;
    Ok(opened)
}

/// Reads the first bytes of a file.
fn beginning(path: &Path) -> Result<Vec<u8>, ReadError> {
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(ReadError::io(path))?;
    file.take(1 << 10).read_to_end(&mut bytes).map_err(ReadError::io(path))?;
    Ok(bytes)
}

/// Returns the fields of a JSON object that is not a ledger record.
fn fields_of_another(line: &[u8]) -> Option<String> {
    let object: BTreeMap<String, IgnoredAny> = serde_json::from_slice(line).ok()?;
    if object.contains_key("schema") {
        return None;
    }
    let names: Vec<String> = object.keys().take(5).map(|name| format!("`{name}`")).collect();
    let more = if object.len() > names.len() { " and others" } else { "" };
    Some(if names.is_empty() { "no fields".to_owned() } else { names.join(", ") + more })
}
