//! Caches fetched ranges on disk, for later epochs and runs, and for other processes.
//!
//! An entry is a file: a checksum (XXH3, eight bytes, little-endian), then the bytes of one range of one version of one URL, under a name made of all
//! three. It is written elsewhere and renamed, so a kill at any moment leaves it whole or absent. An entry with a wrong
//! checksum is removed and fetched again. Processes share a directory without communicating: names say everything, and
//! an entry that another process removes meanwhile is fetched again.
//!
//! Each time a process has written a thirty-second of the limit, it scans the whole directory ([`Room`]). It removes
//! the least recently used entries until four such shares are free. The time of use is the file's time of last change,
//! which each use sets. So four processes that write at the same time stay within the limit.
//!
//! The cache is a convenience: if it cannot be read or written, the log says so, and the store is read instead. A cache
//! that is read-only or another user's is only read. So is one on a full disk, until there is room again. An entry that
//! cannot be removed stays, and others are removed in its place.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use tempfile::NamedTempFile;
use twox_hash::XxHash3_64;

use super::url::without_queries;
use crate::error::{Error, Result};
use crate::room::{Held, Room, make_room};

/// How many shares the limit has. A process writes one share before it scans the directory.
const SHARES: u64 = 32;

/// How many shares are freed.
const FREED: u64 = 4;

/// How many bytes an entry has besides the fetched ones.
const OVERHEAD: u64 = 8;

/// The subdirectory where entries are while they are written.
const UNFINISHED: &str = "unfinished";

/// The prefix of their names there.
const BEGUN: &str = "millstream-";

/// The age at which an unfinished entry is known to belong to a process that is gone.
const ABANDONED: Duration = Duration::from_secs(3600);

#[derive(Debug)]
pub(super) struct Cache {
    directory: PathBuf,
    room: Room,
    is_writable: bool,
    /// Whether the log has said that the cache is faulty.
    has_complained: AtomicBool,
    /// Whether it has named a file that it cannot keep.
    has_told_of_no_version: AtomicBool,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct CacheKey(blake3::Hash);

impl Cache {
    /// Opens the cache in `directory`, makes the directory if it is missing, and brings the cache within its limit. A
    /// cache that is read-only or another user's is only read. One on a full disk caches nothing until there is room.
    pub(super) fn open(directory: &Path, limit: u64) -> Result<Self> {
        let directory = directory.to_owned();
        let (has_complained, has_told_of_no_version) = (AtomicBool::default(), AtomicBool::default());
        let share = limit / SHARES;
        let room = Room::new(limit, share, FREED * share);
        let mut cache = Self { directory, room, is_writable: true, has_complained, has_told_of_no_version };
        let shrink =
            || make_room(entries(&cache.directory)?, cache.room.bound(), |entry| Ok(cache.removes(entry)));
        // Finds out now, and not in the middle of a run, whether writing is allowed.
        let made = begin(&cache.directory).map(drop).and_then(|()| shrink());
        match made.map_err(|e| Error::io(&cache.directory, "use the cache", e)) {
            Err(error) if error.refuses_writing() => {
                tracing::warn!(error = %error.chain(), "the store cache is only read: nothing can be written there");
                cache.is_writable = false;
            }
            Err(error) if error.lacks_room() => {
                tracing::warn!(error = %error.chain(), "the store cache keeps nothing until there is room");
                // The entries beyond its limit may be what fills the disk.
                let _ = shrink();
            }
            made => drop(made?),
        }
        Ok(cache)
    }

    /// The name of the entry of `range`, in a file of this URL, version and length.
    pub(super) fn key(&self, url: &Path, etag: &str, len: u64, range: &Range<u64>) -> CacheKey {
        let mut hasher = blake3::Hasher::new_derive_key("millstream cache entry");
        for part in [url.as_os_str().as_encoded_bytes(), etag.as_bytes()] {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part);
        }
        for number in [len, range.start, range.end] {
            hasher.update(&number.to_le_bytes());
        }
        CacheKey(hasher.finalize())
    }

    /// Whether there is an entry. It may be gone when it is read, or damaged.
    pub(super) fn has(&self, key: CacheKey) -> bool {
        self.path(key).exists()
    }

    /// The bytes of an entry, if it is there and whole. It blocks.
    pub(super) fn read(&self, key: CacheKey) -> Option<Bytes> {
        match read_entry(&self.path(key)) {
            Ok(found) => found,
            Err(error) => {
                self.complain("cannot read the cache; reading goes on without it", &error);
                None
            }
        }
    }

