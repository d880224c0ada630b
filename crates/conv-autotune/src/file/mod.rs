//! The choice file: what was chosen for which call, on which machine, and why.
//!
//! The text is TOML, one table per choice in the order of the keys, so that a review sees what
//! changed. Its last table says how many choices there are, so that a file that was cut off is
//! told from a whole one wherever the cut is.

mod read;
mod write;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use samebits_numerics::NUMERICS_VERSION;

use crate::{Error, Fingerprint, Key, Result};

/// The version of the file's format.
pub const FORMAT_VERSION: i64 = 1;

/// A choice file that was read and found whole.
#[derive(Clone, Debug)]
pub struct ChoiceFile<K: Key> {
    path: PathBuf,
    fingerprint: Fingerprint,
    /// Lines of the device and of the library.
    fingerprint_lines: (usize, usize),
    choices: BTreeMap<K, Choice>,
}

/// What was chosen for one key, and what was measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    /// The name of the algorithm.
    pub algorithm: String,
    /// The digest of its output on the probe inputs, unless its output may vary.
    pub digest: Option<String>,
    /// Every candidate that raced, the fastest first.
    pub measured: Vec<Measured>,
    /// The line of the algorithm's name; 0 for a choice that comes from no file.
    pub line: usize,
}

/// What a race found out about one candidate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Measured {
    /// The candidate.
    pub name: String,
    /// Bytes needed beside inputs and output.
    pub workspace: usize,
    /// Its time, or why it has none.
    pub outcome: Outcome,
}

/// How a candidate fared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The median time of one call.
    Time(Duration),
    /// It failed, gave a wrong result, or gave two results where it promised one.
    Disqualified(String),
}

impl<K: Key> ChoiceFile<K> {
    /// Reads a file and checks that it is whole. Whether its fingerprint and its algorithms are
    /// those of a program is for that program's [`Tuner`](crate::Tuner) to say.
    ///
    /// # Errors
    ///
    /// [`Error::Read`], [`Error::Damaged`], [`Error::Version`].
    pub fn read(path: impl Into<PathBuf>) -> Result<ChoiceFile<K>> {
        let path = path.into();
        let bytes = std::fs::read(&path).map_err(|source| {
            let hint = match source.kind() {
                std::io::ErrorKind::NotFound => {
                    "; record a file by running once with mode `Record`, then pin it"
                }
                _ => "",
            };
            Error::Read { path: path.clone(), source, hint }
        })?;
        read::parse(path, &bytes)
    }

    /// An empty file that is not on disk yet.
    pub(crate) fn new(path: PathBuf, fingerprint: Fingerprint) -> ChoiceFile<K> {
        ChoiceFile { path, fingerprint, fingerprint_lines: (0, 0), choices: BTreeMap::new() }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where its choices are valid.
    pub fn fingerprint(&self) -> &Fingerprint {
        &self.fingerprint
    }

    /// The numerics version that it was recorded under: this program's, or it is not read.
    pub fn numerics_version(&self) -> u32 {
        NUMERICS_VERSION
    }

    /// Its choices in the order of their keys.
    pub fn choices(&self) -> impl ExactSizeIterator<Item = (&K, &Choice)> {
        self.choices.iter()
    }

    /// What was chosen for `key`.
    pub fn get(&self, key: &K) -> Option<&Choice> {
        self.choices.get(key)
    }

    /// Checks that the file was recorded here.
    pub(crate) fn check_fingerprint(&self, here: &Fingerprint) -> Result<()> {
        let (device, library) = self.fingerprint_lines;
        let file = &self.fingerprint;
        for (what, line, file, here) in [
            ("device", device, &file.device, &here.device),
            ("library", library, &file.library, &here.library),
        ] {
            if file != here {
                return Err(Error::Fingerprint {
                    path: self.path.clone(),
                    line,
                    what,
                    file: file.clone(),
                    here: here.clone(),
                });
            }
        }
        Ok(())
    }
}

/// Reads the file for recording: checks it, or starts an empty one where there is none. Fails
/// now, and not after an hour's work, where nothing could be written.
pub(crate) fn open<K: Key>(
    path: &Path,
    fingerprint: &Fingerprint,
    timeout: Duration,
) -> Result<ChoiceFile<K>> {
    let _lock = write::lock(path, timeout)?;
    read_or_new(path, fingerprint)
}

/// Adds a choice, and returns the file as it then is with the choice that holds: if another
/// process recorded one for the same key meanwhile, that one.
pub(crate) fn record<K: Key>(
    path: &Path,
    fingerprint: &Fingerprint,
    timeout: Duration,
    key: &K,
    choice: Choice,
) -> Result<ChoiceFile<K>> {
    let _lock = write::lock(path, timeout)?;
    let mut file: ChoiceFile<K> = read_or_new(path, fingerprint)?;
    if !file.choices.contains_key(key) {
        file.choices.insert(key.clone(), choice);
        file = write::store(file)?;
    }
    Ok(file)
}

/// Removes the choices that `keep` does not want, and returns how many those were. A file of
/// which everything is kept is not written.
///
/// # Errors
///
/// As [`ChoiceFile::read`]; [`Error::Locked`], [`Error::Write`].
pub fn prune<K: Key>(
    path: &Path,
    timeout: Duration,
    mut keep: impl FnMut(&K, &Choice) -> bool,
) -> Result<usize> {
    let _lock = write::lock(path, timeout)?;
    let mut file: ChoiceFile<K> = ChoiceFile::read(path)?;
    let before = file.choices.len();
    file.choices.retain(|key, choice| keep(key, choice));
    let removed = before - file.choices.len();
    if removed > 0 {
        write::store(file)?;
    }
    Ok(removed)
}

fn read_or_new<K: Key>(path: &Path, fingerprint: &Fingerprint) -> Result<ChoiceFile<K>> {
    match ChoiceFile::read(path) {
        Ok(file) => {
            file.check_fingerprint(fingerprint)?;
            Ok(file)
        }
        Err(Error::Read { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {
            Ok(ChoiceFile::new(path.to_owned(), fingerprint.clone()))
        }
        Err(error) => Err(error),
    }
}
