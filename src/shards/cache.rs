//! Token caches: segments that a run writes as it trains, so that text that is read again is not tokenized
//! again.
//!
//! The reader of a lane says between its documents where it begins and ends the text of a split, and which documents it
//! skips (`SplitEvent`). A [`Recorder`] behind the tokenizer takes the ids of whole splits. The reader asks the
//! [`TokenCache`] before it reads a split's text. Ids depend on the source, its files, the tokenizer and the hold-out,
//! so each combination of these has its own directory in the cache. A local file that was written again counts as
//! another file.

use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::fs::{File, Metadata};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use super::{Manifest, StoredSplit, sweep};
use crate::config::TokenCacheConfig;
use crate::error::{Error, Result};
use crate::location::Location;
use crate::room::Room;
use crate::segment::{IdsOrigin, Segment, SegmentWriter, Width};
use crate::threads::lock;

mod held;
mod record;

pub(crate) use record::Recorder;

/// The version of the rule for which documents a split has, and of the format of segments. A release that changes one
/// of them increments it.
const VERSION: u32 = 1;

/// The file in each directory that is locked while the directory is open.
const LOCK: &str = ".lock";

/// How many bytes of the identity a directory's name has.
const NAME_BYTES: usize = 16;

/// A process reserves one part in `PIECE_SHARE` of the limit at a time, and at most `PIECE` bytes.
const PIECE_SHARE: u64 = 64;
const PIECE: u64 = 64 << 20;

/// The cached tokens of one source. All lanes of a loader share it, and other processes may write to its
/// directory.
#[derive(Debug)]
pub(crate) struct TokenCache {
    /// The directory that the limit applies to.
    root: PathBuf,
    limit: u64,
    directory: PathBuf,
    /// Locked while the cache is open. Its time says when the cache was last in use. A cache that cannot be written may
    /// have none.
    lock: Option<File>,
    identity: [u8; 32],
    origin: IdsOrigin,
    width: Width,
    state: Mutex<CacheState>,
    room: Room,
    /// How many bytes the directory had at the start, and all that were reserved since.
    taken: AtomicU64,
}

#[derive(Debug, Default)]
struct CacheState {
    splits: HashMap<u32, StoredSplit>,
    /// The names of the segments that were opened.
    opened: HashSet<OsString>,
    /// The splits that some lane is recording or has recorded.
    claimed: HashSet<u32>,
    /// Whether a warning has said that the directory cannot be read.
    is_lost: bool,
    /// Whether nothing more is cached, because there is no room or the directory cannot be written.
    is_closed: bool,
}

impl TokenCache {
    /// Opens the cache of the source with this manifest. `delivered` names which of its documents are
    /// delivered. This function blocks.
    ///
    /// # Errors
    /// [`Error::Io`] if a directory cannot be made or read. A directory that cannot be written to, because it is
    /// read-only, another user's or on a full disk, is only read.
    pub(crate) fn open(config: &TokenCacheConfig, of: &Manifest, delivered: &str) -> Result<Arc<Self>> {
        let identity = identity(of, delivered)?;
        let name: String = identity[..NAME_BYTES].iter().map(|byte| format!("{byte:02x}")).collect();
        let directory = config.path.join(name);
        let (file, is_closed) = match locked(&directory) {
            Ok(file) => (Some(file), false),
            Err(error) if error.refuses_writing() || error.lacks_room() => {
                let (path, error) = (config.path.display(), error.chain());
                tracing::warn!(%path, %error, "the token cache is only read: nothing can be written there");
                (read_lock(&directory), true)
            }
            Err(error) => return Err(error),
        };
        if !is_closed {
            sweep(&directory)?;
        }
        let cache = Self {
            root: config.path.clone(),
            limit: config.limit.0,
            // Directories are scanned only once in a while.
            room: Room::new(config.limit.0, PIECE.min(config.limit.0 / PIECE_SHARE), 0),
            taken: AtomicU64::default(),
            directory,
            lock: file,
            identity,
            origin: of.ids_origin(),
            width: Width::for_vocab(of.vocab_size),
            state: Mutex::new(CacheState { is_closed, ..CacheState::default() }),
        };
        if !is_closed {
            cache.shrink().map_err(|e| Error::io(&cache.root, "make room in", e))?;
        }
        cache.look()?;
        let (there, all) = (lock(&cache.state).splits.len(), of.splits());
        tracing::info!(path = %cache.directory.display(), "{there} of {all} splits are in the token cache");
        Ok(Arc::new(cache))
    }

    /// Looks for segments that other processes have added, and notes that the cache is in use. This function
    /// blocks.
    pub(crate) fn refresh(&self) {
        if let Err(error) = self.look()
            && !std::mem::replace(&mut lock(&self.state).is_lost, true)
        {
            tracing::warn!(%error, "the token cache cannot be read");
        }
    }

