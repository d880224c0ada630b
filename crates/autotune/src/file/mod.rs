//! The choice file: what was chosen for which call, on which machine, and why.
//!
//! The text is TOML, one table per choice in the order of the keys, so that a review sees what
//! changed. Its last table says how many choices there are, so that a file that was cut off is
//! told from a whole one wherever the cut is.

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

/// The most bytes that are read: some ten thousand choices. Without a limit, something that is no
/// choice file could take all memory.
const MOST_BYTES: usize = 16 << 20;

/// A choice file that was read and found whole.
#[derive(Clone, Debug)]
pub struct ChoiceFile<K: Key> {
    path: PathBuf,
    /// What is on disk, as far as is known: unless it has changed, it need not be parsed again.
    bytes: Vec<u8>,
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
        let bytes = read_bytes(&path)?;
        read::parse(path, bytes)
    }

    /// An empty file that is not on disk yet.
    pub(crate) fn new(path: PathBuf, fingerprint: Fingerprint) -> ChoiceFile<K> {
        ChoiceFile {
            path,
            bytes: Vec::new(),
            fingerprint,
            fingerprint_lines: (0, 0),
            choices: BTreeMap::new(),
        }
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
    let mut file = ChoiceFile::new(path.to_owned(), fingerprint.clone());
    let (_lock, read) = locked(&mut file, timeout)?;
    read?;
    Ok(file)
}

/// Adds a choice on disk and to `file`, which takes over what another process has recorded. If that
/// holds a choice for the same key, it stays.
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

/// Adds a choice to a locked file, in the place of one that may be there.
fn add<K: Key>(file: &mut ChoiceFile<K>, key: &K, choice: Choice) -> Result<()> {
    // What could not be read back must not replace what can.
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
        // The lines noted are those of a text that is not there.
        file.bytes.clear();
    }
    stored
}

/// The file of a cache for one device and library, and what is wrong with what it held, which is
/// then empty. The name holds a digest of all that makes choices valid, so that no two programs
/// quarrel over one.
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

/// Adds a choice to the file of a cache, in the place of one for the same key. What cannot be read of
/// it goes.
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
        write::store(&mut file)?;
    }
    Ok(removed)
}

/// What [`merge`] has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Merged {
    /// Choices that were added.
    pub added: usize,
    /// Choices of other files for keys that already had another algorithm; that one stays.
    pub contradicted: usize,
}

/// Adds to `into` the choices of other files, such as those that the ranks of a run have recorded.
/// Of several choices for a key the one in `into` holds, then that of the first file. `into` need
/// not exist.
///
/// # Errors
///
/// As [`ChoiceFile::read`]; [`Error::Fingerprint`] if they were not recorded on the same device with
/// the same library; [`Error::Locked`], [`Error::Write`]. After an error `into` is as it was.
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

/// Takes the lock of `file` and brings it to what is on disk now, which may be what no choices can be read
/// from. That is for the caller to judge, who has the lock.
fn locked<K: Key>(
    file: &mut ChoiceFile<K>,
    timeout: Duration,
) -> Result<(write::Lock, Result<()>)> {
    let lock = write::lock(&file.path, timeout)?;
    Ok((lock, refresh(file)))
}

/// Brings `file` to what is on disk now: nothing if there is no file.
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

/// Refuses what is there and no regular file: opening a pipe waits for its other end, and the rename that
/// replaces a file would put one in the place of a device.
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
        let message = format!("more than {MOST_BYTES} bytes; a choice file has at most so many");
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
