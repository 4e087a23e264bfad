//! The tokenizer that made stored shards or rows, for a config that names none.

use crate::config::{Config, TokenizerConfig, TokenizerKind};
use crate::source::Source;
use crate::tokenizer::{ByteTokenizer, Tokenizer};

/// Sets the tokenizer of bytes if the config names none and bytes made its token shards or rows. Any other tokenizer
/// has its file beside the shards or rows.
pub(super) fn adopt(config: &mut Config, source: &Source) {
    if config.tokenizer.is_learned() && kind(config, source) == TokenizerKind::Bytes {
        let TokenizerConfig { bos, eos, pad, .. } = std::mem::take(&mut config.tokenizer);
        config.tokenizer = TokenizerConfig { bos, eos, pad, ..TokenizerConfig::bytes() };
    }
}

/// The kind of the config's tokenizer or, if it names none, of the tokenizer that made its token shards or rows.
pub(super) fn kind(config: &Config, source: &Source) -> TokenizerKind {
    let is_of_bytes = |(_, made): (_, &str)| made == ByteTokenizer.fingerprint();
    match config.tokenizer.is_learned() && source.stored_fingerprint().is_some_and(is_of_bytes) {
        true => TokenizerKind::Bytes,
        false => config.tokenizer.kind,
    }
}
