//! Token caches: segments that a run leaves by the way, so that what it reads again is not tokenized again.
//!
//! The reader of a lane says where its splits begin and end ([`Notes`]), a [`Recorder`] behind the tokenizer takes
//! the ids of whole splits, and the reader asks the [`TokenCache`] before it reads a split's text. Ids depend on the
//! source, its files, the tokenizer and the hold-out: each of these has a directory of its own in the cache's. A
//! local file that was written anew is another.

use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::fs::{File, Metadata};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use super::{Manifest, sweep};
use crate::config::TokenCacheConfig;
use crate::error::{Error, Result};
use crate::location::is_url;
use crate::segment::{Segment, SegmentWriter, StoredSplit, Width};

mod notes;
mod record;
mod room;

pub(crate) use notes::{Counts, Notes};
pub(crate) use record::Recorder;
use room::Room;

/// What a split's documents are, by its number; a release that changes it counts up.
const VERSION: u32 = 1;

/// The file in each directory that is locked while the directory is open.
const LOCK: &str = ".lock";

/// The bytes of a directory's name.
const NAME_BYTES: usize = 16;

/// The kept tokens of one source. All lanes of a loader share it, and other processes may write in its directory.
#[derive(Debug)]
pub(crate) struct TokenCache {
    /// What the limit is of.
    root: PathBuf,
    limit: u64,
    directory: PathBuf,
    /// Says that it is open, and when it was last.
    lock: File,
    identity: [u8; 32],
    tokenizer: Arc<str>,
    width: Width,
    state: Mutex<State>,
    room: Mutex<Room>,
}

#[derive(Debug, Default)]
struct State {
    /// The tokens of each split that is there.
    splits: HashMap<u32, StoredSplit>,
    /// The names of the segments that were opened.
    opened: HashSet<OsString>,
    /// The splits that some lane records, or has recorded.
    claimed: HashSet<u32>,
    /// Whether it was said that the directory cannot be looked at.
    is_lost: bool,
    /// Whether nothing more is kept: there is no room, or the directory cannot be written.
    is_closed: bool,
}

