//! The token caches of a config's sources.

use std::sync::Arc;

use futures::future::try_join_all;

use crate::config::{Config, TokenCacheConfig};
use crate::error::{Error, Result};
use crate::shards::{Manifest, TokenCache};
use crate::source::{Holdout, Source};
use crate::tasks;
use crate::tokenizer::Tokenizer;

/// Opens the cache of each source that has one, on blocking threads.
pub(super) async fn open(
    config: &Config,
    source: &Source,
    tokenizer: &dyn Tokenizer,
    Holdout { fraction, side }: Holdout,
    has_stages: bool,
) -> Result<Vec<Option<Arc<TokenCache>>>> {
    let opened: Vec<_> = (0..config.sources.len())
        .map(|index| {
            let cache = config.sources[index].cache.clone();
            let cache = cache.map(|cache| {
                (cache, source.manifest(index, tokenizer.fingerprint(), tokenizer.vocab_size()))
            });
            one(index, cache, has_stages, format!("{} {fraction}", side.name()))
        })
        .collect();
    try_join_all(opened).await
}

/// Opens the cache of one source, if it has one. Takes owned values, so that any thread may wait for all caches.
async fn one(
    index: usize,
    cache: Option<(TokenCacheConfig, Manifest)>,
    has_stages: bool,
    delivered: String,
) -> Result<Option<Arc<TokenCache>>> {
    let Some((cache, manifest)) = cache else { return Ok(None) };
    if has_stages {
        let problem = "the tokens that are kept are those of the files, and the program puts stages before the \
                       tokenizer; remove it";
        return Err(Error::config(format!("source.{index}.cache"), problem));
    }
    tasks::blocking("cache", move || TokenCache::open(&cache, &manifest, &delivered)).await.map(Some)
}
