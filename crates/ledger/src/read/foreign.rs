//! Translation of other recorders' files into the schema, so that the rest of the reader handles
//! one format.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};

use super::ReadError;
use crate::record::{Detail, Digests, Event, Header, Phase, Program, Record, Version};

/// A file in the schema.
pub(super) struct Opened {
    pub(super) file: File,
    /// True if another recorder wrote the file and it was translated.
    pub(super) is_foreign: bool,
    /// Descriptions of the parts that the translation left out.
    pub(super) left_out: Vec<String>,
}

impl Opened {
    /// Wraps a ledger.
    pub(super) fn ledger(file: File) -> Opened {
        Opened { file, is_foreign: false, left_out: Vec::new() }
    }

    /// Wraps a translated file of another recorder.
    pub(super) fn foreign(
        translation: Translation,
        left_out: Vec<String>,
    ) -> Result<Opened, ReadError> {
        Ok(Opened { file: translation.finish()?, is_foreign: true, left_out })
    }
}

/// An unnamed ledger, which the system deletes when it is closed.
pub(super) struct Translation {
    path: PathBuf,
    file: BufWriter<File>,
}

impl Translation {
    /// Writes the header.
    pub(super) fn new(
        path: &Path,
        writer: &str,
        rank: u32,
        world_size: u32,
    ) -> Result<Translation, ReadError> {
        let file = tempfile::tempfile().map_err(ReadError::io(path))?;
        let mut translation = Translation { path: path.to_owned(), file: BufWriter::new(file) };
        let header = Header {
            // A single file may come from any rank.
            world_size: world_size.max(rank.saturating_add(1)),
            writer: Program { name: writer.to_owned(), version: String::new() },
            detail: Detail::Op,
            digests: Digests::Full,
            environment: BTreeMap::new(),
            seeds: BTreeMap::new(),
            data: None,
        };
        translation.append(rank, 0, Event::Header(header))?;
        Ok(translation)
    }

    /// Appends a record.
    pub(super) fn append(
        &mut self,
        rank: u32,
        sequence: u64,
        event: Event,
    ) -> Result<(), ReadError> {
        serde_json::to_writer(&mut self.file, &Record { schema: Version, rank, sequence, event })
            .map_err(Into::into)
            .and_then(|()| self.file.write_all(b"\n"))
            .map_err(ReadError::io(&self.path))
    }

    fn finish(self) -> Result<File, ReadError> {
        self.file.into_inner().map_err(|error| ReadError::io(&self.path)(error.into_error()))
    }
}

/// Maps another recorder's phase name to a phase.
pub(super) fn phase(name: &str) -> Phase {
    match name {
        "forward" => Phase::Forward,
        "backward" => Phase::Backward,
        "optimizer" => Phase::Optimizer,
        "data" => Phase::Data,
        _ => Phase::Other,
    }
}
