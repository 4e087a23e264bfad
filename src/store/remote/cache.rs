//! What was fetched, kept on disk: for later epochs and runs, and for other processes.
//!
//! An entry is a file: a checksum, then the bytes of one range of one content of one URL, under a name made of all
//! three. It is written elsewhere and renamed, so that a kill at any moment leaves it whole or not there; one whose
//! checksum is wrong is removed and fetched again. Processes share a directory without a word: names say all, and what
//! another removes meanwhile is fetched again.
//!
//! Each time a process has written a thirty-second of the limit it looks at the whole directory, and removes what was
//! used longest ago (by the time of the last change, set anew at each use) until four such shares are free. So four
//! processes that write at the same time stay within the limit, and each further one passes it by one share at most.
//!
//! The cache is a convenience: where it cannot be read or written, the log says so, and the store is asked.

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;

mod entry;
mod evict;

use crate::error::{Error, Result};
use crate::tasks;

/// Into how many shares the limit is cut: how much a process writes before it looks at the whole.
const SHARES: u64 = 32;

/// How many shares are freed.
const FREED: u64 = 4;

/// A directory of entries.
#[derive(Debug)]
pub(super) struct Cache {
    directory: PathBuf,
    limit: u64,
    /// How many bytes may be written before the next look at the whole.
    left: Mutex<u64>,
    /// Whether the log has said that something is wrong with it.
    has_complained: AtomicBool,
}

/// The name of an entry.
#[derive(Clone, Copy, Debug)]
pub(super) struct Key(blake3::Hash);

impl Cache {
    /// Opens the cache in `directory`, which is made if it is not there, and brings it within its limit.
    ///
    /// # Errors
    /// The system's, if nothing can be written there.
    pub(super) fn open(directory: &Path, limit: u64) -> Result<Self> {
        let directory = directory.to_owned();
        let has_complained = AtomicBool::default();
        let cache = Self { directory, limit, left: Mutex::default(), has_complained };
        let make = || {
            // Whether one may write is known now, and not in the middle of a run.
            entry::begin(&cache.directory)?;
            evict::down_to(&cache.directory, cache.bound())
        };
        make().map_err(|e| Error::io(&cache.directory, "use the cache", e))?;
        Ok(cache)
    }

    /// The name of the entry of `range`, in a file of this URL, version and length.
    pub(super) fn key(&self, url: &Path, etag: Option<&str>, len: u64, range: &Range<u64>) -> Key {
        let mut hasher = blake3::Hasher::new_derive_key("millstream cache entry");
        for part in [url.as_os_str().as_encoded_bytes(), etag.unwrap_or_default().as_bytes()] {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part);
        }
        for number in [u64::from(etag.is_some()), len, range.start, range.end] {
            hasher.update(&number.to_le_bytes());
        }
        Key(hasher.finalize())
    }

    /// The bytes of an entry, if it is there and whole.
    pub(super) async fn get(self: Arc<Self>, key: Key) -> Option<Bytes> {
        let job = tasks::spawn_blocking("store cache", move || match entry::read(&self.path(key)) {
            Ok(found) => found,
            Err(error) => {
                self.complain("read", &error);
                None
            }
        });
        job.await.ok().flatten()
    }

    /// Keeps the bytes of an entry, unless they are more than the cache can hold.
    pub(super) async fn put(self: Arc<Self>, key: Key, bytes: Bytes) {
        let job = tasks::spawn_blocking("store cache", move || {
            let kept =
                self.make_room(bytes.len() as u64 + entry::OVERHEAD).and_then(|has_room| match has_room {
                    true => entry::write(&self.directory, &self.path(key), &bytes),
                    false => Ok(()),
                });
            if let Err(error) = kept {
                self.complain("write", &error);
            }
        });
        // The bytes are delivered, whatever became of the entry.
        let _ = job.await;
    }

    /// Looks at the whole if it is time, and notes that `len` bytes are written next; false if they are too many.
    fn make_room(&self, len: u64) -> io::Result<bool> {
        let Some(bound) = self.bound().checked_sub(len) else { return Ok(false) };
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        if len > *left {
            evict::down_to(&self.directory, bound)?;
            *left = self.share().max(len);
        }
        *left -= len;
        Ok(true)
    }

    /// How much a look at the whole leaves, in bytes.
    fn bound(&self) -> u64 {
        self.limit - FREED * self.share()
    }

    fn share(&self) -> u64 {
        self.limit / SHARES
    }

    fn path(&self, key: Key) -> PathBuf {
        let name = key.0.to_hex();
        self.directory.join(&name[..2]).join(&name[2..])
    }

    /// Says once that the cache is of no use.
    fn complain(&self, action: &str, error: &io::Error) {
        let directory = self.directory.display();
        if !self.has_complained.swap(true, Ordering::Relaxed) {
            tracing::warn!(%directory, %error, "cannot {action} the cache; reading goes on without it");
        }
    }
}