    fn look(&self) -> Result<()> {
        // The cache that was last open longest ago is removed first or, if that time cannot be set, the one that was
        // started longest ago.
        let _ = self.lock.as_ref().map(|lock| lock.set_modified(SystemTime::now()));
        match super::segments(&self.directory) {
            Ok(segments) => segments.iter().for_each(|path| self.add(path)),
            // A directory that cannot be written to may be missing, or hidden from this user.
            Err(_) if self.is_closed() => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    pub(crate) fn tokens(&self, number: u32) -> Option<StoredSplit> {
        lock(&self.state).splits.get(&number).cloned()
    }

    /// Whether to record split `number`. Only the first caller gets true.
    pub(crate) fn claim(&self, number: u32) -> bool {
        let mut state = lock(&self.state);
        !state.is_closed && !state.splits.contains_key(&number) && state.claimed.insert(number)
    }

    /// Lets another lane record a claimed split.
    fn release(&self, number: u32) {
        lock(&self.state).claimed.remove(&number);
    }

    /// Forgets tokens that turned out to be damaged, and removes their file.
    pub(crate) fn forget(&self, tokens: &StoredSplit, error: &Error) {
        tracing::warn!(%error, "damaged tokens are removed from the token cache; their text is read instead");
        let state = &mut *lock(&self.state);
        let Some(segment) = tokens.segment() else { return };
        let is_same = |kept: &Arc<Segment>| Arc::ptr_eq(kept, segment);
        let of_segment = |_: &u32, kept: &mut StoredSplit| kept.segment().is_some_and(is_same);
        for (split, _) in state.splits.extract_if(of_segment) {
            state.claimed.remove(&split);
        }
        // Other processes may still map it, or may have removed it first.
        let _ = std::fs::remove_file(segment.path());
    }

    /// Adds the splits of a segment, unless it was added before. A damaged segment is removed.
    fn add(&self, path: &Path) {
        let name = path.file_name().unwrap_or_default();
        if !lock(&self.state).opened.insert(name.to_owned()) {
            return;
        }
        let segment = match Segment::open(path, &self.identity, self.origin.clone()) {
            Ok(segment) => Arc::new(segment),
            Err(Error::Io { .. }) => return,
            Err(error) => {
                tracing::warn!(%error, "a damaged segment is removed from the token cache");
                let _ = std::fs::remove_file(path);
                return;
            }
        };
        let mut state = lock(&self.state);
        for number in 0..segment.rows().len() {
            let tokens = StoredSplit::delivered(segment.clone(), number);
            state.splits.entry(tokens.split()).or_insert(tokens);
        }
    }

    /// Stops caching, and logs why.
    fn close(&self, why: &str) {
        if !std::mem::replace(&mut lock(&self.state).is_closed, true) {
            tracing::warn!(path = %self.root.display(), "the token cache stores nothing more: {why}");
        }
    }

    fn is_closed(&self) -> bool {
        lock(&self.state).is_closed
    }

    fn segment(&self) -> Result<SegmentWriter> {
        Ok(SegmentWriter::new(&self.directory, self.width, &self.identity)?.unsynced())
    }
}

/// A digest of everything that the ids of a source's splits depend on. This function blocks.
pub(crate) fn identity(of: &Manifest, delivered: &str) -> Result<[u8; 32]> {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&VERSION.to_le_bytes()).update(&of.identity()).update(delivered.as_bytes());
    hasher.update(&serde_json::to_vec(&of.files).unwrap_or_default());
    // An etag tells texts in memory and most files of stores from others already.
    let unknown = of.files.iter().filter(|file| file.etag.is_none());
    unknown.map(|file| Location::named(&file.path)).try_for_each(|location| stamp(&location, &mut hasher))?;
    Ok(*hasher.finalize().as_bytes())
}

/// Hashes a local file's place and time, which tell it from others of its name and length.
fn stamp(location: &Location, hasher: &mut blake3::Hasher) -> Result<()> {
    let Location::Path(path) = location else { return Ok(()) };
    let look = |e| Error::io(path, "look at the file", e);
    let whole = std::path::absolute(path).map_err(look)?;
    let metadata = whole.metadata().map_err(look)?;
    let written =
        metadata.modified().map_err(look)?.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    hasher.update(whole.as_os_str().as_encoded_bytes()).update(&written.as_nanos().to_le_bytes());
    for number in change(&metadata) {
        hasher.update(&number.to_le_bytes());
    }
    Ok(())
}

/// Which file it is, and the time of its last change, which nobody can set back.
#[cfg(unix)]
fn change(metadata: &Metadata) -> [i64; 3] {
    use std::os::unix::fs::MetadataExt;
    [metadata.ino() as i64, metadata.ctime(), metadata.ctime_nsec()]
}

#[cfg(not(unix))]
fn change(_: &Metadata) -> [i64; 0] {
    []
}

/// Holds the lock of a directory that cannot be written, if it has one.
fn read_lock(directory: &Path) -> Option<File> {
    let lock = File::open(directory.join(LOCK)).ok()?;
    lock.lock_shared().ok()?;
    Some(lock)
}

/// Makes a directory, and holds its lock.
fn locked(directory: &Path) -> Result<File> {
    let path = directory.join(LOCK);
    loop {
        std::fs::create_dir_all(directory).map_err(|e| Error::io(directory, "make the directory", e))?;
        let lock = File::create(&path).map_err(|e| Error::io(&path, "write", e))?;
        // Without locks, other processes may remove the directory to make room.
        let is_locked = lock.lock_shared().is_ok();
        // Another process may have removed it just now, to make room.
        if !is_locked || path.exists() {
            return Ok(lock);
        }
    }
}
