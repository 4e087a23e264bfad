//! Hugging Face's tokenizers: loaded or learned, then tested on the corpus.
//!
//! Learning and testing both read the training stream's first documents, in the order of the config's seed and from the
//! stream's start, wherever the loader itself begins. So a resumed run has the same ids.
//!
//! Held in memory: to test, one mebibyte and the document that ends it; to learn, a few groups of documents on their
//! way to the learner, and its distinct words, however long the sample is.

use std::path::PathBuf;
use std::sync::Arc;

use futures::StreamExt;

use crate::config::{Config, SourceConfig, TokenizerConfig};
use crate::cursor::LaneCursor;
use crate::error::{Error, Result};
use crate::shards::TOKENIZER;
use crate::source::{Holdout, Lane, Side, Source};
use crate::tasks;
use crate::tokenizer::Tokenizer;
use crate::tokenizer::hf::HfTokenizer;
use crate::tokenizer::learn::Learner;

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
    // Nothing else will read the source, so it may be standard input.
    let Some(texts) = source.texts(true) else {
        let problem = "token shards have no text to learn from; name the text that they were made of";
        return Err(Error::config("source.0.kind", problem));
    };
    learn(config, Some(texts)).await
}

pub(super) async fn open(config: &Config, source: &Source) -> Result<Arc<dyn Tokenizer>> {
    let settings = match (config.tokenizer.is_learned(), tokenizer_file(source)) {
        (false, _) => config.tokenizer.clone(),
        // The tokenizer that made the shards.
        (true, Some(path)) => TokenizerConfig { path: Some(path), train: None, ..config.tokenizer.clone() },
        (true, None) => {
            let texts = source.texts(false);
            if texts.is_none() && config.sources.iter().any(SourceConfig::is_stdin) {
                let problem = "standard input comes only once, so no tokenizer can be learned from it before it is \
                               read; learn one first, with `millstream tokenizer train`, and set tokenizer.path";
                return Err(Error::config("tokenizer", problem));
            }
            return Ok(Arc::new(learn(config, texts).await?));
        }
    };
    let mut tried = Vec::new();
    let keep = async |text: &str| {
        tried.push(text.to_owned());
        Ok(true)
    };
    sample(config, source.texts(false), HfTokenizer::TRIAL, keep).await?;
    let open = move || HfTokenizer::open_tried(&settings, &tried);
    Ok(Arc::new(tasks::blocking("tokenizer", open).await?))
}

pub(super) async fn load(config: &TokenizerConfig) -> Result<Arc<dyn Tokenizer>> {
    let settings = config.clone();
    let open = move || HfTokenizer::open_tried::<&str>(&settings, &[]);
    Ok(Arc::new(tasks::blocking("tokenizer", open).await?))
}

/// The tokenizer's file next to the first token shards, if there are any.
fn tokenizer_file(source: &Source) -> Option<PathBuf> {
    let (_, shards) = source.shards().next()?;
    Some(shards.directory().join(TOKENIZER)).filter(|path| path.exists())
}

async fn learn(config: &Config, texts: Option<Source>) -> Result<HfTokenizer> {
    let TokenizerConfig { train, bos, eos, pad, special_tokens, .. } = config.tokenizer.clone();
    let learning = train.unwrap_or_default();
    let special: Vec<&str> = [&bos, &eos, &pad].into_iter().flatten().map(String::as_str).collect();
    let mut learner = Learner::new(&learning, &special)?;

    let (groups, received) = async_channel::bounded::<Vec<String>>(GROUPS);
    // The job ends with the channel, also when the task that awaits it is dropped.
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
    let give = async |text: &str| {
        if tried_bytes < HfTokenizer::TRIAL {
            tried_bytes += text.len();
            tried.push(text.to_owned());
        }
        group_bytes += text.len();
        group.push(text.to_owned());
        if group_bytes < GROUP_BYTES {
            return Ok(true);
        }
        group_bytes = 0;
        // If the learner has failed, it takes no more; the reason comes below.
        Ok(groups.send(std::mem::take(&mut group)).await.is_ok())
    };
    sample(config, texts, learning.sample.as_usize(), give).await?;
    let _ = groups.send(group).await;
    drop(groups);
    let learner = counted.await.unwrap_or_else(|lost| Err(Error::lost("tokenizer", lost)))?;
    let open = move || HfTokenizer::from_json_tried("learned", learner.learn()?, special_tokens, &tried);
    tasks::blocking("tokenizer", open).await
}

/// Passes the first documents of the training stream of `texts` to `each`, about `bytes` bytes, for as long as `each`
/// wants more.
async fn sample(
    config: &Config,
    texts: Option<Source>,
    bytes: usize,
    mut each: impl AsyncFnMut(&str) -> Result<bool>,
) -> Result<()> {
    let lane = Lane {
        seed: config.seed,
        shuffle_splits: config.pipeline.shuffle_splits,
        holdout: Holdout { fraction: config.pipeline.holdout, side: Side::Train },
        ..Lane::default()
    };
    let Some(texts) = texts else { return Ok(()) };
    let mut documents = texts.quiet().lane(lane, &LaneCursor::default());
    let mut read = 0;
    while read < bytes {
        let Some(document) = documents.next().await else { break };
        let document = document?.value;
        read += document.text().len();
        if !each(document.text()).await? {
            break;
        }
    }
    Ok(())
}
