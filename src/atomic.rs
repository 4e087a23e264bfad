//! Writing a file whole or not at all.

use std::io::{self, Write};
use std::path::Path;

use tempfile::NamedTempFile;

use crate::error::{Error, Result};

/// Returns a builder of temporary files that get their final name later. The system's umask decides who may
/// read them.
pub(crate) fn temporary(prefix: &str) -> tempfile::Builder<'_, '_> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(prefix);
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    builder
}

/// Writes `bytes` to `path` so that a reader, or a run after a kill, finds either the old content or the new.
pub(crate) fn write_atomically(path: &Path, bytes: &[u8]) -> Result<()> {
    let write = || -> io::Result<()> {
        written(path, bytes)?.persist(path)?;
        Ok(())
    };
    write().map_err(|e| Error::io(path, "write", e))
}

/// Writes `bytes` to `path` in the same way. If something is there already, it stays and the result is false.
pub(crate) fn create_atomically(path: &Path, bytes: &[u8]) -> Result<bool> {
    let create = || match written(path, bytes)?.persist_noclobber(path) {
        Ok(_) => Ok(true),
        Err(e) if e.error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        Err(e) => Err(e.error),
    };
    create().map_err(|e| Error::io(path, "write", e))
}

/// Writes `bytes` to a temporary file beside `path` and syncs it to the disk.
fn written(path: &Path, bytes: &[u8]) -> io::Result<NamedTempFile> {
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    std::fs::create_dir_all(directory)?;
    let mut file = temporary(".tmp").tempfile_in(directory)?;
    file.write_all(bytes)?;
    file.as_file().sync_all()?;
    Ok(file)
}
