//! Token shards: prepares a config's sources, so that they are tokenized once and read many times, and converts shards
//! from and to the formats of other programs.
//!
//! Which splits go into which segment is planned ahead. Each worker makes a segment, split by split, in groups of
//! documents, and any free worker tokenizes the groups. A segment gets its name when it is complete, so a kill costs
//! only the unfinished segments. The next run skips complete ones. Several processes can each make a part of the
//! segments.

use std::future::{Future, pending};
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;

use futures::future::{Either, join_all, select};
use serde::Serialize;

use crate::config::{Config, PipelineConfig, ShuffleRule, SourceConfig, SourceKind};
use crate::error::{Error, Result};
use crate::loader::{open_tokenizer_for, ready, resolved_with};
use crate::pin::Pinning;
use crate::shards::{Shards, opener};
use crate::source::{Origin, Source};
use crate::store::Stores;
use crate::tasks;
use crate::tokenizer::{Encoder, Tokenizer};
use crate::world::World;

mod directory;
mod export;
mod groups;
mod import;
mod status;
#[cfg(test)]
mod tests;
mod tokenizer;
mod work;

pub use crate::shards::PartStatus;
pub use crate::shards::ShardCounts;
pub use export::export;
pub use import::{Import, import, import_mds};
pub use status::{PrepareStatus, status};
pub use tokenizer::tokenizer_of;

use directory::{Missing, TargetDirectory};
use work::{Job, PrepareTarget, PrepareWork, StopAtDrop};

/// A format of prepared tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TokenFormat {
    /// Ids and nothing else, little-endian, as in nanoGPT's `.bin`. One special id ends each document.
    NanoGpt,
    /// Megatron's `.bin` with an `.idx` of the same name beside it.
    Megatron,
}

/// The progress of [`prepare`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Prepared {
    /// Splits that are tokenized, including those of earlier runs. If several processes prepare, only this one's part
    /// counts.
    pub splits: u64,
    /// All splits of this part.
    pub of: u64,
    /// Whether it was stopped before its part was done.
    pub is_stopped: bool,
    /// Splits of other parts that were not tokenized yet when this one ended.
    pub left_to_others: u64,
    /// Documents that were tokenized now, including those that the tokenizer failed on.
    pub documents: u64,
    /// Documents that were skipped now, because of the sources' `on_error`, because the tokenizer failed, or because their
    /// task or their length leaves them out.
    pub skipped: u64,
    /// Bytes of text that were tokenized now.
    pub text_bytes: u64,
    /// Ids that this text became.
    pub tokens: u64,
}

impl Prepared {
    /// Whether all splits of all parts are tokenized.
    pub fn is_whole(&self) -> bool {
        !self.is_stopped && self.left_to_others == 0
    }
}

/// Tokenizes a config's sources into shard directories. One source goes to `directory` itself; each of
/// several goes to a directory of its name inside it. Nothing is held out, and weights are stored but not
/// applied, so that any run can read the shards.
///
/// Segments that are there already are skipped. `progress` is called at every step, from any thread.
///
/// If a source has `on_error = { skip = n }`, each of its splits may have `n` documents that cannot be read,
/// and `n` that the tokenizer fails on.
///
/// # Errors
/// The errors of reading and tokenizing the sources; [`Error::Io`] if a directory cannot be written;
/// [`Error::Corpus`] if it holds the tokens of another corpus or another tokenizer; [`Error::Config`] if the sources'
/// paths match its files; [`Error::Busy`] if another process prepares into it.
///
/// # Cancel safety
/// Dropping the future leaves complete segments. Calling this again goes on after them.
pub async fn prepare(
    config: &Config,
    directory: &Path,
    progress: impl Fn(Prepared) + Send + Sync + 'static,
) -> Result<Prepared> {
    prepare_until(pending(), config, directory, World::ALONE, progress).await
}

/// As [`prepare`], in one of several processes that share nothing but the directory, until `stop` is ready.
///
/// Each process of the `world` makes every `world.size`-th segment, the first of them number `world.rank`. Together they
/// make what one process would have made, byte for byte. Each can be stopped, and go on on another machine.
///
/// When `stop` is ready, the segments under way are dropped. If not all of this part is done, the result says so:
/// [`Prepared::is_stopped`].
///
/// # Errors
/// As [`prepare`]; [`Error::Busy`] if another process makes the same part.
///
/// # Cancel safety
/// As [`prepare`].
pub async fn prepare_until(
    stop: impl Future<Output = ()>,
    config: &Config,
    directory: &Path,
    world: World,
    progress: impl Fn(Prepared) + Send + Sync + 'static,
) -> Result<Prepared> {
    let mut stop = pin!(stop);
    let opened = match select(pin!(opened(config, directory, world)), &mut stop).await {
        Either::Left((opened, _)) => opened?,
        Either::Right(_) => return Ok(Prepared { is_stopped: true, ..Prepared::default() }),
    };
    tokenized(config, opened, Box::new(progress), stop).await
}

/// The sources that are read, and their targets.
struct OpenedWork {
    source: Source,
    tokenizer: Arc<dyn Tokenizer>,
    directories: Vec<TargetDirectory>,
    world: World,
}

