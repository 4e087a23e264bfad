//! The directories that shards are prepared into: started, or continued.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::config::{Config, names};
use crate::error::{Error, Result};
use crate::lock::DirLock;
use crate::segment::EXTENSION;
use crate::shards::{
    LIST, MANIFEST, Manifest, SegmentPlan, ShardPlace, TOKENIZER, TOKENIZER_BYTES, marker, seal, sweep,
    unfinished,
};
use crate::source::covered;
use crate::store::Stores;
use crate::world::World;

/// The activity of a process that holds a directory's lock, for errors.
pub(super) const WRITES_SHARDS: &str = "writes token shards there";

/// The directory of one source. No other process makes the same part of it.
pub(super) struct TargetDirectory {
    pub(super) place: ShardPlace,
    /// A store has no locks: two processes that make the same part make the same bytes. Nor has a directory that cannot
    /// be written to.
    pub(super) lock: Option<DirLock>,
}

pub(super) struct Missing {
    /// The directory's own manifest. Its files may have moved since.
    pub(super) manifest: Manifest,
    pub(super) plan: SegmentPlan,
    /// The segments that this process makes.
    pub(super) segments: Vec<usize>,
    /// How many splits of this process's part there are, and how many of them are missing.
    pub(super) splits: u64,
    pub(super) missing: u64,
}

/// The places of a config's sources: `directory` itself, or one for each of several within it.
pub(super) fn places(config: &Config, directory: &Path, stores: &Arc<Stores>) -> Result<Vec<ShardPlace>> {
    let place = ShardPlace::named(directory, stores);
    if place.is_plain() {
        let problem =
            "an HTTP server cannot be written to; name a directory, or a prefix of s3://, gs:// or az://";
        return Err(Error::config(place.path().display().to_string(), problem));
    }
    Ok(match &config.sources[..] {
        [_] => vec![place],
        several => names(several).iter().map(|name| place.join(name)).collect(),
    })
}

/// Refuses directories in which the paths of a source match what will be written.
fn check_outside(config: &Config, places: &[ShardPlace]) -> Result<()> {
    let names = [&*format!("00000000.{EXTENSION}"), MANIFEST, LIST, TOKENIZER].map(PathBuf::from);
    for directory in places.iter().filter_map(ShardPlace::directory) {
        if let Some(problem) = covered(&config.sources, directory, &names) {
            return Err(Error::config(directory.display().to_string(), problem));
        }
    }
    Ok(())
}

/// Makes the directories of a config's sources, and locks this process's part of them.
pub(super) fn take(
    config: &Config,
    directory: &Path,
    world: World,
    stores: &Arc<Stores>,
) -> Result<Vec<TargetDirectory>> {
    let take = |place: ShardPlace| {
        let lock = |path: &Path| match world.size {
            1 => DirLock::take(path, WRITES_SHARDS),
            _ => DirLock::take_file(path, &marker(world), WRITES_SHARDS),
        };
        let lock = match place.directory().map(lock).transpose() {
            // Complete shards can be checked where nothing can be written.
            Err(error) if error.refuses_writing() && has_shards(&place) => None,
            lock => lock?,
        };
        Ok(TargetDirectory { place, lock })
    };
    let places = places(config, directory, stores)?;
    check_outside(config, &places)?;
    places.into_iter().map(take).collect()
}

/// Whether token shards were begun there.
fn has_shards(place: &ShardPlace) -> bool {
    place.look().is_ok_and(|(files, _)| files.contains_key(MANIFEST))
}

/// Writes the manifest `wanted`, or checks that the existing one is the same. Returns the directory's own, whose files
/// may have moved since.
fn start(place: &ShardPlace, wanted: Manifest) -> Result<Manifest> {
    if wanted.create(place)? {
        return Ok(wanted);
    }
    let own = Manifest::load(place)?;
    own.check(&wanted, place)?;
    Ok(own)
}

/// Removes the leftovers of killed processes, and starts the directory, or checks that it has the same corpus and
/// tokenizer. Returns the work of this process. The caller holds the lock of its part. It blocks.
pub(super) fn begin(
    place: &ShardPlace,
    wanted: Manifest,
    tokenizer: Option<&str>,
    world: World,
) -> Result<Missing> {
    match place.directory() {
        Some(directory) => sweep(directory)?,
        // There a killed process leaves its segments. What cannot be removed does no harm.
        None => drop(sweep(&std::env::temp_dir())),
    }
    let manifest = start(place, wanted)?;
    if let Some(json) = tokenizer
        && place.read(TOKENIZER, TOKENIZER_BYTES)?.as_deref() != Some(json.as_bytes())
    {
        place.write(TOKENIZER, json.into())?;
    }
    let (plan, unfinished) = (SegmentPlan::new(&manifest), unfinished(place, &manifest)?);
    // On a disk its lock says that a part of many was begun.
    if !unfinished.is_empty() && place.directory().is_none() && world.size > 1 {
        place.write(&marker(world), Vec::new())?;
    }
    let is_missing = |segment: &usize| plan.splits(*segment).any(|split| unfinished.contains(&split));
    let count = |segments: &[usize]| segments.iter().map(|&segment| plan.splits(segment).len() as u64).sum();
    let all: Vec<usize> = plan.of(world).collect();
    let segments: Vec<usize> = all.iter().copied().filter(is_missing).collect();
    Ok(Missing { splits: count(&all), missing: count(&segments), manifest, plan, segments })
}

/// Completes the directory if all splits are there. Returns how many are missing. It blocks.
pub(super) fn end(place: &ShardPlace, manifest: &Manifest) -> Result<u64> {
    let missing = unfinished(place, manifest)?.len() as u64;
    if missing == 0 {
        seal(place, manifest)?;
    }
    Ok(missing)
}
