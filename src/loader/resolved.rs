//! The config that a loader goes by: it is resolved once, when the files are listed, and never changed. And the checks
//! that come before any document is read, so that no tokenizer is learned for a config that cannot be opened.

use std::path::Path;
use std::slice;

use super::{budgets, lanes, shards};
use crate::config::{Config, OrAuto, PipelineConfig, SourceKind, TokenizerConfig};
use crate::cursor::Cursor;
use crate::error::{Error, Result};
use crate::pin::Pinning;
use crate::segment::EXTENSION;
use crate::source::{Source, covered};
use crate::tokenizer::{self, ByteTokenizer, Tokenizer};
use crate::world::World;
use crate::writable;

/// Returns the config that a [`Loader`](super::Loader) goes by: `auto` lanes and windows are the numbers that it
/// chooses for the files, and the tokenizer is that of bytes if the config names none and bytes made its token shards.
/// Other settings stay as they are.
///
/// # Errors
/// The errors of opening the sources.
pub async fn resolved(config: &Config) -> Result<Config> {
    let source = match config.sources.is_empty() {
        true => Source::custom(),
        false => Source::from_config(config).await?,
    };
    Ok(resolved_with(config.clone(), &source, None))
}

/// As [`resolved`], for a source that is already open. `auto` lanes are as many as a cursor has, if there is one.
/// Otherwise, if they are fewer than they should be, logs it, unless the source is quiet.
pub(crate) fn resolved_with(config: Config, source: &Source, cursor: Option<&Cursor>) -> Config {
    let tokenizer = stored_tokenizer(&config.tokenizer, source);
    let lanes = lanes::lanes(&config, source, cursor).into();
    let pipeline = PipelineConfig { lanes, ..config.pipeline };
    let window = pipeline.window().map_or(pipeline.window, OrAuto::Fixed);
    Config { tokenizer, pipeline: PipelineConfig { window, ..pipeline }, ..config }
}

/// Returns the config with the tokenizer of bytes if it names none and bytes made its token shards. Any other config
/// stays as it is. A [`Loader`](super::Loader) does this by itself. Call it if you look at the config's tokenizer
/// before a loader is open.
///
/// # Errors
/// The errors of opening the sources.
pub async fn with_stored_tokenizer(config: &Config) -> Result<Config> {
    let config = config.clone();
    let has_shards = config.sources.iter().any(|source| source.kind == SourceKind::Shards);
    if !config.tokenizer.is_learned() || !has_shards {
        return Ok(config);
    }
    let source = Source::from_config(&config).await?;
    Ok(Config { tokenizer: stored_tokenizer(&config.tokenizer, &source), ..config })
}

/// The config of the tokenizer of bytes if `config` names no tokenizer and bytes made the token shards of `source`, and
/// else `config`. Any other tokenizer has its file beside the shards.
fn stored_tokenizer(config: &TokenizerConfig, source: &Source) -> TokenizerConfig {
    let is_of_bytes = |(_, made): (_, &str)| made == ByteTokenizer.fingerprint();
    let TokenizerConfig { bos, eos, pad, .. } = config.clone();
    match config.is_learned() && source.stored_fingerprint().is_some_and(is_of_bytes) {
        true => TokenizerConfig { bos, eos, pad, ..TokenizerConfig::bytes() },
        false => config.clone(),
    }
}

/// Checks lanes, ranks, memory, cores, caches and the tokenizer's file of a config that is
/// [resolved](super::resolved_with) against the source. Returns how many ranks share the lanes.
pub(crate) fn ready(config: &Config, source: &Source) -> Result<usize> {
    // Opening the loader logs warnings about the files.
    let source = source.clone().quiet();
    shards::check_shuffle(config, &source)?;
    lanes::check_ranks(config, &source)?;
    let world = World::planned(&config.pipeline)?;
    lanes::check(config, &source)?;
    budgets::check(config, world)?;
    Pinning::new(&config.pipeline.pin)?;
    for (index, settings) in config.sources.iter().enumerate() {
        if let Some(cache) = &settings.cache {
            writable::check_cache(&format!("source.{index}.cache.path"), &cache.path)?;
        }
    }
    if let Some(cache) = config.store.cache.as_ref().filter(|_| source.stores().is_some()) {
        writable::check_cache("store.cache", cache)?;
    }
    check_outside(config)?;
    tokenizer::check_file(&config.tokenizer)?;
    Ok(world)
}

/// Refuses token caches in which the paths of a source match what will be written.
pub(super) fn check_outside(config: &Config) -> Result<()> {
    // Each corpus has a directory in the cache, named by half of a digest.
    let segment = Path::new(&"0".repeat(32)).join(format!("00000000-a.{EXTENSION}"));
    for (index, source) in config.sources.iter().enumerate() {
        let Some(cache) = &source.cache else { continue };
        if let Some(problem) = covered(&config.sources, &cache.path, slice::from_ref(&segment)) {
            return Err(Error::config(format!("source.{index}.cache.path"), problem));
        }
    }
    Ok(())
}
