//! A lane beside a token cache: what is kept there is read from there, and what is not is recorded.

use std::collections::HashMap;
use std::sync::Arc;

use crate::cursor::LaneCursor;
use crate::error::Error;
use crate::segment::StoredSplit;
use crate::shards::{Counts, Notes, Recorder, TokenCache};

/// The reader's side of it.
#[derive(Clone, Debug)]
pub(super) struct Cached {
    cache: Arc<TokenCache>,
    notes: Arc<Notes>,
    /// The number of the source's first split.
    first: u32,
    /// The splits, by their numbers among all, whose text is under way. They are read to their ends, whatever is kept
    /// meanwhile.
    texts: Vec<u32>,
    /// How many documents of each split were delivered, by its place among the lane's.
    counts: HashMap<u64, u64>,
}

impl Cached {
    pub(super) fn new(cache: Arc<TokenCache>, first: u32) -> Self {
        Self { cache, notes: Arc::default(), first, texts: Vec::new(), counts: HashMap::new() }
    }

    /// What takes the documents behind `start`, once they are tokenized.
    pub(super) fn recorder(&self, start: &LaneCursor) -> Recorder {
        Recorder::new(self.cache.clone(), self.notes.clone(), start)
    }

    /// The tokens of split `number` of all, if they are kept and its text is not under way.
    pub(super) fn tokens(&self, number: u32) -> Option<StoredSplit> {
        if self.texts.contains(&number) {
            return None;
        }
        self.cache.tokens(number - self.first)
    }

    /// Whether they are kept.
    pub(super) fn has(&self, number: u32) -> bool {
        self.tokens(number).is_some()
    }

    /// Gives up tokens that are damaged.
    pub(super) fn forget(&self, tokens: &StoredSplit, error: &Error) {
        self.cache.forget(tokens, error);
    }

    /// The text of split `number` is read: from its begin on, if `at` is known.
    pub(super) fn reads(&mut self, number: u32, at: Option<Counts>) {
        self.texts = vec![number];
        if let Some(at) = at
            && self.cache.claim(number - self.first)
        {
            self.notes.begin(number - self.first, at);
        }
    }

    /// Splits are read side by side from here on, and not those before.
    pub(super) fn reads_group(&mut self) {
        self.texts.clear();
    }

    /// The text of split `number` is read beside others. Whether it is to be recorded, if it is read from its begin on.
    pub(super) fn reads_abreast(&mut self, number: u32, is_from_begin: bool) -> bool {
        self.texts.push(number);
        is_from_begin && self.cache.claim(number - self.first)
    }

    /// So many more documents of the lane's split `ordinal` were delivered.
    pub(super) fn counts(&mut self, ordinal: u64, delivered: u64) {
        *self.counts.entry(ordinal).or_default() += delivered;
    }

    /// One was skipped, behind the first `documents` of the lane.
    pub(super) fn skip_abreast(&self, ordinal: u64, documents: u64) {
        self.notes.skip_abreast(ordinal, documents);
    }

    /// Its documents come behind the first `documents` of the lane.
    pub(super) fn begin_abreast(&self, number: u32, ordinal: u64, slot: u64, documents: u64) {
        self.notes.begin_abreast((number - self.first, ordinal), slot as usize, documents);
    }

    /// It was read to its end. Whether that is news.
    pub(super) fn leaves_abreast(&mut self, number: u32) -> bool {
        let before = self.texts.len();
        self.texts.retain(|text| *text != number);
        self.texts.len() < before
    }

    /// All its documents are among the first `documents` of the lane.
    pub(super) fn end_abreast(&mut self, number: u32, ordinal: u64, documents: u64) {
        let delivered = self.counts.remove(&ordinal).unwrap_or_default();
        self.notes.end_abreast(number - self.first, delivered, documents);
    }

    /// It was read to its end.
    pub(super) fn leaves(&mut self, number: u32, at: Counts) {
        if std::mem::take(&mut self.texts).contains(&number) {
            self.notes.end(number - self.first, at);
        }
    }

    /// The lane's epoch has ended, and others may have left something meanwhile.
    pub(super) fn ends_epoch(&self, at: Counts) {
        self.notes.end_epoch(at);
        self.cache.refresh();
    }
}
