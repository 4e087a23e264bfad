//! Resolves the user's settings to files, lanes, world and tokenizer.

use std::sync::Arc;

use super::builder::LoaderBuilder;
use super::custom::CustomStages;
use super::documents::{OpenDocuments, with_documents};
use super::resolved::resolved_with;
use super::{lanes, shards, tokenizer};
use crate::config::{Config, Last, ShuffleRule, SourceKind, Task, Uneven};
use crate::cursor::Cursor;
use crate::error::Result;
use crate::source::{Side, Source};
use crate::store::{ask_hub_with, pin_hub};
use crate::tokenizer::{Encoder, Tokenizer};
use crate::world::World;
use crate::{tasks, threads};

/// Leaves half of a runtime's blocking threads, 512 by default, to others.
const MOST_READING: usize = 256;

/// What a loader reads, which ranks share it, and how text becomes ids.
pub(super) struct Resolved {
    /// As [`resolved_with`] returns it. It stays as it is.
    pub(super) config: Config,
    pub(super) source: Source,
    /// The documents of the program, if they take the place of the source.
    pub(super) documents: Option<OpenDocuments>,
    pub(super) side: Side,
    pub(super) world: World,
    pub(super) tokenizer: Arc<dyn Tokenizer>,
    pub(super) encoder: Encoder,
    pub(super) stages: CustomStages,
    pub(super) cursor: Option<Cursor>,
    pub(super) on_demand: bool,
}

/// Reads the Hugging Face Hub's branches and tags at the commits of this cursor, from now on in this process. A loader that
/// is opened with the cursor does so by itself. Call this if you open sources or a tokenizer before it.
pub fn stay_at_commits(cursor: &Cursor) {
    pin_hub(cursor.fingerprint().commits());
}

/// Checks the config, lists the files, and opens the tokenizer.
pub(super) async fn resolve(builder: LoaderBuilder) -> Result<Resolved> {
    let LoaderBuilder { config, opened, documents, tokenizer, cursor, side, on_demand, stages } = builder;
    let config = config.with_sources_by_value()?;
    config.validate()?;
    let (config, documents) = match documents {
        Some((name, open)) => (with_documents(config, name)?, Some(open)),
        None => (config, None),
    };
    let config = match side {
        Side::Train => config,
        Side::HeldOut => held_out(config),
    };
    ask_hub_with(&config.store);
    if let Some(cursor) = &cursor {
        stay_at_commits(cursor);
    }
    let source = match opened {
        Some(source) if side == Side::HeldOut => source.without_split().await?,
        Some(source) => source,
        None if documents.is_some() => Source::custom(),
        None => Source::from_config(&config).await?,
    };
    shards::check_shuffle(&config, &source)?;
    let config = resolved_with(config, &source, cursor.as_ref());
    if !on_demand && source.has_remote() {
        // Threads that wait for a store must leave some to the store's cache and to name resolution.
        let lanes = config.pipeline.lanes().min(MOST_READING);
        tasks::can_block(lanes + threads::LEAST).await?;
    }
    let (world, source) = match side {
        Side::Train => {
            lanes::check_ranks(&config, &source)?;
            (World::detect(&config.pipeline)?, source)
        }
        // Every rank validates on the whole hold-out, and the training stream reports the same bad documents.
        Side::HeldOut => (World::ALONE, source.quiet()),
    };
    let source = source.with_on_demand(on_demand);
    let tokenizer = match tokenizer {
        Some(tokenizer) => tokenizer,
        None => tokenizer::open(&config, &source).await?,
    };
    // A chat template writes its own tokens.
    let has_text = config.sources.iter().any(|source| source.task == Task::Text);
    let encodes = documents.is_some() || source.texts(true).is_some();
    if has_text && encodes && source.logs() && world.rank == 0 {
        tokenizer::warn_of_template(&config.tokenizer, &*tokenizer);
    }
    shards::check(&config, &source, &*tokenizer, !stages.documents.is_empty())?;
    let encoder = tokenizer::encoder(&config.tokenizer, &tokenizer)?;
    let encoder = match side {
        Side::Train => encoder.counting_borders(&config.sources),
        Side::HeldOut => encoder,
    };
    source.fit(&encoder, &config.pipeline);
    Ok(Resolved { config, source, documents, side, world, tokenizer, encoder, stages, cursor, on_demand })
}

/// The config by which the held-out documents of this one are read.
fn held_out(mut config: Config) -> Config {
    config.mixture.changes.clear();
    // Synthetic documents, and the holes of others, stay those of the training run.
    config.sources = config.seeded_sources();
    for source in &mut config.sources {
        source.epochs = None;
        if source.kind != SourceKind::Shards {
            source.split = None;
        }
    }
    config.seed = 0;
    let pipeline = &mut config.pipeline;
    (pipeline.epochs, pipeline.uneven, pipeline.last) = (Some(1), Uneven::Pad, Last::Short);
    (pipeline.shuffle_splits, pipeline.shuffle) = (true, ShuffleRule::Window);
    (pipeline.lanes, pipeline.window) = (1.into(), 1.into());
    (pipeline.rank, pipeline.world) = (None, Some(1));
    config
}
