//! Bytes as ids, with something that happens before each text is encoded.

use std::fmt;
use std::sync::Arc;

use millstream::tokenizer::{ByteTokenizer, EncodeError, Tokenizer};

/// Passes each text to `before` first. That may take its time, count, fail or panic.
struct Before<F> {
    name: &'static str,
    before: F,
}

/// Bytes as ids; each text is passed to `before` first. `name` is its fingerprint.
pub(crate) fn before(
    name: &'static str,
    before: impl Fn(&str) -> Result<(), EncodeError> + Send + Sync + 'static,
) -> Arc<dyn Tokenizer> {
    Arc::new(Before { name, before })
}

impl<F> fmt::Debug for Before<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl<F: Fn(&str) -> Result<(), EncodeError> + Send + Sync> Tokenizer for Before<F> {
    fn encode(&self, text: &str, ids: &mut Vec<u32>) -> Result<(), EncodeError> {
        (self.before)(text)?;
        ByteTokenizer.encode(text, ids)
    }

    fn decode(&self, ids: &[u32]) -> String {
        ByteTokenizer.decode(ids)
    }

    fn vocab_size(&self) -> usize {
        ByteTokenizer.vocab_size()
    }

    fn id(&self, token: &str) -> Option<u32> {
        ByteTokenizer.id(token)
    }

    fn fingerprint(&self) -> String {
        self.name.to_owned()
    }
}
