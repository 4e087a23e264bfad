//! Bytes as ids, for tests that want some of it otherwise. The library's own tests have this file, too.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use millstream::tokenizer::{ByteTokenizer, EncodeError, Tokenizer};

struct Bytes<F> {
    name: &'static str,
    before: F,
    /// Whether it has all special tokens.
    has_tokens: bool,
    /// Whether it tells which bytes an id stands for.
    has_spans: bool,
}

/// Bytes as ids; each text is passed to `before` first, which may take its time, count, fail or panic. `name` is its
/// fingerprint.
pub(crate) fn before(
    name: &'static str,
    before: impl Fn(&str) -> Result<(), EncodeError> + Send + Sync + 'static,
) -> Arc<dyn Tokenizer> {
    Arc::new(Bytes { name, before, has_tokens: false, has_spans: true })
}

/// Bytes as ids, and one id for all special tokens.
pub(crate) fn with_tokens() -> Arc<dyn Tokenizer> {
    let before = |_: &str| Ok(());
    Arc::new(Bytes { name: "bytes and tokens", before, has_tokens: true, has_spans: true })
}

/// Bytes as ids, that does not tell which bytes an id stands for.
pub(crate) fn without_spans() -> Arc<dyn Tokenizer> {
    let before = |_: &str| Ok(());
    Arc::new(Bytes { name: "bytes without spans", before, has_tokens: false, has_spans: false })
}

impl<F> fmt::Debug for Bytes<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl<F: Fn(&str) -> Result<(), EncodeError> + Send + Sync> Tokenizer for Bytes<F> {
    fn encode(&self, text: &str, ids: &mut Vec<u32>) -> Result<(), EncodeError> {
        (self.before)(text)?;
        ByteTokenizer.encode(text, ids)
    }

    fn encode_spans(
        &self,
        text: &str,
        ids: &mut Vec<u32>,
        spans: &mut Vec<Range<usize>>,
    ) -> Result<(), EncodeError> {
        (self.before)(text)?;
        match self.has_spans {
            true => ByteTokenizer.encode_spans(text, ids, spans),
            false => Err("it does not tell which bytes an id stands for".into()),
        }
    }

    fn decode(&self, ids: &[u32]) -> String {
        ByteTokenizer.decode(ids)
    }

    fn vocab_size(&self) -> usize {
        ByteTokenizer.vocab_size()
    }

    fn id(&self, token: &str) -> Option<u32> {
        ByteTokenizer.id(token).or(self.has_tokens.then_some(256))
    }

    fn fingerprint(&self) -> String {
        self.name.to_owned()
    }
}
