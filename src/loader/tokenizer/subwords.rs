//! Hugging Face's tokenizers: loaded or learned, then tested on the corpus.
//!
//! Learning and testing both read the training stream's first documents, in the order of the config's seed and from the
//! stream's start, wherever the loader itself begins. So a resumed run has the same ids.
//!
//! Held in memory: to test, one mebibyte and the document that exceeds it; to learn, a few groups of documents and the
//! learner's distinct words, however long the sample is.

use std::sync::Arc;

use futures::StreamExt;

use super::super::resolved::{ready, resolved_with};
use crate::config::{Config, SourceConfig, TokenizerConfig};
use crate::cursor::LaneCursor;
use crate::document::Document;
use crate::error::{Error, Result};
use crate::shards::TOKENIZER;
use crate::source::{Documents, Holdout, Lane, Side, Source};
use crate::tasks;
use crate::tokenizer::hf::HfTokenizer;
use crate::tokenizer::learn::Learner;
use crate::tokenizer::{Tokenizer, name_of};

/// How much text goes to the learner at once, in bytes.
const GROUP_BYTES: usize = 1 << 20;

/// How many groups may wait for the learner.
const GROUPS: usize = 2;

/// Learns a tokenizer from the corpus, as `tokenizer.train` says, even if `tokenizer.path` names one.
///
/// # Errors
/// As [`open_tokenizer`](super::open_tokenizer).
pub async fn learn_tokenizer(config: &Config) -> Result<HfTokenizer> {
    let source = Source::from_config(config).await?;
    ready(&resolved_with(config.clone(), &source.clone().quiet(), None), &source)?;
    // Nothing else will read the source, so it may be standard input.
    let Some(texts) = source.texts(true) else {
        let problem = "token shards have no text to learn from; name the text that they were made of";
        return Err(Error::config("source.0.kind", problem));
    };
    learn(config, Some(texts)).await
}

/// The settings of a tokenizer that has a file; `None` if it is to be learned.
fn named(config: &Config, source: &Source) -> Result<Option<TokenizerConfig>> {
    if !config.tokenizer.is_learned() {
        return Ok(Some(config.tokenizer.clone()));
    }
    // The tokenizer that made the shards.
    if let Some(path) = source.stored_tokenizer() {
        return Ok(Some(TokenizerConfig { path: Some(path), train: None, ..config.tokenizer.clone() }));
    }
    match source.stored_fingerprint().filter(|_| source.texts(true).is_none()) {
        None => Ok(None),
        Some((place, made)) => {
            let problem = format!(
                "{} was made by the tokenizer {}, and its {TOKENIZER} is not there; name the file with tokenizer.path, or \
                 give the loader's builder that tokenizer",
                place.display(),
                name_of(made)
            );
            Err(Error::config("tokenizer", problem))
        }
    }
}

/// The tokenizer that has a file. If one is to be learned, checks that it can be, and returns `None`.
pub(super) async fn unlearned(config: &Config, source: &Source) -> Result<Option<Arc<dyn Tokenizer>>> {
    match named(config, source)? {
        Some(settings) => load(&settings).await.map(Some),
        None => {
            refuse_standard_input(config)?;
            learner(&config.tokenizer).map(|_| None)
        }
    }
}

/// Refuses to learn from standard input: a tokenizer is learned before the first batch, and the text is read only once.
fn refuse_standard_input(config: &Config) -> Result<()> {
    if config.sources.iter().any(SourceConfig::is_stdin) {
        let problem = "standard input comes only once, so no tokenizer can be learned from it before it is read; \
                       learn one first, and set tokenizer.path";
        return Err(Error::config("tokenizer", problem));
    }
    Ok(())
}

