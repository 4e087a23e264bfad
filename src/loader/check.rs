//! Finds what a loader would read, without reading a document or writing anything.

use serde::Serialize;

use super::ready::ready;
use super::resolved::resolved_with;
use super::{budgets, exclude, shards, tokenizer};
use crate::config::{Config, SourceKind, TokenizerKind, names};
use crate::error::Result;
use crate::source::{Side, Source};
use crate::world::World;

/// The numbers and files that a loader would use for a config.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Checked {
    /// The sources, in the config's order.
    pub sources: Vec<CheckedSource>,
    /// The tokenizer.
    pub tokenizer: CheckedTokenizer,
    /// How many lanes there are.
    pub lanes: usize,
    /// How many documents of a lane are shuffled together; `None` if all of a source are.
    pub window: Option<usize>,
    /// How many ranks share the lanes.
    pub world: usize,
    /// How many rows a batch has over all ranks; `None` if `pipeline.batch_tokens` makes it as many as fit.
    pub batch_size: Option<usize>,
    /// How many inputs a row has.
    pub seq_len: usize,
    /// The share of documents that is held out.
    pub holdout: f64,
    /// How much memory the loader of a rank takes at most, in bytes: `pipeline.memory`, and the memory of open files
    /// beyond their share.
    pub memory: u64,
}

/// What one source has to read.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct CheckedSource {
    /// Its name, or else its number.
    pub name: String,
    /// Its format.
    pub kind: SourceKind,
    /// How many files it has.
    pub files: usize,
    /// Their length as they are stored, in bytes.
    pub bytes: u64,
    /// How many splits are dealt to the lanes in an epoch.
    pub splits: usize,
}

/// The tokenizer that a loader would use.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct CheckedTokenizer {
    /// Its file or kind; `None` if it would be learned from the corpus.
    pub name: Option<String>,
    /// How many tokens it has, or would have at most.
    pub vocab_size: usize,
}

/// Checks a config and its files as far as possible without reading documents, learning a tokenizer or writing
/// anything, and returns what a loader would read. A tokenizer's file is opened.
///
/// # Errors
/// Those of opening a [`Loader`](super::Loader), as far as they show without reading documents.
pub async fn check(config: &Config) -> Result<Checked> {
    config.validate()?;
    let source = Source::from_config(config).await?;
    let config = resolved_with(config.clone(), &source.clone().quiet(), None);
    let world = ready(&config, &source)?;
    exclude::check(&config, &source).await?;
    let tokenizer = match tokenizer::unlearned(&config, &source).await? {
        Some(found) => {
            shards::check(&config, &source, &*found, false)?;
            tokenizer::encoder(&config.tokenizer, &found)?;
            tokenizer::warn_of_template(&config.tokenizer, &*found);
            let name = match (&config.tokenizer.path, config.tokenizer.kind) {
                (_, TokenizerKind::Bytes) => "bytes".to_owned(),
                (Some(path), _) => path.display().to_string(),
                (None, _) => "that of the token shards".to_owned(),
            };
            CheckedTokenizer { name: Some(name), vocab_size: found.vocab_size() }
        }
        None => {
            let learning = config.tokenizer.train.clone().unwrap_or_default();
            CheckedTokenizer { name: None, vocab_size: learning.vocab_size }
        }
    };
    let sources = names(&config.sources).into_iter().zip(&config.sources).enumerate();
    let sources = sources.map(|(index, (name, settings))| {
        let source = source.only(index);
        let summary = source.summary();
        CheckedSource {
            name,
            kind: settings.kind,
            files: summary.files,
            bytes: summary.bytes,
            splits: source.splits(),
        }
    });
    let pipeline = &config.pipeline;
    Ok(Checked {
        sources: sources.collect(),
        tokenizer,
        lanes: pipeline.lanes(),
        window: pipeline.window(),
        world,
        batch_size: pipeline.batch_tokens.is_none().then_some(pipeline.batch_size),
        seq_len: pipeline.seq_len,
        holdout: pipeline.holdout,
        memory: budgets::most_bytes(&config, &source, Side::Train, World { rank: 0, size: world }),
    })
}
