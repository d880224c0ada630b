//! The choice file: the chosen algorithm of each call, the machine, and the measurements.
//!
//! The text is TOML, one table per choice in key order, so that a review shows the changes. The
//! last table holds the number of choices, so that a truncated file is always recognised.

mod read;
mod write;

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs::File;
use std::io::{self, ErrorKind, Read as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use samebits_numerics::NUMERICS_VERSION;
use sha2::{Digest as _, Sha256};

use crate::compare::hex;
use crate::{Error, Fingerprint, Key, Result};

/// The version of the file's format.
pub const FORMAT_VERSION: i64 = 1;

/// Limit on the bytes of a file: about ten thousand choices. It keeps a file of another kind from
/// filling the memory.
const MOST_BYTES: usize = 16 << 20;

/// A choice file that was read and checked for completeness.
#[derive(Clone, Debug)]
pub struct ChoiceFile<K: Key> {
    path: PathBuf,
    /// The last known content on disk; parsed again only if it has changed.
    bytes: Vec<u8>,
    fingerprint: Fingerprint,
    /// The lines of the device and of the library.
    fingerprint_lines: (usize, usize),
    choices: BTreeMap<K, Choice>,
}

/// A chosen algorithm for one key, and its measurements.
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

/// Result of a race for one candidate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Measured {
    /// The candidate.
    pub name: String,
    /// The number of bytes needed besides inputs and output.
    pub workspace: usize,
    /// Its time, or the reason why it has none.
    pub outcome: Outcome,
}

/// Outcome of a race for one candidate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The median time of one call.
    Time(Duration),
    /// The reason for disqualification: it failed, gave a wrong result, or gave two different
    /// results despite its promise.
    Disqualified(String),
}

impl<K: Key> ChoiceFile<K> {
    /// Reads a file and checks that it is complete. The fingerprint and the algorithms are checked
    /// by the [`Tuner`](crate::Tuner) that uses the file.
    ///
    /// # Errors
    ///
    /// [`Error::Read`], [`Error::Damaged`], [`Error::Version`].
    pub fn read(path: impl Into<PathBuf>) -> Result<ChoiceFile<K>> {
        let path = path.into();
        let bytes = read_bytes(&path)?;
        read::parse(path, bytes)
    }

    /// Creates an empty file that is not on disk yet.
    pub(crate) fn new(path: PathBuf, fingerprint: Fingerprint) -> ChoiceFile<K> {
        ChoiceFile {
            path,
            bytes: Vec::new(),
            fingerprint,
            fingerprint_lines: (0, 0),
            choices: BTreeMap::new(),
        }
    }

    /// Returns the path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the device and library for which its choices are valid.
    pub fn fingerprint(&self) -> &Fingerprint {
        &self.fingerprint
    }

    /// Returns the numerics version of the file: always this program's, since files of other
    /// versions are rejected.
    pub fn numerics_version(&self) -> u32 {
        NUMERICS_VERSION
    }

    /// Returns the choices in key order.
    pub fn choices(&self) -> impl ExactSizeIterator<Item = (&K, &Choice)> {
        self.choices.iter()
    }

    /// Returns the choice for `key`.
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

/// Reads the file for recording and checks it, or starts an empty one if there is none. Fails now,
/// rather than after an hour's work, if nothing could be written.
pub(crate) fn open<K: Key>(
    path: &Path,
    fingerprint: &Fingerprint,
    timeout: Duration,
) -> Result<ChoiceFile<K>> {
    let mut file = ChoiceFile::new(path.to_owned(), fingerprint.clone());
    let (_lock, read) = locked(&mut file, timeout)?;
    read?;
    Ok(file)
}

/// Adds a choice to the file on disk and to `file`, which also takes over choices recorded by other
/// processes. An existing choice for the same key is kept.
pub(crate) fn record<K: Key>(
    file: &mut ChoiceFile<K>,
    timeout: Duration,
    key: &K,
    choice: Choice,
) -> Result<()> {
    let (_lock, read) = locked(file, timeout)?;
    read?;
    if file.choices.contains_key(key) {
        return Ok(());
    }
    add(file, key, choice)
}

/// Adds a choice to a locked file, replacing an existing one.
fn add<K: Key>(file: &mut ChoiceFile<K>, key: &K, choice: Choice) -> Result<()> {
    // Check that the new choice can be read back before it replaces an old one.
    let mut alone = ChoiceFile::new(file.path.clone(), file.fingerprint.clone());
    alone.choices.insert(key.clone(), choice.clone());
    let text = write::to_text(&mut alone)?;
    let mut read: ChoiceFile<K> = read::parse(file.path.clone(), text.into_bytes())?;
    let same = read.fingerprint == alone.fingerprint
        && read.choices.get(key).is_some_and(|read| {
            read.algorithm == choice.algorithm
                && read.digest == choice.digest
                && read.measured.len() == choice.measured.len()
        });
    if !same {
        let message = "the key type does not read back from TOML as it was written; correct its \
                       `Serialize` and `Deserialize`";
        return Err(Error::Config { message: message.to_owned() });
    }
    let before = file.choices.remove(key);
    file.choices.append(&mut read.choices);
    let stored = write::store(file);
    if stored.is_err() {
        file.choices.remove(key);
        file.choices.extend(before.map(|before| (key.clone(), before)));
        // The lines noted belong to a text that was not written.
        file.bytes.clear();
    }
    stored
}

/// Opens the cache file for one device and library. If its content is unusable, returns it empty
/// together with the error. The name holds a digest of everything that makes choices valid, so no
/// two programs compete for one file.
pub(crate) fn open_cached<K: Key>(
    folder: &Path,
    fingerprint: &Fingerprint,
    timeout: Duration,
) -> Result<(ChoiceFile<K>, Option<Error>)> {
    let Fingerprint { device, library } = fingerprint;
    let all = format!("{device}\n{library}\n{FORMAT_VERSION}\n{NUMERICS_VERSION}");
    let path = folder.join(format!("{}.toml", hex(&Sha256::digest(all)[..8])));
    std::fs::create_dir_all(folder).map_err(|source| Error::Write {
        path: folder.to_owned(),
        action: "create the folder",
        source,
    })?;
    let mut file = ChoiceFile::new(path, fingerprint.clone());
    let (_lock, read) = locked(&mut file, timeout)?;
    Ok((file, read.err()))
}

/// Adds a choice to a cache file, replacing one for the same key. Unreadable content is dropped.
pub(crate) fn cache<K: Key>(
    file: &mut ChoiceFile<K>,
    timeout: Duration,
    key: &K,
    choice: Choice,
) -> Result<()> {
    let (_lock, read) = locked(file, timeout)?;
    if read.is_err() {
        *file = ChoiceFile::new(file.path.clone(), file.fingerprint.clone());
    }
    add(file, key, choice)
}

/// Removes the choices for which `keep` is false, and returns their number. If none is removed, the
/// file is not written.
///
/// # Errors
/// As for [`ChoiceFile::read`]; [`Error::Locked`], [`Error::Write`].
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
        write::store(&mut file)?;
    }
    Ok(removed)
}

