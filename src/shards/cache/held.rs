//! The contents of a cache's directory: a directory for each source, tokenizer and hold-out.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;

use super::{LOCK, TokenCache};
use crate::room::{Held, make_room};
use crate::segment::{BLOCK, Entry, NOTE, SUM};
use crate::shards::segments;

/// Bytes that a write adds around its documents: headers, footers, zeros.
const AROUND: usize = 512;

impl TokenCache {
    /// The most bytes that the ids of these documents take in a segment, with so many notes.
    pub(super) fn stored_bytes(&self, ids: usize, documents: usize, notes: usize) -> u64 {
        let checked = ids * self.width.bytes() + documents * Entry::BYTES + notes * NOTE;
        (checked + checked / BLOCK * SUM + AROUND) as u64
    }

    /// Reserves `bytes` more. Returns false if there is no room.
    pub(super) fn takes(&self, bytes: u64) -> bool {
        let has_room = self.room.take(bytes, || self.held(), |held| Ok(self.removes(held))).unwrap_or(false);
        if has_room {
            self.taken.fetch_add(bytes, Relaxed);
        }
        has_room
    }

    /// Brings the cache within its limit, at the start: removes the directories of other sources, then its own
    /// segments.
    pub(super) fn shrink(&self) -> io::Result<()> {
        let mut sum = make_room(self.held()?, self.limit, |held| Ok(self.removes(held)))?;
        for path in segments(&self.directory).unwrap_or_default() {
            if sum <= self.limit {
                break;
            }
            // Another process may be faster.
            let bytes = path.metadata().map_or(0, |file| file.len());
            let _ = std::fs::remove_file(path);
            sum = sum.saturating_sub(bytes);
        }
        self.taken.store(length(&self.directory), Relaxed);
        self.room.forget();
        Ok(())
    }

    /// The directories of a cache, including those of other sources.
    fn held(&self) -> io::Result<Vec<Held>> {
        let mut directories = Vec::new();
        for entry in std::fs::read_dir(&self.root)? {
            let path = entry?.path();
            // Others may make room at the same time.
            let used = path.join(LOCK).metadata().and_then(|lock| lock.modified());
            if let (true, Ok(used)) = (is_name(&path), used) {
                // Some reserved bytes may not be in a file yet.
                let taken = if path == self.directory { self.taken.load(Relaxed) } else { 0 };
                directories.push(Held { bytes: length(&path).max(taken), used, path });
            }
        }
        Ok(directories)
    }

    /// Removes another cache's directory, unless some process has it open. Returns whether it is gone.
    fn removes(&self, other: &Held) -> bool {
        if other.path == self.directory {
            return false;
        }
        let lock = File::open(other.path.join(LOCK));
        if !lock.as_ref().is_ok_and(|lock| lock.try_lock().is_ok()) {
            return false;
        }
        tracing::info!(path = %other.path.display(), "removed from the token cache, to make room");
        std::fs::remove_dir_all(&other.path).is_ok()
    }
}

/// The length of all readable files of a directory, in bytes.
fn length(directory: &Path) -> u64 {
    let files = std::fs::read_dir(directory).into_iter().flatten();
    files.filter_map(|file| file.ok()?.metadata().ok()).map(|file| file.len()).sum()
}

/// Whether a directory has a name that a cache gives. Nothing else is ever removed.
fn is_name(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.len() == 2 * super::NAME_BYTES && name.bytes().all(|byte| byte.is_ascii_hexdigit())
}
