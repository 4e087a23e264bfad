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
    /// The split, by its number among all, whose text is under way. It is read to its end, whatever is kept meanwhile.
    text: Option<u32>,
}

impl Cached {
    pub(super) fn new(cache: Arc<TokenCache>, first: u32) -> Self {
        Self { cache, notes: Arc::default(), first, text: None }
    }

    /// What takes the documents behind `start`, once they are tokenized.
    pub(super) fn recorder(&self, start: &LaneCursor) -> Recorder {
        Recorder::new(self.cache.clone(), self.notes.clone(), start)
    }

    /// The tokens of split `number` of all, if they are kept and its text is not under way.
    pub(super) fn tokens(&self, number: u32) -> Option<Tokens> {
        if self.text == Some(number) {
            return None;
        }
        self.cache.tokens(number - self.first)
    }

    /// Whether they are kept.
    pub(super) fn has(&self, number: u32) -> bool {
        self.tokens(number).is_some()
    }

    /// Gives up tokens that are damaged.
    pub(super) fn forget(&self, tokens: &Tokens, error: &Error) {
        self.cache.forget(tokens, error);
    }

    /// The text of split `number` is read: from its begin on, if `at` is known.
    pub(super) fn reads(&mut self, number: u32, at: Option<Counts>) {
        self.text = Some(number);
        if let Some(at) = at
            && self.cache.claim(number - self.first)
        {
            self.notes.begin(number - self.first, at);
        }
    }

    /// It was read to its end.
    pub(super) fn leaves(&mut self, number: u32, at: Counts) {
        if self.text.take() == Some(number) {
            self.notes.end(number - self.first, at);
        }
    }

    /// The lane's epoch has ended, and others may have left something meanwhile.
    pub(super) fn ends_epoch(&self, at: Counts) {
        self.notes.end_epoch(at);
        self.cache.refresh();
    }
}
