//! Formatting of choices, and atomic writing to disk.

use std::ffi::OsString;
use std::fmt::{Display, Write as _};
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use samebits_numerics::NUMERICS_VERSION;
use toml::Value;

use super::read::sort;
use super::{ChoiceFile, FORMAT_VERSION, Outcome, check_kind, check_size};
use crate::{Error, Key, Result};

/// Lock held while a file is read, changed and written. The system releases it when the process
/// ends, so a leftover lock file blocks nobody.
#[derive(Debug)]
pub(super) struct Lock {
    _file: File,
}

/// Waits for the lock of `path`. The lock is a separate file beside the link's target, because the
/// file itself is replaced.
pub(super) fn lock(path: &Path, timeout: Duration) -> Result<Lock> {
    let action = "take the lock";
    let path = target(path)
        .and_then(|path| check_kind(&path).map(|()| path))
        .map_err(|source| Error::Write { path: path.to_owned(), action, source })?;
    let lock_path = beside(&path, ".lock");
    let failed = |source| Error::Write { path: lock_path.clone(), action, source };
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

/// Writes `file` to its path. The caller must hold the lock.
pub(super) fn store<K: Key>(file: &mut ChoiceFile<K>) -> Result<()> {
    let text = to_text(file)?;
    check_size(text.len()).map_err(|source| Error::Write {
        path: file.path.clone(),
        action: "write the new file",
        source,
    })?;
    replace(&file.path, |to| to.write_all(text.as_bytes()))?;
    file.bytes = text.into_bytes();
    Ok(())
}

/// Replaces the file at `path` atomically with the output of `write`. The mode is kept, and so is a
/// link to the file; owner and group are kept if the system allows it.
fn replace(path: &Path, write: impl FnOnce(&mut File) -> io::Result<()>) -> Result<()> {
    let failed = |path: &Path, action| {
        let path = path.to_owned();
        move |source| Error::Write { path, action, source }
    };
    let path = &target(path).map_err(failed(path, "follow the link"))?;
    // Only the holder of the lock reaches this point, so one name is enough. Remove the leftover of
    // a killed process; a link of that name would be followed.
    let temporary = beside(path, ".tmp");
    let _ = std::fs::remove_file(&temporary);
    let mut file =
        File::create_new(&temporary).map_err(failed(&temporary, "create the new file"))?;
    let written = keep_metadata(path, &file)
        .map_err(failed(&temporary, "give the new file the mode of the old one"))
        .and_then(|()| {
            write(&mut file).map_err(failed(&temporary, "write the new file"))?;
            file.sync_all().map_err(failed(&temporary, "write the new file to disk"))
        });
    let done = written.and_then(|()| {
        std::fs::rename(&temporary, path)
            .map_err(failed(&temporary, "put the new file in its place"))
    });
    if done.is_err() {
        // Report the first error only.
        let _ = std::fs::remove_file(&temporary);
        return done;
    }
    // Syncing the folder makes the rename safe from a crash. Not every system supports that, and
    // the file is complete in either case.
    if let Some(folder) = path.parent()
        && let Ok(folder) =
            File::open(if folder.as_os_str().is_empty() { Path::new(".") } else { folder })
    {
        let _ = folder.sync_all();
    }
    Ok(())
}

/// Follows the links of `path` to a file, which need not exist.
fn target(path: &Path) -> io::Result<PathBuf> {
    match path.canonicalize() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => match path.read_link() {
            // A cycle of links is another error.
            Ok(link) => target(&path.parent().unwrap_or(Path::new("")).join(link)),
            Err(_) => Ok(path.to_owned()),
        },
        found => found,
    }
}

/// Gives `new` the mode, the owner and the group of the file at `old`, if there is one. If the
/// process may not change the owner, it keeps the group if possible.
fn keep_metadata(old: &Path, new: &File) -> io::Result<()> {
    let Ok(metadata) = old.metadata() else { return Ok(()) };
    #[cfg(unix)]
    {
        use std::os::unix::fs::{MetadataExt, fchown};
        let group = Some(metadata.gid());
        let _ = fchown(new, Some(metadata.uid()), group).or_else(|_| fchown(new, None, group));
    }
    new.set_permissions(metadata.permissions())
}

/// Formats `file` as text and notes the lines in it.
pub(super) fn to_text<K: Key>(file: &mut ChoiceFile<K>) -> Result<String> {
    let mut out = Text::default();
    out.line(
        "# Which algorithm runs which call. Recorded by a race; made to be read, reviewed and",
    );
    out.line("# pinned. To choose another algorithm, put the name of another candidate.");
    out.line(format_args!("format = {FORMAT_VERSION}"));
    out.line(format_args!("numerics = {NUMERICS_VERSION}"));
    let device = out.line(format_args!("device = {}", quoted(&file.fingerprint.device)));
    let library = out.line(format_args!("library = {}", quoted(&file.fingerprint.library)));
    file.fingerprint_lines = (device, library);
    for (key, choice) in &mut file.choices {
        out.line("");
        out.line("[[choice]]");
        choice.line = out.line(format_args!("algorithm = {}", quoted(&choice.algorithm)));
        if let Some(digest) = &choice.digest {
            out.line(format_args!("digest = {}", quoted(digest)));
        }
        out.line("");
        out.line("[choice.key]");
        key_text(key)?.lines().for_each(|line| {
            out.line(line);
        });
        out.line("");
        out.line("[choice.candidates]");
        sort(&mut choice.measured);
        for candidate in &choice.measured {
            let (name, workspace) = (quoted(&candidate.name), candidate.workspace);
            match &candidate.outcome {
                Outcome::Time(time) => out.line(format_args!(
                    "{name} = {{ time_ns = {}, workspace = {workspace} }}",
                    u64::try_from(time.as_nanos()).unwrap_or(i64::MAX as u64).min(i64::MAX as u64)
                )),
                Outcome::Disqualified(reason) => out.line(format_args!(
                    "{name} = {{ workspace = {workspace}, disqualified = {} }}",
                    quoted(reason)
                )),
            };
        }
    }
    out.line("");
    out.line("[end]");
    out.line(format_args!("choices = {}", file.choices.len()));
    Ok(out.text)
}

/// Text that is written line by line.
#[derive(Default)]
struct Text {
    text: String,
    lines: usize,
}

impl Text {
    /// Adds a line and returns its number, counted from 1.
    fn line(&mut self, line: impl Display) -> usize {
        writeln!(self.text, "{line}").expect("writing to a string cannot fail");
        self.lines += 1;
        self.lines
    }
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

/// Formats a TOML string on one line.
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
