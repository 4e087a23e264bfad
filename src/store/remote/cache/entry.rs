//! One entry on disk: eight bytes of checksum (XXH3, little-endian), then the fetched bytes.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use bytes::Bytes;
use tempfile::NamedTempFile;
use twox_hash::XxHash3_64;

/// How many bytes an entry has besides the fetched ones.
pub(super) const OVERHEAD: u64 = 8;

/// The subdirectory where entries are while they are written.
pub(super) const UNFINISHED: &str = "unfinished";

pub(super) fn unfinished(directory: &Path) -> PathBuf {
    directory.join(UNFINISHED)
}

/// Returns the bytes of the entry at `path`, or `None` if there is none. A damaged entry is removed and
/// counts as none.
pub(super) fn read(path: &Path) -> io::Result<Option<Bytes>> {
    let mut file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file?,
    };
    let mut bytes = Vec::with_capacity(usize::try_from(file.metadata()?.len()).unwrap_or_default());
    file.read_to_end(&mut bytes)?;
    let parts = bytes.split_first_chunk();
    if parts.is_none_or(|(sum, fetched)| u64::from_le_bytes(*sum) != XxHash3_64::oneshot(fetched)) {
        tracing::warn!(path = %path.display(), "a damaged entry is removed from the cache and fetched again");
        return fs::remove_file(path).map(|()| None);
    }
    // The entry that was used last is removed last.
    if let Err(error) = file.set_modified(SystemTime::now()) {
        tracing::debug!(path = %path.display(), %error, "cannot note the use of an entry");
    }
    Ok(Some(Bytes::from(bytes).slice(OVERHEAD as usize..)))
}

/// Makes a file that is removed when it is dropped.
pub(super) fn begin(directory: &Path) -> io::Result<NamedTempFile> {
    let unfinished = unfinished(directory);
    fs::create_dir_all(&unfinished)?;
    NamedTempFile::new_in(unfinished)
}

/// Writes an entry, as a whole or not at all.
pub(super) fn write(directory: &Path, path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = begin(directory)?;
    file.write_all(&XxHash3_64::oneshot(bytes).to_le_bytes())?;
    file.write_all(bytes)?;
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    file.persist(path)?;
    Ok(())
}