impl TokenCache {
    /// Opens what is kept of a source that has this manifest; `delivered` names the documents of it that are. It
    /// blocks.
    ///
    /// # Errors
    /// [`Error::Io`] for a directory that cannot be made or read.
    pub(crate) fn open(config: &TokenCacheConfig, of: &Manifest, delivered: &str) -> Result<Arc<Self>> {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&VERSION.to_le_bytes()).update(&of.identity()).update(delivered.as_bytes());
        hasher.update(&serde_json::to_vec(&of.files).unwrap_or_default());
        of.files.iter().try_for_each(|file| stamp(&file.path, &mut hasher))?;
        let identity = *hasher.finalize().as_bytes();
        let name: String = identity[..NAME_BYTES].iter().map(|byte| format!("{byte:02x}")).collect();
        let directory = config.path.join(name);
        let lock = locked(&directory)?;
        sweep(&directory)?;
        let cache = Self {
            root: config.path.clone(),
            limit: config.limit.0,
            room: Mutex::default(),
            directory,
            lock,
            identity,
            tokenizer: of.tokenizer.as_str().into(),
            width: Width::of(of.vocab_size),
            state: Mutex::default(),
        };
        cache.shrink().map_err(|e| Error::io(&cache.root, "make room in", e))?;
        cache.look()?;
        let (there, all) = (cache.state().splits.len(), of.splits());
        tracing::info!(path = %cache.directory.display(), "{there} of {all} splits are in the token cache");
        Ok(Arc::new(cache))
    }

    /// Looks for segments that other processes have left, and notes that somebody reads here. It blocks.
    pub(crate) fn refresh(&self) {
        if let Err(error) = self.look()
            && !std::mem::replace(&mut self.state().is_lost, true)
        {
            tracing::warn!(%error, "the token cache cannot be looked at");
        }
    }

    fn look(&self) -> Result<()> {
        // What was open the longest ago goes first; where that cannot be noted, what was begun the longest ago.
        let _ = self.lock.set_modified(SystemTime::now());
        for path in super::segments(&self.directory)? {
            self.add(&path);
        }
        Ok(())
    }

    /// The tokens of split `number` of the source, if they are there.
    pub(crate) fn tokens(&self, number: u32) -> Option<StoredSplit> {
        self.state().splits.get(&number).cloned()
    }

    /// Whether split `number` is to be recorded, by whoever asks first.
    pub(crate) fn claim(&self, number: u32) -> bool {
        let mut state = self.state();
        !state.is_closed && !state.splits.contains_key(&number) && state.claimed.insert(number)
    }

    /// Lets another lane record what was claimed.
    fn release(&self, number: u32) {
        self.state().claimed.remove(&number);
    }

    /// Forgets tokens that turned out to be damaged, with the file that they are in.
    pub(crate) fn forget(&self, tokens: &StoredSplit, error: &Error) {
        tracing::warn!(%error, "damaged tokens leave the token cache; their text is read instead");
        let state = &mut *self.state();
        let of_segment = |_: &u32, kept: &mut StoredSplit| Arc::ptr_eq(kept.segment(), tokens.segment());
        for (split, _) in state.splits.extract_if(of_segment) {
            state.claimed.remove(&split);
        }
        // Others map it still, and may have been faster.
        let _ = std::fs::remove_file(tokens.segment().path());
    }

    /// Adds the splits of a segment, unless it was added before. One that is damaged goes away.
    fn add(&self, path: &Path) {
        let name = path.file_name().unwrap_or_default();
        if !self.state().opened.insert(name.to_owned()) {
            return;
        }
        let segment = match Segment::open(path, &self.identity, self.tokenizer.clone()) {
            Ok(segment) => Arc::new(segment),
            Err(Error::Io { .. }) => return,
            Err(error) => {
                tracing::warn!(%error, "a damaged segment leaves the token cache");
                let _ = std::fs::remove_file(path);
                return;
            }
        };
        let mut state = self.state();
        for number in 0..segment.splits() {
            let tokens = StoredSplit::delivered(segment.clone(), number);
            state.splits.entry(tokens.split()).or_insert(tokens);
        }
    }

    /// Keeps nothing more, and says why.
    fn close(&self, why: &str) {
        if !std::mem::replace(&mut self.state().is_closed, true) {
            tracing::warn!(path = %self.root.display(), "the token cache keeps no more: {why}");
        }
    }

    fn is_closed(&self) -> bool {
        self.state().is_closed
    }

    /// Begins a segment.
    fn segment(&self) -> Result<SegmentWriter> {
        Ok(SegmentWriter::new(&self.directory, self.width, &self.identity)?.unsynced())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Tells a local file from others of its name and length: by where it is, and when it was written.
fn stamp(path: &Path, hasher: &mut blake3::Hasher) -> Result<()> {
    if is_url(&path.to_string_lossy()) {
        return Ok(());
    }
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

/// Which file it is, and when it was last changed, which nobody can set back.
#[cfg(unix)]
fn change(metadata: &Metadata) -> [i64; 3] {
    use std::os::unix::fs::MetadataExt;
    [metadata.ino() as i64, metadata.ctime(), metadata.ctime_nsec()]
}

#[cfg(not(unix))]
fn change(_: &Metadata) -> [i64; 0] {
    []
}

/// Makes a directory, and holds its lock.
fn locked(directory: &Path) -> Result<File> {
    let path = directory.join(LOCK);
    loop {
        std::fs::create_dir_all(directory).map_err(|e| Error::io(directory, "make the directory", e))?;
        let lock = File::create(&path).map_err(|e| Error::io(&path, "write", e))?;
        // Where there are no locks, others may make room of it.
        let is_locked = lock.lock_shared().is_ok();
        // Who made room of it at this moment has removed it.
        if !is_locked || path.exists() {
            return Ok(lock);
        }
    }
}
