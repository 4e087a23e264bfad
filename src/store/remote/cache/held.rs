//! The entries in the cache's directory.

use std::fs;
use std::io;
use std::path::Path;
use std::time::{Duration, SystemTime};

use super::entry::{UNFINISHED, unfinished};
use crate::room::Held;

/// The age at which an unfinished entry is known to belong to a process that is gone.
const ABANDONED: Duration = Duration::from_secs(3600);

/// Returns all entries under `directory`, and removes the leftovers of killed processes.
pub(super) fn all(directory: &Path) -> io::Result<Vec<Held>> {
    let unfinished = unfinished(directory);
    let mut all = Vec::new();
    for place in fs::read_dir(directory)? {
        let place = place?;
        if place.file_type()?.is_dir() && place.path() != unfinished {
            look(&place.path(), &mut all)?;
        }
    }
    let mut begun = Vec::new();
    look(&unfinished, &mut begun)?;
    let now = SystemTime::now();
    for entry in begun {
        let is_abandoned = now.duration_since(entry.used).is_ok_and(|age| age > ABANDONED);
        if !is_abandoned || gone(&entry).is_err() {
            all.push(entry);
        }
    }
    Ok(all)
}

/// Appends the files in a directory.
fn look(directory: &Path, all: &mut Vec<Held>) -> io::Result<()> {
    for file in fs::read_dir(directory)? {
        let path = file?.path();
        let metadata = match fs::symlink_metadata(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            metadata => metadata?,
        };
        if metadata.is_file() {
            all.push(Held { used: metadata.modified()?, bytes: metadata.len(), path });
        }
    }
    Ok(())
}

/// Removes an entry, unless it is still being written.
pub(super) fn remove(entry: &Held) -> io::Result<bool> {
    let is_finished = entry.path.parent().is_none_or(|parent| !parent.ends_with(UNFINISHED));
    if is_finished {
        gone(entry)?;
    }
    Ok(is_finished)
}

/// Removes a file. It does not matter if another process removed it first.
fn gone(entry: &Held) -> io::Result<()> {
    match fs::remove_file(&entry.path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
