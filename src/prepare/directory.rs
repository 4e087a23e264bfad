//! The directories that shards are prepared into: started, or continued.

use std::path::{Path, PathBuf};

use crate::atomic::write_atomically;
use crate::config::{Config, names};
use crate::error::Result;
use crate::lock::DirLock;
use crate::shards::{Manifest, Shards, TOKENIZER, sweep};
use crate::tokenizer::Tokenizer;

/// What a process does in a directory that it holds the lock of.
pub(super) const WHAT: &str = "writes token shards there";

/// The directory of one source, which no other process writes to.
pub(super) struct TargetDirectory {
    pub(super) path: PathBuf,
    pub(super) lock: DirLock,
}

/// Makes and locks the directories of a config's sources: `directory` itself, or one for each of several
/// within it.
pub(super) fn take(config: &Config, directory: &Path) -> Result<Vec<TargetDirectory>> {
    let paths = match &config.sources[..] {
        [_] => vec![directory.to_owned()],
        several => names(several).into_iter().map(|name| directory.join(name)).collect(),
    };
    let take = |path: PathBuf| DirLock::take(&path, WHAT).map(|lock| TargetDirectory { path, lock });
    paths.into_iter().map(take).collect()
}

/// Starts the directory, or checks that it is of the same corpus and tokenizer. Returns the splits that are
/// missing. The caller holds the directory's lock.
pub(super) fn begin(directory: &Path, manifest: &Manifest, tokenizer: &dyn Tokenizer) -> Result<Vec<u32>> {
    sweep(directory)?;
    if !manifest.create(directory)? {
        Manifest::load(directory)?.check(manifest, directory)?;
    }
    if let Some(json) = tokenizer.tokenizer_json() {
        let path = directory.join(TOKENIZER);
        if std::fs::read(&path).ok().as_deref() != Some(json.as_bytes()) {
            write_atomically(&path, json.as_bytes())?;
        }
    }
    let there = Shards::open(directory)?;
    let splits = 0..u32::try_from(manifest.splits()).unwrap_or(u32::MAX);
    Ok(splits.filter(|&split| there.tokens(split).is_none()).collect())
}