/// Result of [`merge`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Merged {
    /// The number of choices added.
    pub added: usize,
    /// The number of choices in other files that name another algorithm for a key already present;
    /// the present one is kept.
    pub contradicted: usize,
}

/// Adds the choices of other files to `into`, for example those recorded by the ranks of a run. If
/// several files have a choice for a key, `into` has priority, then the first file. `into` need not
/// exist.
///
/// # Errors
///
/// As for [`ChoiceFile::read`]; [`Error::Fingerprint`] if the files were not recorded on the same
/// device with the same library; [`Error::Locked`], [`Error::Write`]. After an error, `into` is
/// unchanged.
pub fn merge<K: Key>(into: &Path, from: &[PathBuf], timeout: Duration) -> Result<Merged> {
    let mut merged = Merged::default();
    let others: Vec<ChoiceFile<K>> = from.iter().map(ChoiceFile::read).collect::<Result<_>>()?;
    let Some(first) = others.first() else { return Ok(merged) };
    let mut file = ChoiceFile::new(into.to_owned(), first.fingerprint.clone());
    let (_lock, read) = locked(&mut file, timeout)?;
    read?;
    for other in others {
        other.check_fingerprint(&file.fingerprint)?;
        for (key, choice) in other.choices {
            match file.choices.entry(key) {
                Entry::Vacant(vacant) => {
                    vacant.insert(choice);
                    merged.added += 1;
                }
                Entry::Occupied(held) if held.get().algorithm != choice.algorithm => {
                    merged.contradicted += 1;
                }
                Entry::Occupied(_) => {}
            }
        }
    }
    if merged.added > 0 {
        write::store(&mut file)?;
    }
    Ok(merged)
}

/// Locks `file` and reads its current content. The content may be unusable; the caller, who holds
/// the lock, decides on that.
fn locked<K: Key>(
    file: &mut ChoiceFile<K>,
    timeout: Duration,
) -> Result<(write::Lock, Result<()>)> {
    let lock = write::lock(&file.path, timeout)?;
    Ok((lock, refresh(file)))
}

/// Updates `file` to the current content on disk; empty if there is no file.
fn refresh<K: Key>(file: &mut ChoiceFile<K>) -> Result<()> {
    let bytes = match read_bytes(&file.path) {
        Ok(bytes) => bytes,
        Err(Error::Read { source, .. }) if source.kind() == ErrorKind::NotFound => {
            *file = ChoiceFile::new(file.path.clone(), file.fingerprint.clone());
            return Ok(());
        }
        Err(error) => return Err(error),
    };
    if file.bytes != bytes || bytes.is_empty() {
        let read: ChoiceFile<K> = read::parse(file.path.clone(), bytes)?;
        read.check_fingerprint(&file.fingerprint)?;
        *file = read;
    }
    Ok(())
}

fn read_bytes(path: &Path) -> Result<Vec<u8>> {
    let failed = |source: io::Error| {
        let hint = match source.kind() {
            ErrorKind::NotFound => {
                "; record a file by running once with mode `Record`, then pin it"
            }
            _ => "",
        };
        Error::Read { path: path.to_owned(), source, hint }
    };
    let mut bytes = Vec::new();
    let file = check_kind(path).and_then(|()| File::open(path)).map_err(failed)?;
    file.take(MOST_BYTES as u64 + 1).read_to_end(&mut bytes).map_err(failed)?;
    check_size(bytes.len()).map_err(failed)?;
    Ok(bytes)
}

/// Rejects anything that is not a regular file: opening a pipe waits for its other end, and
/// renaming would replace a device with a file.
fn check_kind(path: &Path) -> io::Result<()> {
    match path.metadata() {
        Ok(found) if !found.is_file() => {
            let message = "not a regular file but a folder, a device or a pipe";
            Err(io::Error::new(ErrorKind::InvalidInput, message))
        }
        _ => Ok(()),
    }
}

fn check_size(bytes: usize) -> io::Result<()> {
    if bytes > MOST_BYTES {
        let message = format!("more than {MOST_BYTES} bytes, the limit for a choice file");
        return Err(io::Error::new(ErrorKind::FileTooLarge, message));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_the_greatest_size_is_read() {
        assert!(check_size(MOST_BYTES).is_ok());
        assert_eq!(check_size(MOST_BYTES + 1).unwrap_err().kind(), ErrorKind::FileTooLarge);
    }
}
