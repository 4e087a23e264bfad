//! Token shards: a corpus whose splits are already tokenized.
//!
//! A shard directory describes a source (its config, its files, and where they are cut) in a [`Manifest`].
//! For each split, a segment file holds the ids of the documents and where each document is in its file. So
//! the documents come in the same order and the same lanes, with the same positions and cursors, as those of
//! the text, and the batches are the same byte for byte. `docs/guide/shards.md` has the format.

use std::collections::HashMap;
use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::error::{Error, Result};
use crate::segment::{EXTENSION, Segment, SegmentWriter, StoredSplit};

mod cache;
mod manifest;
mod set;

pub(crate) use cache::{LaneCounts, Notes, Recorder, TokenCache};
pub(crate) use manifest::{Cut, Manifest, ShardedFile};
pub(crate) use set::ShardSet;

/// The age at which an unfinished file is taken to be of a killed process, on file systems without locks.
const LEFT_OVER: Duration = Duration::from_hours(1);

/// The file of the tokenizer that made the ids, if it has one.
pub(crate) const TOKENIZER: &str = "tokenizer.json";

/// How much a shard directory holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShardCounts {
    /// Its documents.
    pub documents: u64,
    /// The ids of all of them.
    pub tokens: u64,
}

/// An open shard directory.
#[derive(Debug)]
pub(crate) struct Shards {
    directory: PathBuf,
    manifest: Manifest,
    /// The tokens of each split that is there, by its number in the source.
    splits: HashMap<u32, StoredSplit>,
}

impl Shards {
    /// Opens a directory: its manifest, and all complete segments.
    pub(crate) fn open(directory: &Path) -> Result<Self> {
        let manifest = Manifest::load(directory)?;
        let (identity, tokenizer) = (manifest.identity(), Arc::<str>::from(&*manifest.tokenizer));
        let mut splits = HashMap::new();
        for path in segments(directory)? {
            let segment = Arc::new(Segment::open(&path, &identity, tokenizer.clone())?);
            for number in 0..segment.splits() {
                let tokens = StoredSplit::new(segment.clone(), number);
                // A split that is there twice has the same tokens both times.
                splits.entry(tokens.split()).or_insert(tokens);
            }
        }
        Ok(Self { directory: directory.to_owned(), manifest, splits })
    }

    /// Whether a directory has segments of any kind.
    pub(crate) fn has_segments(directory: &Path) -> Result<bool> {
        Ok(directory.is_dir() && !segments(directory)?.is_empty())
    }

    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    pub(crate) fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// The tokens of split `number` of the source.
    pub(crate) fn tokens(&self, number: u32) -> Option<&StoredSplit> {
        self.splits.get(&number)
    }

    /// Refuses a directory that lacks splits.
    pub(crate) fn whole(self) -> Result<Self> {
        let (wanted, there) = (self.manifest.splits(), self.splits.len() as u64);
        if there == wanted {
            return Ok(self);
        }
        let directory = self.directory.display();
        let problem = format!(
            "{directory}: {there} of {wanted} splits are there; run the same `millstream prepare` again: it goes on \
             where it was stopped"
        );
        Err(Error::Corpus { problem })
    }

    /// Reads every block and compares its checksum.
    pub(crate) fn verify(&self) -> Result<()> {
        self.splits.values().try_for_each(|tokens| tokens.segment().verify())
    }

    /// Returns how many documents and ids there are.
    pub(crate) fn counts(&self) -> ShardCounts {
        let count = |counts: ShardCounts, tokens: &StoredSplit| ShardCounts {
            documents: counts.documents + tokens.documents() as u64,
            tokens: counts.tokens + tokens.ids() as u64,
        };
        self.splits.values().fold(ShardCounts::default(), count)
    }
}

/// Removes the unfinished files of killed processes from a directory. Their locks ended with them.
pub(crate) fn sweep(directory: &Path) -> Result<()> {
    let read = |e| Error::io(directory, "read the directory", e);
    for entry in std::fs::read_dir(directory).map_err(read)? {
        let path = entry.map_err(read)?.path();
        if path.file_name().is_some_and(SegmentWriter::is_under_way)
            && let Ok(file) = File::open(&path)
            && is_left_over(&file)
        {
            // The lock is held until the file is gone, so that its writer cannot begin meanwhile. Another process may
            // have been faster.
            let _ = std::fs::remove_file(&path);
        }
    }
    Ok(())
}

/// Whether no process writes a file any more. If so, its lock is taken.
fn is_left_over(file: &File) -> bool {
    match file.try_lock() {
        Ok(()) => true,
        Err(TryLockError::WouldBlock) => false,
        Err(TryLockError::Error(_)) => {
            let written = file.metadata().and_then(|file| file.modified());
            let age = written.ok().and_then(|written| SystemTime::now().duration_since(written).ok());
            age.is_some_and(|age| age > LEFT_OVER)
        }
    }
}

/// The segment files of a directory, by name.
fn segments(directory: &Path) -> Result<Vec<PathBuf>> {
    let read = |e| Error::io(directory, "read the directory", e);
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(directory).map_err(read)? {
        let entry = entry.map_err(read)?;
        let path = entry.path();
        // Reading something that is not a file may wait for ever.
        let is_file = path.metadata().is_ok_and(|metadata| metadata.is_file());
        if is_file && path.extension().is_some_and(|extension| extension == EXTENSION) {
            paths.push(path);
        }
    }
    paths.sort_unstable();
    Ok(paths)
}
