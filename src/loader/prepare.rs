//! Token shards of a config's sources: tokenized once, to be read many times.
//!
//! Each worker takes a split, reads it in groups of documents, and writes it to a segment of its own; the groups are
//! tokenized by whichever worker is free. A segment is given its name when it is whole, so that a kill costs the
//! segments under way and nothing else; what is there is passed over.

use std::path::Path;
use std::sync::Arc;

use futures::future::join_all;
use serde::Serialize;

use super::tokenizer;
use crate::config::{Config, SourceConfig, SourceKind, names};
use crate::error::{Error, Result};
use crate::shards::Shards;
use crate::source::Source;
use crate::tasks;
use crate::tokenizer::Tokenizer;

mod directory;
mod groups;
#[cfg(test)]
mod tests;
mod work;

use work::{Job, StopAtDrop, Target, Work};

/// How far it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Prepared {
    /// Splits that are tokenized, those that were there before among them, and all of them.
    pub splits: u64,
    /// How many there are.
    pub of: u64,
    /// Documents that were tokenized now, those that the tokenizer failed on among them.
    pub documents: u64,
    /// Documents that were skipped now, by the sources' `on_error` or by the tokenizer's failure.
    pub skipped: u64,
    /// Bytes of text that were tokenized now.
    pub text_bytes: u64,
    /// Their ids.
    pub tokens: u64,
}

/// Tokenizes a config's sources into shard directories: `directory` for one source, and for several a directory of
/// each one's name in it. Nothing is held out, and weights are noted and not drawn, so that any run may read them.
///
/// Splits that are there are passed over. `progress` is told of every step, from any thread.
///
/// Of a source with `on_error = { skip = n }` each split may have `n` documents that cannot be read, and all of it `n`
/// that the tokenizer fails on.
///
/// # Errors
/// What reading and tokenizing the sources may end with, [`Error::Io`] for a directory that cannot be written, and
/// [`Error::Corpus`] for one that holds the tokens of another corpus or another tokenizer.
///
/// # Cancel safety
/// Dropping it leaves whole segments; calling it again goes on behind them.
pub async fn prepare(
    config: &Config,
    directory: &Path,
    progress: impl Fn(Prepared) + Send + Sync + 'static,
) -> Result<Prepared> {
    config.validate()?;
    let source = Source::open_with(&config.sources, &config.store).await?;
    config.sources.iter().enumerate().try_for_each(|(index, source)| refuse_unpreparable(index, source))?;
    let tokenizer = tokenizer::open(config, &source).await?;
    tokenized(config, source, tokenizer, directory, Box::new(progress)).await
}

/// Tokenizes a config's sources, which are open.
async fn tokenized(
    config: &Config,
    source: Source,
    tokenizer: Arc<dyn Tokenizer>,
    directory: &Path,
    progress: Box<dyn Fn(Prepared) + Send + Sync>,
) -> Result<Prepared> {
    let several = config.sources.len() > 1;
    let (mut targets, mut todo) = (Vec::new(), Vec::new());
    let mut begun = Prepared::default();
    for (index, name) in names(&config.sources).into_iter().enumerate() {
        let directory = if several { directory.join(name) } else { directory.to_owned() };
        let manifest = source.manifest(index, tokenizer.fingerprint(), tokenizer.vocab_size());
        let missing = directory::begin(&directory, &manifest, &*tokenizer)?;
        begun.of += manifest.splits();
        begun.splits += manifest.splits() - missing.len() as u64;
        let first = source.only(index).first_split();
        todo.extend(missing.into_iter().map(|split| Job { target: index, split, number: first + split }));
        targets.push(Target::new(directory, manifest.identity(), config.sources[index].on_error));
    }
    progress(begun);
    if todo.is_empty() {
        return Ok(begun);
    }
    let workers = config.pipeline.most_workers().get();
    let work = Arc::new(Work::new(source, tokenizer, (targets, todo), workers, begun, progress));
    let stop = StopAtDrop(work.clone());
    let worker = |_| {
        let work = work.clone();
        tasks::spawn_blocking("prepare", move || work.run())
    };
    let workers = join_all((0..workers).map(worker)).await;
    drop(stop);
    for worker in workers {
        worker.map_err(|lost| Error::lost("prepare", lost))??;
    }
    Ok(work.prepared())
}

/// Compares the checksums of all blocks of a shard directory, and says how many documents and ids it has.
///
/// # Errors
/// [`Error::Corpus`] for a block that is damaged, or splits that are not there; [`Error::Io`].
pub async fn verify_shards(directory: &Path) -> Result<(u64, u64)> {
    let directory = directory.to_owned();
    let job = tokio::task::spawn_blocking(move || {
        let shards = Shards::open(&directory)?.whole()?;
        shards.verify()?;
        Ok(shards.counts())
    });
    job.await.map_err(|lost| Error::lost("verify", lost))?
}

/// Refuses what cannot be read split by split.
fn refuse_unpreparable(index: usize, source: &SourceConfig) -> Result<()> {
    let problem = match source.kind {
        SourceKind::Shards => "it is of token shards already",
        _ if source.name.as_ref().is_some_and(|name| name.contains(['/', '\\'])) => {
            let problem = "it is the name of a directory too, and must have no slash";
            return Err(Error::config(format!("source.{index}.name"), problem));
        }
        _ if source.is_stdin() => {
            "standard input comes only once, and preparing must be able to go on; name files"
        }
        _ => return Ok(()),
    };
    Err(Error::config(format!("source.{index}.paths"), problem))
}