async fn opened(config: &Config, directory: &Path, world: World) -> Result<OpenedWork> {
    config.validate()?;
    let source = Source::from_config(config).await?;
    let refuse = |(index, settings)| refuse_unpreparable(index, settings, source.origin(index));
    config.sources.iter().enumerate().try_for_each(refuse)?;
    // The launcher's rank says which part this process makes, and not which lanes it reads. The text is read split by
    // split, whatever the order in which its documents will be read.
    let shuffle = ShuffleRule::Window;
    let pipeline =
        PipelineConfig { rank: None, world: Some(1), shuffle, window: 1.into(), ..config.pipeline.clone() };
    let config = Config { pipeline, ..config.clone() };
    let resolved = resolved_with(config.clone(), &source.clone().quiet(), None);
    ready(&resolved, &source)?;
    // Learning a tokenizer takes a while: a directory in use is reported first.
    let (directory, stores) = (directory.to_owned(), source.all_stores().clone());
    let take = move || directory::take(&config, &directory, world, &stores);
    let directories = tasks::blocking("prepare", take).await?;
    let tokenizer = open_tokenizer_for(&resolved, &source).await?;
    source.fit(&Encoder::new(tokenizer.clone()), &resolved.pipeline);
    Ok(OpenedWork { source, tokenizer, directories, world })
}

/// Tokenizes a config's sources, which are already open.
async fn tokenized(
    config: &Config,
    OpenedWork { source, tokenizer, directories, world }: OpenedWork,
    progress: Box<dyn Fn(Prepared) + Send + Sync>,
    stop: impl Future<Output = ()> + Unpin,
) -> Result<Prepared> {
    let (mut targets, mut todo, mut places) = (Vec::new(), Vec::new(), Vec::new());
    let mut begun = Prepared::default();
    for (index, TargetDirectory { place, lock }) in directories.into_iter().enumerate() {
        let manifest = source.manifest(index, tokenizer.fingerprint(), tokenizer.vocab_size());
        let (at, tokenizer) = (place.clone(), tokenizer.clone());
        let begin = move || directory::begin(&at, manifest, tokenizer.tokenizer_json(), world);
        let Missing { manifest, plan, segments, splits, missing } = tasks::blocking("prepare", begin).await?;
        (begun.of, begun.splits) = (begun.of + splits, begun.splits + splits - missing);
        let first = source.only(index).first_split();
        todo.extend(segments.into_iter().map(|segment| Job {
            target: index,
            name: plan.name(segment),
            splits: plan.splits(segment),
            first,
        }));
        let identity = manifest.identity();
        places.push((place.clone(), manifest));
        targets.push(PrepareTarget::new(place, identity, config.sources[index].on_error, lock));
    }
    progress(begun);
    let prepared = match todo.is_empty() {
        true => begun,
        false => worked(config, source, tokenizer, (targets, todo), begun, progress, stop).await?,
    };
    let end =
        move || places.iter().map(|(place, manifest)| directory::end(place, manifest)).sum::<Result<u64>>();
    let missing = tasks::blocking("prepare", end).await?;
    let left = prepared.of - prepared.splits;
    Ok(Prepared { is_stopped: left > 0, left_to_others: missing.saturating_sub(left), ..prepared })
}

/// Has the workers make segments.
async fn worked(
    config: &Config,
    source: Source,
    tokenizer: Arc<dyn Tokenizer>,
    (targets, todo): (Vec<PrepareTarget>, Vec<Job>),
    begun: Prepared,
    progress: Box<dyn Fn(Prepared) + Send + Sync>,
    stop: impl Future<Output = ()> + Unpin,
) -> Result<Prepared> {
    let (workers, pin) = (config.pipeline.most_workers(), Pinning::new(&config.pipeline.pin)?);
    let encoder = Encoder::new(tokenizer).counting_borders(&config.sources);
    let work = Arc::new(PrepareWork::new(source, encoder, targets, todo, workers, begun, progress));
    let stop_at_drop = StopAtDrop(work.clone());
    let worker = |_| {
        let (work, pin) = (work.clone(), pin.clone());
        tokio::task::spawn_blocking(move || Pinning::keep(pin.as_ref(), || work.run()))
    };
    let workers = match select(join_all((0..workers).map(worker)), stop).await {
        Either::Left((workers, _)) => workers,
        Either::Right(((), workers)) => {
            work.stop();
            workers.await
        }
    };
    drop(stop_at_drop);
    for worker in workers {
        worker.map_err(|lost| Error::lost("prepare", lost))??;
    }
    Ok(work.prepared())
}

/// Compares the checksums of all blocks of a config's shards from [`prepare`]. Returns how many documents and ids there
/// are.
///
/// # Errors
/// [`Error::Corpus`] if a block is damaged or splits are missing; [`Error::Io`].
pub async fn verify_shards(config: &Config, directory: &Path) -> Result<ShardCounts> {
    let stores = Arc::new(Stores::new(&config.store));
    let places = directory::places(config, directory, &stores)?;
    tasks::blocking("verify", move || {
        let mut counts = ShardCounts::default();
        for place in places {
            let ShardCounts { documents, tokens } = verified(&Shards::open(&place)?.whole()?, &stores)?;
            (counts.documents, counts.tokens) = (counts.documents + documents, counts.tokens + tokens);
        }
        Ok(counts)
    })
    .await
}

fn verified(shards: &Shards, stores: &Arc<Stores>) -> Result<ShardCounts> {
    let opener = opener(shards.remote(), stores);
    shards.verify(|segment| opener.open(segment))?;
    Ok(shards.counts())
}

/// Refuses sources that cannot be read split by split.
fn refuse_unpreparable(index: usize, source: &SourceConfig, origin: &Origin) -> Result<()> {
    let problem = match source.kind {
        SourceKind::Shards => "these are token shards already",
        _ if source.name.as_ref().is_some_and(|name| name.contains(['/', '\\'])) => {
            let problem = "it also names a directory, so it must have no slash";
            return Err(Error::config(format!("source.{index}.name"), problem));
        }
        _ if matches!(origin, Origin::Stdin) => {
            "standard input comes only once, but preparing must be able to resume; name files"
        }
        _ => return Ok(()),
    };
    Err(Error::config(format!("source.{index}.paths"), problem))
}
