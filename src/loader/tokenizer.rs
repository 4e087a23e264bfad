//! The tokenizer that a config names, or one learned from its corpus.

use std::sync::Arc;

use super::resolved::{ready, resolved_with};
use crate::config::{Config, SpecialTokens, TokenizerConfig, TokenizerKind};
use crate::error::Result;
use crate::source::Source;
use crate::store::ask_hub_with;
use crate::tokenizer::template::Template;
use crate::tokenizer::{ByteTokenizer, Encoder, Tokenizer};

#[cfg(feature = "tokenizers")]
mod subwords;

#[cfg(feature = "tokenizers")]
pub use subwords::learn_tokenizer;

/// Loads the tokenizer that a config names, or learns one from the corpus if it names none. It then tests the tokenizer
/// on the corpus, to choose an engine that gives the right ids. If the config has no sources, the named tokenizer is
/// returned untested: use this for text outside the corpus, such as a prompt.
///
/// The result of the test is cached in the user's cache directory, for the same tokenizer, corpus and program. The
/// variable `MILLSTREAM_CACHE` names another directory; if it is empty, nothing is cached.
///
/// This blocks for a fraction of a second, or for some seconds to learn. If your program opens several loaders, open
/// the tokenizer once and pass it to each ([`LoaderBuilder::with_tokenizer`](super::LoaderBuilder::with_tokenizer)).
///
/// # Errors
/// [`Error::Tokenizer`](crate::Error::Tokenizer) and [`Error::Io`](crate::Error::Io) if the tokenizer cannot be loaded
/// or learned, the errors of opening a [`Source`], and [`Error::Config`](crate::Error::Config) if this build has no
/// such tokenizers.
pub async fn open_tokenizer(config: &Config) -> Result<Arc<dyn Tokenizer>> {
    ask_hub_with(&config.store);
    match config.tokenizer.kind {
        TokenizerKind::Bytes => Ok(Arc::new(ByteTokenizer)),
        TokenizerKind::Subwords if config.sources.is_empty() && !config.tokenizer.is_learned() => {
            subwords::load(&config.tokenizer).await
        }
        TokenizerKind::Subwords => {
            let source = Source::from_config(config).await?;
            let config = resolved_with(config.clone(), &source.clone().quiet(), None);
            open(&config, &source).await
        }
    }
}

/// As [`open_tokenizer`], for a source that is already open and a config that is [resolved](super::resolved_with).
pub(crate) async fn open(config: &Config, source: &Source) -> Result<Arc<dyn Tokenizer>> {
    match config.tokenizer.kind {
        TokenizerKind::Bytes => Ok(Arc::new(ByteTokenizer)),
        TokenizerKind::Subwords => {
            // Both learning and testing read the corpus.
            ready(config, source)?;
            subwords::open(config, source).await
        }
    }
}

/// The tokenizer of a resolved config, untested; `None` if it would be learned.
pub(super) async fn unlearned(config: &Config, source: &Source) -> Result<Option<Arc<dyn Tokenizer>>> {
    match config.tokenizer.kind {
        TokenizerKind::Bytes => Ok(Some(Arc::new(ByteTokenizer))),
        TokenizerKind::Subwords => subwords::unlearned(config, source).await,
    }
}

/// The tokenizer, with the ids that the config puts before and after documents.
pub(super) fn encoder(config: &TokenizerConfig, tokenizer: &Arc<dyn Tokenizer>) -> Result<Encoder> {
    let mut encoder = Encoder::new(tokenizer.clone());
    if let Some(bos) = &config.bos {
        encoder = encoder.with_bos(bos)?;
    }
    if let Some(eos) = &config.eos {
        encoder = encoder.with_eos(eos)?;
    }
    if let Some(pad) = &config.pad {
        encoder = encoder.with_pad(pad)?;
    }
    Ok(encoder)
}

/// Warns if the tokenizer's template puts tokens around a text that the config does not put around documents: a model
/// that comes with the tokenizer has always seen them there.
pub(super) fn warn_of_template(config: &TokenizerConfig, tokenizer: &dyn Tokenizer) {
    let Some(json) = tokenizer.tokenizer_json() else { return };
    let Template { before, after } = Template::read(json.as_bytes());
    let (first, last) = (before.first(), after.last());
    let ends = [
        ("tokenizer.bos", &config.bos, "begins", &before, first),
        ("tokenizer.eos", &config.eos, "ends", &after, last),
    ];
    for (key, named, what, all, outer) in ends {
        let Some((token, id)) = outer else { continue };
        let is_named = named.as_ref().is_some_and(|named| tokenizer.id(named) == Some(*id));
        // One token can be named, and the documents can spell out the others.
        if is_named && (all.len() == 1 || config.special_tokens == SpecialTokens::Parse) {
            continue;
        }
        let now = named.as_ref().map_or("not set".to_owned(), |named| format!("{named:?}"));
        let others = match all.len() {
            1 => "",
            _ => ", and write the others into the documents, with tokenizer.special_tokens = \"parse\"",
        };
        let all: Vec<String> = all.iter().map(|(token, _)| format!("{token:?}")).collect();
        tracing::warn!(
            "the tokenizer's own template {what} each text with {}, and {key} is {now}; set {key} = {token:?}{others}, unless \
             the documents are meant to be without it or have it in their text",
            all.join(" ")
        );
    }
}

/// Replaces the tokenizers that this build leaves out.
#[cfg(not(feature = "tokenizers"))]
mod subwords {
    use super::{Arc, Config, Result, Source, Tokenizer, TokenizerConfig};
    use crate::error::Error;

    pub(super) async fn open(config: &Config, _: &Source) -> Result<Arc<dyn Tokenizer>> {
        load(&config.tokenizer).await
    }

    pub(super) async fn unlearned(config: &Config, _: &Source) -> Result<Option<Arc<dyn Tokenizer>>> {
        load(&config.tokenizer).await.map(Some)
    }

    pub(super) async fn load(_: &TokenizerConfig) -> Result<Arc<dyn Tokenizer>> {
        let problem = "this build has bytes alone; set tokenizer.kind = \"bytes\", build with the feature \
                       `tokenizers`, or give the builder a tokenizer";
        Err(Error::config("tokenizer", problem))
    }
}
