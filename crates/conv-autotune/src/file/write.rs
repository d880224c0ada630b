//! From choices to text, and to disk so that no moment leaves half a file.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use samebits_numerics::NUMERICS_VERSION;
use toml::Value;

use super::read::{parse, sort};
use super::{Choice, ChoiceFile, FORMAT_VERSION, Outcome};
use crate::{Error, Key, Result};

/// Held while a file is read, changed and written. The system lets go of it when the process
/// ends in any way, so a lock file that lies around locks nobody out.
#[derive(Debug)]
pub(super) struct Lock {
    _file: File,
}

/// Waits for the lock of `path`, which is a file beside it: the file itself is replaced.
pub(super) fn lock(path: &Path, timeout: Duration) -> Result<Lock> {
    let lock_path = beside(path, ".lock");
    let failed = |source| Error::Write { path: lock_path.clone(), action: "take the lock", source };
    let file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .read(true)
        .write(true)
        .open(&lock_path)
        .map_err(failed)?;
    let start = Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(Lock { _file: file }),
            Err(TryLockError::WouldBlock) if start.elapsed() < timeout => {
                std::thread::sleep(Duration::from_millis(2));
            }
            Err(TryLockError::WouldBlock) => {
                return Err(Error::Locked { path: lock_path, waited: timeout });
            }
            Err(TryLockError::Error(source)) => return Err(failed(source)),
        }
    }
}

/// Writes `file` to its path and returns it as it now reads. The caller holds the lock.
pub(super) fn store<K: Key>(file: ChoiceFile<K>) -> Result<ChoiceFile<K>> {
    let text = to_text(&file)?;
    // What could not be read back must not replace what can.
    let read: ChoiceFile<K> = parse(file.path.clone(), text.as_bytes())?;
    let same = |a: &Choice, b: &Choice| {
        a.algorithm == b.algorithm && a.digest == b.digest && a.measured.len() == b.measured.len()
    };
    let equal = read.choices.len() == file.choices.len()
        && read.fingerprint == file.fingerprint
        && read.choices.iter().zip(&file.choices).all(|(a, b)| a.0 == b.0 && same(a.1, b.1));
    if !equal {
        let message = "the key type does not read back from TOML as it was written; correct its \
                       `Serialize` and `Deserialize`";
        return Err(Error::Config { message: message.to_owned() });
    }
    replace(&file.path, |to| to.write_all(text.as_bytes()))?;
    Ok(read)
}

/// Replaces the file at `path` by what `write` writes, or leaves it as it was.
fn replace(path: &Path, write: impl FnOnce(&mut File) -> io::Result<()>) -> Result<()> {
    // Only the holder of the lock comes here, so one name is enough, and what a killed process
    // left under it is overwritten.
    let temporary = beside(path, ".tmp");
    let failed = |action| {
        let path = temporary.clone();
        move |source| Error::Write { path, action, source }
    };
    let written =
        File::create(&temporary).map_err(failed("create the new file")).and_then(|mut file| {
            write(&mut file).map_err(failed("write the new file"))?;
            file.sync_all().map_err(failed("write the new file to disk"))
        });
    let done = written.and_then(|()| {
        std::fs::rename(&temporary, path).map_err(failed("put the new file in its place"))
    });
    if done.is_err() {
        // The error that matters is the one at hand.
        let _ = std::fs::remove_file(&temporary);
        return done;
    }
    // The rename is safe from a crash once the folder is on disk. Not every system can do that,
    // and the file is whole either way.
    if let Some(folder) = path.parent()
        && let Ok(folder) =
            File::open(if folder.as_os_str().is_empty() { Path::new(".") } else { folder })
    {
        let _ = folder.sync_all();
    }
    Ok(())
}

fn to_text<K: Key>(file: &ChoiceFile<K>) -> Result<String> {
    let mut out = String::from(
        "# Which algorithm runs which call. Recorded by a race; made to be read, reviewed and\n\
         # pinned. To choose another algorithm, put the name of another candidate.\n",
    );
    let mut line = |text: std::fmt::Arguments<'_>| {
        out.write_fmt(text).expect("writing to a string cannot fail");
        out.push('\n');
    };
    line(format_args!("format = {FORMAT_VERSION}"));
    line(format_args!("numerics = {NUMERICS_VERSION}"));
    line(format_args!("device = {}", quoted(&file.fingerprint.device)));
    line(format_args!("library = {}", quoted(&file.fingerprint.library)));
    for (key, choice) in &file.choices {
        line(format_args!("\n[[choice]]"));
        line(format_args!("algorithm = {}", quoted(&choice.algorithm)));
        if let Some(digest) = &choice.digest {
            line(format_args!("digest = {}", quoted(digest)));
        }
        line(format_args!("\n[choice.key]\n{}", key_text(key)?));
        line(format_args!("[choice.candidates]"));
        let mut measured = choice.measured.clone();
        sort(&mut measured);
        for candidate in &measured {
            let (name, workspace) = (quoted(&candidate.name), candidate.workspace);
            match &candidate.outcome {
                Outcome::Time(time) => line(format_args!(
                    "{name} = {{ time_ns = {}, workspace = {workspace} }}",
                    u64::try_from(time.as_nanos()).unwrap_or(i64::MAX as u64).min(i64::MAX as u64)
                )),
                Outcome::Disqualified(reason) => line(format_args!(
                    "{name} = {{ workspace = {workspace}, disqualified = {} }}",
                    quoted(reason)
                )),
            }
        }
    }
    line(format_args!("\n[end]"));
    line(format_args!("choices = {}", file.choices.len()));
    Ok(out)
}

fn key_text<K: Key>(key: &K) -> Result<String> {
    let text = toml::to_string(key).map_err(|error| Error::Config {
        message: format!("the key {key} cannot be written as TOML: {error}"),
    })?;
    if text.lines().any(|line| line.starts_with('[')) {
        return Err(Error::Config {
            message: format!("the key {key} has tables inside; make it a flat struct"),
        });
    }
    Ok(text)
}

/// A TOML string on one line.
fn quoted(text: &str) -> String {
    let text: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    Value::String(text).to_string()
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name: OsString = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_writer_that_fails_leaves_the_old_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("choices.toml");
        replace(&path, |to| to.write_all(b"old")).unwrap();
        let full = replace(&path, |to| {
            to.write_all(b"half of the n")?;
            Err(io::Error::from(io::ErrorKind::StorageFull))
        });
        let message = full.unwrap_err().to_string();
        assert!(message.contains("cannot write the new file"), "{message}");
        assert!(message.contains("the file is as it was"), "{message}");
        assert_eq!(std::fs::read(&path).unwrap(), b"old");
        let names: Vec<_> = std::fs::read_dir(folder.path()).unwrap().collect();
        assert_eq!(names.len(), 1, "the temporary file is gone");
    }

    #[test]
    fn strings_stay_on_one_line() {
        assert_eq!(quoted("a\nb\"c"), "'a b\"c'");
    }
}
