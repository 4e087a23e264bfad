//! Shard directories that are read as one source.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use super::manifest::{MANIFEST, Manifest};
use super::{ScatteredSums, ShardPlace, ShardedFile, Shards, StoredSplit};
use crate::error::{Error, Result};
use crate::files::File;
use crate::tokenizer::name_of;

/// The shard directories of one source, in the order of their names. Their files are numbered on from one directory to
/// the next.
#[derive(Debug)]
pub(crate) struct ShardSet {
    all: Vec<Shards>,
    /// The number of each directory's first file.
    first_files: Vec<usize>,
    /// For each split, how many documents there are up to its end, once requested.
    document_ends: OnceLock<Arc<[u64]>>,
    sums: ScatteredSums,
}

impl ShardSet {
    /// Opens all shards at these places: in the place itself, or in each place within it. It blocks.
    pub(crate) fn open(places: &[ShardPlace]) -> Result<Self> {
        let found = places.iter().map(with_manifest).collect::<Result<Vec<_>>>()?;
        let found = sorted(found.concat());
        let mut remote = 0;
        let open = |place: &ShardPlace| {
            let shards = Shards::open_from(place, remote)?.whole()?;
            remote += shards.remote().len() as u32;
            Ok(shards)
        };
        let all = found.iter().map(open).collect::<Result<Vec<_>>>()?;
        let of = |shards: &Shards| shards.manifest().tokenizer.clone();
        if let Some(other) = all.iter().find(|shards| of(shards) != of(&all[0])) {
            let problem = format!(
                "{} was made by the tokenizer {}, and {} by {}; prepare them with the same tokenizer",
                all[0].place().path().display(),
                name_of(&of(&all[0])),
                other.place().path().display(),
                name_of(&of(other))
            );
            return Err(Error::Corpus { problem });
        }
        let mut first = 0;
        let first_of = |shards: &Shards| {
            let behind = first + shards.manifest().files.len();
            std::mem::replace(&mut first, behind)
        };
        let first_files = all.iter().map(first_of).collect();
        Ok(Self { all, first_files, document_ends: OnceLock::new(), sums: ScatteredSums::default() })
    }

    /// The directories. There is at least one.
    pub(crate) fn all(&self) -> &[Shards] {
        &self.all
    }

    pub(crate) fn files(&self) -> impl Iterator<Item = &ShardedFile> {
        self.all.iter().flat_map(|shards| &shards.manifest().files)
    }

    /// For each split of all directories, how many documents there are up to its end.
    pub(crate) fn document_ends(&self) -> &Arc<[u64]> {
        self.document_ends.get_or_init(|| {
            let mut documents = 0;
            let splits = self
                .all
                .iter()
                .flat_map(|shards| (0..shards.manifest().splits()).map(|split| shards.tokens(split as u32)));
            let ends = splits.map(|tokens| {
                documents += tokens.map_or(0, StoredSplit::documents) as u64;
                documents
            });
            ends.collect()
        })
    }

    /// Says that their documents are read in random order.
    pub(crate) fn scatter(&self) {
        self.all.iter().for_each(Shards::scatter);
    }

    /// Where they are, as errors name it: the first directory.
    pub(crate) fn path(&self) -> &Path {
        self.all[0].place().path()
    }

    /// The reader of their documents in random order.
    pub(crate) fn sums(&self) -> &ScatteredSums {
        &self.sums
    }

    /// The segments of all directories that are in stores, in the order of their numbers.
    pub(crate) fn remote(&self) -> impl Iterator<Item = &File> {
        self.all.iter().flat_map(Shards::remote)
    }

    /// The shards that hold file `number` of the source, and its number there.
    pub(crate) fn of_file(&self, number: usize) -> (&Shards, usize) {
        let nth = self.first_files.partition_point(|&first| first <= number) - 1;
        (&self.all[nth], number - self.first_files[nth])
    }
}

/// Places in the order of their names, each once.
fn sorted(mut places: Vec<ShardPlace>) -> Vec<ShardPlace> {
    places.sort_by(|a, b| bytes(a).cmp(bytes(b)));
    places.dedup_by(|a, b| bytes(a) == bytes(b));
    places
}

/// The places with a manifest: the place itself, or those of several sources, which `prepare` puts within it.
fn with_manifest(place: &ShardPlace) -> Result<Vec<ShardPlace>> {
    if place.directory().is_some_and(|directory| Manifest::is_in(directory) || !directory.is_dir()) {
        return Ok(vec![place.clone()]);
    }
    if place.is_plain() {
        return Ok(vec![place.clone()]);
    }
    let (files, within) = place.look()?;
    if files.contains_key(MANIFEST) {
        return Ok(vec![place.clone()]);
    }
    let within = within.iter().filter(|name| !name.starts_with('.')).map(|name| place.join(name));
    let within: Vec<ShardPlace> = within.collect();
    // If some have shards, one without is not finished yet. If none has, the error names the place itself.
    let mut is_of_several = false;
    for place in &within {
        is_of_several |= place.look()?.0.contains_key(MANIFEST);
    }
    Ok(if is_of_several { within } else { vec![place.clone()] })
}

/// The bytes of a place's path, so that the order is the same on every file system.
fn bytes(place: &ShardPlace) -> &[u8] {
    place.path().as_os_str().as_encoded_bytes()
}