    /// The same, for those who may not block.
    pub(super) async fn get(self: Arc<Self>, key: CacheKey) -> Option<Bytes> {
        tokio::task::spawn_blocking(move || self.read(key)).await.ok().flatten()
    }

    /// Caches the bytes of an entry, unless they are more than the cache can hold.
    pub(super) async fn put(self: Arc<Self>, key: CacheKey, bytes: Bytes) {
        if !self.is_writable {
            return;
        }
        let job = tokio::task::spawn_blocking(move || {
            let len = bytes.len() as u64 + OVERHEAD;
            let has_room = self.room.take(len, || entries(&self.directory), |entry| Ok(self.removes(entry)));
            let kept = has_room.and_then(|has_room| match has_room {
                true => write_entry(&self.directory, &self.path(key), &bytes),
                false => Ok(()),
            });
            if let Err(error) = kept {
                self.complain("cannot write the cache; reading goes on without it", &error);
            }
        });
        // The bytes are delivered, whatever happened to the entry.
        let _ = job.await;
    }

    fn path(&self, key: CacheKey) -> PathBuf {
        let name = key.0.to_hex();
        self.directory.join(&name[..2]).join(&name[2..])
    }

    /// Removes an entry, unless it is still being written. Returns whether it is gone.
    fn removes(&self, entry: &Held) -> bool {
        remove(entry).unwrap_or_else(|error| {
            self.complain("cannot remove an entry from the cache; others go in its place", &error);
            false
        })
    }

    /// Logs, once, that a file is not cached, since its server says nothing by which a change would show.
    pub(super) fn tell_of_no_version(&self, url: &Path) {
        if !self.has_told_of_no_version.swap(true, Ordering::Relaxed) {
            let url = without_queries(&url.display().to_string());
            tracing::warn!(%url, "the store cache keeps nothing of files whose server gives neither an ETag nor a date");
        }
    }

    /// Logs, once, the cache's problem.
    fn complain(&self, what: &str, error: &io::Error) {
        let directory = self.directory.display();
        if !self.has_complained.swap(true, Ordering::Relaxed) {
            tracing::warn!(%directory, %error, "{what}");
        }
    }
}

fn unfinished(directory: &Path) -> PathBuf {
    directory.join(UNFINISHED)
}

/// Returns the bytes of the entry at `path`, or `None` if there is none. A damaged entry is removed and
/// counts as none.
fn read_entry(path: &Path) -> io::Result<Option<Bytes>> {
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
fn begin(directory: &Path) -> io::Result<NamedTempFile> {
    let unfinished = unfinished(directory);
    fs::create_dir_all(&unfinished)?;
    tempfile::Builder::new().prefix(BEGUN).tempfile_in(unfinished)
}

/// Writes an entry, as a whole or not at all.
fn write_entry(directory: &Path, path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = begin(directory)?;
    file.write_all(&XxHash3_64::oneshot(bytes).to_le_bytes())?;
    file.write_all(bytes)?;
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    file.persist(path)?;
    Ok(())
}

/// Returns all entries under `directory`, and removes the leftovers of killed processes. What has another name may be a
/// user's, and is left alone.
fn entries(directory: &Path) -> io::Result<Vec<Held>> {
    let mut all = Vec::new();
    for place in listed(directory)? {
        if is_hex(&place, 2) && place.is_dir() {
            look(&place, |file| is_hex(file, 62), &mut all)?;
        }
    }
    let mut begun = Vec::new();
    let is_begun = |file: &Path| name(file).starts_with(BEGUN);
    look(&unfinished(directory), is_begun, &mut begun)?;
    let now = SystemTime::now();
    for entry in begun {
        let is_abandoned = now.duration_since(entry.used).is_ok_and(|age| age > ABANDONED);
        if !is_abandoned || gone(&entry).is_err() {
            all.push(entry);
        }
    }
    Ok(all)
}

fn name(path: &Path) -> &str {
    path.file_name().and_then(OsStr::to_str).unwrap_or_default()
}

/// Whether a path's name is so many hexadecimal digits.
fn is_hex(path: &Path, digits: usize) -> bool {
    let name = name(path);
    name.len() == digits && name.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'))
}

/// The paths in a directory, which may be gone.
fn listed(directory: &Path) -> io::Result<Vec<PathBuf>> {
    match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        entries => entries?.map(|entry| Ok(entry?.path())).collect(),
    }
}

/// Adds the files in a directory whose paths are those of entries.
fn look(directory: &Path, is_entry: impl Fn(&Path) -> bool, all: &mut Vec<Held>) -> io::Result<()> {
    for path in listed(directory)?.into_iter().filter(|path| is_entry(path)) {
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
fn remove(entry: &Held) -> io::Result<bool> {
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
