//! The tokenizer that made token shards, for a config that names none.

use crate::config::{Config, SourceKind, TokenizerConfig};
use crate::error::Result;
use crate::source::Source;
use crate::tokenizer::{ByteTokenizer, Tokenizer};

/// Returns the config with the tokenizer of bytes if it names none and bytes made its token shards. Any other config
/// stays as it is. A [`Loader`](super::Loader) does this by itself. Call it if you look at the config's tokenizer
/// before a loader is open.
///
/// # Errors
/// The errors of opening the sources.
pub async fn with_stored_tokenizer(config: &Config) -> Result<Config> {
    let config = config.clone();
    let has_shards = config.sources.iter().any(|source| source.kind == SourceKind::Shards);
    if !config.tokenizer.is_learned() || !has_shards {
        return Ok(config);
    }
    let source = Source::from_config(&config).await?;
    Ok(Config { tokenizer: stored_tokenizer(&config.tokenizer, &source), ..config })
}

/// The config of the tokenizer of bytes if `config` names no tokenizer and bytes made the token shards of `source`, and
/// else `config`. Any other tokenizer has its file beside the shards.
pub(super) fn stored_tokenizer(config: &TokenizerConfig, source: &Source) -> TokenizerConfig {
    let is_of_bytes = |(_, made): (_, &str)| made == ByteTokenizer.fingerprint();
    let TokenizerConfig { bos, eos, pad, .. } = config.clone();
    match config.is_learned() && source.stored_fingerprint().is_some_and(is_of_bytes) {
        true => TokenizerConfig { bos, eos, pad, ..TokenizerConfig::bytes() },
        false => config.clone(),
    }
}
