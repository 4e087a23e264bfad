//! The bound on what a cache's directory holds.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::PoisonError;
use std::time::SystemTime;

use super::{LOCK, TokenCache};
use crate::segment::ENTRY;
use crate::shards::segments;

/// What one directory in a cache's holds.
struct Held {
    path: PathBuf,
    bytes: u64,
    opened: SystemTime,
}

/// How much is set aside at once, so that directories are looked at once in a while: a part of the limit, and at most
/// so many bytes. Each of several processes may pass the limit by as much.
const PIECE_SHARE: u64 = 64;
const PIECE: u64 = 64 << 20;

/// What stands around the documents of a write, in bytes: headers, footers, zeros.
const AROUND: usize = 512;

/// What a process may write.
#[derive(Debug, Default)]
pub(super) struct Room {
    /// How many bytes, before the directories are looked at again.
    left: u64,
    /// What the directory had at the start, and all that was written since.
    taken: u64,
}

impl TokenCache {
    /// How long so many ids of so many documents are at most, in a segment.
    pub(super) fn stored_bytes(&self, ids: usize, documents: usize) -> u64 {
        (ids * self.width.bytes() + documents * 8 * ENTRY + AROUND) as u64
    }

    /// Takes room for `bytes` more; false if there is none.
    pub(super) fn takes(&self, bytes: u64) -> bool {
        // One at a time looks at directories.
        let mut room = self.room.lock().unwrap_or_else(PoisonError::into_inner);
        if room.left < bytes {
            room.left = self.left(bytes, room.taken);
        }
        let Some(left) = room.left.checked_sub(bytes) else { return false };
        *room = Room { left, taken: room.taken + bytes };
        true
    }

    /// How much room there is, up to a piece. Where `bytes` have none, other directories that nobody has open make room
    /// for them, those that were open the longest ago first. Of the `taken` bytes some may not be in a file yet.
    fn left(&self, bytes: u64, taken: u64) -> u64 {
        let Ok(mut held) = held(&self.root) else { return 0 };
        held.sort_by_key(|held| held.opened);
        if let Some(own) = held.iter_mut().find(|held| held.path == self.directory) {
            own.bytes = own.bytes.max(taken);
        }
        let sum = self.make_room(&held, bytes);
        self.limit.saturating_sub(sum).min(PIECE.min(self.limit / PIECE_SHARE).max(bytes))
    }

    /// Removes what is beyond the limit, at the start: what others left, and then segments of its own.
    pub(super) fn shrink(&self) -> io::Result<()> {
        let mut held = held(&self.root)?;
        held.sort_by_key(|held| held.opened);
        let mut sum = self.make_room(&held, 0);
        for path in segments(&self.directory).unwrap_or_default() {
            if sum <= self.limit {
                break;
            }
            // Another process may be faster.
            let bytes = path.metadata().map_or(0, |file| file.len());
            let _ = std::fs::remove_file(path);
            sum = sum.saturating_sub(bytes);
        }
        let mut room = self.room.lock().unwrap_or_else(PoisonError::into_inner);
        *room = Room { left: 0, taken: length(&self.directory) };
        Ok(())
    }

    /// Removes directories that nobody has open until `bytes` more have room, and says how much is still held.
    fn make_room(&self, held: &[Held], bytes: u64) -> u64 {
        let mut sum = held.iter().map(|held| held.bytes).sum::<u64>();
        for other in held.iter().filter(|held| held.path != self.directory) {
            if sum + bytes <= self.limit {
                break;
            }
            let lock = File::open(other.path.join(LOCK));
            if !lock.as_ref().is_ok_and(|lock| lock.try_lock().is_ok()) {
                continue;
            }
            tracing::info!(path = %other.path.display(), "leaves the token cache, to make room");
            if std::fs::remove_dir_all(&other.path).is_ok() {
                sum -= other.bytes;
            }
        }
        sum
    }
}

/// The directories of a cache, those of other sources among them.
fn held(root: &Path) -> io::Result<Vec<Held>> {
    let mut directories = Vec::new();
    for entry in std::fs::read_dir(root)? {
        let path = entry?.path();
        // Others may make room at the same time.
        let opened = path.join(LOCK).metadata().and_then(|lock| lock.modified());
        if let (true, Ok(opened)) = (is_name(&path), opened) {
            directories.push(Held { bytes: length(&path), opened, path });
        }
    }
    Ok(directories)
}

/// The length of all files of a directory that can be looked at, in bytes.
fn length(directory: &Path) -> u64 {
    let files = std::fs::read_dir(directory).into_iter().flatten();
    files.filter_map(|file| file.ok()?.metadata().ok()).map(|file| file.len()).sum()
}

/// Whether a directory has a name that a cache gives: nothing else is ever removed.
fn is_name(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.len() == 2 * super::NAME_BYTES && name.bytes().all(|byte| byte.is_ascii_hexdigit())
}
