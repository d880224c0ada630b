//! Files that appear whole or not at all.

use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result};

/// Writes `bytes` to a temporary file beside `path`, which then takes its place.
///
/// # Errors
///
/// The file cannot be written. What was at `path` is then still there.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let replace = || -> Result<()> {
        let mut temporary = new_file(folder)?;
        temporary.write_all(bytes)?;
        temporary.as_file().sync_all()?;
        temporary.persist(path)?;
        Ok(())
    };
    replace().with_context(|| format!("cannot write {}", path.display()))
}

fn new_file(folder: &Path) -> std::io::Result<tempfile::NamedTempFile> {
    let mut builder = tempfile::Builder::new();
    // Temporary files are private by default; this one is to become an ordinary file.
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    builder.tempfile_in(folder)
}
