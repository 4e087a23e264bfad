//! What a loader is opened with, as far as it decides what helps a trainer that waits.

use std::thread::available_parallelism;

use tokio::runtime::{Handle, RuntimeFlavor};

use super::own::is_own;
use crate::config::{Config, OrAuto, Pack};
use crate::meter::Setting;
use crate::source::Source;
use crate::world::World;

/// The setting of a rank of `world`.
pub(super) fn of<'a>(
    config: &Config,
    source: &Source,
    own_stages: impl Iterator<Item = &'a String>,
    world: World,
) -> Setting {
    let pipeline = &config.pipeline;
    let has_own_documents = config.sources.iter().any(is_own);
    let own_stages: Vec<String> = own_stages.cloned().collect();
    // Standard input comes once, and shards are tokens already.
    let shards: Vec<usize> = source.shards().map(|(index, _)| index).collect();
    let is_text = |index: usize| !shards.contains(&index) && !config.sources[index].is_stdin();
    let is_kept = |index: usize| config.sources[index].cache.is_some();
    let can_keep = (0..config.sources.len()).any(|index| is_text(index) && !is_kept(index));
    let most_splits = (0..config.sources.len()).map(|index| source.only(index).splits()).max();
    Setting {
        cores: available_parallelism().map_or(1, usize::from),
        is_tuned: (pipeline.workers == OrAuto::Auto, pipeline.depth == OrAuto::Auto),
        lanes: pipeline.lanes().get() / world.size.get(),
        splits: most_splits.unwrap_or(0).div_ceil(world.size.get()),
        window: pipeline.window().get(),
        is_best_fit: pipeline.pack == Pack::BestFit,
        can_keep_tokens: can_keep && own_stages.is_empty() && !has_own_documents,
        own_stages,
        has_own_documents,
        has_store_cache: config.store.cache.is_some(),
        is_one_thread: Handle::current().runtime_flavor() == RuntimeFlavor::CurrentThread,
    }
}
