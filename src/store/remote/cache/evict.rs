//! Looking at the whole cache, and removing what was used longest ago.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::entry::unfinished;

/// After how long an entry that was never finished is known to be of a process that is gone.
const ABANDONED: Duration = Duration::from_secs(3600);

/// What is on disk.
struct Found {
    used: SystemTime,
    len: u64,
    path: PathBuf,
}

/// Removes entries under `directory` until no more than `bound` bytes lie there, and what killed processes left.
///
/// What other processes remove meanwhile is as well removed.
pub(super) fn down_to(directory: &Path, bound: u64) -> io::Result<()> {
    let mut all = Vec::new();
    for place in fs::read_dir(directory)? {
        let place = place?;
        if place.file_type()?.is_dir() {
            look(&place.path(), &mut all)?;
        }
    }
    let unfinished = unfinished(directory);
    let now = SystemTime::now();
    let is_abandoned = |found: &Found| {
        let age = now.duration_since(found.used).unwrap_or_default();
        found.path.starts_with(&unfinished) && age > ABANDONED
    };
    let mut total: u64 = all.iter().map(|found| found.len).sum();
    for abandoned in all.iter().filter(|found| is_abandoned(found)) {
        total -= remove(abandoned)?;
    }
    all.retain(|found| !found.path.starts_with(&unfinished));
    all.sort_unstable_by_key(|found| found.used);
    for oldest in all {
        if total <= bound {
            break;
        }
        total -= remove(&oldest)?;
    }
    Ok(())
}

/// Appends the files in a directory.
fn look(directory: &Path, all: &mut Vec<Found>) -> io::Result<()> {
    for file in fs::read_dir(directory)? {
        let path = file?.path();
        let metadata = match fs::symlink_metadata(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            metadata => metadata?,
        };
        if metadata.is_file() {
            all.push(Found { used: metadata.modified()?, len: metadata.len(), path });
        }
    }
    Ok(())
}

/// Removes a file, unless somebody else did; says how many bytes are gone.
fn remove(found: &Found) -> io::Result<u64> {
    match fs::remove_file(&found.path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(found.len),
    }
}
