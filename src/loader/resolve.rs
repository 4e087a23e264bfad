//! Resolves the user's settings to files, lanes, world and tokenizer.

use std::sync::Arc;

use super::builder::LoaderBuilder;
use super::custom::CustomStages;
use super::custom_source::CustomSource;
use super::{lanes, rows, shards, stored_tokenizer, tokenizer};
use crate::config::Config;
use crate::cursor::Cursor;
use crate::error::Result;
use crate::source::{Side, Source};
use crate::tokenizer::{Encoder, Tokenizer};
use crate::world::World;
use crate::{tasks, threads};

/// Leaves half of a runtime's blocking threads, 512 by default, to others.
const MOST_READING: usize = 256;

/// What a loader reads, which ranks share it, and how text becomes ids.
pub(super) struct Resolved {
    /// With `auto` lanes and windows already set.
    pub(super) config: Config,
    pub(super) source: Source,
    pub(super) custom_source: Option<CustomSource>,
    pub(super) side: Side,
    pub(super) world: World,
    pub(super) tokenizer: Arc<dyn Tokenizer>,
    pub(super) encoder: Encoder,
    pub(super) stages: CustomStages,
    pub(super) cursor: Option<Cursor>,
    pub(super) on_demand: bool,
}

/// Checks the config, lists the files, and opens the tokenizer.
pub(super) async fn resolve(builder: LoaderBuilder) -> Result<Resolved> {
    let LoaderBuilder { mut config, custom_source, tokenizer, cursor, side, on_demand, stages } = builder;
    config.validate()?;
    let mut source = match &custom_source {
        None => Source::from_config(&config).await?,
        Some(custom) => custom.source(&mut config, cursor.as_ref())?,
    };
    stored_tokenizer::adopt(&mut config, &source);
    rows::adopt(&mut config, &source)?;
    shards::check_shuffle(&config, &source, custom_source.as_ref().and_then(CustomSource::texts).is_some())?;
    lanes::resolve_auto(&mut config, &source, cursor.as_ref());
    if !on_demand && source.has_remote() {
        // Threads that wait for a store must leave some to the store's cache and to name resolution.
        let lanes = config.pipeline.lanes().min(MOST_READING);
        tasks::can_block(lanes + threads::LEAST).await?;
    }
    let world = match side {
        Side::Train => {
            lanes::check_ranks(&config, &source)?;
            World::detect(&config.pipeline)?
        }
        // Every rank validates on the whole hold-out.
        Side::HeldOut => World::ALONE,
    };
    if side == Side::HeldOut {
        // The training stream reports the same bad documents.
        source = source.quiet();
    }
    source = source.with_on_demand(on_demand);
    let tokenizer = match tokenizer {
        Some(tokenizer) => tokenizer,
        None => tokenizer::open(&config, &source).await?,
    };
    shards::check(&source, &*tokenizer, !stages.documents.is_empty())?;
    rows::check(&source, &*tokenizer, &stages)?;
    let encoder = tokenizer::encoder(&config.tokenizer, &tokenizer)?;
    Ok(Resolved { config, source, custom_source, side, world, tokenizer, encoder, stages, cursor, on_demand })
}