pub(super) async fn open(config: &Config, source: &Source) -> Result<Arc<dyn Tokenizer>> {
    let Some(settings) = named(config, source)? else {
        refuse_standard_input(config)?;
        return Ok(Arc::new(learn(config, source.texts(false)).await?));
    };
    // Stored ids are read without an engine.
    let encodes = source.texts(true).is_some();
    let mut sample = Sample::new(config, source.texts(false), HfTokenizer::TRIAL);
    let mut tried = Vec::new();
    while let Some(document) = sample.next().await? {
        tried.push(document.text().to_owned());
    }
    let open = move || {
        let tokenizer = HfTokenizer::open_tried(&settings, &tried)?;
        if encodes { tokenizer.ready() } else { Ok(tokenizer) }
    };
    Ok(Arc::new(tasks::blocking("tokenizer", open).await?))
}

pub(super) async fn load(config: &TokenizerConfig) -> Result<Arc<dyn Tokenizer>> {
    let settings = config.clone();
    let open = move || HfTokenizer::open_tried::<&str>(&settings, &[]);
    Ok(Arc::new(tasks::blocking("tokenizer", open).await?))
}

/// A learner that has read nothing yet.
fn learner(config: &TokenizerConfig) -> Result<Learner> {
    let special = [&config.bos, &config.eos, &config.pad];
    let special: Vec<&str> = special.into_iter().flatten().map(String::as_str).collect();
    Learner::new(&config.train.clone().unwrap_or_default(), &special)
}

async fn learn(config: &Config, texts: Option<Source>) -> Result<HfTokenizer> {
    let mut learner = learner(&config.tokenizer)?;
    let special_tokens = config.tokenizer.special_tokens;
    let sample_bytes = config.tokenizer.train.clone().unwrap_or_default().sample.as_usize();

    let (groups, received) = async_channel::bounded::<Vec<String>>(GROUPS);
    // The job ends with the channel, even if the task that awaits it is dropped.
    let counted = tokio::task::spawn_blocking(move || {
        while let Ok(group) = received.recv_blocking() {
            for text in group {
                learner.feed(&text)?;
            }
        }
        Ok(learner)
    });
    let (mut tried, mut tried_bytes) = (Vec::new(), 0);
    let (mut group, mut group_bytes) = (Vec::new(), 0);
    let mut sample = Sample::new(config, texts, sample_bytes);
    while let Some(document) = sample.next().await? {
        let text = document.text();
        if tried_bytes < HfTokenizer::TRIAL {
            tried_bytes += text.len();
            tried.push(text.to_owned());
        }
        group_bytes += text.len();
        group.push(text.to_owned());
        if group_bytes >= GROUP_BYTES {
            group_bytes = 0;
            if groups.send(std::mem::take(&mut group)).await.is_err() {
                // The learner has failed and takes no more; the reason comes below.
                break;
            }
        }
    }
    let _ = groups.send(group).await;
    drop(groups);
    let learner = counted.await.unwrap_or_else(|lost| Err(Error::lost("tokenizer", lost)))?;
    let open = move || HfTokenizer::from_json_tried("learned", learner.learn()?, special_tokens, &tried);
    tasks::blocking("tokenizer", open).await
}

/// The first documents of the training stream of some texts.
struct Sample {
    documents: Option<Documents>,
    /// How many bytes are still wanted.
    left: usize,
}

impl Sample {
    fn new(config: &Config, texts: Option<Source>, bytes: usize) -> Self {
        let lane = Lane {
            seed: config.seed,
            shuffle_splits: config.pipeline.shuffle_splits,
            holdout: Holdout { fraction: config.pipeline.holdout, side: Side::Train },
            ..Lane::default()
        };
        let documents = texts.map(|texts| texts.quiet().lane(lane, &LaneCursor::default()));
        Self { documents, left: bytes }
    }

    /// The next document, until about as many bytes have come as were wanted.
    async fn next(&mut self) -> Result<Option<Document>> {
        let Some(documents) = self.documents.as_mut().filter(|_| self.left > 0) else { return Ok(None) };
        let Some(document) = documents.next().await.transpose()? else { return Ok(None) };
        self.left = self.left.saturating_sub(document.value.text().len());
        Ok(Some(document.value))
    }
}
