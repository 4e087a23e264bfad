//! The tokenizer that a config names, or the one that its corpus teaches.

use std::sync::Arc;

use crate::config::{Config, TokenizerConfig, TokenizerKind};
use crate::error::Result;
use crate::source::Source;
use crate::tokenizer::{ByteTokenizer, Encoder, Tokenizer};

#[cfg(feature = "tokenizers")]
mod subwords;

#[cfg(feature = "tokenizers")]
pub use subwords::learn_tokenizer;

/// Loads the tokenizer that a config names, or learns one if it names none; then tries it on the corpus, so that the
/// engine that runs is right.
///
/// It blocks for a fraction of a second, or for some seconds to learn. A program that opens several
/// loaders opens the tokenizer once and gives it to each
/// ([`LoaderBuilder::tokenizer`](super::LoaderBuilder::tokenizer)).
///
/// # Errors
/// [`Error::Tokenizer`](crate::Error::Tokenizer) and [`Error::Io`](crate::Error::Io) for what cannot be loaded or
/// learned, what a [`Source`] has, and [`Error::Config`](crate::Error::Config) if the build has no such tokenizers.
pub async fn open_tokenizer(config: &Config) -> Result<Arc<dyn Tokenizer>> {
    match config.tokenizer.kind {
        TokenizerKind::Bytes => Ok(Arc::new(ByteTokenizer)),
        TokenizerKind::Subwords => {
            subwords::open(config, &Source::open_with(&config.sources, &config.store).await?).await
        }
    }
}

/// Loads the tokenizer that a config names, without a look at the corpus: for text that is none of it.
///
/// # Errors
/// As [`open_tokenizer`], and [`Error::Config`](crate::Error::Config) if it names none.
pub fn load_tokenizer(config: &TokenizerConfig) -> Result<Arc<dyn Tokenizer>> {
    match config.kind {
        TokenizerKind::Bytes => Ok(Arc::new(ByteTokenizer)),
        TokenizerKind::Subwords => subwords::load(config),
    }
}

/// As [`open_tokenizer`], for a source that is open.
pub(super) async fn open(config: &Config, source: &Source) -> Result<Arc<dyn Tokenizer>> {
    match config.tokenizer.kind {
        TokenizerKind::Bytes => Ok(Arc::new(ByteTokenizer)),
        TokenizerKind::Subwords => subwords::open(config, source).await,
    }
}

/// The tokenizer with what the config puts around documents and behind them.
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

/// What stands in for the tokenizers that this build leaves out.
#[cfg(not(feature = "tokenizers"))]
mod subwords {
    use super::{Arc, Config, Result, Source, Tokenizer, TokenizerConfig};
    use crate::error::Error;

    pub(super) async fn open(config: &Config, _: &Source) -> Result<Arc<dyn Tokenizer>> {
        load(&config.tokenizer)
    }

    pub(super) fn load(_: &TokenizerConfig) -> Result<Arc<dyn Tokenizer>> {
        let problem = "this build has bytes alone; set tokenizer.kind = \"bytes\", build with the feature \
                       `tokenizers`, or give the builder a tokenizer";
        Err(Error::config("tokenizer", problem))
    }
}
