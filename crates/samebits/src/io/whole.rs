//! Atomic writing of files.

use std::fs::{File, Permissions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use super::{Result, Site};

/// Writes `bytes` to a temporary file in the folder of `path`, then renames it to `path`. At any
/// moment, even if the machine stops, either the old or the new file is there as a whole. If `path`
/// is a link, its target is replaced; the permissions of an old file are kept.
///
/// # Errors
///
/// [`Error::Write`](super::Error::Write) if writing fails, or if `path` is a folder, a device or a
/// pipe. The earlier content of `path` is then still there, and no temporary file is left.
pub fn write_whole(path: impl AsRef<Path>, bytes: &[u8]) -> Result<()> {
    let site = Site { op: "write_whole", path: path.as_ref() };
    replace(site, |file| file.write_all(bytes).map_err(site.write()))
}

/// Replaces a file as [`write_whole`] does, with the output of `fill`.
pub(super) fn replace(site: Site<'_>, fill: impl FnOnce(&mut File) -> Result<()>) -> Result<()> {
    let (path, permissions) = place(site.path).map_err(site.write())?;
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let mut temporary = new_file(folder).map_err(site.write())?;
    fill(temporary.as_file_mut())?;
    if let Some(permissions) = permissions {
        temporary.as_file().set_permissions(permissions).map_err(site.write())?;
    }
    temporary.as_file().sync_all().map_err(site.write())?;
    temporary.persist(&path).map_err(|error| site.write()(error.error))?;
    sync_folder(folder).map_err(site.write())
}

/// Returns the location of the file of this path, and its permissions if it exists. Anything but a
/// file is rejected: with the necessary rights, the rename would replace a device.
fn place(path: &Path) -> io::Result<(PathBuf, Option<Permissions>)> {
    match path.metadata() {
        Ok(found) if found.is_file() => Ok((path.canonicalize()?, Some(found.permissions()))),
        Ok(_) => Err(io::Error::new(io::ErrorKind::InvalidInput, "it is there and no file")),
        Err(error) if error.kind() == io::ErrorKind::NotFound && !path.is_symlink() => {
            Ok((path.to_owned(), None))
        }
        Err(error) => Err(error),
    }
}

fn new_file(folder: &Path) -> io::Result<tempfile::NamedTempFile> {
    #[cfg_attr(not(unix), expect(unused_mut, reason = "only Unix has these permissions"))]
    let mut builder = tempfile::Builder::new();
    // Temporary files are private by default; this one is to become an ordinary file.
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    builder.tempfile_in(folder)
}

/// Syncs a folder, which makes a rename durable. Only on Unix can a folder be opened for that.
fn sync_folder(folder: &Path) -> io::Result<()> {
    if cfg!(unix) { File::open(folder)?.sync_all() } else { Ok(()) }
}
