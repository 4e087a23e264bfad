//! The settings that advice for a waiting trainer depends on.

use std::thread::available_parallelism;

use tokio::runtime::{Handle, RuntimeFlavor};

use super::custom::CustomStages;
use crate::config::{Config, OrAuto, PackRule};
use crate::meter::{Setting, Tuned};
use crate::source::{Origin, Source};
use crate::world::World;

/// Returns the setting of a rank in `world`.
pub(super) fn setting(config: &Config, source: &Source, stages: &CustomStages, world: World) -> Setting {
    let pipeline = &config.pipeline;
    let has_own_documents = source.is_custom();
    // Standard input can be read only once, and shards are tokens already.
    let is_text = |index: usize| matches!(source.origin(index), Origin::Files | Origin::Synthetic);
    let is_cached = |index: usize| config.sources[index].cache.is_some();
    let can_cache = (0..config.sources.len()).any(|index| is_text(index) && !is_cached(index));
    let most_splits = (0..config.sources.len()).map(|index| source.only(index).splits()).max();
    Setting {
        cores: available_parallelism().map_or(1, usize::from),
        tuned: Tuned { workers: pipeline.workers == OrAuto::Auto, depth: pipeline.depth == OrAuto::Auto },
        lanes: pipeline.lanes() / world.size,
        splits: most_splits.unwrap_or(0).div_ceil(world.size),
        window: pipeline.waiting(),
        is_best_fit: pipeline.pack == PackRule::BestFit,
        can_keep_tokens: can_cache && stages.documents.is_empty() && !has_own_documents,
        own_stages: stages.names(),
        has_own_documents,
        has_store_cache: config.store.cache.is_some(),
        is_one_thread: Handle::current().runtime_flavor() == RuntimeFlavor::CurrentThread,
    }
}
