//! A lane beside a token cache: what is kept there is read from there, and what is not is recorded.

use std::sync::Arc;

use crate::cursor::LaneCursor;
use crate::error::Error;
use crate::shards::{Counts, Notes, Recorder, TokenCache, Tokens};

/// The reader's side of it.
#[derive(Clone, Debug)]
pub(super) struct Cached {
    cache: Arc<TokenCache>,
    notes: Arc<Notes>,
    /// The number of the source's first split.
    first: u32,
}

impl Cached {
    pub(super) fn new(cache: Arc<TokenCache>, first: u32) -> Self {
        Self { cache, notes: Arc::default(), first }
    }

    /// What takes the documents behind `start`, once they are tokenized.
    pub(super) fn recorder(&self, start: &LaneCursor) -> Recorder {
        Recorder::new(self.cache.clone(), self.notes.clone(), start)
    }

    /// The tokens of split `number` of all, if they are kept.
    pub(super) fn tokens(&self, number: u32) -> Option<Tokens> {
        self.cache.tokens(number - self.first)
    }

    /// Whether they are.
    pub(super) fn has(&self, number: u32) -> bool {
        self.tokens(number).is_some()
    }

    /// Gives up tokens that are damaged.
    pub(super) fn forget(&self, tokens: &Tokens, error: &Error) {
        self.cache.forget(tokens, error);
    }

    /// The text of split `number` is read from its begin on.
    pub(super) fn begins(&self, number: u32, at: Counts) {
        if self.cache.claim(number - self.first) {
            self.notes.begin(number - self.first, at);
        }
    }

    /// It was read to its end.
    pub(super) fn ends(&self, at: Counts) {
        self.notes.end(at);
    }

    /// The lane's epoch has ended, and others may have left something meanwhile.
    pub(super) fn epoch_ends(&self, at: Counts) {
        self.notes.end_epoch(at);
        if let Err(error) = self.cache.refresh() {
            tracing::warn!(%error, "the token cache cannot be looked at");
        }
    }
}
