//! Files read from front to back, one shard per file.

use std::path::{Path, PathBuf};

use crate::file::{self, Opened};
use crate::sampler::digest;
use crate::{Error, Result};

/// The files of a stream.
#[derive(Clone, Debug)]
pub(crate) struct Files {
    op: &'static str,
    paths: Vec<PathBuf>,
}

impl Files {
    pub(crate) fn new(op: &'static str, paths: Vec<PathBuf>) -> Self {
        Files { op, paths }
    }

    pub(crate) fn count(&self) -> usize {
        self.paths.len()
    }

    /// Returns a description that identifies the files in a saved state: their names without
    /// folders, because a dataset may move between a save and a resume. A missing file differs from
    /// an empty one.
    pub(crate) fn describe(&self) -> String {
        let words = self.paths.iter().flat_map(|path| {
            let name = path.file_name().unwrap_or_default().as_encoded_bytes();
            let size = path.metadata().map_or(u64::MAX, |file| file.len());
            name.iter().map(|&byte| u64::from(byte)).chain([u64::MAX, size])
        });
        let digest = digest(words);
        format!("{} of {} files, digest of names and sizes {digest:016x}", self.op, self.count())
    }

    /// Opens the file of a shard; decompresses it if its name ends in `.gz`.
    pub(crate) fn open(&self, shard: usize) -> Result<(&Path, Opened)> {
        let (op, len) = (self.op, self.count());
        let path = self.paths.get(shard).ok_or(Error::IndexOutOfRange { op, index: shard, len })?;
        Ok((path, file::open(op, path)?))
    }
}
