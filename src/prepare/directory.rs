//! The directories that shards are prepared into: started, or continued.

use std::path::Path;

use crate::atomic::write_atomically;
use crate::error::{Error, Result};
use crate::shards::{Manifest, Shards, TOKENIZER, sweep};
use crate::tokenizer::Tokenizer;

/// Makes the directory, or checks that it is of the same corpus and tokenizer. Returns the splits that are
/// missing.
pub(super) fn begin(directory: &Path, manifest: &Manifest, tokenizer: &dyn Tokenizer) -> Result<Vec<u32>> {
    std::fs::create_dir_all(directory).map_err(|e| Error::io(directory, "make the directory", e))?;
    sweep(directory)?;
    // If several processes start at once, one manifest stays, and the other processes must want the same.
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
