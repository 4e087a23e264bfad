//! The token caches of a config's sources.

use std::sync::Arc;

use futures::future::try_join_all;

use crate::config::Config;
use crate::error::{Error, Result};
use crate::shards::TokenCache;
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
    let open = |(index, settings): (usize, &crate::config::SourceConfig)| {
        let manifest = settings
            .cache
            .is_some()
            .then(|| source.manifest(index, tokenizer.fingerprint(), tokenizer.vocab_size()));
        let cache = settings.cache.clone();
        async move {
            let (Some(cache), Some(manifest)) = (cache, manifest) else { return Ok(None) };
            if has_stages {
                let problem = "the tokens that are kept are those of the files, and the program puts stages before the \
                               tokenizer; remove it";
                return Err(Error::config(format!("source.{index}.cache"), problem));
            }
            let delivered = format!("{side:?} {fraction}");
            tasks::blocking("cache", move || TokenCache::open(&cache, &manifest, &delivered)).await.map(Some)
        }
    };
    try_join_all(config.sources.iter().enumerate().map(open)).await
}
