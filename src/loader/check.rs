//! Finds what a loader would read, without reading a document or writing anything.

use std::collections::BTreeMap;

use serde::Serialize;

use super::fingerprint::commits;
use super::resolved::{ready, resolved_with};
use super::{budgets, exclude, shards, tokenizer};
use crate::config::{Config, SourceConfig, SourceKind, Task, TokenizerConfig, TokenizerKind, names};
use crate::error::Result;
use crate::render::Renderer;
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
    /// The commits that branches and tags of the Hugging Face Hub stand for, by the names of their repositories.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub commits: BTreeMap<String, String>,
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
    /// What its records are, if they are more than text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task: Option<CheckedTask>,
}

/// What the records of a source are rendered to.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct CheckedTask {
    /// What each record is.
    pub task: Task,
    /// What renders it: a file, or "the tokenizer's template" with its name; `None` for text with a hole.
    pub template: Option<String>,
    /// How it is found what is learned from, in words.
    pub learned_from: String,
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
            let renderings = (0..config.sources.len()).filter_map(|index| source.rendering(index));
            renderings.for_each(|rendering| rendering.check_tokens(&*found));
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
        let task = task(index, source.settings(index).unwrap_or(settings), &config.tokenizer)?;
        let source = source.only(index);
        let summary = source.summary();
        Ok(CheckedSource {
            name,
            kind: settings.kind,
            files: summary.files,
            bytes: summary.bytes,
            splits: source.splits(),
            task,
        })
    });
    let pipeline = &config.pipeline;
    Ok(Checked {
        sources: sources.collect::<Result<_>>()?,
        tokenizer,
        commits: commits(&config),
        lanes: pipeline.lanes(),
        window: pipeline.window(),
        world,
        batch_size: pipeline.batch_tokens.is_none().then_some(pipeline.batch_size),
        seq_len: pipeline.seq_len,
        holdout: pipeline.holdout,
        memory: budgets::most_bytes(&config, &source, Side::Train, World { rank: 0, size: world }),
    })
}

/// What the records of source `index` are rendered to.
fn task(index: usize, source: &SourceConfig, tokenizer: &TokenizerConfig) -> Result<Option<CheckedTask>> {
    if source.task == Task::Text {
        return Ok(None);
    }
    let chat = &source.chat;
    let template = match (source.task, &chat.template, &chat.template_name) {
        (Task::Fim, ..) => None,
        (_, Some(path), _) => Some(path.display().to_string()),
        (_, None, Some(name)) => Some(format!("the tokenizer's template {name:?}")),
        (_, None, None) => Some("the tokenizer's template".to_owned()),
    };
    let renderer = Renderer::new(index, source, tokenizer)?;
    Ok(renderer.map(|renderer| CheckedTask { task: source.task, template, learned_from: renderer.finder() }))
}
