//! The checks that come before any document is read: no tokenizer is learned for a config that cannot be opened.

use super::{budgets, lanes, shards};
use crate::config::Config;
use crate::error::{Error, Result};
use crate::location::unexpanded;
use crate::pin::Pinning;
use crate::source::Source;
use crate::world::World;
use crate::writable;

/// Checks lanes, ranks, memory, cores, caches and the tokenizer's file of a config that is
/// [resolved](super::resolved_with) against the source. Returns how many ranks share the lanes.
pub(crate) fn ready(config: &Config, source: &Source) -> Result<usize> {
    // Opening the loader logs warnings about the files.
    let source = source.clone().quiet();
    shards::check_shuffle(config, &source, false)?;
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
    if let Some(path) = config.tokenizer.path.as_ref().filter(|path| !path.exists()) {
        let (shown, hint) = (path.display(), unexpanded(path));
        let problem = format!(
            "there is no file {shown}; name the tokenizer's file, or leave path out to learn one{hint}"
        );
        return Err(Error::config("tokenizer.path", problem));
    }
    Ok(world)
}
