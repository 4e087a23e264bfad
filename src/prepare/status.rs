//! The progress of shards, by the files that are there.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Serialize;

use super::directory;
use crate::config::Config;
use crate::error::Result;
use crate::segment::Width;
use crate::shards::{
    LIST, MANIFEST, Manifest, PartNumbers, PartStatus, SegmentList, SegmentPlan, ShardPlace, parts,
    unfinished,
};
use crate::store::Stores;
use crate::tasks;

/// The progress of the shards of one source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PrepareStatus {
    /// Their directory.
    pub directory: PathBuf,
    /// Each part. Before anything is there, there are none.
    pub parts: Vec<PartStatus>,
    /// Whether all of them are listed, which comes last.
    pub is_listed: bool,
}

impl PrepareStatus {
    /// The segments that are there, and all.
    pub fn segments(&self) -> (usize, usize) {
        self.parts.iter().fold((0, 0), |(done, of), part| (done + part.segments, of + part.of))
    }

    /// Whether nothing is missing.
    pub fn is_whole(&self) -> bool {
        self.is_listed && self.parts.iter().all(PartStatus::is_done)
    }
}

impl fmt::Display for PrepareStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.parts.is_empty() {
            return f.write_str("nothing is there yet");
        }
        let (done, of) = self.segments();
        write!(f, "{done} of {of} segments are there")?;
        if done == of && !self.is_listed {
            write!(f, ", and not their list: prepare any part once more")?;
        }
        if let [_] = self.parts[..] {
            return Ok(());
        }
        let unfinished = self.parts.iter().filter(|part| !part.is_done());
        let unfinished: Vec<usize> = unfinished.map(|part| part.part).collect();
        let parts = self.parts.len();
        write!(f, "; {} of {parts} parts are done", parts - unfinished.len())?;
        match unfinished.is_empty() {
            true => Ok(()),
            false => write!(f, ", and not {}", PartNumbers(&unfinished)),
        }
    }
}

/// Returns the progress of each source's shards that [`prepare`](super::prepare()) makes of a config. `size` is the
/// number of parts; if it is left out, the number that they are being made in.
///
/// # Errors
/// [`Error::Io`](crate::Error::Io) if a directory cannot be read, [`Error::Corpus`](crate::Error::Corpus) if its files
/// are damaged.
pub async fn status(config: &Config, directory: &Path, size: Option<usize>) -> Result<Vec<PrepareStatus>> {
    let places = directory::places(config, directory, &Arc::new(Stores::new(&config.store)))?;
    tasks::blocking("prepare", move || places.into_iter().map(|place| of(&place, size)).collect()).await
}

fn of(place: &ShardPlace, size: Option<usize>) -> Result<PrepareStatus> {
    let directory = place.path().to_owned();
    let nothing = PrepareStatus { directory, parts: Vec::new(), is_listed: false };
    if place.directory().is_some_and(|directory| !directory.is_dir()) {
        return Ok(nothing);
    }
    let (files, _) = place.look()?;
    if !files.contains_key(MANIFEST) {
        return Ok(nothing);
    }
    let manifest = Manifest::load(place)?;
    let unfinished = unfinished(place, &manifest)?;
    let size = size.map_or_else(|| parts(place), Ok)?;
    let parts = PartStatus::each(&SegmentPlan::new(&manifest), size, &unfinished);
    let width = Width::for_vocab(manifest.vocab_size);
    let is_listed =
        files.contains_key(LIST) && SegmentList::find(place, &manifest.identity(), width)?.is_some();
    Ok(PrepareStatus { parts, is_listed, ..nothing })
}
