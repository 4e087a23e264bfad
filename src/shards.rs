//! Token shards: a corpus whose splits are already tokenized.
//!
//! A shard directory describes a source (its config, its files, and where they are cut) in a [`Manifest`]. For each
//! split, a segment file holds the ids of the documents and where each document begins in its file. So documents have
//! the same order, lanes, positions and cursors as those of the text, and the batches are the same byte for byte.
//! `docs/guide/shards.md` has the format.

use std::collections::HashMap;
use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use serde::Serialize;

use crate::atomic::write_atomically;
use crate::bounded;
use crate::error::{Error, Result};
use crate::files::{File as CorpusFile, Files, Location};
use crate::segment::{EXTENSION, IdsOrigin, Segment, SegmentWriter, Width};
use crate::store::{Cancellable, FileOpener, Stored, Stores};

mod cache;
mod list;
mod manifest;
mod parts;
mod place;
mod plan;
mod remote;
mod scattered;
mod seal;
mod set;
mod split;

pub(crate) use cache::{Recorder, TokenCache, identity};
use list::ListedSegment;
pub(crate) use list::{LIST, SegmentList};
pub(crate) use manifest::{Cut, MANIFEST, Manifest, ShardedFile};
pub use parts::PartStatus;
pub(crate) use parts::{PartNumbers, marker, parts};
pub(crate) use place::ShardPlace;
pub(crate) use plan::SegmentPlan;
pub(crate) use scattered::{Piece, ScatteredSums, SegmentRange};
pub(crate) use seal::{seal, unfinished};
pub(crate) use set::ShardSet;
use split::RemoteSegment;
pub(crate) use split::{StoredNotes, StoredSplit};

/// An unfinished file older than this counts as a killed process's, on file systems without locks.
const LEFT_OVER: Duration = Duration::from_hours(1);

/// The file of the tokenizer that made the ids, if it has one.
pub(crate) const TOKENIZER: &str = "tokenizer.json";

/// How much a shard directory holds, or was brought there or taken from there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ShardCounts {
    /// How many documents.
    pub documents: u64,
    /// How many ids they have, without those that end documents in other formats.
    pub tokens: u64,
}

#[derive(Debug)]
pub(crate) struct Shards {
    place: ShardPlace,
    manifest: Manifest,
    /// The segments on this machine, in the order of their names.
    segments: Vec<Arc<Segment>>,
    /// The files of the segments in a store.
    remote: Vec<CorpusFile>,
    /// The tokens of each split that is there, by its number in the source.
    splits: HashMap<u32, StoredSplit>,
    /// The file of the tokenizer, if it has one. For a store, a local copy.
    tokenizer: Option<PathBuf>,
}

/// The bound on the length of a tokenizer's file, in bytes.
pub(crate) const TOKENIZER_BYTES: u64 = 1 << 30;

impl Shards {
    /// Opens a directory: its manifest, and all complete segments. It blocks.
    pub(crate) fn open(place: &ShardPlace) -> Result<Self> {
        Self::open_from(place, 0)
    }

    /// The same; segments in stores are numbered from `first` on.
    pub(crate) fn open_from(place: &ShardPlace, first: u32) -> Result<Self> {
        let manifest = Manifest::load(place)?;
        let shards = Self {
            place: place.clone(),
            manifest,
            segments: Vec::new(),
            remote: Vec::new(),
            splits: HashMap::new(),
            tokenizer: None,
        };
        match place.directory() {
            Some(directory) => shards.mapped(directory),
            None => shards.listed(first),
        }
    }

    fn mapped(mut self, directory: &Path) -> Result<Self> {
        let (identity, origin) = (self.manifest.identity(), self.manifest.ids_origin());
        for path in segments(directory)? {
            let segment = Arc::new(Segment::open(&path, &identity, origin.clone())?);
            for number in 0..segment.rows().len() {
                let tokens = StoredSplit::mapped(segment.clone(), number);
                // A split that is there twice has the same tokens both times.
                self.splits.entry(tokens.split()).or_insert(tokens);
            }
            self.segments.push(segment);
        }
        self.tokenizer = tokenizer_file(&self.place)?;
        Ok(self)
    }

    /// Finds the segments that the list of a store names. Without a list, the shards are incomplete, and nobody reads
    /// them.
    fn listed(mut self, first: u32) -> Result<Self> {
        let (width, origin) = (Width::for_vocab(self.manifest.vocab_size), self.manifest.ids_origin());
        let identity = self.manifest.identity();
        let Some(SegmentList { segments, .. }) = SegmentList::load(&self.place, &identity, width)? else {
            return Ok(self);
        };
        self.remote = found(&self.place, &segments)?;
        for ((number, segment), file) in (first..).zip(&segments).zip(&self.remote) {
            for tokens in remote_splits(file, number, segment, width, &origin) {
                self.splits.entry(tokens.split()).or_insert(tokens);
            }
        }
        self.tokenizer = tokenizer_file(&self.place)?;
        Ok(self)
    }

    /// The file of the tokenizer that made the ids, if it has one. For a store, a local copy.
    pub(crate) fn tokenizer(&self) -> Option<PathBuf> {
        self.tokenizer.clone()
    }

    /// Whether a directory on this machine has segments of any kind.
    pub(crate) fn has_segments(directory: &Path) -> Result<bool> {
        Ok(directory.is_dir() && !segments(directory)?.is_empty())
    }

    pub(crate) fn place(&self) -> &ShardPlace {
        &self.place
    }

    pub(crate) fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    pub(crate) fn remote(&self) -> &[CorpusFile] {
        &self.remote
    }

