//! The directories that are prepared into: begun, or gone on with.

use std::path::Path;
use std::time::{Duration, SystemTime};

use crate::error::{Error, Result};
use crate::files::write_atomically;
use crate::shards::{Manifest, SegmentWriter, Shards, TOKENIZER};
use crate::tokenizer::Tokenizer;

/// What a process that was killed was writing is swept away after so long.
const LEFT_OVER: Duration = Duration::from_hours(1);

/// Makes the directory, or checks that it is of the same corpus and tokenizer; the splits that are not there.
pub(super) fn begin(directory: &Path, manifest: &Manifest, tokenizer: &dyn Tokenizer) -> Result<Vec<u32>> {
    std::fs::create_dir_all(directory).map_err(|e| Error::io(directory, "make the directory", e))?;
    sweep(directory)?;
    // Of several processes that begin at once one's manifest stays, and the others must want the same.
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

/// Removes what killed processes were writing.
fn sweep(directory: &Path) -> Result<()> {
    let read = |e| Error::io(directory, "read the directory", e);
    for entry in std::fs::read_dir(directory).map_err(read)? {
        let entry = entry.map_err(read)?;
        let is_old = || {
            let age = SystemTime::now().duration_since(entry.metadata().ok()?.modified().ok()?).ok()?;
            Some(age > LEFT_OVER)
        };
        if SegmentWriter::is_under_way(&entry.file_name()) && is_old() == Some(true) {
            // Another process may have been faster.
            let _ = std::fs::remove_file(entry.path());
        }
    }
    Ok(())
}
