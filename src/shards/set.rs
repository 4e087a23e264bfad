//! Shard directories that are read as one source.

use std::path::{Path, PathBuf};

use super::{Manifest, ShardedFile, Shards};
use crate::error::{Error, Result};

/// The shard directories of one source, in the order of their names. The files that they were made of count
/// on from one directory to the next.
#[derive(Debug)]
pub(crate) struct ShardSet {
    all: Vec<Shards>,
    /// The number of each directory's first file.
    first_files: Vec<usize>,
}

impl ShardSet {
    /// Opens all shards at these paths: in the directory itself, or in each directory within it.
    ///
    /// # Errors
    /// [`Error::Corpus`] if there are none, if splits are missing, or if several tokenizers made them;
    /// [`Error::Io`].
    pub(crate) fn open(paths: &[PathBuf]) -> Result<Self> {
        let found = paths.iter().map(|path| directories(path)).collect::<Result<Vec<_>>>()?;
        let mut found = found.concat();
        found.sort_unstable_by(|a, b| bytes(a).cmp(bytes(b)));
        found.dedup();
        let open = |directory: &PathBuf| Shards::open(directory)?.whole();
        let all = found.iter().map(open).collect::<Result<Vec<_>>>()?;
        let of = |shards: &Shards| shards.manifest().tokenizer.clone();
        if let Some(other) = all.iter().find(|shards| of(shards) != of(&all[0])) {
            let problem = format!(
                "{} was made by the tokenizer {}, and {} by {}; prepare them with the same tokenizer",
                all[0].directory().display(),
                of(&all[0]),
                other.directory().display(),
                of(other)
            );
            return Err(Error::Corpus { problem });
        }
        let mut first = 0;
        let first_of = |shards: &Shards| {
            let behind = first + shards.manifest().files.len();
            std::mem::replace(&mut first, behind)
        };
        let first_files = all.iter().map(first_of).collect();
        Ok(Self { all, first_files })
    }

    /// The directories. There is at least one.
    pub(crate) fn all(&self) -> &[Shards] {
        &self.all
    }

    /// All files that the shards were made of.
    pub(crate) fn files(&self) -> impl Iterator<Item = &ShardedFile> {
        self.all.iter().flat_map(|shards| &shards.manifest().files)
    }

    /// The shards that hold file `number` of the source, and its number there.
    pub(crate) fn of_file(&self, number: usize) -> (&Shards, usize) {
        let nth = self.first_files.partition_point(|&first| first <= number) - 1;
        (&self.all[nth], number - self.first_files[nth])
    }
}

/// The shard directories at a path: itself, or those of several sources, which `prepare` puts within it.
fn directories(path: &Path) -> Result<Vec<PathBuf>> {
    if Manifest::is_in(path) || !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let read = |e| Error::io(path, "read the directory", e);
    let mut within = Vec::new();
    for entry in std::fs::read_dir(path).map_err(read)? {
        let entry = entry.map_err(read)?;
        if entry.path().is_dir() && !entry.file_name().to_string_lossy().starts_with('.') {
            within.push(entry.path());
        }
    }
    // Where one has shards, one without is not done yet. Without any, the error names the directory itself.
    let is_of_several = within.iter().any(|directory| Manifest::is_in(directory));
    Ok(if is_of_several { within } else { vec![path.to_owned()] })
}

/// A path's bytes, so that the order is the same on every file system.
fn bytes(path: &Path) -> &[u8] {
    path.as_os_str().as_encoded_bytes()
}
