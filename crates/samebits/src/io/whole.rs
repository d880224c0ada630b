//! Files that appear whole or not at all.

use std::fs::File;
use std::io::Write;
use std::path::Path;

use super::{Result, Site};

/// Writes `bytes` to a temporary file in the folder of `path`, which then takes its place. At any
/// moment, also if the machine stops, the old or the new file is there whole.
///
/// # Errors
///
/// [`Error::Write`](super::Error::Write) if that fails. What was at `path` is then still there, and
/// nothing else.
pub fn write_whole(path: impl AsRef<Path>, bytes: &[u8]) -> Result<()> {
    let site = Site { op: "write_whole", path: path.as_ref() };
    replace(site, |file| file.write_all(bytes).map_err(site.write()))
}

/// The same with what `fill` writes.
pub(super) fn replace(site: Site<'_>, fill: impl FnOnce(&mut File) -> Result<()>) -> Result<()> {
    let folder = match site.path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let mut temporary = new_file(folder).map_err(site.write())?;
    fill(temporary.as_file_mut())?;
    temporary.as_file().sync_all().map_err(site.write())?;
    temporary.persist(site.path).map_err(|error| site.write()(error.error))?;
    sync_folder(folder).map_err(site.write())
}

fn new_file(folder: &Path) -> std::io::Result<tempfile::NamedTempFile> {
    let mut builder = tempfile::Builder::new();
    // Temporary files are private by default; this one is to become an ordinary file.
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    builder.tempfile_in(folder)
}

/// Makes the new name last. Elsewhere than on Unix a folder cannot be opened for that.
fn sync_folder(folder: &Path) -> std::io::Result<()> {
    if cfg!(unix) { File::open(folder)?.sync_all() } else { Ok(()) }
}
