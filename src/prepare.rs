//! Token shards: prepares a config's sources, tokenized once to be read many times, and converts shards from
//! and to the formats of other programs.
//!
//! Each worker takes a split, reads it in groups of documents, and writes it to the worker's own segment. Any
//! free worker tokenizes the groups. A segment gets its name when it is complete, so a kill costs the
//! unfinished segments and nothing else. The next run skips what is there.

use std::future::{Future, pending};
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;

use futures::future::{Either, join_all, select};
use serde::Serialize;

use crate::config::{Config, SourceConfig, SourceKind};
use crate::error::{Error, Result};
use crate::loader::{open_tokenizer_for, ready};
use crate::shards::Shards;
use crate::source::{Origin, Source};
use crate::tasks;
use crate::tokenizer::Tokenizer;

mod directory;
mod exchange;
mod export;
mod groups;
mod import;
#[cfg(test)]
mod tests;
mod tokenizer;
mod work;

pub use crate::shards::ShardCounts;
pub use exchange::{Exchanged, TokenFormat};
pub use export::export;
pub use import::{Import, import, import_mds};
pub use tokenizer::tokenizer_of;

use directory::TargetDirectory;
use work::{Job, PrepareTarget, PrepareWork, StopAtDrop};

/// How far [`prepare`] is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Prepared {
    /// Splits that are tokenized, including those that were there before.
    pub splits: u64,
    /// All splits.
    pub of: u64,
    /// Documents that were tokenized now, including those that the tokenizer failed on.
    pub documents: u64,
    /// Documents that were skipped now, because of the sources' `on_error` or because the tokenizer failed.
    pub skipped: u64,
    /// Bytes of text that were tokenized now.
    pub text_bytes: u64,
    /// Ids that this text became.
    pub tokens: u64,
}

impl Prepared {
    /// Whether all splits are tokenized.
    pub fn is_whole(&self) -> bool {
        self.of > 0 && self.splits == self.of
    }
}

/// Tokenizes a config's sources into shard directories. One source goes to `directory` itself; each of
/// several goes to a directory of its name inside it. Nothing is held out, and weights are stored but not
/// applied, so that any run can read the shards.
///
/// Splits that are there already are skipped. `progress` is called at every step, from any thread.
///
/// If a source has `on_error = { skip = n }`, each of its splits may have `n` documents that cannot be read,
/// and the whole source may have `n` that the tokenizer fails on.
///
/// # Errors
/// The errors of reading and tokenizing the sources; [`Error::Io`] if a directory cannot be written;
/// [`Error::Corpus`] if it holds the tokens of another corpus or another tokenizer; [`Error::Busy`] if another
/// process prepares into it.
///
/// # Cancel safety
/// Dropping the future leaves complete segments. Calling this again goes on after them.
pub async fn prepare(
    config: &Config,
    directory: &Path,
    progress: impl Fn(Prepared) + Send + Sync + 'static,
) -> Result<Prepared> {
    prepare_until(pending(), config, directory, progress).await
}

/// As [`prepare`], until `stop` is ready. Then the splits under way are given up, and those that are complete are
/// written. If not all are, the result says so: [`Prepared::is_whole`].
///
/// # Errors
/// As [`prepare`].
///
/// # Cancel safety
/// As [`prepare`].
pub async fn prepare_until(
    stop: impl Future<Output = ()>,
    config: &Config,
    directory: &Path,
    progress: impl Fn(Prepared) + Send + Sync + 'static,
) -> Result<Prepared> {
    let mut stop = pin!(stop);
    let opened = match select(pin!(opened(config, directory)), &mut stop).await {
        Either::Left((opened, _)) => opened?,
        Either::Right(_) => return Ok(Prepared::default()),
    };
    tokenized(config, opened, Box::new(progress), stop).await
}

/// What is read, and where it goes.
struct OpenedWork {
    source: Source,
    tokenizer: Arc<dyn Tokenizer>,
    directories: Vec<TargetDirectory>,
}

async fn opened(config: &Config, directory: &Path) -> Result<OpenedWork> {
    config.validate()?;
    let source = Source::from_config(config).await?;
    let refuse = |(index, settings)| refuse_unpreparable(index, settings, source.origin(index));
    config.sources.iter().enumerate().try_for_each(refuse)?;
    ready(config, &source)?;
    // Learning a tokenizer takes a while: a directory in use is reported first.
    let directories = directory::take(config, directory)?;
    let tokenizer = open_tokenizer_for(config, &source).await?;
    Ok(OpenedWork { source, tokenizer, directories })
}

/// Tokenizes a config's sources, which are already open.
async fn tokenized(
    config: &Config,
    OpenedWork { source, tokenizer, directories }: OpenedWork,
    progress: Box<dyn Fn(Prepared) + Send + Sync>,
    stop: impl Future<Output = ()> + Unpin,
) -> Result<Prepared> {
    let (mut targets, mut todo) = (Vec::new(), Vec::new());
    let mut begun = Prepared::default();
    for (index, TargetDirectory { path, lock }) in directories.into_iter().enumerate() {
        let manifest = source.manifest(index, tokenizer.fingerprint(), tokenizer.vocab_size());
        let missing = directory::begin(&path, &manifest, &*tokenizer)?;
        begun.of += manifest.splits();
        begun.splits += manifest.splits() - missing.len() as u64;
        let first = source.only(index).first_split();
        todo.extend(missing.into_iter().map(|split| Job { target: index, split, number: first + split }));
        targets.push(PrepareTarget::new(path, manifest.identity(), config.sources[index].on_error, lock));
    }
    progress(begun);
    if todo.is_empty() {
        return Ok(begun);
    }
    let workers = config.pipeline.most_workers();
    let work = Arc::new(PrepareWork::new(source, tokenizer, targets, todo, workers, begun, progress));
    let stop_at_drop = StopAtDrop(work.clone());
    let worker = |_| {
        let work = work.clone();
        tasks::spawn_blocking("prepare", move || work.run())
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

/// Checks the checksums of all blocks of a shard directory. Returns what it holds.
///
/// # Errors
/// [`Error::Corpus`] if a block is damaged or splits are missing; [`Error::Io`].
pub async fn verify_shards(directory: &Path) -> Result<ShardCounts> {
    let directory = directory.to_owned();
    tasks::blocking("verify", move || {
        let shards = Shards::open(&directory)?.whole()?;
        shards.verify()?;
        Ok(shards.counts())
    })
    .await
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