    /// The files that are read, as those of source `source`: on this machine the manifest and the segments, in a store the
    /// segments.
    pub(crate) fn files(&self, source: usize) -> Vec<CorpusFile> {
        let local = |path: PathBuf, len| CorpusFile::new(Location::Path(path), len, None);
        let manifest = self.place.directory().map(|directory| directory.join(MANIFEST));
        let manifest = manifest.map(|path| {
            let len = path.metadata().map_or(0, |metadata| metadata.len());
            local(path, len)
        });
        let segments = self.segments.iter().map(|segment| local(segment.path().to_owned(), segment.len()));
        let files = manifest.into_iter().chain(segments).chain(self.remote.iter().cloned());
        files.map(|file| file.in_source(source)).collect()
    }

    pub(crate) fn tokens(&self, number: u32) -> Option<&StoredSplit> {
        self.splits.get(&number)
    }

    /// Says that the segments on this machine are read in random order.
    pub(crate) fn scatter(&self) {
        self.segments.iter().for_each(|segment| segment.scatter());
    }

    /// Refuses a directory that lacks splits.
    pub(crate) fn whole(self) -> Result<Self> {
        if self.splits.len() as u64 == self.manifest.splits() {
            return Ok(self);
        }
        if self.place.is_plain() {
            let path = self.place.of(LIST);
            let problem = format!(
                "{}: there is no list of these shards; copy their whole directory, once all of it is there",
                path.display()
            );
            return Err(Error::Corpus { problem });
        }
        let unfinished = unfinished(&self.place, &self.manifest)?;
        if unfinished.is_empty() {
            let place = self.place.path().display();
            let problem =
                format!("{place}: all splits are there, and not their list; prepare any part once more");
            return Err(Error::Corpus { problem });
        }
        let missing = parts::missing(&self.manifest, parts(&self.place)?, &unfinished);
        Err(Error::Corpus { problem: format!("{}: {missing}", self.place.path().display()) })
    }

    /// Reads every block and compares its checksum. `open` opens a segment in a store by its number.
    pub(crate) fn verify(&self, open: impl Fn(u32) -> Result<Arc<dyn Stored>>) -> Result<()> {
        self.splits.values().try_for_each(|tokens| tokens.opened(&open)?.verify())
    }

    /// Whether some ids are not learned from. The segments are on this machine.
    pub(crate) fn are_masked(&self) -> Result<bool> {
        self.splits.values().try_fold(false, |found, tokens| Ok(found || tokens.is_masked()?))
    }

    /// Returns how many documents and ids there are.
    pub(crate) fn counts(&self) -> ShardCounts {
        let count = |counts: ShardCounts, tokens: &StoredSplit| ShardCounts {
            documents: counts.documents + tokens.documents() as u64 - tokens.skipped(),
            tokens: counts.tokens + tokens.ids() as u64,
        };
        self.splits.values().fold(ShardCounts::default(), count)
    }
}

/// An opener of segments in stores, for reads that are not planned.
pub(crate) fn opener(segments: &[CorpusFile], stores: &Arc<Stores>) -> FileOpener {
    FileOpener::unplanned(Arc::new(Files::new(segments.to_vec())), stores.clone(), Cancellable::never())
}

/// The files of listed segments in a store, in the order of the list.
fn found(place: &ShardPlace, segments: &[ListedSegment]) -> Result<Vec<CorpusFile>> {
    let names: Vec<String> = segments.iter().map(|segment| segment.name.clone()).collect();
    let found = place.find(&names)?;
    match segments.iter().zip(&found).find(|(segment, file)| segment.len != file.len) {
        None => Ok(found),
        Some((segment, file)) => {
            let problem = format!("it has {} bytes, and the list of segments says {}", file.len, segment.len);
            Err(Error::prepare_again(file.path().display(), problem))
        }
    }
}

/// The splits of a segment in a store; `number` is the segment's number in its source.
fn remote_splits(
    file: &CorpusFile,
    number: u32,
    segment: &ListedSegment,
    width: Width,
    origin: &IdsOrigin,
) -> impl Iterator<Item = StoredSplit> {
    let (path, origin) = (file.path().to_owned(), origin.clone());
    let of = Arc::new(RemoteSegment { number, path, origin });
    segment.rows().map(move |row| StoredSplit::remote(of.clone(), row, width))
}

/// The file of the tokenizer at a place, if there is one. For a store, a local copy.
fn tokenizer_file(place: &ShardPlace) -> Result<Option<PathBuf>> {
    match place.directory() {
        Some(directory) => Ok(Some(directory.join(TOKENIZER)).filter(|path| path.exists())),
        None => place.read(TOKENIZER, TOKENIZER_BYTES)?.map(|json| fetched(&json)).transpose(),
    }
}

/// A copy of a store's tokenizer among the temporary files. Its name has its digest, so that all processes share one
/// copy.
fn fetched(json: &[u8]) -> Result<PathBuf> {
    let path = std::env::temp_dir().join(format!("millstream-{}.json", blake3::hash(json).to_hex()));
    if bounded::read(&path, TOKENIZER_BYTES).ok().as_deref() != Some(json) {
        write_atomically(&path, json)?;
    }
    Ok(path)
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
            // have removed it first.
            let _ = std::fs::remove_file(&path);
        }
    }
    Ok(())
}

/// Whether no process writes a file any more. If so, takes its lock.
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

fn segments(directory: &Path) -> Result<Vec<PathBuf>> {
    let read = |e| Error::io(directory, "read the directory", e);
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(directory).map_err(read)? {
        let entry = entry.map_err(read)?;
        let path = entry.path();
        // A read of anything but a regular file may block forever.
        let is_file = path.metadata().is_ok_and(|metadata| metadata.is_file());
        if is_file && path.extension().is_some_and(|extension| extension == EXTENSION) {
            paths.push(path);
        }
    }
    paths.sort_unstable();
    Ok(paths)
}
