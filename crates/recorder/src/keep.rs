//! Whole tensors kept beside the ledger.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use samebits_ledger::record::Digests;
use samebits_ledger::writer;
use samebits_tensor_core::Tensor;

use crate::contents::digest;
use crate::{Error, Result};

/// The steps whose tensors are kept: a step, its predecessor and its successor.
///
/// # Examples
///
/// ```
/// use samebits_recorder::Keep;
///
/// let keep: Keep = "around:120".parse()?;
/// assert_eq!(keep, Keep::around(120));
/// assert_eq!((118..123).filter(|&step| keep.contains(step)).collect::<Vec<u64>>(), [119, 120, 121]);
/// # Ok::<(), samebits_recorder::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keep {
    step: u64,
}

impl Keep {
    /// Selects the steps around `step`, counted from 0.
    pub fn around(step: u64) -> Keep {
        Keep { step }
    }

    /// Returns true if the tensors of `step` are kept.
    pub fn contains(self, step: u64) -> bool {
        self.step.abs_diff(step) <= 1
    }
}

impl FromStr for Keep {
    type Err = Error;

    fn from_str(text: &str) -> Result<Keep> {
        let step = text.strip_prefix("around:").and_then(|step| step.parse().ok());
        step.map(Keep::around)
            .ok_or_else(|| Error::Invalid(format!("keep: expected `around:STEP`, found {text:?}")))
    }
}

/// Writer of tensors into a folder; tensors with equal bytes share a file.
pub(crate) struct Keeper {
    folder: PathBuf,
    /// The name of the folder.
    name: String,
    written: BTreeSet<String>,
}

impl Keeper {
    /// Creates a keeper for a folder named after the ledger: `run.tensors` for `run.jsonl`.
    pub(crate) fn beside(ledger: &Path) -> Result<Keeper> {
        let stem = ledger.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let stem = stem.split_once(".jsonl").map_or(stem, |(stem, _)| stem);
        let name = format!("{stem}.tensors");
        let folder = ledger.with_file_name(&name);
        fs::create_dir(&folder).map_err(failed(&folder))?;
        Ok(Keeper { folder, name, written: BTreeSet::new() })
    }

    /// Returns the file of the tensor's bytes, relative to the ledger's folder.
    pub(crate) fn keep(&mut self, tensor: &Tensor) -> Result<String> {
        // A sampled digest does not distinguish all contents.
        let digest = digest(tensor, Digests::Full)?;
        let name = format!("{digest}.{}", tensor.dtype().name());
        if !self.written.contains(&name) {
            let path = self.folder.join(&name);
            // No other process writes into the folder, so one temporary name is enough.
            let part = self.folder.join("part");
            fs::write(&part, tensor.to_bytes()?).map_err(failed(&part))?;
            fs::rename(&part, &path).map_err(failed(&path))?;
            self.written.insert(name.clone());
        }
        Ok(format!("{}/{name}", self.name))
    }
}

fn failed(path: &Path) -> impl FnOnce(std::io::Error) -> Error {
    |source| Error::Write(writer::Error::Write { path: path.to_owned(), source })
}
