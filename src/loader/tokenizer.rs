//! The tokenizer that a config names, or the one that its corpus teaches.
//!
//! Both look at the training stream's first documents, in the order of the config's seed and from the
//! stream's start, wherever the loader itself begins: so a resumed run has the same ids.

use std::path::PathBuf;

use futures::StreamExt;

use crate::config::{Config, LearnConfig, SpecialTokens};
use crate::cursor::LaneCursor;
use crate::error::{Error, Result};
use crate::source::{Holdout, Lane, Side, Source};
use crate::tokenizer::hf::HfTokenizer;
use crate::tokenizer::learn::learn;

/// Loads the tokenizer that `tokenizer.path` names, or learns one if it names none; then tries it on the
/// corpus, so that the engine that runs is right.
///
/// It blocks for a fraction of a second, or for some seconds to learn. A program that opens several
/// loaders opens the tokenizer once and gives it to each
/// ([`LoaderBuilder::tokenizer`](super::LoaderBuilder::tokenizer)).
///
/// # Errors
/// [`Error::Tokenizer`] and [`Error::Io`] for what cannot be loaded or learned, and what a [`Source`] has.
pub async fn open_tokenizer(config: &Config) -> Result<HfTokenizer> {
    open(config, &Source::open_with(&config.sources, &config.store).await?).await
}

/// Learns a tokenizer from the corpus, by `tokenizer.train`, even if `tokenizer.path` names one.
///
/// # Errors
/// As [`open_tokenizer`].
pub async fn learn_tokenizer(config: &Config) -> Result<HfTokenizer> {
    learn_from(config, &Source::open_with(&config.sources, &config.store).await?).await
}

pub(super) async fn open(config: &Config, source: &Source) -> Result<HfTokenizer> {
    match &config.tokenizer.path {
        Some(path) => {
            let texts = sample(config, source, HfTokenizer::TRIAL).await?;
            prepare(config, Json::File(path.clone()), texts).await
        }
        None => learn_from(config, source).await,
    }
}

async fn learn_from(config: &Config, source: &Source) -> Result<HfTokenizer> {
    let learning = config.tokenizer.train.clone().unwrap_or_default();
    let texts = sample(config, source, learning.sample.as_usize()).await?;
    prepare(config, Json::Learned(learning), texts).await
}

/// Where the tokenizer's file comes from.
enum Json {
    File(PathBuf),
    Learned(LearnConfig),
}

/// The first documents of the training stream, of `bytes` bytes or a little more.
async fn sample(config: &Config, source: &Source, bytes: usize) -> Result<Vec<String>> {
    let lane = Lane {
        seed: config.seed,
        shuffle_splits: config.pipeline.shuffle_splits,
        holdout: Holdout { fraction: config.pipeline.holdout, side: Side::Train },
        ..Lane::default()
    };
    let mut documents = source.clone().quiet().lane(lane, &LaneCursor::default());
    let (mut texts, mut held) = (Vec::new(), 0);
    while held < bytes {
        let Some(document) = documents.next().await else { break };
        let text = document?.value.text().to_owned();
        held += text.len();
        texts.push(text);
    }
    Ok(texts)
}

/// Loads or learns on a blocking thread, and tries the engines on `texts`.
async fn prepare(config: &Config, json: Json, texts: Vec<String>) -> Result<HfTokenizer> {
    let special: SpecialTokens = config.tokenizer.special_tokens;
    let around: Vec<String> =
        [&config.tokenizer.bos, &config.tokenizer.eos].into_iter().flatten().cloned().collect();
    let work = move || -> Result<HfTokenizer> {
        let mut tokenizer = match json {
            Json::File(path) => HfTokenizer::from_file(path, special)?,
            Json::Learned(learning) => {
                let around: Vec<&str> = around.iter().map(String::as_str).collect();
                HfTokenizer::from_json("learned", learn(&texts, &learning, &around)?, special)?
            }
        };
        tokenizer.trial(&texts);
        Ok(tokenizer)
    };
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|lost| Err(Error::lost("tokenizer", lost)))
}
