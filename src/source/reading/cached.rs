//! The cached tokens of a source's splits.

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::shards::{StoredSplit, TokenCache};

/// A source's token cache, indexed by the numbers that splits have among all sources.
#[derive(Clone, Debug)]
pub(crate) struct CachedTokens {
    pub(super) cache: Arc<TokenCache>,
    /// The number of the source's first split.
    first: u32,
}

impl CachedTokens {
    /// The cached tokens of the source whose first split has the number `first`.
    pub(crate) fn new(cache: Arc<TokenCache>, first: u32) -> Self {
        Self { cache, first }
    }

    /// The number of a split within the source.
    pub(super) fn nth(&self, number: u32) -> u32 {
        number - self.first
    }

    /// The cached tokens of split `number`, if there are any.
    pub(super) fn tokens(&self, number: u32) -> Option<StoredSplit> {
        self.cache.tokens(self.nth(number))
    }
}

/// Discards damaged tokens from the cache, so that the text is read instead. Token shards have no text, so theirs fail.
pub(super) fn give_up(cached: Option<&CachedTokens>, tokens: &StoredSplit, error: Error) -> Result<()> {
    match cached {
        Some(cached) if tokens.is_delivered() => {
            cached.cache.forget(tokens, &error);
            Ok(())
        }
        _ => Err(error),
    }
}
