//! Decides where the stream begins, its exclusions, its length, and how much memory each lane has.

use std::sync::Arc;

use futures::future::try_join_all;

use super::budgets::budgets;
use super::chains::Chains;
use super::exclude::{self, Excluding};
use super::gauge::{Gauge, setting};
use super::resolve::Resolved;
use super::resolved::check_outside;
use super::{fingerprint, lanes, length, start};
use crate::config::{Config, TokenCacheConfig};
use crate::cursor::{Cursor, Event};
use crate::error::{Error, Result};
use crate::pin::Pinning;
use crate::shards::{Manifest, TokenCache};
use crate::source::{Holdout, Side, Source};
use crate::stage::{Rounds, Workers};
use crate::tasks;
use crate::tokenizer::Tokenizer;
use crate::world::World;

/// Everything that the streams are made of.
pub(super) struct Plan {
    pub(super) chains: Arc<Chains>,
    pub(super) gauge: Arc<Gauge>,
    pub(super) tokenizer: Arc<dyn Tokenizer>,
    pub(super) world: World,
    pub(super) side: Side,
    pub(super) on_demand: bool,
    /// The cursor before the first batch.
    pub(super) start: Cursor,
    /// How many rounds of the lanes a finite stream has, if a rank cannot tell from its own lanes.
    pub(super) rounds: Option<Rounds>,
    /// The exclusions, and the events that cursors record about exclusions and weights, each with its first batch.
    pub(super) excluding: Excluding,
    pub(super) events: Vec<(u64, Event)>,
}

/// Checks the cursor against the resolved parts, and shares out the memory.
pub(super) async fn plan(resolved: Resolved) -> Result<Plan> {
    let files = fingerprint::files(&resolved.config, &resolved.source).await?;
    let fingerprint = fingerprint::fingerprint(&resolved, &files);
    let Resolved { config, source, documents, side, world, tokenizer, encoder, stages, cursor, on_demand } =
        resolved;
    let (start, mixture) = start::start(&config, &source, fingerprint, cursor)?;
    let (mut start, excluding) = exclude::excluding(&config, &source, side, world, start).await?;
    if side == Side::Train {
        lanes::check(&config, &source)?;
    }
    let holdout = Holdout { fraction: config.pipeline.holdout, side };
    let has_stages = !stages.documents.is_empty();
    let caches = open_caches(&config, &source, &*tokenizer, holdout, has_stages).await?;
    let setting = setting(&config, &source, &stages, world);
    let workers = match on_demand {
        true => Workers::on_demand(),
        false => Workers::new(config.pipeline.most_workers()).shared_by(config.pipeline.lanes() / world.size),
    };
    let pin = Pinning::new(&config.pipeline.pin)?;
    let (workers, source) = (workers.with_pin(pin.clone()), source.with_pin(pin));
    let stores = source.stores().cloned();
    let mut budgets = budgets(&config, &source, side, world)?;
    let of_count = budgets.split_off(config.pipeline.lanes() / world.size).pop();
    let gauge = Gauge::new(budgets, world.size, setting, stages.meters(), workers.clone(), stores);
    let gauge = Arc::new(gauge);
    let schedule = mixture.schedule;
    let (lent, has_told) = (Arc::default(), Arc::default());
    let chains = Arc::new(Chains {
        config,
        source,
        documents,
        caches,
        stages,
        encoder,
        workers,
        schedule,
        holdout,
        lent,
        has_told,
    });
    let rounds = length::rounds(&chains, &mut start, world, of_count, on_demand)?;
    start.keep_lanes(|lane| world.owns(lane))?;
    lanes::check_turn(&start, world)?;
    let events = mixture.changes.into_iter().chain(excluding.events.iter().cloned()).collect();
    Ok(Plan { chains, gauge, tokenizer, world, side, on_demand, start, rounds, excluding, events })
}

/// Opens the token cache of each source that has one, on blocking threads.
async fn open_caches(
    config: &Config,
    source: &Source,
    tokenizer: &dyn Tokenizer,
    Holdout { fraction, side }: Holdout,
    has_stages: bool,
) -> Result<Vec<Option<Arc<TokenCache>>>> {
    check_outside(config)?;
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
    if !manifest.has_versions() {
        tracing::warn!(
            key = format!("source.{index}.cache"),
            "no tokens are cached: a server gives neither an ETag nor a date of its files, so a change would not show"
        );
        return Ok(None);
    }
    tasks::blocking("cache", move || TokenCache::open(&cache, &manifest, &delivered)).await.map(Some)
}
